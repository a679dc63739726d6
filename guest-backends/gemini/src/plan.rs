//! Builds the command line of a one-shot turn.
//!
//! The system prompt and the prompt are written to stdin, so users' texts are never arguments.

use aetheel_acp_client::standing;
use aetheel_backend_sdk::one_shot::spawn;
use aetheel_backend_sdk::wit::{
    Action, Chunk, Failure, FailureKind, Level, Mode, PutFile, Safety, Settings, Spawn, StartTurn,
    Value, Variable,
};
use aetheel_backend_sdk::{Emit, failure, text};

use crate::policy;

/// Environment variables for Gemini CLI. Without the first one, it refuses to work in folders that
/// were not trusted in its own user interface. Without the second one, it restarts itself as a
/// child process and ignores signals. Without the third one, it opens a browser to authenticate.
pub(crate) const ENVIRONMENT: [(&str, &str); 3] = [
    ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
    ("GEMINI_CLI_NO_RELAUNCH", "true"),
    ("NO_BROWSER", "1"),
];

/// Escapes each `@` that begins a word.
///
/// The host escapes names of files that exist. A one-shot run of Gemini CLI also searches the whole
/// directory for files whose names contain the word, so `@types/node` could insert any of them.
fn escape_mentions(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    let mut before = None;
    for c in text.chars() {
        let within = before.is_some_and(|c: char| c.is_alphanumeric() || "_-.+%~/:=\\".contains(c));
        if c == '@' && !within {
            escaped.push('\\');
        }
        escaped.push(c);
        before = Some(c);
    }
    escaped
}

/// Returns the process for a turn.
pub(crate) fn launch(start: StartTurn, emit: &mut Emit) -> Result<Spawn, Failure> {
    let prompt = text::prompt(&start.parts);
    if prompt.trim().is_empty() {
        return Err(failure(FailureKind::BadRequest, "the prompt is empty"));
    }
    if start.fork {
        return Err(failure(FailureKind::Unsupported, "Gemini CLI cannot copy a session"));
    }
    let settings = start.settings;
    let policy = policy::of(&settings);
    let mut arguments = vec![
        "-o".to_owned(),
        "stream-json".to_owned(),
        "--approval-mode".to_owned(),
        approval(&settings).to_owned(),
    ];
    match start.native_id {
        // Gemini CLI resumes another session for `latest` and numbers.
        Some(id) if !is_uuid(&id) => {
            return Err(failure(
                FailureKind::SessionUnknown,
                "the session id is not one of Gemini CLI",
            ));
        }
        Some(id) => arguments.extend(["--resume".to_owned(), id]),
        // With a preset id, the session can be resumed even if the first turn is killed early.
        None if is_uuid(&start.fresh_id) => {
            arguments.extend(["--session-id".to_owned(), start.fresh_id])
        }
        None => {}
    }
    if let Some(model) = settings.model {
        arguments.extend(["-m".to_owned(), model]);
    }
    if let Some(effort) = settings.effort {
        emit.diagnostic(
            Level::Warn,
            format!("Gemini CLI does not offer a choice of its effort: {effort:?} is ignored"),
        );
    }
    // Each run is a new process without an earlier system prompt.
    let system = settings.system_prompt.filter(|text| !text.is_empty());
    let system = system.map(|text| format!("{}\n\n", standing(&text).replace('@', "\\@")));
    let prompt = escape_mentions(&prompt);
    let stdin = system.into_iter().chain([prompt]).map(Chunk::Text).collect();
    let mut arguments: Vec<Value> = arguments.into_iter().map(Value::Text).collect();
    if let Some(policy) = policy {
        emit.action(Action::PutFile(PutFile {
            name: policy::FILE.to_owned(),
            body: vec![Chunk::Text(policy)],
        }));
        arguments
            .extend([Value::Text(policy::FLAG.to_owned()), Value::File(policy::FILE.to_owned())]);
    }
    let environment = ENVIRONMENT.iter().map(|(name, value)| Variable {
        name: (*name).to_owned(),
        value: Value::Text((*value).to_owned()),
    });
    Ok(Spawn { environment: environment.collect(), ..spawn("gemini", arguments, stdin) })
}

fn approval(settings: &Settings) -> &'static str {
    match (settings.mode, settings.safety) {
        (Mode::Plan, _) => "plan",
        (Mode::Build, Safety::Default) => "default",
        (Mode::Build, Safety::Edit) => "auto_edit",
        (Mode::Build, Safety::Danger) => "yolo",
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| {
            if matches!(at, 8 | 13 | 18 | 23) { byte == b'-' } else { byte.is_ascii_hexdigit() }
        })
}
