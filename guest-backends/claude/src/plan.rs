//! The command line of a turn.
//!
//! The prompt goes in on stdin, the system prompt in a file: nothing people wrote is ever an argument. `--tools` and
//! `--allowedTools` take any number of values up to the next flag, so they stand last and nothing follows them.

use aetheel_backend_sdk::Emit;
use aetheel_backend_sdk::one_shot::spawn;
use aetheel_backend_sdk::wit::{
    Action, Chunk, Failure, FailureKind, Level, Mode, Part, PutFile, Safety, Settings, Spawn, StartTurn, Value, Variable,
};

const SYSTEM_PROMPT: &str = "system-prompt.md";
const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

/// Tools that change nothing: approved beforehand at every safety level. Those that change files are not, below
/// `danger`: the mode `acceptEdits` approves them in the working directory, beforehand would be everywhere.
const READING: [&str; 5] = ["Read", "Glob", "Grep", "WebSearch", "WebFetch"];
/// Claude Code keeps a memory of its own below `~/.claude` and tells the model to write there; people here have one in
/// `memory.md`.
const NO_OWN_MEMORY: &str = "CLAUDE_CODE_DISABLE_AUTO_MEMORY";

/// Returns the process for a turn.
pub(crate) fn launch(start: StartTurn, emit: &mut Emit) -> Result<Spawn, Failure> {
    let prompt = prompt(&start.parts);
    // Claude Code 2.1.197 prints nothing at all for a blank prompt, and exits 0.
    if prompt.trim().is_empty() {
        return Err(failure(FailureKind::BadRequest, "the prompt is empty"));
    }
    let settings = start.settings;
    let mut arguments = Arguments::default();
    arguments.flags(&["-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"]);
    arguments.flags(permission(&settings));
    match start.native_id {
        // Anything but a UUID would be taken for a title to search for.
        Some(id) if !is_uuid(&id) => return Err(failure(FailureKind::SessionUnknown, "the session id is not one of Claude Code")),
        Some(id) => {
            arguments.option("--resume", id);
            if start.fork {
                arguments.flags(&["--fork-session"]);
            }
        }
        // A first turn that is killed before it says anything can be resumed by a preset id. One id works once: a
        // second use is refused as "already in use".
        None if is_uuid(&start.fresh_id) => arguments.option("--session-id", start.fresh_id),
        None => {}
    }
    if let Some(model) = settings.model {
        arguments.option("--model", model);
    }
    if let Some(turns) = settings.max_turns {
        arguments.option("--max-turns", turns.to_string());
    }
    match settings.effort {
        Some(effort) if EFFORTS.contains(&effort.as_str()) => arguments.option("--effort", effort),
        Some(effort) => emit.diagnostic(Level::Warn, format!("Claude Code has no effort {effort:?}: left at its default")),
        None => {}
    }
    if let Some(text) = settings.system_prompt.filter(|text| !text.is_empty()) {
        emit.action(Action::PutFile(PutFile { name: SYSTEM_PROMPT.to_owned(), body: vec![Chunk::Text(text)] }));
        // Not kept over a resume, so it goes along every time.
        arguments.0.extend([Value::Text("--append-system-prompt-file".to_owned()), Value::File(SYSTEM_PROMPT.to_owned())]);
    }
    if !settings.allowed_tools.is_empty() {
        arguments.tools(&settings.allowed_tools, settings.safety, settings.mode, emit);
    }
    let environment = vec![Variable { name: NO_OWN_MEMORY.to_owned(), value: Value::Text("1".to_owned()) }];
    Ok(Spawn { environment, ..spawn("claude", arguments.0, vec![Chunk::Text(prompt)]) })
}

#[derive(Default)]
struct Arguments(Vec<Value>);

impl Arguments {
    fn flags(&mut self, flags: &[&str]) {
        self.0.extend(flags.iter().map(|flag| Value::Text((*flag).to_owned())));
    }

    fn option(&mut self, flag: &str, value: String) {
        self.0.extend([Value::Text(flag.to_owned()), Value::Text(value)]);
    }

    /// `--tools` is what really limits: it decides what the model is offered. `--allowedTools` approves beforehand,
    /// and does so even where the safety level would not, hence the selection.
    fn tools(&mut self, allowed: &[String], safety: Safety, mode: Mode, emit: &mut Emit) {
        let name = |tool: &String| tool.split('(').next().unwrap_or_default().trim().to_owned();
        // The tools of MCP servers are not of the built-in set that `--tools` chooses from.
        let offered: Vec<String> = allowed.iter().map(name).filter(|tool| !tool.starts_with("mcp__")).collect();
        self.option("--tools", offered.join(","));
        let all = mode == Mode::Build && safety == Safety::Danger;
        for tool in allowed {
            if all || READING.contains(&name(tool).as_str()) {
                self.option("--allowedTools", tool.clone());
            }
            if tool.contains('(') && safety == Safety::Danger {
                emit.diagnostic(Level::Warn, format!("the rule in {tool:?} limits nothing while permissions are skipped"));
            }
        }
    }
}

fn permission(settings: &Settings) -> &'static [&'static str] {
    match (settings.mode, settings.safety) {
        (Mode::Plan, _) => &["--permission-mode", "plan"],
        (Mode::Build, Safety::Default) => &["--permission-mode", "default"],
        (Mode::Build, Safety::Edit) => &["--permission-mode", "acceptEdits"],
        (Mode::Build, Safety::Danger) => &["--dangerously-skip-permissions"],
    }
}

fn prompt(parts: &[Part]) -> String {
    let parts: Vec<String> = parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Image(file) | Part::File(file) => {
                format!("[Attached file: {} ({}, {} bytes) at {}]", file.name, file.media_type, file.size, file.path)
            }
        })
        .collect();
    parts.join("\n\n")
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| if matches!(at, 8 | 13 | 18 | 23) { byte == b'-' } else { byte.is_ascii_hexdigit() })
}

fn failure(kind: FailureKind, message: &str) -> Failure {
    Failure { kind, message: message.to_owned(), retry_after_ms: None }
}
