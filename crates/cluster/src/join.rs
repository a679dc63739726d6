//! Joins the cluster, once its database can be reached and accepts this node.

use std::sync::Arc;
use std::time::Duration;

use super::database::Database;
use super::membership::Membership;
use super::{
    BULK_TIMEOUT, Cluster, ClusterError, ClusterState, NodeOptions, RENEWALS_PER_LEASE, UrlError,
    clocks, lanes, membership,
};
use aetheel_runtime::lease::boot_ms;

impl Cluster {
    /// Checks whether a URL is the URL of a database.
    ///
    /// # Errors
    /// [`UrlError`] if it is not.
    pub fn check_url(url: &str) -> Result<(), UrlError> {
        Database::parse(url, Duration::ZERO).map(drop)
    }

    /// Returns the password in a URL, so that it can be redacted.
    #[must_use]
    pub fn password_of_url(url: &str) -> Option<String> {
        let config: tokio_postgres::Config = url.parse().ok()?;
        config.get_password().map(|password| String::from_utf8_lossy(password).into_owned())
    }

    /// Joins the cluster: creates or upgrades the schema, compares clocks, registers the node, and
    /// starts to renew its leases. Waits while the database is unreachable or refuses this node.
    ///
    /// # Errors
    /// Returns [`ClusterError::Refused`] or [`ClusterError::Untrusted`].
    pub async fn join(url: &str, options: NodeOptions) -> Result<Self, ClusterError> {
        // A result that arrives after the next renewal is useless.
        let database = Database::parse(url, options.lease / RENEWALS_PER_LEASE)?;
        let mut warned = None;
        loop {
            match Self::try_join(&database, &options).await.map_err(ClusterError::on_first_connect)
            {
                Ok((membership, roots)) => {
                    let inner = Arc::new(ClusterState::new(database, options, membership));
                    inner.lanes.lock().mark_open(roots);
                    membership::spawn_renewals(&inner);
                    return Ok(Self { inner });
                }
                Err(ClusterError::Away(why)) => {
                    if warned.as_ref() != Some(&why) {
                        tracing::warn!(
                            why,
                            hint = "check the server, and the user, the password and the database in `CLUSTER_URL`",
                            "the database of the cluster cannot be reached or refuses this node; waiting for it"
                        );
                        warned = Some(why);
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                Err(refused) => return Err(refused),
            }
        }
    }

    /// Joins the cluster once. Returns the membership and the open lanes of the node. No lease
    /// limits the calls before the last but one, so a slow database only makes them longer.
    async fn try_join(
        database: &Database,
        options: &NodeOptions,
    ) -> Result<(Membership, Vec<String>), ClusterError> {
        let patient = database.another_connection(BULK_TIMEOUT);
        patient.prepare().await?;
        clocks::compare_clocks(&patient).await?;
        let asked_ms = boot_ms();
        let registered = membership::register(&patient, options).await?;
        let membership = Membership::new(registered, asked_ms, options);
        Ok((membership, lanes::open_lanes(&patient, options, None).await?))
    }
}
