//! Recordings of links, and everything that reads them.
//!
//! A recording has all inputs and actions of a guest, one JSON object per line
//! (`docs/recordings.md` describes the format). The crate also owns the port to one version of a
//! backend and its guests ([`Backend`], [`Guest`]), because a recording is replayed to them, and
//! [`Ending`], which decides how a turn ended from what is recorded. Must not know wasmtime,
//! processes, chat platforms or files of the operator.
//!
//! * `recorder` writes recordings and limits their folder. `format` parses them, `lines` reads large
//!   ones line by line, and `tail` reads what a restart needs, from a `checkpoint` on.
//! * [`replay`] replays a recording to a guest, and [`comparison`] compares the results. A [`case`] is
//!   a recording with the actions that are expected for it, and [`selftest`] tests a component with
//!   those beside it. [`reread`] finds a lost answer in a recording, and [`crash`] checks whether a
//!   link could be rebuilt from one.
//! * [`transcript`] converts a recorded turn to a transcript. [`conservation`] detects answers that
//!   were lost, and [`reason`] extracts the reason of an agent's end from its stderr.

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
