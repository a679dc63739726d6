//! `state/webhooks.md`: which deliveries of webhooks were taken, so that a repeated one is known
//! also after a restart.
//!
//! Known deliveries are looked up in memory; the file is appended to, many at once when they come
//! fast.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::ledger::{Entry, Ledger, Token, code};
use super::{FileError, Workspace, blocking};

const HEADING: &str = "# Webhooks

Deliveries that were taken, so that none is taken twice. They are forgotten after a day; take a line out to have a delivery
taken again.

";

/// How long a delivery is known, milliseconds.
const KNOWN_MS: i64 = 24 * 3_600_000;
/// Most deliveries of one webhook that are known.
const MOST: usize = 10_000;
/// Never forgotten, however many there are: as long as a signature with a time may be good,
/// milliseconds.
const SURELY_MS: i64 = 15 * 60_000;

/// Deliveries that were taken. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct Deliveries(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Never locked while files are written.
    known: Mutex<Known>,
    file: Mutex<File>,
}

#[derive(Debug)]
struct File {
    ledger: Ledger<Delivery>,
    /// From so many lines on it is looked through for what can be forgotten.
    prune_at: usize,
}

#[derive(Debug, Default)]
struct Known {
    /// When each was taken, milliseconds since 1970.
    taken: HashMap<Key, i64>,
    /// Being taken at this moment.
    claimed: HashSet<Key>,
    /// Taken and not in the file yet.
    unsaved: Vec<Delivery>,
}

/// The webhook's name and the delivery's id.
pub(super) type Key = (String, String);

#[derive(Clone, Debug)]
pub(super) struct Delivery {
    webhook: String,
    id: String,
    at_ms: i64,
}

/// Whether a delivery may be taken.
#[derive(Debug)]
pub enum Claimed {
    /// It is new and nobody else's.
    New(Claim),
    /// It was taken before.
    Taken,
    /// Somebody is taking it.
    Pending,
}

/// The right to take a delivery. Dropping it leaves the delivery as it was.
#[derive(Debug)]
pub struct Claim {
    deliveries: Deliveries,
    key: Key,
}

impl Workspace {
    /// Which deliveries of webhooks were taken; read once, by the one who takes them.
    ///
    /// # Errors
    /// [`FileError`] when the file cannot be read.
    pub async fn deliveries(&self) -> Result<Deliveries, FileError> {
        let path = self.inner.folder.join("state").join("webhooks.md");
        blocking(move || Deliveries::open(&path, jiff::Timestamp::now().as_millisecond())).await
    }
}

impl Deliveries {
    /// Reads the file; a missing one is an empty one. Blocks.
    pub(super) fn open(path: &Path, now_ms: i64) -> Result<Self, FileError> {
        let mut file = File { ledger: Ledger::open(path, HEADING)?, prune_at: 0 };
        file.prune(now_ms)?;
        let known = Known { taken: file.taken(), ..Known::default() };
        Ok(Self(Arc::new(Shared { known: Mutex::new(known), file: Mutex::new(file) })))
    }

    /// Claims a delivery, at once. One of several at the same time gets it.
    #[must_use]
    pub fn claim(&self, webhook: &str, id: &str, now_ms: i64) -> Claimed {
        let key = (webhook.to_owned(), id.to_owned());
        let mut known = self.known();
        if known.taken.get(&key).is_some_and(|at| now_ms - at < KNOWN_MS) {
            return Claimed::Taken;
        }
        if !known.claimed.insert(key.clone()) {
            return Claimed::Pending;
        }
        Claimed::New(Claim { deliveries: self.clone(), key })
    }

    fn save(&self, now_ms: i64) -> Result<(), FileError> {
        let mut file = self.0.file.lock();
        let unsaved = std::mem::take(&mut self.known().unsaved);
        if unsaved.is_empty() {
            // Somebody else saved ours with theirs.
            return Ok(());
        }
        match file.add(&unsaved, now_ms) {
            Ok(false) => Ok(()),
            Ok(true) => {
                let mut known = self.known();
                let newer: Vec<_> =
                    known.unsaved.iter().map(|delivery| (delivery.key(), delivery.at_ms)).collect();
                known.taken = file.taken();
                known.taken.extend(newer);
                Ok(())
            }
            Err(error) => {
                self.known().unsaved.extend(unsaved);
                Err(error)
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock()
    }
}

impl Claim {
    /// Notes the delivery as taken and returns when that is on disk.
    ///
    /// # Errors
    /// [`FileError`]; the delivery is known until the program ends, and written with the next one.
    pub async fn keep(self, now_ms: i64) -> Result<(), FileError> {
        {
            let mut known = self.deliveries.known();
            known.taken.insert(self.key.clone(), now_ms);
            let (webhook, id) = self.key.clone();
            known.unsaved.push(Delivery { webhook, id, at_ms: now_ms });
        }
        let deliveries = self.deliveries.clone();
        blocking(move || deliveries.save(now_ms)).await
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.deliveries.known().claimed.remove(&self.key);
    }
}

impl File {
    /// Writes deliveries; returns whether others were forgotten or changed.
    fn add(&mut self, deliveries: &[Delivery], now_ms: i64) -> Result<bool, FileError> {
        let changed = self.ledger.refresh()?;
        if deliveries.iter().any(|delivery| self.ledger.entries.contains_key(&delivery.key())) {
            // Taken again after a day: its line is another one now.
            self.ledger
                .entries
                .extend(deliveries.iter().map(|delivery| (delivery.key(), delivery.clone())));
            self.ledger.save()?;
        } else {
            self.ledger.append(deliveries.to_vec())?;
        }
        Ok(self.ledger.length() >= self.prune_at && self.prune(now_ms)? || changed)
    }

    fn taken(&self) -> HashMap<Key, i64> {
        self.ledger.entries.values().map(|delivery| (delivery.key(), delivery.at_ms)).collect()
    }

    /// Forgets what is old, and the oldest of what is too much; returns whether there was any.
    fn prune(&mut self, now_ms: i64) -> Result<bool, FileError> {
        let mut by_webhook: BTreeMap<&str, Vec<&Delivery>> = BTreeMap::new();
        for delivery in self.ledger.entries.values() {
            by_webhook.entry(&delivery.webhook).or_default().push(delivery);
        }
        let mut gone = Vec::new();
        for deliveries in by_webhook.values_mut() {
            deliveries.sort_unstable_by_key(|delivery| Reverse(delivery.at_ms));
            for (rank, delivery) in deliveries.iter().enumerate() {
                let age = now_ms - delivery.at_ms;
                if age >= KNOWN_MS || (rank >= MOST && age >= SURELY_MS) {
                    gone.push(delivery.key());
                }
            }
        }
        for key in &gone {
            self.ledger.entries.remove(key);
        }
        if !gone.is_empty() {
            self.ledger.save()?;
        }
        // So that the effort stays small beside what was appended since.
        self.prune_at = 2 * (self.ledger.length() + MOST);
        Ok(!gone.is_empty())
    }
}

impl Entry for Delivery {
    type Key = Key;

    fn read(tokens: &[Token]) -> Option<Result<Self, String>> {
        let [Token::Code(webhook), rest @ ..] = tokens else { return None };
        let read = match rest {
            [Token::Code(id), Token::Word(at), Token::Code(time)] if at == "at" => {
                let time: Result<jiff::Timestamp, _> = time.parse();
                time.map(|time| Self {
                    webhook: webhook.clone(),
                    id: id.clone(),
                    at_ms: time.as_millisecond(),
                })
                .map_err(|error| format!("its time cannot be read: {error}"))
            }
            _ => Err("it is not webhook, id, `at` and a time".to_owned()),
        };
        Some(read)
    }

    fn key(&self) -> Key {
        (self.webhook.clone(), self.id.clone())
    }

    fn write(&self) -> String {
        let time =
            jiff::Timestamp::from_millisecond(self.at_ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        format!("{} {} at `{time}`", code(&self.webhook), code(&self.id))
    }
}

#[cfg(test)]
mod tests;
