//! Recordings of links, and everything that reads them.
//!
//! A recording has all inputs and actions of a guest, one JSON object per line
//! (`docs/recordings.md` describes the format). The crate also owns the port to one version of a
//! backend and its guests ([`Backend`], [`Guest`]), because a recording is replayed to them. Must
//! not know wasmtime, processes, chat platforms or files of the operator.
//!
//! | module | content |
//! |---|---|
//! | [`recorder`] | writes recordings, and limits their folder |
//! | [`mod@format`], [`lines`] | parses recordings, large ones line by line |
//! | [`guest`] | the port to a backend |
//! | [`replay`], [`comparison`] | replays a recording to a guest, and compares the results |
//! | [`case`], [`selftest`] | recordings with expected actions, which test a component |
//! | [`tail`], [`checkpoint`], [`crash`] | the part that rebuilds a link, and whether it could be |
//! | [`ending`], [`reason`] | how a turn ended, and the reason in the agent's stderr |
//! | [`conservation`], [`reread`] | answers that were lost, and finding them with a newer parser |
//! | [`transcript`] | a recorded turn as a transcript |

pub mod case;
mod checkpoint;
pub mod comparison;
pub mod conservation;
pub mod crash;
mod ending;
mod format;
mod guest;
mod lines;
pub mod reason;
mod recorder;
pub mod replay;
pub mod reread;
pub mod selftest;
mod tail;
pub mod transcript;

pub use checkpoint::{
    Checkpoint, CheckpointProcess, CheckpointRefusal, CheckpointSession, CheckpointTimer,
    MAX_STATE_BYTES, SavedGuest,
};
pub use ending::{Ending, TurnEvidence, TurnObservations};
pub use format::{
    EntryKind, FORMAT, Header, MASKED, MAX_READ_BYTES, ParsedRecording, ReadError, RecordingEntry,
    SPARSE, UNSEEN, brief, open_turns,
};
pub use guest::{Backend, Generation, Guest, GuestFailure, RolloutPair};
pub use lines::{RecordingLine, RecordingLines};
pub use recorder::{
    RecordedHandOff, Recorder, Recording, RecordingLimits, ResumeError, kept_name, newest, path_in,
};
pub use tail::{MAX_TRIED, RecordingTail, TailError};
