//! The capabilities that a component requests beyond those that the operator accepted.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::release;
use aetheel_model::agent::Descriptor;
use aetheel_model::agent::capability::{Capabilities, Capability, describe, lines, not_covered};
use aetheel_model::plain::hex;

/// Maximum number of sentences in a log line.
const SHOWN: usize = 8;

/// Maximum length of a sentence, in characters.
const SENTENCE: usize = 200;

/// A component that waits for the operator's approval.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestedCapabilities {
    /// The component's description of itself.
    pub descriptor: Descriptor,
    /// The capabilities that are not accepted. Never empty.
    pub unaccepted: Capabilities,
    /// Whether no component of this name was ever accepted.
    pub unknown: bool,
}

impl RequestedCapabilities {
    /// Returns the capabilities of a component beyond those accepted for its name, by the operator
    /// or because it is shipped. Returns `None` if all are accepted.
    #[must_use]
    pub fn of(descriptor: &Descriptor, accepted: Option<&Capabilities>) -> Option<Self> {
        let shipped = release::accepted(&descriptor.name);
        let unknown = shipped.is_none() && accepted.is_none();
        let known: Capabilities =
            shipped.into_iter().flatten().chain(accepted.into_iter().flatten().cloned()).collect();
        let more = not_covered(&known, &Capability::of(descriptor));
        (!more.is_empty()).then(|| Self {
            descriptor: descriptor.clone(),
            unaccepted: more,
            unknown,
        })
    }
}

impl RequestedCapabilities {
    /// Returns twenty hexadecimal digits that identify the name and these capabilities.
    #[must_use]
    pub fn id(&self) -> String {
        let mut hasher = Sha256::new();
        for line in std::iter::once(self.descriptor.name.clone()).chain(lines(&self.unaccepted)) {
            hasher.update(line.as_bytes());
            hasher.update(b"\n");
        }
        hex(&hasher.finalize()[..10])
    }

    /// Returns whether [`fmt::Display`] shows all capabilities in full, without characters that
    /// could hide text or end a quotation. Only then can a person agree to them in a message.
    #[must_use]
    pub fn is_fully_shown(&self) -> bool {
        let sentences = describe(&self.unaccepted);
        let plain = |line: &String| {
            line.bytes().all(|byte| (b' '..=b'~').contains(&byte) && !b"`|".contains(&byte))
        };
        sentences.len() <= SHOWN
            && sentences.iter().all(|sentence| sentence.chars().count() <= SENTENCE)
            && lines(&self.unaccepted).iter().all(plain)
    }
}

impl fmt::Display for RequestedCapabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.descriptor.name;
        // A component's texts can have any length. `approve` shows them in full.
        let sentences: Vec<String> = describe(&self.unaccepted)
            .iter()
            .map(|sentence| sentence.chars().take(SENTENCE).collect())
            .collect();
        match self.unknown {
            true => write!(f, "is of a backend that was never accepted, `{name}`: it wants to ")?,
            false => write!(f, "wants to do more than is accepted of `{name}`: ")?,
        }
        f.write_str(&sentences[..sentences.len().min(SHOWN)].join("; "))?;
        match sentences.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            left => write!(f, "; and {left} more"),
        }
    }
}
