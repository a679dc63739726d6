//! `state/collisions.md`: the warnings about files that people have muted, so that they stay muted
//! after a restart.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::ledger::{EntryError, LedgerEntry, LedgerFile, Token, code};
use super::{FileError, Workspace, blocking};
use aetheel_model::event::Lane;

const HEADING: &str = "# Muted warnings about files

Conversations in which people muted the warnings about files that two conversations use: all warnings, or those with a mark, which
stands for one file and one other conversation. If you remove a line, people are warned again. See docs/collisions.md.

";
/// Maximum number of muted warnings.
const MAX_MUTES: usize = 5_000;
/// The mark that stands for all warnings of a conversation.
const ALL: &str = "all";

/// Warnings that people of a conversation have muted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollisionMute {
    /// The conversation.
    pub lane: Lane,
    /// The mark of the file and the other conversation, or `None` for all warnings.
    pub mark: Option<String>,
    /// The name of the person who muted them.
    pub by: String,
}

/// The muted warnings. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct CollisionMutes(Arc<Mutex<LedgerFile<CollisionMute>>>);

impl Workspace {
    /// Returns the muted warnings about files that two conversations use.
    #[must_use]
    pub fn collision_mutes(&self) -> &CollisionMutes {
        &self.collision_mutes
    }
}

impl CollisionMutes {
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        Ok(Self(Arc::new(Mutex::new(LedgerFile::open(path, HEADING)?))))
    }

    /// Returns whether a warning is muted, as the file was last read or written. Does no I/O.
    #[must_use]
    pub fn is_muted(&self, lane: &Lane, mark: &str) -> bool {
        let mutes = self.0.lock();
        let is_muted =
            |mark: &str| mutes.entries.contains_key(&(lane.clone(), Some(mark.to_owned())));
        is_muted(mark) || mutes.entries.contains_key(&(lane.clone(), None))
    }

    /// Returns the muted warnings of a conversation, as the file was last read or written. Does no
    /// I/O.
    #[must_use]
    pub fn of(&self, lane: &Lane) -> Vec<CollisionMute> {
        let mutes = self.0.lock();
        mutes.entries.values().filter(|mute| mute.lane == *lane).cloned().collect()
    }

    /// Saves a muted warning.
    ///
    /// # Errors
    /// [`FileError`] if the file is full or cannot be written; the warning is not muted.
    pub async fn mute(&self, mute: CollisionMute) -> Result<(), FileError> {
        let mutes = self.clone();
        blocking(move || {
            let mut ledger = mutes.0.lock();
            ledger.refresh()?;
            let key = mute.key();
            if ledger.entries.len() >= MAX_MUTES && !ledger.entries.contains_key(&key) {
                let source = std::io::Error::other(format!(
                    "it has {MAX_MUTES} entries; hint: remove old lines"
                ));
                return Err(FileError::new("write", Path::new("state/collisions.md"), source));
            }
            let before = ledger.entries.insert(key.clone(), mute);
            if let Err(error) = ledger.save() {
                match before {
                    Some(before) => drop(ledger.entries.insert(key, before)),
                    None => drop(ledger.entries.remove(&key)),
                }
                return Err(error);
            }
            Ok(())
        })
        .await
    }
}

impl LedgerEntry for CollisionMute {
    type Key = (Lane, Option<String>);

    fn read(tokens: &[Token]) -> Option<Result<Self, EntryError>> {
        Some(parse(tokens))
    }

    fn key(&self) -> Self::Key {
        (self.lane.clone(), self.mark.clone())
    }

    fn write(&self) -> String {
        let mark = self.mark.as_deref().unwrap_or(ALL);
        format!("{} muted {} by {}", code(&self.lane.to_string()), code(mark), code(&self.by))
    }
}

fn parse(tokens: &[Token]) -> Result<CollisionMute, EntryError> {
    match tokens {
        [
            Token::Code(lane),
            Token::Word(muted),
            Token::Code(mark),
            Token::Word(by),
            Token::Code(name),
        ] if (muted.as_str(), by.as_str()) == ("muted", "by") => Ok(CollisionMute {
            lane: lane.parse()?,
            mark: Some(mark.clone()).filter(|mark| mark != ALL),
            by: name.clone(),
        }),
        _ => Err(EntryError::Parts("it does not have a conversation, a mark and a name")),
    }
}

#[cfg(test)]
mod tests {
    use aetheel_model::id::ChannelId;

    use super::*;

    #[tokio::test]
    async fn warnings_stay_muted_after_a_restart_in_their_conversation_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("collisions.md");
        let lane = |channel| Lane::Channel(ChannelId::discord(channel));
        let mutes = CollisionMutes::open(&path).expect("opened");
        for (channel, mark) in [(1, Some("ab12")), (2, None)] {
            let by = "Ann `x`".to_owned();
            let mark = mark.map(str::to_owned);
            mutes.mute(CollisionMute { lane: lane(channel), mark, by }).await.expect("saved");
        }
        let again = CollisionMutes::open(&path).expect("opened");
        let muted = |channel, mark| again.is_muted(&lane(channel), mark);
        assert!(muted(1, "ab12") && !muted(1, "cd34"));
        assert!(muted(2, "ab12") && muted(2, "cd34"));
        assert!(!muted(3, "ab12"));
        assert_eq!((again.of(&lane(1)).len(), again.of(&lane(3)).len()), (1, 0));
    }
}
