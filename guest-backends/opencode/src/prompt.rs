//! A prompt in OpenCode's words. It never gets into arguments: 1.18.33 puts an argument with a
//! blank in quotes before the model sees it.

use aetheel_backend_sdk::failure;
use aetheel_backend_sdk::wit::{Attachment, Chunk, Failure, FailureKind, Mode, Part};
use serde_json::json;

/// Whether there is nothing in it. OpenCode answers an empty message as if it were told to go on.
pub(crate) fn is_empty(parts: &[Part]) -> bool {
    parts.iter().all(|part| matches!(part, Part::Text(text) if text.trim().is_empty()))
}

/// Returns the failure of a turn with nothing in it.
pub(crate) fn nothing() -> Failure {
    failure(FailureKind::BadRequest, "the prompt is empty")
}

/// Returns the prompt as one text.
pub(crate) fn text(parts: &[Part]) -> String {
    let part = |part: &Part| match part {
        Part::Text(text) => text.clone(),
        Part::Image(file) | Part::File(file) => mention(file),
    };
    parts.iter().map(part).collect::<Vec<_>>().join("\n\n")
}

/// Writes the prompt as the `parts` of a message to the end of a body.
pub(crate) fn message(parts: &[Part], body: &mut Vec<Chunk>) {
    body.push(Chunk::Text("\"parts\":[".to_owned()));
    for (number, part) in parts.iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        match part {
            Part::Image(file) => {
                let (mime, name) = (json!(file.media_type), json!(file.name));
                // A media type has no character that JSON would escape, or it is none.
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

/// Returns OpenCode's name of the agent for a mode.
pub(crate) fn agent(mode: Mode) -> &'static str {
    match mode {
        Mode::Build => "build",
        Mode::Plan => "plan",
    }
}

/// Takes a model's name apart into provider and model.
///
/// # Errors
/// It names no provider.
pub(crate) fn model(name: &str) -> Result<(String, String), Failure> {
    match name.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
            Ok((provider.to_owned(), model.to_owned()))
        }
        _ => Err(failure(
            FailureKind::ModelNotFound,
            format!("OpenCode names models `provider/model`, not {name:?}"),
        )),
    }
}

/// Whether an id can be one of OpenCode's sessions: its server answers others with an error 500.
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
