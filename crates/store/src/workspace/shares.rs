//! `state/shares.md`: the read-only links to turns that people made in the dashboard, by what is
//! kept of their secrets, the SHA-256.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::ledger::{Entry, Ledger, Token, code};
use super::{FileError, blocking};
use aetheel_model::event::Lane;

/// Links of a person, and of all, that work at the same time.
const OF_ONE: usize = 20;
const OF_ALL: usize = 500;

const HEADING: &str = "# Shared turns

Read-only links to turns that people made in the dashboard, and until when each works. A line that is taken out ends its link.

";

/// A read-only link to a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// SHA-256 of its secret, 64 hexadecimal digits.
    pub digest: String,
    /// The turn's correlation id.
    pub turn: String,
    /// The channel that the turn ran in.
    pub channel: u64,
    /// The Discord id of the person who made it.
    pub by: u64,
    /// The name of that person, a single line.
    pub name: String,
    /// When it was made.
    pub made: Timestamp,
    /// From when on it does not work any more.
    pub until: Timestamp,
}

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub enum Unshared {
    /// That person has many.
    #[error("You have {OF_ONE} links that work. End one of them first.")]
    Yours,
    /// All together have many.
    #[error("There are {OF_ALL} links that work. One of them has to end first.")]
    All,
    /// The file cannot be written.
    #[error("The link cannot be kept: its file cannot be written.")]
    File(#[from] FileError),
}

/// The links that work. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct Shares(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ledger: Mutex<Ledger<Share>>,
    /// When each of these people ended all links of theirs: it counts before it is written down.
    ended: Mutex<HashMap<u64, Timestamp>>,
}

impl Shares {
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        let ledger = Mutex::new(Ledger::open(path, HEADING)?);
        Ok(Self(Arc::new(Inner { ledger, ended: Mutex::default() })))
    }

    /// The links to a turn that work now, the oldest first.
    pub async fn of(&self, turn: &str, now: Timestamp) -> Vec<Share> {
        let turn = turn.to_owned();
        let mut shares = self.found(now, move |share| share.turn == turn).await;
        shares.sort_by_key(|share| share.made);
        shares
    }

    /// The link of a secret with this SHA-256, if it works now.
    pub async fn find(&self, digest: &str, now: Timestamp) -> Option<Share> {
        let digest = digest.to_owned();
        self.found(now, move |share| share.digest == digest).await.pop()
    }

    async fn found(
        &self,
        now: Timestamp,
        wanted: impl Fn(&Share) -> bool + Send + 'static,
    ) -> Vec<Share> {
        let shares = self.clone();
        blocking(move || {
            let mut ledger = shares.0.ledger.lock();
            if let Err(error) = ledger.refresh() {
                tracing::warn!(error = %error.source, "{error}; what was read last stays in force");
            }
            let ended = shares.0.ended.lock();
            let works = |share: &&Share| {
                share.until > now && ended.get(&share.by).is_none_or(|at| share.made > *at)
            };
            ledger.entries.values().filter(works).filter(|share| wanted(share)).cloned().collect()
        })
        .await
    }

    /// Keeps a new link; those that work no longer go.
    ///
    /// # Errors
    /// [`Unshared`], in words for the person who wants it; then there is none.
    pub async fn add(&self, share: Share) -> Result<(), Unshared> {
        let shares = self.clone();
        blocking(move || {
            let mut ledger = shares.0.ledger.lock();
            ledger.refresh()?;
            ledger.entries.retain(|_, known| known.until > share.made);
            if ledger.entries.values().filter(|known| known.by == share.by).count() >= OF_ONE {
                return Err(Unshared::Yours);
            }
            if ledger.entries.len() >= OF_ALL {
                return Err(Unshared::All);
            }
            let digest = share.digest.clone();
            ledger.entries.insert(digest.clone(), share);
            ledger.save().inspect_err(|_| {
                ledger.entries.remove(&digest);
            })?;
            Ok(())
        })
        .await
    }

    /// Ends a link; false: it worked no longer.
    pub async fn end(&self, digest: &str) -> bool {
        let (shares, digest) = (self.clone(), digest.to_owned());
        blocking(move || shares.remove(|share| share.digest == digest) > 0).await
    }

    /// Ends all links of a person at once; they are taken out of the file in the background. Must
    /// be called within a Tokio runtime.
    pub fn end_of(&self, user: u64, now: Timestamp) {
        self.0.ended.lock().insert(user, now);
        let shares = self.clone();
        tokio::task::spawn_blocking(move || {
            shares.remove(|share| share.by == user && share.made <= now)
        });
    }

    fn remove(&self, which: impl Fn(&Share) -> bool) -> usize {
        let mut ledger = self.0.ledger.lock();
        let refreshed = ledger.refresh();
        let before = ledger.entries.len();
        ledger.entries.retain(|_, share| !which(share));
        let removed = before - ledger.entries.len();
        if removed > 0
            && let Err(error) = refreshed.map(drop).and_then(|()| ledger.save())
        {
            // In force it is ended; the file says otherwise until the next change.
            tracing::error!(error = %error.source, "{error}; take the lines of ended links out of it by hand before a restart");
        }
        removed
    }
}

impl Entry for Share {
    type Key = String;

    fn read(tokens: &[Token]) -> Option<Result<Self, String>> {
        let codes = tokens.iter().filter_map(|token| match token {
            Token::Code(text) => Some(text.as_str()),
            Token::Word(_) => None,
        });
        let [turn, lane, by, name, made, until, digest] = codes.collect::<Vec<_>>()[..] else {
            return Some(Err("it is not what a link to a turn consists of".to_owned()));
        };
        Some(read(turn, (lane, by, name), (made, until), digest))
    }

    fn key(&self) -> String {
        self.digest.clone()
    }

    fn write(&self) -> String {
        let Self { digest, turn, channel, by, name, made, until } = self;
        let [by, made, until] = [by.to_string(), made.to_string(), until.to_string()];
        let lane = Lane::Channel(*channel).to_string();
        format!(
            "{} of {} by {} ({}) from {} until {}, SHA-256 {}",
            code(turn),
            code(&lane),
            code(&by),
            code(name),
            code(&made),
            code(&until),
            code(digest)
        )
    }
}

fn read(
    turn: &str,
    (lane, by, name): (&str, &str, &str),
    (made, until): (&str, &str),
    digest: &str,
) -> Result<Share, String> {
    let Ok(Lane::Channel(channel)) = lane.parse() else {
        return Err(format!("{lane:?} is no channel, such as `channel:123`"));
    };
    let time = |text: &str| {
        text.parse().map_err(|_| format!("{text:?} is no time, such as `2026-03-01T09:00:00Z`"))
    };
    if digest.len() != 64 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err("it does not end with a SHA-256 (64 hexadecimal digits)".to_owned());
    }
    Ok(Share {
        digest: digest.to_ascii_lowercase(),
        turn: turn.to_owned(),
        channel,
        by: by.parse().map_err(|_| format!("{by:?} is no id of a person"))?,
        name: name.to_owned(),
        made: time(made)?,
        until: time(until)?,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use jiff::ToSpan as _;

    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + minute.minutes()
    }

    fn share(number: usize, by: u64) -> Share {
        Share {
            digest: format!("{number:064x}"),
            turn: "1f0c9a2e".to_owned(),
            channel: 9,
            by,
            name: "ann `of` 100%".to_owned(),
            made: at(1),
            until: at(61),
        }
    }

    #[tokio::test]
    async fn a_link_is_kept_until_it_is_over_or_ended_also_over_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shares.md");
        let shares = Shares::open(&path).unwrap();
        for share in [share(1, 7), share(2, 7), share(3, 8)] {
            shares.add(share).await.unwrap();
        }
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let again = Shares::open(&path).unwrap();
        assert_eq!(again.of("1f0c9a2e", at(2)).await, [share(1, 7), share(2, 7), share(3, 8)]);
        assert_eq!(again.find(&share(1, 7).digest, at(60)).await, Some(share(1, 7)));
        assert_eq!(again.find(&share(1, 7).digest, at(61)).await, None);
        assert!(again.of("other", at(2)).await.is_empty());

        assert!(again.end(&share(1, 7).digest).await && !again.end(&share(1, 7).digest).await);
        again.end_of(7, at(2));
        assert_eq!(again.of("1f0c9a2e", at(2)).await, [share(3, 8)], "it counts at once");
        let newer = Share { made: at(3), ..share(4, 7) };
        again.add(newer.clone()).await.unwrap();
        assert_eq!(again.find(&newer.digest, at(4)).await, Some(newer));
    }

    #[tokio::test]
    async fn a_person_and_all_have_so_many_and_those_that_are_over_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let shares = Shares::open(&folder.path().join("shares.md")).unwrap();
        for number in 0..OF_ONE {
            shares.add(share(number, 7)).await.unwrap();
        }
        assert!(matches!(shares.add(share(OF_ONE, 7)).await, Err(Unshared::Yours)));
        shares.add(share(OF_ONE, 8)).await.unwrap();
        let later = Share { made: at(61), until: at(90), ..share(OF_ONE + 1, 7) };
        shares.add(later.clone()).await.unwrap();
        assert_eq!(shares.of("1f0c9a2e", at(62)).await, [later]);
    }

    #[tokio::test]
    async fn a_line_that_makes_no_sense_opens_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shares.md");
        let good = format!("- {}.\n", share(1, 7).write());
        let texts = [
            good.replace("channel:9", "console"),
            good.replace("`7`", "`ann`"),
            good.replace("000001`", "`"),
            good.replace("1970-01-01T01:01:00Z", "for ever"),
            good.replace("`1f0c9a2e` of ", ""),
        ];
        std::fs::write(&path, texts.concat()).unwrap();
        let shares = Shares::open(&path).unwrap();
        assert!(shares.found(at(2), |_| true).await.is_empty());
        std::fs::write(&path, good).unwrap();
        assert_eq!(shares.found(at(2), |_| true).await, [share(1, 7)]);
    }
}
