//! Builds the command line of a turn or of a conversation.
//!
//! The prompt is written to stdin and the system prompt to a file, so users' texts are never
//! arguments. `--tools` and `--allowedTools` take any number of values up to the next flag, so they
//! come last.

use aetheel_backend_sdk::json;
use aetheel_backend_sdk::one_shot::spawn;
use aetheel_backend_sdk::wit::{
    Action, Chunk, Failure, FailureKind, Level, Mode, Part, PutFile, Safety, Settings, Spawn,
    StartTurn, Value, Variable,
};
use aetheel_backend_sdk::{Emit, TOOL_SERVER};

use crate::prompt;

const SYSTEM_PROMPT: &str = "system-prompt.md";
/// The prefix of the names of the host's tools, which are those of an MCP server.
pub(crate) const TOOL_PREFIX: &str = "mcp__aetheel__";
/// The rule that allows all tools of this server.
const ALL_TOOLS: &str = "mcp__aetheel";
/// The file that describes this server to a one-shot run.
const MCP_CONFIG: &str = "mcp.json";
/// The first release that keeps the system prompt that a conversation began with, and has the flag
/// that disables this. Older releases refuse the flag.
const SNAPSHOT_SINCE: [u32; 3] = [2, 1, 257];
/// Claude Code's name of the mode that only plans.
pub(crate) const PLAN: &str = "plan";
/// Claude Code's name of the mode that asks for no permission. Available only if the process was
/// started with the flag.
pub(crate) const BYPASS: &str = "bypassPermissions";
/// The operator's value for no allowed tools. No tool of Claude Code has this name.
const NO_TOOLS: &str = "none";
const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

/// Tools that change nothing, approved at every safety level. Tools that change files are not: the
/// mode `acceptEdits` approves them in the working directory, this list would approve them
/// everywhere.
const READING: [&str; 5] = ["Read", "Glob", "Grep", "WebSearch", "WebFetch"];
/// Disables Claude Code's own memory below `~/.claude`, which it asks the model to write to. The
/// gateway has its own in `memory.md`.
const NO_OWN_MEMORY: &str = "CLAUDE_CODE_DISABLE_AUTO_MEMORY";

/// Makes Claude Code report when it is idle.
const TELL_STATE: &str = "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS";

/// Returns the process for one turn.
pub(crate) fn launch(start: StartTurn, emit: &mut Emit) -> Result<Spawn, Failure> {
    let prompt = checked(&start.parts)?;
    let resume = start.native_id.clone().map(|id| (id, start.fork));
    let mut head = vec!["--output-format", "stream-json"];
    // In a long-lived process, `initialize` disables this.
    if is_since(start.agent_version.as_deref(), SNAPSHOT_SINCE) {
        head.extend(["--system-prompt-snapshot", "off"]);
    }
    let mut arguments = arguments(&head, resume, &start, emit)?;
    if !start.tools.is_empty() {
        arguments.extend(tool_server(start.session, emit));
    }
    Ok(Spawn {
        environment: variables(&[NO_OWN_MEMORY]),
        ..spawn("claude", arguments, vec![Chunk::Text(prompt)])
    })
}

/// Returns the process for a conversation that begins or continues with this turn; `stdin` is
/// written to it first.
pub(crate) fn live(
    resume: Option<(String, bool)>,
    start: &StartTurn,
    stdin: String,
    emit: &mut Emit,
) -> Result<Spawn, Failure> {
    let head = [
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--permission-prompt-tool",
        "stdio",
    ];
    let arguments = arguments(&head, resume, start, emit)?;
    Ok(lasting(arguments, stdin))
}

/// Returns a process that only answers queries.
pub(crate) fn probe(stdin: String) -> Spawn {
    let head = [
        "-p",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
        "--permission-mode",
        "default",
    ];
    let mut arguments = Arguments::default();
    arguments.flags(&head);
    lasting(arguments.0, stdin)
}

/// Returns the prompt as text. Fails if it is blank.
pub(crate) fn checked(parts: &[Part]) -> Result<String, Failure> {
    let prompt = prompt::text(parts);
    // Claude Code 2.1.197 prints nothing for a blank prompt and exits with 0.
    if prompt.trim().is_empty() {
        return Err(failure(FailureKind::BadRequest, "the prompt is empty"));
    }
    Ok(prompt)
}

/// Returns Claude Code's name of the mode that the settings require.
pub(crate) fn mode(settings: &Settings) -> &'static str {
    match (settings.mode, settings.safety) {
        (Mode::Plan, _) => PLAN,
        // No built-in tool is offered, so no permission is skipped. Other tools (of MCP servers)
        // ask.
        (Mode::Build, _)
            if settings.allowed_tools.iter().all(|tool| tool == NO_TOOLS)
                && !settings.allowed_tools.is_empty() =>
        {
            "default"
        }
        (Mode::Build, Safety::Default) => "default",
        (Mode::Build, Safety::Edit) => "acceptEdits",
        (Mode::Build, Safety::Danger) => BYPASS,
    }
}

/// Returns the effort if Claude Code knows it.
pub(crate) fn effort(settings: &Settings) -> Option<&str> {
    settings.effort.as_deref().filter(|effort| EFFORTS.contains(effort))
}

/// The settings that cannot be changed in a running process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fixed {
    system_prompt: Option<String>,
    max_turns: Option<u32>,
    tools: Vec<Value>,
    options: String,
}

impl Fixed {
    /// Picks these settings from all.
    pub(crate) fn of(settings: &Settings) -> Self {
        let (system_prompt, options) = (system_prompt(settings).cloned(), settings.options.clone());
        Self { system_prompt, max_turns: settings.max_turns, tools: tools(settings), options }
    }

    /// Returns the settings as JSON, for another instance.
    pub(crate) fn save_state(&self) -> Option<serde_json::Value> {
        let Self { system_prompt, max_turns, tools, options } = self;
        let word =
            |tool: &Value| if let Value::Text(word) = tool { Some(word.clone()) } else { None };
        let tools: Vec<String> = tools.iter().map(word).collect::<Option<_>>()?;
        Some(
            serde_json::json!({ "system-prompt": system_prompt, "max-turns": max_turns, "tools": tools, "options": options }),
        )
    }

    /// Reads the settings that another instance saved.
    pub(crate) fn restore(saved: &json::Value) -> Option<Self> {
        let tools = saved
            .list("tools")
            .iter()
            .map(|word| Some(Value::Text(word.as_str()?.to_owned())))
            .collect::<Option<_>>()?;
        let (system_prompt, options) =
            (saved.text("system-prompt").map(str::to_owned), saved.text("options")?.to_owned());
        Some(Self { system_prompt, max_turns: saved.count("max-turns"), tools, options })
    }
}

/// Returns whether a version is known and not older than `first`.
fn is_since(version: Option<&str>, first: [u32; 3]) -> bool {
    let number = |part: &str| {
        let digits = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
        part[..digits].parse::<u32>().ok()
    };
    let parts = |version: &str| version.split('.').map(number).collect::<Option<Vec<_>>>();
    version.and_then(parts).is_some_and(|version| version.as_slice() >= first.as_slice())
}

/// Returns the flags with which a one-shot run finds the host's MCP server, and writes the file
/// with its address.
fn tool_server(session: u32, emit: &mut Emit) -> Vec<Value> {
    let before =
        format!(r#"{{"mcpServers":{{"{TOOL_SERVER}":{{"type":"http","alwaysLoad":true,"url":""#);
    let body =
        vec![Chunk::Text(before), Chunk::ToolServer(session), Chunk::Text(r#""}}}"#.to_owned())];
    emit.action(Action::PutFile(PutFile { name: MCP_CONFIG.to_owned(), body }));
    let text = |text: &str| Value::Text(text.to_owned());
    vec![
        text("--mcp-config"),
        Value::File(MCP_CONFIG.to_owned()),
        text("--allowedTools"),
        text(ALL_TOOLS),
    ]
}

fn system_prompt(settings: &Settings) -> Option<&String> {
    settings.system_prompt.as_ref().filter(|text| !text.is_empty())
}

fn arguments(
    head: &[&str],
    resume: Option<(String, bool)>,
    start: &StartTurn,
    emit: &mut Emit,
) -> Result<Vec<Value>, Failure> {
    let settings = &start.settings;
    let mut arguments = Arguments::default();
    arguments.flags(&["-p"]);
    arguments.flags(head);
    arguments.flags(&["--verbose", "--include-partial-messages"]);
    match mode(settings) {
        BYPASS => arguments.flags(&["--dangerously-skip-permissions"]),
        mode => arguments.flags(&["--permission-mode", mode]),
    }
    match resume {
        // Claude Code searches for a title if this is not a UUID.
        Some((id, _)) if !is_uuid(&id) => {
            return Err(failure(
                FailureKind::SessionUnknown,
                "the session id is not one of Claude Code",
            ));
        }
        Some((id, fork)) => {
            arguments.option("--resume", id);
            if fork {
                arguments.flags(&["--fork-session"]);
            }
        }
        // With a preset id, the session can be resumed even if the first turn is killed before it
        // prints anything. An id can only be used once: a second use is refused as "already in
        // use".
        None if is_uuid(&start.fresh_id) => {
            arguments.option("--session-id", start.fresh_id.clone())
        }
        None => {}
    }
    if let Some(model) = &settings.model {
        arguments.option("--model", model.clone());
    }
    if let Some(turns) = settings.max_turns {
        arguments.option("--max-turns", turns.to_string());
    }
    match (effort(settings), &settings.effort) {
        (Some(effort), _) => arguments.option("--effort", effort.to_owned()),
        (None, Some(effort)) => emit.diagnostic(
            Level::Warn,
            format!("Claude Code has no effort {effort:?}: the default is used"),
        ),
        (None, None) => {}
    }
    if let Some(text) = system_prompt(settings) {
        emit.action(Action::PutFile(PutFile {
            name: SYSTEM_PROMPT.to_owned(),
            body: vec![Chunk::Text(text.clone())],
        }));
        // A resumed session does not keep the system prompt, so every process needs it.
        arguments.0.extend([
            Value::Text("--append-system-prompt-file".to_owned()),
            Value::File(SYSTEM_PROMPT.to_owned()),
        ]);
    }
    arguments.chosen(&json::parse(&settings.options).unwrap_or_default());
    if settings.safety == Safety::Danger {
        for tool in settings.allowed_tools.iter().filter(|tool| tool.contains('(')) {
            emit.diagnostic(
                Level::Warn,
                format!("the rule in {tool:?} has no effect while permissions are skipped"),
            );
        }
    }
    arguments.0.extend(tools(settings));
    Ok(arguments.0)
}

fn lasting(arguments: Vec<Value>, stdin: String) -> Spawn {
    let environment = variables(&[NO_OWN_MEMORY, TELL_STATE]);
    Spawn { environment, keep_open: true, ..spawn("claude", arguments, vec![Chunk::Text(stdin)]) }
}

fn variables(names: &[&str]) -> Vec<Variable> {
    names
        .iter()
        .map(|name| Variable { name: (*name).to_owned(), value: Value::Text("1".to_owned()) })
        .collect()
}

#[derive(Default)]
struct Arguments(Vec<Value>);

impl Arguments {
    fn flags(&mut self, flags: &[&str]) {
        self.0.extend(flags.iter().map(|flag| Value::Text((*flag).to_owned())));
    }

    /// Adds the operator's choices of Claude Code's own settings. The host has checked them against
    /// the schema.
    fn chosen(&mut self, options: &json::Value) {
        if let Some(sources) = options.text("setting-sources") {
            self.flags(&[&format!("--setting-sources={sources}")]);
        }
    }

    fn option(&mut self, flag: &str, value: String) {
        self.0.extend([Value::Text(flag.to_owned()), Value::Text(value)]);
    }
}

/// Returns the flags that limit tools. `--tools` is the actual limit: it selects which tools the
/// model is offered. `--allowedTools` approves tools even if the safety level does not, so only a
/// selection is passed.
fn tools(settings: &Settings) -> Vec<Value> {
    let allowed = &settings.allowed_tools;
    let mut arguments = Arguments::default();
    if allowed.is_empty() {
        return arguments.0;
    }
    let name = |tool: &String| tool.split('(').next().unwrap_or_default().trim().to_owned();
    // Tools of MCP servers are not in the built-in set that `--tools` selects from.
    let offered: Vec<String> =
        allowed.iter().map(name).filter(|tool| !tool.starts_with("mcp__")).collect();
    arguments.option("--tools", offered.join(","));
    let all = mode(settings) == BYPASS;
    for tool in allowed {
        if all || READING.contains(&name(tool).as_str()) {
            arguments.option("--allowedTools", tool.clone());
        }
    }
    arguments.0
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| {
            if matches!(at, 8 | 13 | 18 | 23) { byte == b'-' } else { byte.is_ascii_hexdigit() }
        })
}

fn failure(kind: FailureKind, message: &str) -> Failure {
    Failure { kind, message: message.to_owned(), retry_after_ms: None }
}
