//! Who serves a bot.

use std::time::Duration;

use super::{ClusterError, Inner};

/// Between two looks whether the seat is free.
const LOOK: Duration = Duration::from_millis(500);
/// Between two lines of the log while another node serves.
const TOLD: u32 = 600;

/// How this node came to the seat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seat {
    /// Nobody had it before.
    First,
    /// This node had it before, and its state files are those of the bot.
    Kept,
    /// Another node had it: the state files are that one's, in the database.
    Followed(String),
}

/// Waits until this node has the seat.
pub(super) async fn wait(inner: &Inner) -> Result<Seat, ClusterError> {
    let node = &inner.options.name;
    let mut looks = 0_u32;
    loop {
        if inner.membership.lease.is_over() {
            return Err(ClusterError::Fenced);
        }
        match take(inner).await {
            Ok(Taken::Free(files_of)) => {
                tracing::info!(node, "this node serves the bot");
                return Ok(match files_of {
                    None => Seat::First,
                    Some(other) if other != *node => Seat::Followed(other),
                    Some(_) => Seat::Kept,
                });
            }
            Ok(Taken::By(other)) => {
                if looks.is_multiple_of(TOLD) {
                    tracing::info!(
                        node,
                        serves = other,
                        "standing by: another node serves the bot"
                    );
                }
                looks = looks.wrapping_add(1);
            }
            // Whoever renews the lease tells of it.
            Err(ClusterError::Away(why)) => tracing::debug!(why, "cannot ask for the seat"),
            Err(error) => return Err(error),
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Whether the seat was free.
enum Taken {
    /// This node has it; whose state files are the bot's.
    Free(Option<String>),
    By(String),
}

/// Takes the seat if nobody has it whose lease lasts.
async fn take(inner: &Inner) -> Result<Taken, ClusterError> {
    let (name, start) = (&inner.options.name, inner.membership.start);
    let bot = inner.options.bot.cast_signed();
    inner
        .database
        .call(async |client| {
            // A node that started again on its machine keeps its seat: its agents may still run
            // there. Whoever writes for the bot holds the seat's row (`lines`, `mirror`), so this
            // waits until they are through.
            let taken = client
                .query_opt(
                    "insert into aetheel.seat as seat (bot, node, start)
                     select $1, $2, $3 from aetheel.node where name = $2 and start = $3 and lease > now()
                     on conflict (bot) do update
                     set node = excluded.node, start = excluded.start, taken = now()
                     where seat.node = excluded.node
                        or not exists (select from aetheel.node where name = seat.node and lease > clock_timestamp())
                     returning files_of",
                    &[&bot, name, &start],
                )
                .await?;
            if let Some(row) = taken {
                return Ok(Taken::Free(row.get(0)));
            }
            let row = client.query_opt("select node from aetheel.seat where bot = $1", &[&bot]).await?;
            Ok(Taken::By(row.map_or_else(String::new, |row| row.get(0))))
        })
        .await
}

/// Says that this node's state files are the bot's.
pub(super) async fn settled(inner: &Inner) -> Result<(), ClusterError> {
    let statement = "settled as (
             update aetheel.seat as place set files_of = $3 from seat where place.bot = seat.bot
             returning 1
         )
         select from settled";
    inner.write(statement, &[&inner.options.name]).await
}
