//! `state/webhooks.md`: the deliveries of webhooks that were accepted, so that a repeated one is
//! recognised also after a restart.
//!
//! Lookups use memory. The file is appended to, with many deliveries in one write if they arrive
//! fast.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::FileError;
use super::blocking::blocking;
use super::state_file::{EntryError, LedgerFile, LineForm, StateEntry, Token};

const FORM: LineForm =
    LineForm::new("{} {} at {}", "it does not have a webhook, an id, `at` and a time");

/// How long a delivery is remembered, in milliseconds.
const KNOWN_MS: i64 = 24 * 3_600_000;
const MAX_DELIVERIES: usize = 10_000;
/// Minimum time for which a delivery is remembered, however many there are, in milliseconds. A
/// signature that contains a time is valid for this long.
const MIN_KNOWN_MS: i64 = 15 * 60_000;

/// The accepted deliveries. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct Deliveries(Arc<DeliveriesInner>);

#[derive(Debug)]
struct DeliveriesInner {
    /// Never locked while the file is written.
    known: Mutex<KnownDeliveries>,
    file: Mutex<DeliveryFile>,
}

#[derive(Debug)]
struct DeliveryFile {
    ledger: LedgerFile<WebhookDelivery>,
    /// Old deliveries are removed from the file once it has this many lines.
    prune_at: usize,
}

#[derive(Debug, Default)]
struct KnownDeliveries {
    /// The time at which each delivery was accepted, in milliseconds since 1970.
    accepted: HashMap<DeliveryKey, i64>,
    claimed: HashSet<DeliveryKey>,
    /// Accepted deliveries that are not in the file yet.
    unsaved: Vec<WebhookDelivery>,
}

/// The name of the webhook and the id of the delivery.
pub(super) type DeliveryKey = (String, String);

#[derive(Clone, Debug, PartialEq)]
pub(super) struct WebhookDelivery {
    webhook: String,
    id: String,
    at_ms: i64,
}

/// The result of [`Deliveries::claim`].
#[derive(Debug)]
pub enum ClaimResult {
    /// The delivery is new, and the caller may accept it.
    New(DeliveryClaim),
    /// The delivery was accepted before.
    Taken,
    /// Another caller is accepting it.
    Pending,
}

/// The right to accept a delivery. Dropping it leaves the delivery unaccepted.
#[derive(Debug)]
pub struct DeliveryClaim {
    deliveries: Deliveries,
    key: DeliveryKey,
}

impl Deliveries {
    /// Reads the accepted deliveries of a configuration folder. Must be called only once, because
    /// two values would not know of each other's deliveries.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read.
    pub async fn open(folder: &Path) -> Result<Self, FileError> {
        let path = folder.join("state").join(WebhookDelivery::FILE);
        blocking(move || Self::open_at(&path, jiff::Timestamp::now().as_millisecond())).await
    }

    fn open_at(path: &Path, now_ms: i64) -> Result<Self, FileError> {
        let ledger = LedgerFile::open(path, WebhookDelivery::HEADING)?;
        let mut file = DeliveryFile { ledger, prune_at: 0 };
        file.prune(now_ms)?;
        let known = KnownDeliveries { accepted: file.accepted(), ..KnownDeliveries::default() };
        Ok(Self(Arc::new(DeliveriesInner { known: Mutex::new(known), file: Mutex::new(file) })))
    }

    /// Claims a delivery without waiting. Only one of several callers at the same time gets it.
    #[must_use]
    pub fn claim(&self, webhook: &str, id: &str, now_ms: i64) -> ClaimResult {
        let key = (webhook.to_owned(), id.to_owned());
        let mut known = self.known();
        if known.accepted.get(&key).is_some_and(|at| now_ms - at < KNOWN_MS) {
            return ClaimResult::Taken;
        }
        if !known.claimed.insert(key.clone()) {
            return ClaimResult::Pending;
        }
        ClaimResult::New(DeliveryClaim { deliveries: self.clone(), key })
    }

    fn save(&self, now_ms: i64) -> Result<(), FileError> {
        let mut file = self.0.file.lock();
        let unsaved = std::mem::take(&mut self.known().unsaved);
        if unsaved.is_empty() {
            // Another caller saved this delivery together with its own.
            return Ok(());
        }
        match file.add(&unsaved, now_ms) {
            Ok(false) => Ok(()),
            Ok(true) => {
                let mut known = self.known();
                let newer: Vec<_> =
                    known.unsaved.iter().map(|delivery| (delivery.key(), delivery.at_ms)).collect();
                known.accepted = file.accepted();
                known.accepted.extend(newer);
                Ok(())
            }
            Err(error) => {
                self.known().unsaved.extend(unsaved);
                Err(error)
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, KnownDeliveries> {
        self.0.known.lock()
    }
}

impl DeliveryClaim {
    /// Marks the delivery as accepted. Returns once that is on disk.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be written. The delivery is remembered until the program
    /// ends, and is written with the next one.
    pub async fn keep(self, now_ms: i64) -> Result<(), FileError> {
        {
            let mut known = self.deliveries.known();
            known.accepted.insert(self.key.clone(), now_ms);
            let (webhook, id) = self.key.clone();
            known.unsaved.push(WebhookDelivery { webhook, id, at_ms: now_ms });
        }
        let deliveries = self.deliveries.clone();
        blocking(move || deliveries.save(now_ms)).await
    }
}

impl Drop for DeliveryClaim {
    fn drop(&mut self) {
        self.deliveries.known().claimed.remove(&self.key);
    }
}

impl DeliveryFile {
    /// Writes deliveries. Returns whether others were forgotten or changed.
    fn add(&mut self, deliveries: &[WebhookDelivery], now_ms: i64) -> Result<bool, FileError> {
        let changed = self.ledger.refresh()?;
        if deliveries.iter().any(|delivery| self.ledger.entries.contains_key(&delivery.key())) {
            // The delivery is accepted again after a day, so its line changes.
            self.ledger
                .entries
                .extend(deliveries.iter().map(|delivery| (delivery.key(), delivery.clone())));
            self.ledger.save()?;
        } else {
            self.ledger.append(deliveries.to_vec())?;
        }
        Ok(self.ledger.length() >= self.prune_at && self.prune(now_ms)? || changed)
    }

    fn accepted(&self) -> HashMap<DeliveryKey, i64> {
        self.ledger.entries.values().map(|delivery| (delivery.key(), delivery.at_ms)).collect()
    }

    /// Forgets old deliveries, and the oldest of too many. Returns whether there were any.
    fn prune(&mut self, now_ms: i64) -> Result<bool, FileError> {
        let mut by_webhook: BTreeMap<&str, Vec<&WebhookDelivery>> = BTreeMap::new();
        for delivery in self.ledger.entries.values() {
            by_webhook.entry(&delivery.webhook).or_default().push(delivery);
        }
        let mut gone = Vec::new();
        for deliveries in by_webhook.values_mut() {
            deliveries.sort_unstable_by_key(|delivery| Reverse(delivery.at_ms));
            for (rank, delivery) in deliveries.iter().enumerate() {
                let age = now_ms - delivery.at_ms;
                if age >= KNOWN_MS || (rank >= MAX_DELIVERIES && age >= MIN_KNOWN_MS) {
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
        // This keeps the cost small compared with that of the lines appended since.
        self.prune_at = 2 * (self.ledger.length() + MAX_DELIVERIES);
        Ok(!gone.is_empty())
    }
}

impl StateEntry for WebhookDelivery {
    type Key = DeliveryKey;
    const FILE: &str = "webhooks.md";
    const HEADING: &str = "# Webhooks

Deliveries that were accepted, so that none is accepted twice. They are forgotten after a day. Remove a line to have its delivery
accepted again.

";

    fn key(&self) -> DeliveryKey {
        (self.webhook.clone(), self.id.clone())
    }

    fn write(&self) -> String {
        let time = jiff::Timestamp::from_millisecond(self.at_ms).unwrap_or_default();
        FORM.write(&[&self.webhook, &self.id, &time])
    }

    fn parse(tokens: &[Token]) -> Result<Self, EntryError> {
        let [webhook, id, time] = FORM.values(tokens)?;
        let time: jiff::Timestamp = time.read()?;
        Ok(Self { webhook: webhook.read()?, id: id.read()?, at_ms: time.as_millisecond() })
    }
}

#[cfg(test)]
mod tests;
