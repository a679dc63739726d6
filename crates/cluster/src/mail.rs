//! Letters: what one node hears and the node that has its lane does.
//!
//! A letter is numbered in the order in which letters can be seen, given to whoever has its lane at
//! that moment, and stays until it is checked off.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::types::Type;

use super::{Cluster, ClusterError, Inner};
use aetheel_model::plain::hex;

/// Between two looks for letters, since a notice may be lost.
const LOOK: Duration = Duration::from_millis(500);
/// Before another try when the database is away.
const AGAIN: Duration = Duration::from_millis(250);
/// Most letters that are given at once.
const MOST: i64 = 500;
/// Keys that are longer are kept as what they begin with and their digest: an index bounds them.
const LONGEST_KEY: usize = 512;

/// Something for whoever has a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// What tells it from all others of the bot: a second one with it is left out.
    pub key: String,
    /// Root of its lane.
    pub root: String,
    /// The channel it is about, where that is a thread of the root.
    pub thread: Option<u64>,
    /// What its body is.
    pub kind: String,
    /// JSON.
    pub body: String,
    /// What the node of its lane should have.
    pub label: Option<String>,
}

/// A letter that this node is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Its number, to check it off; a letter that came later has a higher one.
    pub number: i64,
    /// Root of its lane; none: it is for this node, whatever lanes it has.
    pub root: Option<String>,
    /// What its body is.
    pub kind: String,
    /// JSON.
    pub body: String,
}

impl Cluster {
    /// Posts letters, in their order. A lane that no node has is placed. A letter whose key is
    /// known is left out, so that an attempt of which nothing was heard can be repeated.
    ///
    /// # Errors
    /// [`ClusterError`]; of all but [`ClusterError::Away`] nothing was posted.
    pub async fn post(&self, letters: &[Letter]) -> Result<(), ClusterError> {
        if letters.is_empty() {
            return Ok(());
        }
        let column = |of: fn(&Letter) -> &str| -> Vec<String> {
            letters.iter().map(|letter| plain(of(letter))).collect()
        };
        let keys: Vec<String> = letters.iter().map(|letter| short_key(&letter.key)).collect();
        let roots = column(|letter| &letter.root);
        let threads: Vec<Option<i64>> =
            letters.iter().map(|letter| letter.thread.map(u64::cast_signed)).collect();
        let kinds = column(|letter| &letter.kind);
        let bodies = column(|letter| &letter.body);
        let labels: Vec<Option<String>> =
            letters.iter().map(|letter| letter.label.as_deref().map(plain)).collect();
        let inner = &self.inner;
        inner
            .fenced(
                "select aetheel.post($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                &[
                    (&keys, Type::TEXT_ARRAY),
                    (&roots, Type::TEXT_ARRAY),
                    (&threads, Type::INT8_ARRAY),
                    (&kinds, Type::TEXT_ARRAY),
                    (&bodies, Type::TEXT_ARRAY),
                    (&labels, Type::TEXT_ARRAY),
                ],
            )
            .await
            .map(drop)
    }

    /// Posts a letter to each node that lives, this one included.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn tell_all(&self, kind: &str, body: &str) -> Result<(), ClusterError> {
        let mark = uuid::Uuid::new_v4().to_string();
        let (kind, body) = (plain(kind), plain(body));
        let values = [(&mark, Type::TEXT), (&kind, Type::TEXT), (&body, Type::TEXT)];
        let values =
            values.each_ref().map(|(value, kind)| (*value as super::Value<'_>, kind.clone()));
        self.inner
            .fenced("select aetheel.tell_all($1, $2, $3, $4, $5, $6)", &values)
            .await
            .map(drop)
    }

    /// Letters for this node, from now on.
    #[must_use]
    pub fn inbox(&self) -> Inbox {
        let heard = Arc::clone(&self.inner.heard);
        let inner = Arc::clone(&self.inner);
        let listens = tokio::spawn(async move { listen(&inner).await });
        Inbox { inner: Arc::clone(&self.inner), heard, listens }
    }

    /// Checks letters off that are in this node's journal, or refused. What they said is dropped;
    /// their keys are known for a day. A database that crashes within a second may have forgotten
    /// it: it waits for no disk here, and the letters come again.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn done(&self, numbers: &[i64]) -> Result<(), ClusterError> {
        if numbers.is_empty() {
            return Ok(());
        }
        let statement = "checked as (
                 update aetheel.mail set done = clock_timestamp(), body = '' from me
                 where mail.bot = $1 and number = any($4) and done is null
             )
             select set_config('synchronous_commit', 'off', true) from me";
        self.inner.write(statement, &[(&numbers, Type::INT8_ARRAY)]).await?;
        self.inner.lanes.lock().done.extend(numbers);
        Ok(())
    }
}

/// Letters for one node.
pub struct Inbox {
    inner: Arc<Inner>,
    heard: Arc<Notify>,
    listens: JoinHandle<()>,
}

impl Inbox {
    /// Waits for letters: those of open lanes of this node that are not held, and those for it
    /// alone, by number. Each is given once in this process. It waits while the database is away.
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`ClusterError::Fenced`]: the node's lease is over; [`ClusterError::Refused`].
    pub async fn next(&mut self) -> Result<Vec<Taken>, ClusterError> {
        loop {
            if self.inner.membership.lease.is_over() {
                return Err(ClusterError::Fenced);
            }
            match look(&self.inner).await {
                Ok(letters) if letters.is_empty() => {
                    let _ = tokio::time::timeout(LOOK, self.heard.notified()).await;
                }
                Err(ClusterError::Away(why)) => {
                    tracing::debug!(why, "cannot look for letters");
                    tokio::time::sleep(AGAIN).await;
                }
                looked => return looked,
            }
        }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.listens.abort();
    }
}

/// Listens for as long as this node lives.
async fn listen(inner: &Inner) {
    let payload = format!("{} {}", inner.options.bot.cast_signed(), inner.options.name);
    while !inner.membership.lease.is_over() {
        let why = inner.database.listen("aetheel_mail", &payload, &inner.heard).await;
        tracing::debug!(%why, "nothing is heard of letters; looking for them");
        tokio::time::sleep(LOOK).await;
    }
}

/// Looks once.
async fn look(inner: &Inner) -> Result<Vec<Taken>, ClusterError> {
    // One look at a time: what is checked off is forgotten once no look is under way that began
    // before.
    let _alone = inner.looking.lock().await;
    let given = inner.lanes.lock().given();
    let statement = "select mail.number, mail.root, mail.kind, mail.body
         from aetheel.mail
         left join aetheel.lane on lane.bot = mail.bot and lane.root = mail.root
         where mail.bot = $1 and mail.done is null
           and (mail.node = $2 or lane.node = $2 and lane.open and not lane.held)
           and not exists (select from unnest($4) as given (number) where given.number = mail.number)
           and exists (select from aetheel.node
                       where node.bot = $1 and node.name = $2 and node.start = $3
                         and node.lease > clock_timestamp())
         order by mail.number limit $5";
    let values: [(super::Value<'_>, Type); 2] = [(&given, Type::INT8_ARRAY), (&MOST, Type::INT8)];
    let rows = inner.fenced(statement, &values).await?;
    let letters = rows.iter().map(|row| Taken {
        number: row.get(0),
        root: row.get(1),
        kind: row.get(2),
        body: row.get(3),
    });
    // From here on nothing waits: a letter is marked as given only if it is.
    let mut lanes = inner.lanes.lock();
    Ok(letters.filter(|letter| lanes.give(letter.number, letter.root.as_deref())).collect())
}

/// Without what PostgreSQL has no place for; JSON has it escaped.
fn plain(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn short_key(key: &str) -> String {
    if key.len() <= LONGEST_KEY {
        return plain(key);
    }
    let digest = hex(&Sha256::digest(key));
    let begin: String = plain(key).chars().take(64).collect();
    format!("{begin}…{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_any_length_fits_an_index_and_is_told_from_others() {
        assert_eq!(short_key("message:1"), "message:1");
        let (one, other) = ("x\0é".repeat(5_000), "x\0é".repeat(5_001));
        assert!(short_key(&one).len() <= LONGEST_KEY);
        assert!(!short_key(&one).contains('\0'));
        assert_ne!(short_key(&one), short_key(&other));
    }
}
