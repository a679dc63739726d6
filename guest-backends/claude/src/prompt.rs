//! Prompts in the formats of Claude Code: plain text on stdin in a one-shot run, otherwise a
//! message of the stream-json input.

use aetheel_backend_sdk::wit::{Attachment, Chunk, Part};
use serde_json::json;

/// Image types that the Anthropic Messages API accepts, and the largest size: 5 MB in base64.
const IMAGES: [&str; 4] = ["image/gif", "image/jpeg", "image/png", "image/webp"];
const IMAGE_BYTES: u32 = 3_750_000;

/// Returns all parts as text, files as their paths.
pub(crate) fn text(parts: &[Part]) -> String {
    let parts: Vec<String> = parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Image(file) | Part::File(file) => place(file),
        })
        .collect();
    parts.join("\n\n")
}

/// Returns a line of stream-json input. Without images its content equals the text of a one-shot
/// run. A message with an id joins the running turn.
pub(crate) fn message(parts: &[Part], steered: Option<&str>) -> Vec<Chunk> {
    let mut chunks =
        vec![Chunk::Text(r#"{"type":"user","message":{"role":"user","content":"#.to_owned())];
    if parts.iter().any(|part| matches!(part, Part::Image(file) if fits(file))) {
        blocks(parts, &mut chunks);
    } else {
        push(&mut chunks, &json!(text(parts)).to_string());
    }
    let end = match steered {
        Some(uuid) => format!(r#","priority":"next","uuid":{}}}"#, json!(uuid)),
        None => "}".to_owned(),
    };
    push(&mut chunks, &format!(r#"}},"parent_tool_use_id":null,"session_id":""{end}"#));
    push(&mut chunks, "\n");
    chunks
}

fn blocks(parts: &[Part], chunks: &mut Vec<Chunk>) {
    for (at, part) in parts.iter().enumerate() {
        push(chunks, if at == 0 { "[" } else { "," });
        match part {
            Part::Image(file) if fits(file) => {
                let media_type = json!(file.media_type);
                push(
                    chunks,
                    &format!(
                        r#"{{"type":"image","source":{{"type":"base64","media_type":{media_type},"data":""#
                    ),
                );
                chunks.push(Chunk::Base64(file.blob));
                push(chunks, r#""}}"#);
            }
            Part::Text(text) => push(chunks, &json!({"type": "text", "text": text}).to_string()),
            Part::Image(file) | Part::File(file) => {
                push(chunks, &json!({"type": "text", "text": place(file)}).to_string())
            }
        }
    }
    push(chunks, "]");
}

fn push(chunks: &mut Vec<Chunk>, text: &str) {
    match chunks.last_mut() {
        Some(Chunk::Text(last)) => last.push_str(text),
        _ => chunks.push(Chunk::Text(text.to_owned())),
    }
}

fn fits(file: &Attachment) -> bool {
    IMAGES.contains(&file.media_type.as_str()) && file.size <= IMAGE_BYTES
}

fn place(file: &Attachment) -> String {
    format!(
        "[Attached file: {} ({}, {} bytes) at {}]",
        file.name, file.media_type, file.size, file.path
    )
}
