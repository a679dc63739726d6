//! Maps settings to flags and protocol values, and builds prompts.
//!
//! `--append-system-prompt-file` and `--skip-permissions-unsafe` are flags in both modes, although
//! the protocol has parameters for them: parameters of `initialize_session` stay in the session
//! permanently, and `load_session` accepts neither (0.225.2). With flags, the host can also see and
//! refuse the only flag that skips all questions.

use aetheel_backend_sdk::json;
use aetheel_backend_sdk::wit::{
    Action, Attachment, Chunk, Failure, FailureKind, Level, Mode, Part, PutFile, Safety, Settings,
    StartTurn, Value,
};
use aetheel_backend_sdk::{Emit, TOOL_SERVER, failure};

use crate::tool;

const SYSTEM_PROMPT: &str = "system-prompt.md";
/// The file with the host's MCP server. Droid merges it with the user's settings.
const SETTINGS: &str = "settings.json";
/// The longest time of a call of a host tool in milliseconds: a day. A call can wait for people.
const CALL_TIMEOUT_MS: u32 = 86_400_000;
const EFFORTS: [&str; 7] = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];

/// Tools that do not change anything.
pub(crate) const READING: [&str; 8] =
    ["Read", "LS", "Grep", "Glob", "WebSearch", "FetchUrl", "TodoWrite", "Skill"];
/// Tools that change files. A model has either the first two or the last one.
pub(crate) const EDITING: [&str; 3] = ["Create", "Edit", "ApplyPatch"];

/// The settings that only a new process can change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fixed {
    system_prompt: Option<String>,
    skip_permissions: bool,
    /// The session whose address of the host's MCP server the process has, if there are tools of
    /// the host.
    tool_server: Option<u32>,
}

impl Fixed {
    pub(crate) fn of(start: &StartTurn) -> Self {
        let settings = &start.settings;
        Self {
            tool_server: (!start.tools.is_empty()).then_some(start.session),
            system_prompt: settings.system_prompt.clone().filter(|text| !text.trim().is_empty()),
            skip_permissions: settings.safety == Safety::Danger && settings.mode == Mode::Build,
        }
    }

    /// Saves the settings as JSON for another instance.
    pub(crate) fn kept(&self) -> serde_json::Value {
        serde_json::json!({ "system-prompt": self.system_prompt, "skip-permissions": self.skip_permissions, "tool-server": self.tool_server })
    }

    /// Reads the settings that another instance saved.
    pub(crate) fn taken_over(kept: &json::Value) -> Option<Self> {
        let system_prompt = kept.text("system-prompt").map(str::to_owned);
        Some(Self {
            system_prompt,
            skip_permissions: kept["skip-permissions"].as_bool()?,
            tool_server: kept.count("tool-server"),
        })
    }

    /// Adds the flags, and the files for two of them.
    pub(crate) fn flags(&self, arguments: &mut Vec<Value>, out: &mut Vec<Action>) {
        if self.skip_permissions {
            arguments.push(word("--skip-permissions-unsafe"));
        }
        if let Some(text) = &self.system_prompt {
            out.push(Action::PutFile(PutFile {
                name: SYSTEM_PROMPT.to_owned(),
                body: vec![Chunk::Text(text.clone())],
            }));
            // A resumed session does not keep the system prompt, so it is passed each time.
            arguments.extend([
                word("--append-system-prompt-file"),
                Value::File(SYSTEM_PROMPT.to_owned()),
            ]);
        }
        if let Some(session) = self.tool_server {
            out.push(Action::PutFile(PutFile {
                name: SETTINGS.to_owned(),
                body: vec![
                    Chunk::Text(format!(
                        r#"{{"mcp":{{"mcpServers":{{"{TOOL_SERVER}":{{"type":"http","timeout":{CALL_TIMEOUT_MS},"url":""#
                    )),
                    Chunk::ToolServer(session),
                    Chunk::Text(r#""}}}}"#.to_owned()),
                ],
            }));
            arguments.extend([word("--settings"), Value::File(SETTINGS.to_owned())]);
        }
    }
}

/// Returns an argument that the host passes unchanged.
pub(crate) fn word(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// Returns the effort if Droid supports it.
pub(crate) fn effort(settings: &Settings, emit: &mut Emit) -> Option<String> {
    let effort = settings.effort.clone()?;
    if EFFORTS.contains(&effort.as_str()) {
        return Some(effort);
    }
    emit.diagnostic(Level::Warn, format!("Droid has no effort {effort:?}: the default is used"));
    None
}

/// Returns the names of the allowed tools, or an empty list if there is no restriction.
///
/// Unknown names are left out, because a single one makes Droid 0.225.2 exit at once. Rules such as
/// `Execute(git:*)` are also left out, because Droid does not support them and the tool without its
/// rule would allow every command.
pub(crate) fn tools(settings: &Settings) -> Vec<String> {
    let mut tools: Vec<String> = Vec::new();
    for name in
        settings.allowed_tools.iter().filter(|name| !is_rule(name) && tool::TOOLS.knows(name))
    {
        if !tools.contains(name) {
            tools.push(name.clone());
        }
    }
    tools
}

/// Returns whether an entry is a rule that covers only some uses of a tool.
fn is_rule(tool: &str) -> bool {
    tool.contains('(')
}

/// Reports the entries of the allowed tools that Droid does not support: unknown names and rules.
/// Called once for each turn.
///
/// # Errors
/// Fails if no entry is supported, because an empty list would allow all tools.
pub(crate) fn check_tools(settings: &Settings, emit: &mut Emit) -> Result<(), Failure> {
    let (rules, others): (Vec<&str>, Vec<&str>) =
        settings.allowed_tools.iter().map(String::as_str).partition(|name| is_rule(name));
    let unknown: Vec<&str> =
        others.iter().copied().filter(|name| !tool::TOOLS.knows(name)).collect();
    let all = [&rules[..], &unknown[..]].concat();
    if !all.is_empty() && all.len() == settings.allowed_tools.len() {
        let message = format!(
            "Droid has none of the allowed tools ({}); allow some of its own, such as `Read`",
            all.join(", ")
        );
        return Err(failure(FailureKind::Unsupported, message));
    }
    for (names, why) in [
        (unknown, "Droid has no tools with these names"),
        (rules, "Droid does not support rules for parts of a tool"),
    ] {
        if !names.is_empty() {
            emit.diagnostic(
                Level::Warn,
                format!("left out of the allowed tools, as {why}: {}", names.join(", ")),
            );
        }
    }
    Ok(())
}

/// Returns whether a text can be a session id. It must not be a flag or a path.
pub(crate) fn is_session(id: &str) -> bool {
    id.starts_with(|first: char| first.is_ascii_alphanumeric())
        && id.len() <= 128
        && id.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.:".contains(letter))
}

/// Returns the text of a prompt. Files are represented by their paths, and also images unless
/// `takes_images` is true.
///
/// The host escapes a name that must not be expanded as `\@name`. Droid 0.225.2 ignores the
/// backslash and reads the file, so the backslash moves into the name, which then matches no file.
pub(crate) fn prompt(parts: &[Part], takes_images: bool) -> String {
    let text = |part: &Part| match part {
        Part::Text(text) => Some(text.replace("\\@", "@\\")),
        Part::Image(file) if takes_images && is_image(file) => None,
        Part::Image(file) | Part::File(file) => Some(named(file)),
    };
    parts.iter().filter_map(text).collect::<Vec<_>>().join("\n\n")
}

/// Returns the images of a prompt in formats that Droid supports.
pub(crate) fn images(parts: &[Part]) -> Vec<Attachment> {
    let image = |part: &Part| {
        if let Part::Image(file) = part { Some(file.clone()).filter(is_image) } else { None }
    };
    parts.iter().filter_map(image).collect()
}

fn is_image(file: &Attachment) -> bool {
    matches!(file.media_type.as_str(), "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

fn named(file: &Attachment) -> String {
    format!(
        "[Attached file: {} ({}, {} bytes) at {}]",
        file.name, file.media_type, file.size, file.path
    )
}
