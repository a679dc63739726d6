//! `state/sign-ins.md`: the people who are signed in to the dashboard, so that a restart or an
//! upgrade signs nobody out. Only the SHA-256 of a session's secret is saved.

use jiff::Timestamp;

use super::FileError;
use super::state_file::{EntryError, LineForm, StateEntry, StateFile, Token, read_sha256};
use aetheel_model::id::{ChannelId, UserId};

const FORM: LineForm = LineForm::new(
    "{} ({}) from {} since {}, SHA-256 {}",
    "a session has a user, a name, a channel, a time and a SHA-256",
)
.without_words();

/// A session of the dashboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedSignIn {
    /// SHA-256 of its secret, 64 hexadecimal digits.
    pub digest: String,
    /// The user.
    pub user: UserId,
    /// The name of the user, a single line.
    pub name: String,
    /// The channel or thread in which the user asked for the link.
    pub channel: ChannelId,
    /// When the user signed in.
    pub since: Timestamp,
}

impl StateFile<SavedSignIn> {
    /// Replaces the saved sessions by the result of `current`, which is called when it is the turn
    /// of this call. So concurrent calls leave the latest state. Blocks on the disk.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be written; the next call saves the sessions again.
    pub fn replace(&self, current: impl FnOnce() -> Vec<SavedSignIn>) -> Result<(), FileError> {
        let mut file = self.lock();
        file.entries =
            current().into_iter().map(|session| (session.digest.clone(), session)).collect();
        file.save()
    }
}

impl StateEntry for SavedSignIn {
    type Key = String;
    const FILE: &str = "sign-ins.md";
    const HEADING: &str = "# Sessions of the dashboard

The people who are signed in, the channel in which each asked for the link, and the time. Removing a line while the gateway is stopped
signs that person out on that device.

";

    fn key(&self) -> String {
        self.digest.clone()
    }

    fn write(&self) -> String {
        let Self { digest, user, name, channel, since } = self;
        FORM.write(&[user, name, channel, since, digest])
    }

    fn parse(tokens: &[Token]) -> Result<Self, EntryError> {
        let [user, name, channel, since, digest] = FORM.values(tokens)?;
        Ok(Self {
            digest: read_sha256(digest)?,
            user: user.parse_quoted("a Discord id")?,
            name: name.read()?,
            channel: channel.parse_quoted("a Discord id")?,
            since: since.parse_quoted("a time")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn sessions_survive_a_restart_in_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        std::fs::create_dir(&state).unwrap();
        let open = || StateFile::<SavedSignIn>::open(&state).unwrap();
        let session = |number: u64| SavedSignIn {
            digest: format!("{number:064x}"),
            user: UserId::discord(number),
            name: "ann `of` (9)".to_owned(),
            channel: ChannelId::discord(9),
            since: Timestamp::UNIX_EPOCH,
        };
        let store = open();
        store.replace(|| vec![session(1), session(2)]).unwrap();
        let path = state.join("sign-ins.md");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(open().all(), [session(1), session(2)]);
        store.replace(|| vec![session(2)]).unwrap();
        assert_eq!(open().all(), [session(2)]);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("- `2` (") && text.contains("from `9` since"), "{text}");
        std::fs::write(&path, text.replace("`9`", "`discord:9`").replace("`2`", "`discord:2`"))
            .unwrap();
        assert_eq!(open().all(), [session(2)]);
        std::fs::write(&path, text.replace("`2` (", "`slack:2` (")).unwrap();
        assert_eq!(open().all(), [], "an unknown platform signs nobody in");
        std::fs::write(&path, text.replace("`9` since", "`console` since")).unwrap();
        assert_eq!(open().all(), [], "an invalid line signs nobody in");
    }
}
