//! Compares this machine's clock with the database's.

use std::time::Duration;

use jiff::Timestamp;

use super::database::Database;
use super::{ClusterError, SKEW_LIMIT, SKEW_WARNING_LIMIT};

/// Returns a lower bound for the difference between this machine's clock and the database's.
pub(super) async fn clock_skew(database: &Database) -> Result<Duration, ClusterError> {
    let before = Timestamp::now();
    let theirs: f64 = database
        .call(async |client| {
            client
                .query_one("select extract(epoch from clock_timestamp())::float8 * 1000", &[])
                .await
        })
        .await?
        .get(0);
    let after = Timestamp::now();
    let (before, after) = (before.as_millisecond() as f64, after.as_millisecond() as f64);
    // The database read its clock between `before` and `after`.
    let apart = (before - theirs).max(theirs - after).max(0.0);
    Ok(Duration::from_millis(apart as u64))
}

/// Returns an error if the clocks differ by more than [`SKEW_LIMIT`], and logs a warning above
/// [`SKEW_WARNING_LIMIT`].
pub(super) async fn compare_clocks(database: &Database) -> Result<(), ClusterError> {
    let apart = clock_skew(database).await?;
    let seconds = apart.as_secs();
    if apart > SKEW_LIMIT {
        return Err(ClusterError::Refused(format!(
            "its clock and this machine's differ by {seconds} s; set them by NTP"
        )));
    }
    if apart > SKEW_WARNING_LIMIT {
        tracing::warn!(
            seconds,
            "the clocks of this machine and of the cluster's database differ; set them by NTP"
        );
    }
    Ok(())
}
