//! Checkpoints: the state of a guest and its link between two turns, so that a restarted gateway
//! can rebuild the link from there instead of from the beginning of its recording.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::guest::{Guest, GuestFailure};
use aetheel_model::agent::{ProcKey, SessionKey, TurnKey};
use aetheel_model::plain::hex;

/// Maximum size of a state in a checkpoint, in bytes.
pub const MAX_STATE_BYTES: usize = 1 << 20;
/// The content of the same line for programs that do not know checkpoints.
pub(super) const NOTE: &str = "checkpoint: after a crash, the link can be rebuilt from here";

/// The state of a link between two turns. Secrets of the link are not part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Checkpoint {
    /// The state of the guest.
    #[serde(flatten)]
    pub guest: SavedGuest,
    /// The number of inputs before the checkpoint, since the link was opened.
    pub inputs: u64,
    /// The highest key of a turn so far.
    pub last_turn: TurnKey,
    /// The highest key of a message to a running turn or of a query so far.
    pub last_reply: u32,
    /// The open sessions.
    pub sessions: Vec<CheckpointSession>,
    /// The processes that run, or whose output is recorded.
    pub processes: Vec<CheckpointProcess>,
    /// The keys of open HTTP requests.
    pub requests: Vec<u32>,
    /// The keys of open streams.
    pub streams: Vec<u32>,
    /// The running timers.
    pub timers: Vec<CheckpointTimer>,
    /// The names of the guest's files.
    pub files: Vec<String>,
    /// The SHA-256 of the checkpoint with an empty value in this field.
    pub sha256: String,
}

/// The state of a guest in a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SavedGuest {
    /// The SHA-256 of the component that reads the lines after the checkpoint.
    pub digest: String,
    /// The descriptor version of the guest that saved the state.
    pub saved_by: String,
    /// The state that `save` returned.
    pub state: String,
}

impl SavedGuest {
    /// Passes the state to a fresh guest.
    ///
    /// # Errors
    /// [`GuestFailure`] if the guest refuses the state.
    pub async fn load_into(&self, guest: &mut dyn Guest) -> Result<(), GuestFailure> {
        guest.load(&self.state, &self.saved_by).await
    }
}

/// An open session in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CheckpointSession {
    /// The guest's key.
    pub key: SessionKey,
    /// The lane.
    pub lane: String,
    /// The working directory.
    pub cwd: String,
    /// The level of safety of its last turn.
    pub safety: aetheel_model::agent::Safety,
    /// The agent's id of the session, once it is known.
    pub native: Option<String>,
}

/// A process in a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CheckpointProcess {
    /// The guest's key.
    pub proc: ProcKey,
    /// The number of its recorded lines. Its end counts as one more line.
    pub lines: u64,
    /// The number of commands that were sent to it.
    pub commands: u64,
    /// Whether it runs.
    pub running: bool,
}

/// A timer in a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CheckpointTimer {
    /// The guest's key.
    pub timer: u32,
    /// When it expires, in milliseconds since the link was opened.
    pub at_ms: i64,
}

/// The line of a checkpoint. Its last field is for programs that do not know checkpoints: they read
/// the line as a note of the host.
#[derive(Serialize)]
pub(super) struct CheckpointLine<'a> {
    pub(super) t: f64,
    checkpoint: &'a Checkpoint,
    host: &'static str,
}

impl<'a> CheckpointLine<'a> {
    pub(super) fn new(t: f64, checkpoint: &'a Checkpoint) -> Self {
        Self { t, checkpoint, host: NOTE }
    }
}

impl Checkpoint {
    /// Sets the digest of the checkpoint.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.sha256 = self.computed_digest();
        self
    }

    /// Returns whether the checkpoint is unchanged since it was made.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.sha256 == self.computed_digest()
    }

    fn computed_digest(&self) -> String {
        let unsealed = Self { sha256: String::new(), ..self.clone() };
        let bytes = serde_json::to_vec(&unsealed).unwrap_or_default();
        hex(&Sha256::digest(bytes))
    }
}

/// The reason why a checkpoint is not recorded.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointRefusal {
    /// It contains a value that recordings must not contain.
    #[error("it contains a secret")]
    Secret,
    /// The state has this size, in bytes.
    #[error("the state has {0} bytes, and at most {MAX_STATE_BYTES} are recorded")]
    TooLarge(usize),
    /// The recording was cut, or has no space for it.
    #[error("the recording has no space for it")]
    Full,
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Checkpoint {
        pub(crate) fn with_state(state: String) -> Self {
            let guest = SavedGuest { state, ..SavedGuest::default() };
            Self { guest, ..Self::default() }
        }
    }

    #[test]
    fn the_fields_of_a_checkpoint_keep_their_names_and_their_order() {
        let text = r#"{"digest":"d","saved-by":"1","state":"s","inputs":7,"last-turn":3,"last-reply":2,"sessions":[],"processes":[],"requests":[4],"streams":[5],"timers":[],"files":["f"],"sha256":""}"#;
        let checkpoint: Checkpoint = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&checkpoint).unwrap(), text);
        assert_eq!((checkpoint.guest.state.as_str(), checkpoint.inputs), ("s", 7));
    }
}
