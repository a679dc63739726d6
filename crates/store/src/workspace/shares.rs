//! `state/shares.md`: the read-only links to turns that people created in the dashboard. Only the
//! SHA-256 of a link's secret is saved.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::FileError;
use super::blocking::blocking;
use super::state_file::{EntryError, LineForm, StateEntry, StateFile, Token, read_sha256};
use aetheel_model::event::Lane;
use aetheel_model::id::{ChannelId, UserId};

/// Maximum number of valid links of one person.
const OF_ONE: usize = 20;
/// Maximum number of valid links of all people together.
const OF_ALL: usize = 500;

const FORM: LineForm = LineForm::new(
    "{} of {} by {} ({}) from {} until {}, SHA-256 {}",
    "it does not have the parts of a link to a turn",
)
.without_words();

/// A read-only link to a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnShare {
    /// SHA-256 of its secret, 64 hexadecimal digits.
    pub digest: String,
    /// The turn's correlation id.
    pub turn: String,
    /// The channel that the turn ran in.
    pub channel: ChannelId,
    /// The person who created it.
    pub by: UserId,
    /// The name of that person, on one line.
    pub name: String,
    /// When it was created.
    pub made: Timestamp,
    /// When it expires.
    pub until: Timestamp,
}

/// The reason why no link was created.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// The person has too many links.
    #[error("You have {OF_ONE} valid links. End one of them first.")]
    Yours,
    /// There are too many links in total.
    #[error("There are {OF_ALL} valid links. One of them has to end first.")]
    All,
    /// The file cannot be written.
    #[error("The link cannot be saved: its file cannot be written.")]
    File(#[from] FileError),
}

/// The valid links. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct Shares {
    file: StateFile<TurnShare>,
    /// When each of these people ended all their links. This takes effect before the file is
    /// changed.
    ended: Arc<Mutex<HashMap<UserId, Timestamp>>>,
}

impl Shares {
    pub(super) fn open(state: &Path) -> Result<Self, FileError> {
        Ok(Self { file: StateFile::open(state)?, ended: Arc::default() })
    }

    /// Returns the valid links to a turn, the oldest first.
    pub async fn of_turn(&self, turn: &str, now: Timestamp) -> Vec<TurnShare> {
        let turn = turn.to_owned();
        let mut shares = self.find_all(now, move |share| share.turn == turn).await;
        shares.sort_by_key(|share| share.made);
        shares
    }

    /// Returns the link whose secret has this SHA-256, if it is valid.
    pub async fn find(&self, digest: &str, now: Timestamp) -> Option<TurnShare> {
        let digest = digest.to_owned();
        self.find_all(now, move |share| share.digest == digest).await.pop()
    }

    async fn find_all(
        &self,
        now: Timestamp,
        wanted: impl Fn(&TurnShare) -> bool + Send + 'static,
    ) -> Vec<TurnShare> {
        let ended = Arc::clone(&self.ended);
        let is_valid = move |share: &TurnShare| {
            let ended = ended.lock();
            share.until > now && ended.get(&share.by).is_none_or(|at| share.made > *at)
        };
        self.file.find(move |share| is_valid(share) && wanted(share)).await
    }

    /// Saves a new link and removes expired ones.
    ///
    /// # Errors
    /// [`ShareError`], as a text for the person who wants the link; then none is created.
    pub async fn add(&self, share: TurnShare) -> Result<(), ShareError> {
        self.file
            .try_change(move |shares| {
                shares.retain(|_, known| known.until > share.made);
                if shares.values().filter(|known| known.by == share.by).count() >= OF_ONE {
                    return Err(ShareError::Yours);
                }
                if shares.len() >= OF_ALL {
                    return Err(ShareError::All);
                }
                shares.insert(share.digest.clone(), share);
                Ok(())
            })
            .await
    }

    /// Ends a link. Returns false if it was not valid any more.
    pub async fn end(&self, digest: &str) -> bool {
        let (shares, digest) = (self.clone(), digest.to_owned());
        blocking(move || shares.remove(|share| share.digest == digest) > 0).await
    }

    /// Ends all links of a person at once. They are removed from the file in the background. Must
    /// be called within a Tokio runtime.
    pub fn end_all_of(&self, user: UserId, now: Timestamp) {
        self.ended.lock().insert(user, now);
        let shares = self.clone();
        tokio::task::spawn_blocking(move || {
            shares.remove(|share| share.by == user && share.made <= now)
        });
    }

    fn remove(&self, which: impl Fn(&TurnShare) -> bool) -> usize {
        let mut removed = 0;
        let ended = self.file.lock().change(|shares| {
            let before = shares.len();
            shares.retain(|_, share| !which(share));
            removed = before - shares.len();
        });
        if let Err(error) = ended {
            // The links have ended, but the file contains them until the next change.
            tracing::error!(error = %error.source, "{error}; hint: remove the lines of ended links by hand before a restart");
        }
        removed
    }
}

impl StateEntry for TurnShare {
    type Key = String;
    const FILE: &str = "shares.md";
    const HEADING: &str = "# Shared turns

Read-only links to turns that people created in the dashboard, and their expiry times. Removing a line ends its link.

";

    fn key(&self) -> String {
        self.digest.clone()
    }

    fn write(&self) -> String {
        let Self { digest, turn, channel, by, name, made, until } = self;
        FORM.write(&[turn, &Lane::Channel(*channel), by, name, made, until, digest])
    }

    fn parse(tokens: &[Token]) -> Result<Self, EntryError> {
        const TIME: &str = "a time such as `2026-03-01T09:00:00Z`";
        let [turn, lane, by, name, made, until, digest] = FORM.values(tokens)?;
        let Ok(Lane::Channel(channel)) = lane.read() else {
            return Err(EntryError::value(lane.text(), "a channel such as `channel:123`"));
        };
        Ok(Self {
            digest: read_sha256(digest)?,
            turn: turn.read()?,
            channel,
            by: by.parse_quoted("the id of a person")?,
            name: name.read()?,
            made: made.parse_quoted(TIME)?,
            until: until.parse_quoted(TIME)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use jiff::ToSpan as _;

    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + minute.minutes()
    }

    fn share(number: usize, by: u64) -> TurnShare {
        TurnShare {
            digest: format!("{number:064x}"),
            turn: "1f0c9a2e".to_owned(),
            channel: ChannelId::discord(9),
            by: UserId::discord(by),
            name: "ann `of` 100%".to_owned(),
            made: at(1),
            until: at(61),
        }
    }

    #[tokio::test]
    async fn a_link_is_valid_until_it_expires_or_is_ended_also_across_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shares.md");
        let shares = Shares::open(folder.path()).unwrap();
        for share in [share(1, 7), share(2, 7), share(3, 8)] {
            shares.add(share).await.unwrap();
        }
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let again = Shares::open(folder.path()).unwrap();
        assert_eq!(again.of_turn("1f0c9a2e", at(2)).await, [share(1, 7), share(2, 7), share(3, 8)]);
        assert_eq!(again.find(&share(1, 7).digest, at(60)).await, Some(share(1, 7)));
        assert_eq!(again.find(&share(1, 7).digest, at(61)).await, None);
        assert!(again.of_turn("other", at(2)).await.is_empty());

        assert!(again.end(&share(1, 7).digest).await && !again.end(&share(1, 7).digest).await);
        again.end_all_of(UserId::discord(7), at(2));
        assert_eq!(
            again.of_turn("1f0c9a2e", at(2)).await,
            [share(3, 8)],
            "it takes effect at once"
        );
        let newer = TurnShare { made: at(3), ..share(4, 7) };
        again.add(newer.clone()).await.unwrap();
        assert_eq!(again.find(&newer.digest, at(4)).await, Some(newer));
    }

    #[tokio::test]
    async fn links_are_limited_for_a_person_and_in_total_without_expired_ones() {
        let folder = tempfile::tempdir().unwrap();
        let shares = Shares::open(folder.path()).unwrap();
        for number in 0..OF_ONE {
            shares.add(share(number, 7)).await.unwrap();
        }
        assert!(matches!(shares.add(share(OF_ONE, 7)).await, Err(ShareError::Yours)));
        shares.add(share(OF_ONE, 8)).await.unwrap();
        let later = TurnShare { made: at(61), until: at(90), ..share(OF_ONE + 1, 7) };
        shares.add(later.clone()).await.unwrap();
        assert_eq!(shares.of_turn("1f0c9a2e", at(62)).await, [later]);
    }

    #[tokio::test]
    async fn an_invalid_line_grants_no_access() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shares.md");
        let good = format!("- {}.\n", share(1, 7).write());
        let texts = [
            good.replace("channel:9", "console"),
            good.replace("`7`", "`ann`"),
            good.replace("`7`", "`slack:7`"),
            good.replace("000001`", "`"),
            good.replace("1970-01-01T01:01:00Z", "for ever"),
            good.replace("`1f0c9a2e` of ", ""),
        ];
        std::fs::write(&path, texts.concat()).unwrap();
        let shares = Shares::open(folder.path()).unwrap();
        assert!(shares.find_all(at(2), |_| true).await.is_empty());
        let named = good.replace(":9`", ":discord:9`").replace("`7`", "`discord:7`");
        std::fs::write(&path, named).unwrap();
        assert_eq!(shares.find_all(at(2), |_| true).await, [share(1, 7)]);
        std::fs::write(&path, good).unwrap();
        assert_eq!(shares.find_all(at(2), |_| true).await, [share(1, 7)]);
    }
}
