//! The line of an entry: JSON with the fields `number`, `time`, `kind`, `fields` and `hash`.
//!
//! The hash is the SHA-256 of the previous hash, a line break, and the line without its field
//! `hash`. It covers the bytes as they are in the file, so that a reader needs no canonical JSON.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::workspace::turns::{read_text, write_text};
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::plain::{hex, short_line};
use aetheel_model::redact::Redactor;

/// The hash before the first entry.
pub(super) const FIRST_PREVIOUS: &str =
    "0000000000000000000000000000000000000000000000000000000000000000";
/// The bytes between the last field and the hash.
const HASH_FIELD: &str = ",\"hash\":\"";
const HASH_DIGITS: usize = 64;
const VALUE_LIMIT: usize = 200;

/// An entry as it is in a file, without its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Its number, from 1.
    pub number: u64,
    /// When it was noted. May be before the time of an earlier entry if the clock was set back.
    #[serde(serialize_with = "write_text", deserialize_with = "read_text")]
    pub time: Timestamp,
    /// The word of its [`AuditKind`].
    pub kind: String,
    /// The details.
    pub fields: BTreeMap<String, String>,
}

impl AuditRecord {
    /// Returns whether a person is named as the one who acted or who asked: by id, or by a part of the
    /// name in any case.
    #[must_use]
    pub fn names_person(&self, wanted: &str) -> bool {
        let field = |name: &str| self.fields.get(name).map(String::as_str);
        field("person") == Some(wanted)
            || field("asker") == Some(wanted)
            || field("name")
                .is_some_and(|name| name.to_lowercase().contains(&wanted.to_lowercase()))
    }

    /// Returns the number of lost entries if the entry is about those since a time.
    pub(super) fn lost_since(&self, since: Timestamp) -> Option<u64> {
        if self.kind != AuditKind::EntriesLost.word() {
            return None;
        }
        let known: Timestamp = self.fields.get("since")?.parse().ok()?;
        let is_same = known.as_millisecond() == since.as_millisecond();
        self.fields.get("count")?.parse().ok().filter(|_| is_same)
    }
}

/// The place of an entry in the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditHead {
    /// The number of the entry.
    pub number: u64,
    /// Its hash, as hexadecimal digits.
    pub hash: String,
}

impl AuditHead {
    /// Returns the place before the first entry.
    pub(super) fn start() -> Self {
        Self { number: 0, hash: FIRST_PREVIOUS.to_owned() }
    }

    /// Parses the form `NUMBER:HASH`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (number, hash) = text.trim().split_once(':')?;
        let number = number.parse().ok()?;
        is_hash(hash.as_bytes()).then(|| Self { number, hash: hash.to_owned() })
    }
}

impl std::fmt::Display for AuditHead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.number, self.hash)
    }
}

pub(super) struct ReadLine {
    pub(super) record: AuditRecord,
    pub(super) hash: String,
    /// The line without its hash.
    body: Vec<u8>,
}

impl ReadLine {
    /// Parses a line without its line break. Does not check the hash.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let rest = line.strip_suffix(b"\"}")?;
        let (rest, hash) = rest.split_at_checked(rest.len().checked_sub(HASH_DIGITS)?)?;
        let mut body = rest.strip_suffix(HASH_FIELD.as_bytes())?.to_owned();
        body.push(b'}');
        let record = serde_json::from_slice(&body).ok().filter(|_| is_hash(hash))?;
        Some(Self { record, hash: String::from_utf8(hash.to_owned()).ok()?, body })
    }

    /// Returns whether the line follows an entry with this hash.
    pub(super) fn follows(&self, previous: &str) -> bool {
        self.hash == hash_of(previous, &self.body)
    }

    pub(super) fn head(&self) -> AuditHead {
        AuditHead { number: self.record.number, hash: self.hash.clone() }
    }
}

fn is_hash(digits: &[u8]) -> bool {
    digits.len() == HASH_DIGITS
        && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

fn hash_of(previous: &str, body: &[u8]) -> String {
    let digest = Sha256::new().chain_update(previous).chain_update("\n").chain_update(body);
    hex(&digest.finalize())
}

/// Returns the SHA-256 of bytes.
pub(super) fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns the line of an entry with its line break, and its place in the chain.
pub(super) fn render(
    previous: &AuditHead,
    time: Timestamp,
    entry: &AuditEntry,
    redactor: &Redactor,
) -> (String, AuditHead) {
    // A secret is removed before the value is cut, so that no part of it remains.
    let clean = |value: &String| short_line(&redactor.redact(value.clone()), VALUE_LIMIT);
    let record = AuditRecord {
        number: previous.number + 1,
        time,
        kind: AuditKind::word(entry.kind).to_owned(),
        fields: entry
            .fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), clean(value)))
            .collect(),
    };
    let body = serde_json::to_string(&record).expect("strings and numbers are always JSON");
    let hash = hash_of(&previous.hash, body.as_bytes());
    let line = format!("{}{HASH_FIELD}{hash}\"}}\n", &body[..body.len() - 1]);
    (line, AuditHead { number: record.number, hash })
}
