//! Converts prompts. Prompts are never passed as arguments: OpenCode 1.18.33 quotes arguments with
//! spaces before the model sees them.

use aetheel_backend_sdk::failure;
use aetheel_backend_sdk::wit::{Attachment, Chunk, Failure, FailureKind, Mode, Part};
use serde_json::json;

/// Returns whether a prompt is empty. OpenCode interprets an empty message as a request to
/// continue.
pub(crate) fn is_empty(parts: &[Part]) -> bool {
    parts.iter().all(|part| matches!(part, Part::Text(text) if text.trim().is_empty()))
}

/// Returns the failure for an empty prompt.
pub(crate) fn nothing() -> Failure {
    failure(FailureKind::BadRequest, "the prompt is empty")
}

/// Returns the prompt as a single text.
pub(crate) fn text(parts: &[Part]) -> String {
    let part = |part: &Part| match part {
        Part::Text(text) => text.clone(),
        Part::Image(file) | Part::File(file) => mention(file),
    };
    parts.iter().map(part).collect::<Vec<_>>().join("\n\n")
}

/// Appends the prompt to a body, as the `parts` of a message.
pub(crate) fn message(parts: &[Part], body: &mut Vec<Chunk>) {
    body.push(Chunk::Text("\"parts\":[".to_owned()));
    for (number, part) in parts.iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        match part {
            Part::Image(file) => {
                let (mime, name) = (json!(file.media_type), json!(file.name));
                // The media type needs no escapes in JSON, because others are replaced.
                let begin = format!(
                    r#"{comma}{{"type":"file","mime":{mime},"filename":{name},"url":"data:{};base64,"#,
                    mime.as_str().map_or("", plain)
                );
                body.extend([
                    Chunk::Text(begin),
                    Chunk::Base64(file.blob),
                    Chunk::Text("\"}".to_owned()),
                ]);
            }
            Part::Text(text) => body
                .push(Chunk::Text(format!(r#"{comma}{{"type":"text","text":{}}}"#, json!(text)))),
            Part::File(file) => body.push(Chunk::Text(format!(
                r#"{comma}{{"type":"text","text":{}}}"#,
                json!(mention(file))
            ))),
        }
    }
    body.push(Chunk::Text("]".to_owned()));
}

/// Returns the name of OpenCode's agent for a mode.
pub(crate) fn agent(mode: Mode) -> &'static str {
    match mode {
        Mode::Build => "build",
        Mode::Plan => "plan",
    }
}

/// Splits the name of a model into provider and model.
///
/// # Errors
/// Fails if the name has no provider.
pub(crate) fn model(name: &str) -> Result<(String, String), Failure> {
    match name.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
            Ok((provider.to_owned(), model.to_owned()))
        }
        _ => Err(failure(
            FailureKind::ModelNotFound,
            format!("names of models have the form `provider/model`: {name:?}"),
        )),
    }
}

/// Returns whether a text can be the id of a session. OpenCode's server answers with status 500 for
/// other ids.
pub(crate) fn is_session(id: &str) -> bool {
    id.strip_prefix("ses_").is_some_and(|rest| {
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

fn mention(file: &Attachment) -> String {
    format!(
        "[Attached file: {} ({}, {} bytes) at {}]",
        file.name, file.media_type, file.size, file.path
    )
}

fn plain(media_type: &str) -> &str {
    let plain =
        media_type.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/+-.".contains(&byte));
    if plain { media_type } else { "application/octet-stream" }
}
