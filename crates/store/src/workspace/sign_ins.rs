//! `state/sign-ins.md`: the people who are signed in to the dashboard, so that a restart or an
//! upgrade signs nobody out. Only the SHA-256 of a session's secret is saved.

use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::ledger::{EntryError, LedgerEntry, LedgerFile, Token, code};
use super::{FileError, Workspace, blocking};
use aetheel_model::id::{ChannelId, UserId};

const HEADING: &str = "# Sessions of the dashboard

The people who are signed in, the channel in which each asked for the link, and the time. Removing a line while the gateway is stopped
signs that person out on that device.

";

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

/// The saved sessions. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct SignIns(Arc<Mutex<LedgerFile<SavedSignIn>>>);

impl Workspace {
    /// Opens the saved sessions of the dashboard; a missing file is empty.
    ///
    /// # Errors
    /// [`FileError`] if the file exists but cannot be read.
    pub async fn sign_ins(&self) -> Result<SignIns, FileError> {
        let path = self.folder().join("state").join("sign-ins.md");
        blocking(move || Ok(SignIns(Arc::new(Mutex::new(LedgerFile::open(&path, HEADING)?))))).await
    }
}

impl SignIns {
    /// Returns the sessions as the file was last read or written. Does no I/O.
    #[must_use]
    pub fn all(&self) -> Vec<SavedSignIn> {
        self.0.lock().entries.values().cloned().collect()
    }

    /// Replaces the saved sessions by the result of `current`, which is called when it is the turn
    /// of this call. So concurrent calls leave the latest state. Blocks on the disk.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be written; the next call saves the sessions again.
    pub fn save(&self, current: impl FnOnce() -> Vec<SavedSignIn>) -> Result<(), FileError> {
        let mut ledger = self.0.lock();
        let entries = current().into_iter().map(|session| (session.digest.clone(), session));
        ledger.entries = entries.collect();
        ledger.save()
    }
}

impl LedgerEntry for SavedSignIn {
    type Key = String;

    fn read(tokens: &[Token]) -> Option<Result<Self, EntryError>> {
        let codes = tokens.iter().filter_map(|token| match token {
            Token::Code(text) => Some(text.as_str()),
            Token::Word(_) => None,
        });
        let [user, name, channel, since, digest] = codes.collect::<Vec<_>>()[..] else {
            return Some(Err(EntryError::Parts(
                "a session has a user, a name, a channel, a time and a SHA-256",
            )));
        };
        Some(read((user, name, channel), since, digest))
    }

    fn key(&self) -> String {
        self.digest.clone()
    }

    fn write(&self) -> String {
        let Self { digest, user, name, channel, since } = self;
        format!(
            "{} ({}) from {} since {}, SHA-256 {}",
            code(&user.to_string()),
            code(name),
            code(&channel.to_string()),
            code(&since.to_string()),
            code(digest)
        )
    }
}

fn read(
    (user, name, channel): (&str, &str, &str),
    since: &str,
    digest: &str,
) -> Result<SavedSignIn, EntryError> {
    if digest.len() != 64 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(EntryError::Parts("it does not end with a SHA-256 (64 hexadecimal digits)"));
    }
    Ok(SavedSignIn {
        digest: digest.to_ascii_lowercase(),
        user: id(user)?,
        name: name.to_owned(),
        channel: id(channel)?,
        since: since.parse().map_err(|_| EntryError::value(since, "a time"))?,
    })
}

fn id<T: FromStr>(text: &str) -> Result<T, EntryError> {
    text.parse().map_err(|_| EntryError::value(text, "a Discord id"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn sessions_survive_a_restart_in_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let open = async || Workspace::open(folder.path()).await.unwrap().sign_ins().await.unwrap();
        let session = |number: u64| SavedSignIn {
            digest: format!("{number:064x}"),
            user: UserId::discord(number),
            name: "ann `of` (9)".to_owned(),
            channel: ChannelId::discord(9),
            since: Timestamp::UNIX_EPOCH,
        };
        let kept = open().await;
        kept.save(|| vec![session(1), session(2)]).unwrap();
        let path = folder.path().join("state/sign-ins.md");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(open().await.all(), [session(1), session(2)]);
        kept.save(|| vec![session(2)]).unwrap();
        assert_eq!(open().await.all(), [session(2)]);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("- `2` (") && text.contains("from `9` since"), "{text}");
        std::fs::write(&path, text.replace("`9`", "`discord:9`").replace("`2`", "`discord:2`"))
            .unwrap();
        assert_eq!(open().await.all(), [session(2)]);
        std::fs::write(&path, text.replace("`2` (", "`slack:2` (")).unwrap();
        assert_eq!(open().await.all(), [], "an unknown platform signs nobody in");
        std::fs::write(&path, text.replace("`9` since", "`console` since")).unwrap();
        assert_eq!(open().await.all(), [], "an invalid line signs nobody in");
    }
}
