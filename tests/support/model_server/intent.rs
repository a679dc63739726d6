//! Things that the model wants to do, expressed with the tools that each agent offers.

use serde_json::{Value, json};

/// An action for which every agent has a tool, under its own name.
#[derive(Clone)]
pub enum Intent {
    /// Run a command line.
    Shell(String),
    /// Run a command line outside the agent's sandbox, if it has one. A user must then be asked.
    Unboxed(String),
    /// Write a new file: path, content.
    Write(String, String),
    /// Replace text in a file: path, old, new.
    Edit(String, String, String),
    /// Read a file.
    Read(String),
    /// Ask the user a question: question, choices.
    Ask(String, Vec<String>),
    /// Call a tool of the gateway: name, input.
    Host(String, Value),
}

/// A tool call in the form of an API.
#[derive(Debug, PartialEq)]
pub(super) struct Call {
    pub(super) name: String,
    /// The group of the tool in the Responses API.
    pub(super) namespace: Option<&'static str>,
    pub(super) input: Input,
}

#[derive(Debug, PartialEq)]
pub(super) enum Input {
    Json(Value),
    /// Codex's `apply_patch` takes plain text.
    Plain(String),
}

impl Intent {
    /// Runs a command line.
    pub fn shell(command: &str) -> Self {
        Self::Shell(command.to_owned())
    }

    /// Runs a command line for which a user must be asked.
    pub fn unboxed(command: &str) -> Self {
        Self::Unboxed(command.to_owned())
    }

    /// Writes a new file.
    pub fn write(path: &str, content: &str) -> Self {
        Self::Write(path.to_owned(), content.to_owned())
    }

    /// Replaces text in a file.
    pub fn edit(path: &str, old: &str, new: &str) -> Self {
        Self::Edit(path.to_owned(), old.to_owned(), new.to_owned())
    }

    /// Reads a file.
    pub fn read(path: &str) -> Self {
        Self::Read(path.to_owned())
    }

    /// Asks the user a question with these choices.
    pub fn ask(question: &str, choices: &[&str]) -> Self {
        Self::Ask(question.to_owned(), choices.iter().map(|choice| (*choice).to_owned()).collect())
    }

    /// Calls a tool of the gateway. Agents add a prefix to its name.
    pub fn host(name: &str, input: Value) -> Self {
        Self::Host(name.to_owned(), input)
    }

    /// Returns the tool call for the tools that the agent offers: Claude Code 2.1.197, Codex
    /// 0.169.0, Gemini CLI 0.61.0, OpenCode 1.18.33, Droid 0.225.2, Qwen Code 0.24.4. If no tool
    /// fits, uses the name of Claude Code's tool, which the agent then refuses as unknown.
    pub(super) fn call(&self, offered: &[String]) -> Call {
        let has = |name: &str| offered.iter().any(|tool| tool == name);
        let droid = has("Execute") || has("AskUser") || has("Create");
        let codex = has("exec_command") || has("apply_patch");
        let gemini = has("run_shell_command") || has("read_file") || has("write_file");
        let opencode = has("bash") || has("read") || has("todowrite");
        let (name, input) = match self {
            // claude-agent-acp 0.101.0, Droid and Codex offer tools of MCP servers only in a text or
            // after a search, but accept a call without it.
            Self::Host(name, input) => {
                let found = offered.iter().find(|tool| tool.ends_with(name)).cloned();
                let namespace = (found.is_none() && codex).then_some("mcp__aetheel");
                let claude = !droid && (has("Bash") || has("Write"));
                let hidden = match has("ToolSearch") {
                    true if claude => format!("mcp__aetheel__{name}"),
                    searches if searches || droid => format!("aetheel___{name}"),
                    _ => name.clone(),
                };
                let name = found.unwrap_or(hidden);
                return Call { name, namespace, input: Input::Json(input.clone()) };
            }

            Self::Shell(command) if droid => (
                "Execute",
                json!({"command": command, "summary": "scripted", "riskLevel": "medium", "riskLevelReason": "scripted"}),
            ),
            Self::Shell(command) if codex => ("exec_command", json!({"cmd": command})),
            Self::Unboxed(command) if codex => (
                "exec_command",
                json!({"cmd": command, "sandbox_permissions": "require_escalated", "justification": "scripted"}),
            ),
            Self::Unboxed(command) => return Self::shell(command).call(offered),
            Self::Shell(command) if gemini => {
                ("run_shell_command", json!({"command": command, "description": "scripted"}))
            }
            Self::Shell(command) if opencode => {
                ("bash", json!({"command": command, "description": "scripted"}))
            }
            Self::Shell(command) => {
                ("Bash", json!({"command": command, "description": "scripted"}))
            }

            Self::Write(path, content) if droid => {
                ("Create", json!({"file_path": path, "content": content}))
            }
            Self::Write(path, content) if codex => {
                return patch(&format!("*** Add File: {path}\n{}", prefixed('+', content)));
            }
            Self::Write(path, content) if gemini => {
                ("write_file", json!({"file_path": path, "content": content}))
            }
            Self::Write(path, content) if opencode => {
                ("write", json!({"filePath": path, "content": content}))
            }
            Self::Write(path, content) => ("Write", json!({"file_path": path, "content": content})),

            Self::Edit(path, old, new) if droid => {
                ("Edit", json!({"file_path": path, "old_str": old, "new_str": new}))
            }
            Self::Edit(path, old, new) if codex => {
                return patch(&format!(
                    "*** Update File: {path}\n@@\n{}{}",
                    prefixed('-', old),
                    prefixed('+', new)
                ));
            }
            Self::Edit(path, old, new) if gemini => (
                "replace",
                json!({"file_path": path, "instruction": "scripted", "old_string": old, "new_string": new}),
            ),
            Self::Edit(path, old, new) if opencode => {
                ("edit", json!({"filePath": path, "oldString": old, "newString": new}))
            }
            Self::Edit(path, old, new) => {
                ("Edit", json!({"file_path": path, "old_string": old, "new_string": new}))
            }

            Self::Read(path) if codex => ("exec_command", json!({"cmd": format!("cat {path}")})),
            Self::Read(path) if gemini => ("read_file", json!({"file_path": path})),
            Self::Read(path) if opencode => ("read", json!({"filePath": path})),
            Self::Read(path) => ("Read", json!({"file_path": path})),

            Self::Ask(question, choices) if droid => {
                let options: String =
                    choices.iter().map(|choice| format!("[option] {choice}\n")).collect();
                (
                    "AskUser",
                    json!({"questionnaire": format!("1. [question] {question}\n[topic] Choice\n{options}")}),
                )
            }
            Self::Ask(question, choices) => {
                let options: Vec<Value> = choices
                    .iter()
                    .map(|choice| json!({"label": choice, "description": choice}))
                    .collect();
                let mut asked =
                    json!({"question": question, "header": "Choice", "options": options});
                if codex {
                    asked["id"] = json!("choice");
                    ("request_user_input", json!({"questions": [asked]}))
                } else if gemini {
                    asked["type"] = json!("choice");
                    ("ask_user", json!({"questions": [asked]}))
                } else if opencode {
                    ("question", json!({"questions": [asked]}))
                } else {
                    asked["multiSelect"] = json!(false);
                    ("AskUserQuestion", json!({"questions": [asked]}))
                }
            }
        };
        Call { name: name.to_owned(), namespace: None, input: Input::Json(input) }
    }
}

impl Input {
    /// Returns the input as JSON text, or plain text unchanged.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Json(value) => value.to_string(),
            Self::Plain(text) => text.clone(),
        }
    }
}

fn patch(change: &str) -> Call {
    Call {
        name: "apply_patch".to_owned(),
        namespace: None,
        input: Input::Plain(format!("*** Begin Patch\n{change}*** End Patch\n")),
    }
}

fn prefixed(mark: char, text: &str) -> String {
    text.lines().map(|line| format!("{mark}{line}\n")).collect()
}
