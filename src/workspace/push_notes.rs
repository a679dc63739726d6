//! `state/push.md`: the key by which push services know the gateway, and the devices that wait for
//! its pushes, so that a restart forgets nobody. Both stand in one file, since neither is of use
//! without the other.
//!
//! The key and the addresses are secrets: whoever has an address wakes that device. The file is the
//! owner's only, nothing here is logged, and no type here shows them by `Debug`.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};

use super::ledger::{Entry, Ledger, Token, code};
use super::{FileError, Workspace, blocking};

const HEADING: &str = "# Pushes

The key by which push services know this gateway, and the devices that it wakes when an agent asks: the address at the push service, the
user, the channel in which they asked for the dashboard, and since when. Keep this file private. A device whose line is taken out is not
woken any more; without the key, all of them have to be switched on again.

";
/// Stands before the key; no address looks like it.
const KEY: &str = "key";

/// A device that is woken when an agent asks.
#[derive(Clone, PartialEq, Eq)]
pub struct Subscription {
    /// The address at the push service, a secret.
    pub endpoint: String,
    /// The Discord id of the user who is told there.
    pub user: u64,
    /// The channel or thread in which that user asked for the dashboard.
    pub channel: u64,
    /// When it was switched on.
    pub since: Timestamp,
}

/// The notes kept of pushes. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct PushNotes(Arc<Mutex<Ledger<Item>>>);

#[derive(Clone)]
pub(super) enum Item {
    Key(SecretString),
    Device(Subscription),
}

impl Workspace {
    /// Opens the notes kept of pushes; a missing file is an empty one.
    ///
    /// # Errors
    /// [`FileError`] when there is a file that cannot be read.
    pub async fn push_notes(&self) -> Result<PushNotes, FileError> {
        let path = self.folder().join("state").join("push.md");
        blocking(move || Ok(PushNotes(Arc::new(Mutex::new(Ledger::open(&path, HEADING)?))))).await
    }
}

impl PushNotes {
    /// The key as it was kept, in base64; looks at no disk.
    #[must_use]
    pub fn key(&self) -> Option<SecretString> {
        match self.0.lock().entries.get(KEY) {
            Some(Item::Key(key)) => Some(key.clone()),
            _ => None,
        }
    }

    /// The devices as the file was last read or written, the oldest first; looks at no disk.
    #[must_use]
    pub fn known(&self) -> Vec<Subscription> {
        devices(&self.0.lock())
    }

    /// Keeps a new key, and forgets all devices: they know another one.
    ///
    /// # Errors
    /// [`FileError`]; the file is as it was.
    pub async fn keep_key(&self, key: SecretString) -> Result<(), FileError> {
        let notes = self.clone();
        blocking(move || {
            let mut ledger = notes.0.lock();
            ledger.refresh()?;
            ledger.entries.clear();
            ledger.entries.insert(KEY.to_owned(), Item::Key(key));
            ledger.save()
        })
        .await
    }

    /// Changes the devices, oldest first, and keeps what became of them; returns what the change
    /// did. Changes come one after the other.
    ///
    /// # Errors
    /// [`FileError`]: the change counts until a restart, and is written with the next one.
    pub async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Vec<Subscription>) -> T + Send + 'static,
    ) -> Result<T, FileError> {
        let notes = self.clone();
        blocking(move || {
            let mut ledger = notes.0.lock();
            ledger.refresh()?;
            let mut all = devices(&ledger);
            let before = all.clone();
            let done = change(&mut all);
            if all != before {
                ledger.entries.retain(|_, item| matches!(item, Item::Key(_)));
                let items = all.into_iter().map(|one| (one.endpoint.clone(), Item::Device(one)));
                ledger.entries.extend(items);
                ledger.save()?;
            }
            Ok(done)
        })
        .await
    }
}

fn devices(ledger: &Ledger<Item>) -> Vec<Subscription> {
    let device = |item: &Item| match item {
        Item::Device(device) => Some(device.clone()),
        Item::Key(_) => None,
    };
    let mut all: Vec<_> = ledger.entries.values().filter_map(device).collect();
    all.sort_by_key(|device| device.since);
    all
}

impl Entry for Item {
    type Key = String;

    fn read(tokens: &[Token]) -> Option<Result<Self, String>> {
        let codes = tokens.iter().filter_map(|token| {
            if let Token::Code(text) = token { Some(text.as_str()) } else { None }
        });
        Some(match codes.collect::<Vec<_>>()[..] {
            [KEY, key] => Ok(Self::Key(key.to_owned().into())),
            [endpoint, user, channel, since] => {
                match (user.parse(), channel.parse(), since.parse()) {
                    (Ok(user), Ok(channel), Ok(since)) => {
                        let endpoint = endpoint.to_owned();
                        Ok(Self::Device(Subscription { endpoint, user, channel, since }))
                    }
                    _ => Err("user, channel or time cannot be read".to_owned()),
                }
            }
            _ => Err("it is neither a key nor address, user, channel and time".to_owned()),
        })
    }

    fn key(&self) -> String {
        match self {
            Self::Key(_) => KEY.to_owned(),
            Self::Device(device) => device.endpoint.clone(),
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Key(key) => format!("{} {}", code(KEY), code(key.expose_secret())),
            Self::Device(Subscription { endpoint, user, channel, since }) => format!(
                "{} user {} channel {} since {}",
                code(endpoint),
                code(&user.to_string()),
                code(&channel.to_string()),
                code(&since.to_string())
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn device(number: i64) -> Subscription {
        Subscription {
            endpoint: format!("https://push.example/{number}?a=`b`%20"),
            user: 7,
            channel: 9,
            since: Timestamp::from_second(number).expect("a time"),
        }
    }

    #[tokio::test]
    async fn key_and_devices_are_there_after_a_restart_and_the_owner_s_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = async || {
            Workspace::open(folder.path()).await.expect("opened").push_notes().await.expect("read")
        };
        let notes = open().await;
        let path = folder.path().join("state/push.md");
        assert!(notes.key().is_none() && notes.known().is_empty() && !path.exists());
        notes.keep_key("c2VjcmV0".to_owned().into()).await.expect("kept");
        let both = vec![device(1), device(2)];
        let added = both.clone();
        let count = notes.change(|all| {
            all.extend(added.into_iter().rev());
            all.len()
        });
        assert_eq!(count.await.expect("kept"), 2);
        let again = open().await;
        assert_eq!(again.key().expect("a key").expose_secret(), "c2VjcmV0");
        assert!(again.known() == both, "the oldest first");
        let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        again.change(|all| all.retain(|one| one.since.as_second() == 2)).await.expect("kept");
        assert!(notes.change(|all| all.clone()).await.expect("read again") == [device(2)]);
        notes.keep_key("bmV3".to_owned().into()).await.expect("kept");
        assert!(open().await.known().is_empty(), "a new key knows no device");
    }

    #[tokio::test]
    async fn a_line_that_cannot_be_read_is_named_without_what_it_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("push.md");
        std::fs::write(&path, "- `key` `c2VjcmV0`.\n- `https://push.example/canary` user `x`.\n- `https://push.example/canary` user `x` channel `1` since `then`.\n").expect("written");
        let ledger = Ledger::<Item>::open(&path, HEADING).expect("read");
        assert_eq!((ledger.entries.len(), ledger.warnings.len()), (1, 2));
        assert!(!ledger.warnings.concat().contains("canary"), "{:?}", ledger.warnings);
    }
}
