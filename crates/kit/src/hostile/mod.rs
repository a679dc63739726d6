//! Creates trials with hostile input: recordings with all kinds of disturbances, and prompts with
//! every setting.
//!
//! `disturbed` changes the steps of a recording, `prompts` needs only the descriptor, and `foreign`
//! has the inputs that no recording contains.

mod disturbed;
mod foreign;
mod prompts;

pub(super) use self::disturbed::{of_recording, oversized};
pub(super) use self::prompts::{of_descriptor, without_recording};

use aetheel_model::agent::{Descriptor, Exit};

/// Maximum length of a line that the host passes on, in bytes, unless the descriptor has a lower
/// limit.
const MAX_LINE: usize = 8 << 20;

/// The ways in which a process can end.
const EXITS: [Exit; 5] =
    [Exit::Code(0), Exit::Code(1), Exit::Code(127), Exit::Signal(9), Exit::Unknown];

/// Returns the length of the longest line that the host passes on, in bytes.
fn longest_line(descriptor: &Descriptor) -> usize {
    descriptor.line_limit.map_or(MAX_LINE, |limit| MAX_LINE.min(limit as usize))
}
