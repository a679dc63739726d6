//! `state/collisions.md`: the warnings about files that people have muted, so that they stay muted
//! after a restart.

use std::path::Path;

use super::FileError;
use super::state_file::{EntryError, LineForm, StateEntry, StateFile, Token};
use aetheel_model::event::Lane;

const FORM: LineForm =
    LineForm::new("{} muted {} by {}", "it does not have a conversation, a mark and a name");
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

impl StateFile<CollisionMute> {
    /// Returns whether a warning is muted, as the file was last read or written. Does no I/O.
    #[must_use]
    pub fn is_muted(&self, lane: &Lane, mark: &str) -> bool {
        let has = |mark| self.get(&(lane.clone(), mark)).is_some();
        has(Some(mark.to_owned())) || has(None)
    }

    /// Saves a muted warning.
    ///
    /// # Errors
    /// [`FileError`] if the file is full or cannot be written; the warning is not muted.
    pub async fn mute(&self, mute: CollisionMute) -> Result<(), FileError> {
        self.try_change(move |mutes| {
            if mutes.len() >= MAX_MUTES && !mutes.contains_key(&mute.key()) {
                let source = std::io::Error::other(format!(
                    "it has {MAX_MUTES} entries; hint: remove old lines"
                ));
                return Err(FileError::new("write", Path::new("state/collisions.md"), source));
            }
            mutes.insert(mute.key(), mute);
            Ok(())
        })
        .await
    }
}

impl StateEntry for CollisionMute {
    type Key = (Lane, Option<String>);
    const FILE: &str = "collisions.md";
    const HEADING: &str = "# Muted warnings about files

Conversations in which people muted the warnings about files that two conversations use: all warnings, or those with a mark, which
stands for one file and one other conversation. If you remove a line, people are warned again. See docs/collisions.md.

";

    fn key(&self) -> Self::Key {
        (self.lane.clone(), self.mark.clone())
    }

    fn write(&self) -> String {
        let mark = self.mark.clone().unwrap_or_else(|| ALL.to_owned());
        FORM.write(&[&self.lane, &mark, &self.by])
    }

    fn parse(tokens: &[Token]) -> Result<Self, EntryError> {
        let [lane, mark, by] = FORM.values(tokens)?;
        let mark = Some(mark.read()?).filter(|mark| mark != ALL);
        Ok(Self { lane: lane.read()?, mark, by: by.read()? })
    }
}

#[cfg(test)]
mod tests {
    use aetheel_model::id::ChannelId;

    use super::*;

    #[tokio::test]
    async fn warnings_stay_muted_after_a_restart_in_their_conversation_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let lane = |channel| Lane::Channel(ChannelId::discord(channel));
        let open = || StateFile::<CollisionMute>::open(folder.path()).expect("opened");
        let mutes = open();
        for (channel, mark) in [(1, Some("ab12")), (2, None)] {
            let by = "Ann `x`".to_owned();
            let mark = mark.map(str::to_owned);
            mutes.mute(CollisionMute { lane: lane(channel), mark, by }).await.expect("saved");
        }
        let again = open();
        let muted = |channel, mark| again.is_muted(&lane(channel), mark);
        assert!(muted(1, "ab12") && !muted(1, "cd34"));
        assert!(muted(2, "ab12") && muted(2, "cd34"));
        assert!(!muted(3, "ab12"));
        let lanes: Vec<Lane> = again.all().into_iter().map(|mute| mute.lane).collect();
        assert_eq!(lanes, [lane(1), lane(2)]);
    }
}
