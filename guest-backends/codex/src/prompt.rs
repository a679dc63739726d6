//! Texts for the model: the prompt, and changes of the system prompt.
//!
//! Codex keeps the `developer_instructions` of a thread's first turn and ignores later ones
//! (observed in 0.169.0). A changed system prompt, for example after a change of the memory,
//! precedes the next prompt instead.

use aetheel_backend_sdk::json;
use aetheel_backend_sdk::wit::{Failure, FailureKind, Part, Settings};

use crate::native_id::hash;

/// Returns the system prompt and its hash.
pub(crate) fn instructions(settings: &Settings) -> (&str, u64) {
    let text = settings.system_prompt.as_deref().unwrap_or_default();
    (text, hash(text))
}

/// Returns the text that updates a thread's system prompt, if it differs from the last one sent.
/// `sent` is the hash of that one, or `None` if it is unknown.
pub(crate) fn change(settings: &Settings, sent: Option<u64>) -> Option<String> {
    match (instructions(settings), sent) {
        ((_, wanted), Some(sent)) if wanted == sent => None,
        (("", _), None) => None,
        (("", _), Some(_)) => {
            Some("<developer_instructions>\nAll earlier developer instructions are void.\n</developer_instructions>".to_owned())
        }
        ((text, _), _) => Some(format!(
            "<developer_instructions>\nThese replace all earlier developer instructions.\n\n{text}\n</developer_instructions>"
        )),
    }
}

/// Returns the text of a part; a file becomes a line as described at `start-turn.parts`.
pub(crate) fn text(part: &Part) -> String {
    match part {
        Part::Text(text) => text.clone(),
        Part::Image(file) | Part::File(file) => {
            format!(
                "[Attached file: {} ({}, {} bytes) at {}]",
                file.name, file.media_type, file.size, file.path
            )
        }
    }
}

/// Refuses a blank prompt: `exec` exits with an error for it, and `app-server` does not ask the
/// model.
pub(crate) fn check(parts: &[Part]) -> Result<(), Failure> {
    let blank = parts.iter().all(|part| matches!(part, Part::Text(text) if text.trim().is_empty()));
    if blank {
        return Err(Failure {
            kind: FailureKind::BadRequest,
            message: "the prompt is empty".to_owned(),
            retry_after_ms: None,
        });
    }
    Ok(())
}

/// Returns the operator's choices of Codex's own settings by Codex's names. The host has checked
/// them against the schema.
pub(crate) fn own_settings(settings: &Settings) -> Vec<(&'static str, String)> {
    let options = json::parse(&settings.options).unwrap_or_default();
    let known =
        [("reasoning-summary", "model_reasoning_summary"), ("verbosity", "model_verbosity")];
    let chosen =
        known.into_iter().filter_map(|(option, key)| Some((key, options.text(option)?.to_owned())));
    chosen.filter(|(_, value)| value.bytes().all(|byte| byte.is_ascii_lowercase())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_backend_sdk::fixture::start;

    #[test]
    fn a_system_prompt_is_sent_when_it_changed() {
        let with = |text: Option<&str>| Settings {
            system_prompt: text.map(str::to_owned),
            ..start("").settings
        };
        let sent = |text| instructions(&with(text)).1;
        assert_eq!(change(&with(Some("a")), Some(sent(Some("a")))), None);
        assert_eq!(change(&with(None), Some(sent(None))), None);
        assert_eq!(
            change(&with(None), None),
            None,
            "an unknown thread without a system prompt needs no message"
        );
        assert!(
            change(&with(Some("b")), Some(sent(Some("a"))))
                .is_some_and(|text| text.contains("\nb\n"))
        );
        assert!(change(&with(Some("b")), None).is_some_and(|text| text.contains("\nb\n")));
        assert!(
            change(&with(None), Some(sent(Some("a")))).is_some_and(|text| text.contains("void"))
        );
    }
}
