//! Builds messages to `codex app-server`: settings, prompts and threads.

use aetheel_backend_sdk::wit::{Action, Chunk, Mode, Part, Safety, Settings, Write};
use serde_json::{Map, Value, json};

use crate::limits::{self, Limits};
use crate::prompt;

/// Delimits the number of a blob in a line that is not split into chunks yet. JSON text never
/// contains it, because a string has it as `\u0001`.
const BLOB: char = '\u{1}';

/// Keeps commands that may write in the working directory out of `/tmp`, which all users share;
/// they have their own `$TMPDIR`.
pub(crate) const OWN_TEMPORARY_FOLDER: (&str, bool) =
    ("sandbox_workspace_write.exclude_slash_tmp", true);

/// Codex's names of the approval policy and the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) approval: &'static str,
    pub(crate) sandbox: &'static str,
}

impl Policy {
    /// Returns the policy for the settings. `on-request` asks when the sandbox prevents an action:
    /// commands that do more than read, and file changes in a read-only sandbox. (`untrusted` asks
    /// before every command, even `ls`, in 0.169.0.) In `plan` nothing is asked, so nothing can be
    /// allowed by mistake.
    pub(crate) fn of(settings: &Settings) -> Self {
        let (approval, sandbox) = match (settings.mode, settings.safety) {
            _ if !limits::may_write(settings) => ("never", "read-only"),
            (Mode::Plan, _) => ("never", "read-only"),
            (Mode::Build, Safety::Default) => ("on-request", "read-only"),
            (Mode::Build, Safety::Edit) => ("on-request", "workspace-write"),
            (Mode::Build, Safety::Danger) => ("never", "danger-full-access"),
        };
        Self { approval, sandbox }
    }

    /// Finds a policy by its saved names.
    pub(crate) fn named(approval: &str, sandbox: &str) -> Option<Self> {
        let all = [
            ("never", "read-only"),
            ("on-request", "read-only"),
            ("on-request", "workspace-write"),
            ("never", "danger-full-access"),
        ];
        all.into_iter()
            .find(|known| *known == (approval, sandbox))
            .map(|(approval, sandbox)| Self { approval, sandbox })
    }

    /// Returns the sandbox as `turn/start` sets it; threads take its name.
    fn sandbox_policy(self) -> Value {
        match self.sandbox {
            "danger-full-access" => json!({ "type": "dangerFullAccess" }),
            "read-only" => json!({ "type": "readOnly", "networkAccess": false }),
            _ => json!({
                "type": "workspaceWrite", "writableRoots": [], "networkAccess": false, "excludeTmpdirEnvVar": false, "excludeSlashTmp": true
            }),
        }
    }
}

/// The settings of a thread, as it was opened and as turns have changed them since.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InForce {
    pub(crate) policy: Policy,
    pub(crate) cwd: String,
    pub(crate) model: Option<String>,
    pub(crate) effort: Option<String>,
    /// Whether Codex's own planning mode is on, in which it may ask questions.
    pub(crate) plan: bool,
    /// Fixed until the end of the thread.
    pub(crate) limits: Limits,
}

impl InForce {
    pub(crate) fn of(settings: &Settings, cwd: &str) -> Self {
        Self {
            policy: Policy::of(settings),
            cwd: cwd.to_owned(),
            model: settings.model.clone(),
            effort: settings.effort.clone(),
            plan: settings.mode == Mode::Plan,
            limits: Limits::of(settings),
        }
    }
}

/// Returns the parameters that open a thread: `thread/start`, or with an id `thread/resume` and
/// `thread/fork`.
pub(crate) fn open(settings: &Settings, cwd: &str, thread: Option<&str>) -> Value {
    let policy = Policy::of(settings);
    let mut params =
        json!({ "cwd": cwd, "approvalPolicy": policy.approval, "sandbox": policy.sandbox });
    let (text, _) = prompt::instructions(settings);
    // Codex does not store these settings: without them, a resumed thread would have all tools.
    let mut config = Limits::of(settings).config().unwrap_or_else(|| json!({}));
    if policy.sandbox == "workspace-write" {
        let (key, value) = OWN_TEMPORARY_FOLDER;
        config[key] = json!(value);
    }
    for (key, value) in prompt::own_settings(settings) {
        config[key] = json!(value);
    }
    if config != json!({}) {
        params["config"] = config;
    }
    match thread {
        Some(thread) => {
            params["threadId"] = json!(thread);
            params["excludeTurns"] = json!(true);
        }
        None if !text.is_empty() => params["developerInstructions"] = json!(text),
        None => {}
    }
    params
}

/// Returns the parameters of `turn/start`: the prompt and the changed settings. `model` and
/// `effort` are the thread's defaults, used to restore them.
pub(crate) fn begin(
    thread: &str,
    now: &InForce,
    wanted: &InForce,
    own: (Option<&str>, Option<&str>),
    input: &str,
) -> String {
    let mut params = Map::new();
    params.insert("threadId".to_owned(), json!(thread));
    if wanted.policy != now.policy {
        params.insert("approvalPolicy".to_owned(), json!(wanted.policy.approval));
        params.insert("sandboxPolicy".to_owned(), wanted.policy.sandbox_policy());
    }
    if wanted.cwd != now.cwd {
        params.insert("cwd".to_owned(), json!(wanted.cwd));
    }
    let model = wanted.model.as_deref().or(own.0);
    let effort = wanted.effort.as_deref().or(own.1);
    if wanted.model != now.model {
        params.insert("model".to_owned(), json!(model));
    }
    if wanted.effort.is_some() && wanted.effort != now.effort {
        params.insert("effort".to_owned(), json!(effort));
    }
    // A null effort changes nothing at the top level, but restores the default in here (observed in
    // 0.169.0).
    let back = wanted.effort.is_none() && now.effort.is_some();
    if let Some(model) = model
        && (back || wanted.plan != now.plan)
    {
        let settings =
            json!({ "model": model, "reasoning_effort": effort, "developer_instructions": null });
        params.insert(
            "collaborationMode".to_owned(),
            json!({ "mode": if wanted.plan { "plan" } else { "default" }, "settings": settings }),
        );
    }
    let params = Value::Object(params).to_string();
    // The input may contain blob markers, which a JSON value cannot.
    format!(
        "{},\"input\":{input}}}",
        params.strip_suffix('}').expect("an object ends with a brace")
    )
}

/// Returns a prompt as JSON with markers for its images, after an optional text.
pub(crate) fn input(before: Option<&str>, parts: &[Part]) -> String {
    let text =
        |text: &str| json!({ "type": "text", "text": text, "text_elements": [] }).to_string();
    let mut items: Vec<String> = before.map(text).into_iter().collect();
    for part in parts {
        items.push(match part {
            Part::Image(image) => {
                let url = json!(format!("data:{};base64,", image.media_type)).to_string();
                let url = url.strip_suffix('"').expect("a JSON string ends with a quote");
                format!("{{\"type\":\"image\",\"url\":{url}{BLOB}{}{BLOB}\"}}", image.blob)
            }
            part => text(&prompt::text(part)),
        });
    }
    format!("[{}]", items.join(","))
}

/// Replaces the blob markers in the last written line by the bytes.
pub(crate) fn fill_blobs(out: &mut [Action]) {
    let Some(Action::Write(Write { body, .. })) = out.last_mut() else { return };
    let [Chunk::Text(line)] = &body[..] else { return };
    if line.contains(BLOB) {
        let pieces = line.split(BLOB).enumerate();
        *body = pieces
            .map(|(at, piece)| match piece.parse() {
                Ok(blob) if at % 2 == 1 => Chunk::Base64(blob),
                _ => Chunk::Text(piece.to_owned()),
            })
            .collect();
    }
}
