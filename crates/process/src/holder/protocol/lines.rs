//! The lines of a process in the form in which they are buffered and sent, so that a batch is
//! encoded only once.

use aetheel_model::agent::Pipe;
use aetheel_turn::OutputLine;

use super::{ENCODES, HolderAnswer};

pub(in crate::holder) fn encode_line(out: &mut Vec<u8>, line: &OutputLine) {
    postcard::to_io(line, out).expect(ENCODES);
}

/// Returns the bytes of at most `limit` lines after the first `skip` lines.
pub(in crate::holder) fn lines_between(bytes: &[u8], skip: u64, limit: u64) -> &[u8] {
    let after = |bytes, count: u64| {
        (0..count).try_fold(bytes, |bytes, _| {
            // The fields of `OutputLine`, without a copy of the text.
            postcard::take_from_bytes::<(Pipe, &[u8], bool)>(bytes).ok().map(|(_, rest)| rest)
        })
    };
    let rest = after(bytes, skip).unwrap_or_default();
    &rest[..rest.len() - after(rest, limit).unwrap_or_default().len()]
}

/// Returns the message [`HolderAnswer::Lines`] of `count` encoded lines.
pub(in crate::holder) fn lines_message(stream: u64, count: u64, lines: &[u8]) -> Vec<u8> {
    let empty = HolderAnswer::Lines { stream, lines: Vec::new() };
    let mut message = Vec::with_capacity(lines.len() + 21);
    postcard::to_io(&empty, &mut message).expect(ENCODES);
    // An empty list is only its length.
    message.pop();
    postcard::to_io(&count, &mut message).expect(ENCODES);
    message.extend(lines);
    message
}
