//! Ids of traces and spans. They are hashes of the ids of turns and tool uses, so that a turn that
//! continues after a restart, in another process, continues its trace.

use aetheel_model::observed::ObservedTurn;
use opentelemetry::trace::{SpanId, TraceId};
use sha2::{Digest as _, Sha256};

/// Returns the id of a turn's trace. Contains the lane because ids of turns are short.
pub(crate) fn trace_id(turn: &ObservedTurn) -> TraceId {
    TraceId::from_bytes(digest(&["trace", &turn.lane, &turn.turn]))
}

pub(crate) fn root_id(turn: &ObservedTurn) -> SpanId {
    SpanId::from_bytes(digest(&["turn", &turn.lane, &turn.turn]))
}

/// Returns the id of the span of a tool use. `time` counts the uses with the same id in the turn.
pub(crate) fn tool_id(turn: &ObservedTurn, tool: &str, time: u32) -> SpanId {
    SpanId::from_bytes(digest(&["tool", &turn.lane, &turn.turn, tool, &time.to_string()]))
}

/// Returns the first bytes of a hash over some texts.
fn digest<const N: usize>(texts: &[&str]) -> [u8; N] {
    let mut hash = Sha256::new();
    for text in texts {
        // The length keeps the texts apart.
        hash.update(text.len().to_be_bytes());
        hash.update(text);
    }
    let mut id = [0; N];
    id.copy_from_slice(&hash.finalize()[..N]);
    id
}
