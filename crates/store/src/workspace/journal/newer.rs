//! Open events of a newer version, which this version cannot read, for example because it does not
//! know their kind. Pure.
//!
//! Their lines stay unchanged and in order until a version that knows them continues them. This
//! version reads only the fields that keep them unique and show where they belong.

use serde_json::Value;

use super::checksum::{content_of, is_checked, with_checksum};
use crate::workspace::state_file::{Token, code, parse_tokens};
use aetheel_model::event::{BLOCK_BITS, EventOrigin, Lane, Sequence};
use aetheel_model::id::{ChannelId, MessageId};
use aetheel_model::plain::short_line;

const MAX_REASON_CHARS: usize = 160;

/// An open event that this version cannot read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NewerEvent {
    pub(super) sequence: Sequence,
    /// The lane it waits in, or `None` if this version does not know lanes of its kind.
    pub(super) lane: Option<Lane>,
    pub(super) key: Option<String>,
    /// Channel and id of the message that it came from.
    pub(super) message: Option<(ChannelId, MessageId)>,
    /// The lines about it, without line ends. The first one has the event.
    pub(super) lines: Vec<String>,
    /// The reason why this version cannot read it.
    pub(super) why: String,
}

impl NewerEvent {
    /// Reads an event with this number from its line. `error` is the reason why this version cannot
    /// read the JSON. Returns `None` if the line was not written by a program, or has no event.
    pub(super) fn read(
        line: &str,
        sequence: Sequence,
        json: &str,
        error: &serde_json::Error,
    ) -> Option<Self> {
        // A person who edits a line removes its checksum.
        if !is_checked(line) {
            return None;
        }
        let event: Value = serde_json::from_str(json).ok()?;
        if event.get("sequence")?.as_u64()? != sequence {
            return None;
        }
        let field = |name: &str| event.get(name).cloned().unwrap_or_default();
        let message = match serde_json::from_value(field("origin")) {
            Ok(EventOrigin::Message { channel, message }) => Some((channel, message)),
            _ => None,
        };
        Some(Self {
            sequence,
            lane: serde_json::from_value(field("lane")).ok(),
            key: field("key").as_str().map(str::to_owned),
            message,
            lines: vec![line.to_owned()],
            why: short_line(&error.to_string(), MAX_REASON_CHARS),
        })
    }

    /// Moves its number into a block, if it comes from a gateway that was not part of a cluster.
    pub(super) fn with_block(mut self, first: Sequence) -> Self {
        if self.sequence >> BLOCK_BITS == 0 && first != 0 {
            self.sequence |= first;
            for line in &mut self.lines {
                *line = renumbered(line, self.sequence);
            }
        }
        self
    }

    /// Returns the lines about it, with their ends.
    pub(super) fn text(&self) -> String {
        self.lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }

    /// Returns whether it is in one of these lanes. If its lane is unknown, it is in none.
    pub(super) fn is_in(&self, lanes: impl Fn(&Lane) -> bool) -> bool {
        self.lane.as_ref().is_some_and(lanes)
    }

    /// Adds a line about it, which has its number before it was moved into a block.
    pub(super) fn add(&mut self, line: &str) {
        self.lines.push(renumbered(line, self.sequence));
    }

    pub(super) fn describe(&self) -> String {
        let Self { sequence, why, .. } = self;
        let lane = self.lane.as_ref().map_or_else(String::new, |lane| format!(" in {lane}"));
        format!(
            "event {sequence}{lane} was written by a newer version, and this one cannot run it: {why}; it is kept for a newer version; hint: upgrade this gateway, or stop it and remove the lines of `{sequence}` to drop the event"
        )
    }
}

/// Returns the number of the event that a whole line is about. Returns `None` if no program wrote
/// the line.
pub(super) fn number_of(line: &str) -> Option<Sequence> {
    if is_checked(line) { number(line) } else { None }
}

fn number(line: &str) -> Option<Sequence> {
    line.split('`').nth(1)?.parse().ok()
}

/// Returns a line about an event with another number of this event.
fn renumbered(line: &str, sequence: Sequence) -> String {
    if number(line) == Some(sequence) {
        return line.to_owned();
    }
    let content = content_of(line);
    let mut spans: Vec<String> = content.split('`').map(str::to_owned).collect();
    if let Some(json) = content.strip_prefix("- [ ] ").and_then(json_of)
        && let Ok(mut event) = serde_json::from_str::<Value>(&json)
        && let Some(number) = event.get_mut("sequence")
        && let [.., last, _] = &mut spans[..]
    {
        *number = sequence.into();
        code(&event.to_string()).trim_matches('`').clone_into(last);
    }
    if let Some(number) = spans.get_mut(1) {
        *number = sequence.to_string();
    }
    with_checksum(spans.join("`"))
}

/// Returns the JSON at the end of an accepted event.
fn json_of(rest: &str) -> Option<String> {
    match parse_tokens(&format!("- {rest}"))?.ok()?.pop()? {
        Token::Code(json) => Some(json),
        Token::Word(_) => None,
    }
}
