//! Rebuilds a link after the gateway was restarted: a fresh guest replays the recording, or loads
//! the state of a checkpoint and replays the rest, and reaches the state of the old one. The entries
//! go through a new machine.
//!
//! The guest's actions are compared with the recorded ones. The effects of the entries are not
//! performed again if the recording shows that they were (`replay`). Unfinished work at the end of
//! the recording is completed (`takeover`): commands that the holder did not receive are sent, and
//! HTTP requests without a response fail. `pending` collects what is open meanwhile.

mod pending;
mod recorded;
mod replay;
mod takeover;
mod turns;

pub(super) use self::replay::Replay;
pub(crate) use self::turns::RebuiltTurn;

use crate::link::LinkSession;
use aetheel_model::agent::{SessionKey, TurnKey};

/// The reason that a guest gets for requests and streams that were open when the gateway ended.
const RESTARTED: &str = "the gateway was restarted";

/// The open turns and sessions of a rebuilt link.
pub(crate) struct Rebuilt {
    pub(crate) turns: Vec<RebuiltTurn>,
    /// The open sessions, in the order of their keys.
    pub(crate) sessions: Vec<(SessionKey, LinkSession)>,
    /// The highest key of a turn so far.
    pub(crate) last_turn: TurnKey,
    /// The number of inputs that the guest got.
    pub(crate) replayed: u64,
}
