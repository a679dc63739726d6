//! `state/discord.md`: up to which message every channel was handled, for catching up after an outage.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::ledger::{Entry, Ledger, Token, code};
use super::{FileError, blocking};

const HEADING: &str = "# Discord

Up to which message every channel was handled. After an outage Aetheel goes on behind it; a line that is taken out means that
nothing is caught up with there.

";

/// How far every channel was handled. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct LastSeen(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// What was noted since it was last written; none: forgotten. Never locked while files are written.
    noted: Mutex<HashMap<u64, Option<u64>>>,
    ledger: Mutex<Ledger<Item>>,
}

#[derive(Debug)]
struct Item {
    channel: u64,
    message: u64,
}

impl LastSeen {
    /// Reads the file; a missing one is an empty one.
    ///
    /// # Errors
    /// [`FileError`].
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        Ok(Self(Arc::new(Shared { noted: Mutex::default(), ledger: Mutex::new(Ledger::open(path, HEADING)?) })))
    }

    /// Notes a message as handled. Only in memory, at once; an older one than was noted since the last save changes
    /// nothing.
    pub fn note(&self, channel: u64, message: u64) {
        let mut noted = self.noted();
        let last = noted.entry(channel).or_default();
        *last = (*last).max(Some(message));
    }

    /// Forgets a channel that is gone.
    pub fn forget(&self, channel: u64) {
        self.noted().insert(channel, None);
    }

    /// All channels and the last message handled in each, as known now. Reads the file again if somebody changed it.
    pub async fn all(&self) -> BTreeMap<u64, u64> {
        let seen = self.clone();
        blocking(move || {
            let mut ledger = seen.ledger();
            if let Err(error) = ledger.refresh() {
                tracing::warn!(error = %error.source, "{error}; what was read last stays in force");
            }
            merge(&mut ledger.entries, &seen.noted());
            ledger.entries.iter().map(|(channel, item)| (*channel, item.message)).collect()
        })
        .await
    }

    /// Writes what was noted since the last save, all at once; to be called every second or so, and at shutdown.
    /// Returns whether there was anything to write.
    ///
    /// # Errors
    /// [`FileError`]; what was noted is kept for the next save.
    pub async fn save(&self) -> Result<bool, FileError> {
        let seen = self.clone();
        blocking(move || {
            let mut ledger = seen.ledger();
            let noted = std::mem::take(&mut *seen.noted());
            if noted.is_empty() {
                return Ok(false);
            }
            let saved = ledger.refresh().and_then(|_| {
                merge(&mut ledger.entries, &noted);
                ledger.save()
            });
            if saved.is_err() {
                let mut newer = seen.noted();
                for (channel, message) in noted {
                    newer.entry(channel).or_insert(message);
                }
            }
            saved.map(|()| true)
        })
        .await
    }

    /// Lines that could not be read when the file was last read, each with its number. They stay in the file.
    pub async fn warnings(&self) -> Vec<String> {
        let seen = self.clone();
        blocking(move || seen.ledger().warnings.clone()).await
    }

    fn noted(&self) -> MutexGuard<'_, HashMap<u64, Option<u64>>> {
        self.0.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger<Item>> {
        self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn merge(entries: &mut BTreeMap<u64, Item>, noted: &HashMap<u64, Option<u64>>) {
    for (&channel, message) in noted {
        match message {
            Some(message) => {
                let item = entries.entry(channel).or_insert(Item { channel, message: *message });
                item.message = item.message.max(*message);
            }
            None => drop(entries.remove(&channel)),
        }
    }
}

impl Entry for Item {
    type Key = u64;

    fn read(tokens: &[Token]) -> Option<Result<Self, String>> {
        let Some(Token::Code(first)) = tokens.first() else { return None };
        // The file holds other kinds of lines too.
        let channel = first.strip_prefix("channel:")?;
        let number = |text: &str| text.parse().map_err(|_| format!("`{text}` is not a Discord id"));
        let last = match tokens.last() {
            Some(Token::Code(last)) if tokens.len() > 1 => last,
            _ => return Some(Err("expected: `channel:id` seen to `message id`".to_owned())),
        };
        Some(number(channel).and_then(|channel| number(last).map(|message| Self { channel, message })))
    }

    fn key(&self) -> u64 {
        self.channel
    }

    fn write(&self) -> String {
        format!("{} seen to {}", code(&format!("channel:{}", self.channel)), code(&self.message.to_string()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that panics says what is wrong
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_noted_is_written_at_once_and_found_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("discord.md");
        let seen = LastSeen::open(&path).unwrap();
        assert!(!seen.save().await.unwrap() && !path.exists(), "nothing to write");
        for (channel, message) in [(1, 10), (2, 20), (1, 12), (1, 11), (3, 30)] {
            seen.note(channel, message);
        }
        seen.forget(3);
        let expected = BTreeMap::from([(1, 12), (2, 20)]);
        assert_eq!(seen.all().await, expected, "before it is written");
        assert!(seen.save().await.unwrap() && !seen.save().await.unwrap());
        assert_eq!(LastSeen::open(&path).unwrap().all().await, expected);
    }

    #[tokio::test]
    async fn a_hand_mended_file_counts_and_its_other_lines_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("discord.md");
        let text = "# Mine\n\n- `channel:1` seen to `10`\n- `channel:x` seen to `1`\n- `question:9` open\n- `channel:2` seen to `20`\n";
        std::fs::write(&path, text).unwrap();
        let seen = LastSeen::open(&path).unwrap();
        let warnings = seen.warnings().await;
        assert!(warnings.len() == 1 && warnings[0].contains("line 4") && warnings[0].contains("`x`"), "{warnings:?}");
        std::fs::write(&path, text.replace("`10`", "`5`")).unwrap();
        seen.note(2, 21);
        assert_eq!(seen.all().await, BTreeMap::from([(1, 5), (2, 21)]));
        seen.save().await.unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text.replace("`10`", "`5`").replace("`20`", "`21`"));
    }

    #[tokio::test]
    async fn what_could_not_be_written_is_written_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state").join("discord.md");
        let seen = LastSeen::open(&path).unwrap();
        seen.note(1, 10);
        let error = seen.save().await.unwrap_err().to_string();
        assert!(error.contains("discord.md"), "{error}");
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        assert!(seen.save().await.unwrap());
        assert!(std::fs::read_to_string(&path).unwrap().contains("`channel:1` seen to `10`"));
    }
}
