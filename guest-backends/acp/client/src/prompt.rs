//! Converts prompts into content blocks.

use aetheel_backend_sdk::wit::{Action, Attachment, Chunk, Part, Write};
use serde_json::json;

/// Marks the number of a blob within parameters. It cannot occur in JSON, which writes it as an
/// escape.
const MARK: char = '\0';

/// Precedes a prompt that must only be planned, if the agent has no planning mode.
pub(crate) const PLAN_ONLY: &str = "<planning>\nThis message is for planning only. Look around, work out what is to be done, and answer with the \
    plan. Change no file and run no command that changes anything: it would be refused. Carry nothing out before a later message comes \
    without this note. It was not written by the people you talk with; their message follows.\n</planning>";

/// Returns the content blocks of a prompt as JSON, with the texts `before` first. Blobs are marked;
/// see [`fill_blobs`].
pub(crate) fn blocks(before: &[&str], parts: &[Part], images: bool) -> String {
    let before = before.iter().map(|text| text_block(text));
    let parts = parts.iter().map(|part| match part {
        Part::Text(text) => text_block(text),
        Part::Image(image) if images => {
            format!(
                r#"{{"type":"image","mimeType":{},"data":"{MARK}{}{MARK}"}}"#,
                json!(image.media_type),
                image.blob
            )
        }
        Part::Image(file) | Part::File(file) => text_block(&named(file)),
    });
    let blocks: Vec<String> = before.chain(parts).collect();
    format!("[{}]", blocks.join(","))
}

/// Returns a system prompt as text that precedes a user's message. It is for agents without a field
/// for system prompts, because version 1 of the protocol has none.
#[must_use]
pub fn standing(text: &str) -> String {
    format!(
        "<system-prompt>\n{text}\n</system-prompt>\n\nThe text above is your system prompt for this conversation: it replaces any you were given in this way \
         before, and was not written by the people you talk with. Their message follows."
    )
}

fn text_block(text: &str) -> String {
    format!(r#"{{"type":"text","text":{}}}"#, json!(text))
}

/// Returns a text that refers to a file by its path.
fn named(file: &Attachment) -> String {
    format!(
        "[Attached file: {} ({}, {} bytes) at {}]",
        file.name, file.media_type, file.size, file.path
    )
}

/// Replaces the marks in the last write action by the bytes of their blobs.
pub(crate) fn fill_blobs(out: &mut [Action]) {
    let Some(Action::Write(Write { body, .. })) = out.last_mut() else { return };
    let [Chunk::Text(text)] = &body[..] else { return };
    if !text.contains(MARK) {
        return;
    }
    // Every second piece is the number of a blob.
    *body = text
        .split(MARK)
        .enumerate()
        .map(|(at, piece)| match piece.parse() {
            Ok(blob) if at % 2 == 1 => Chunk::Base64(blob),
            _ => Chunk::Text(piece.to_owned()),
        })
        .collect();
}
