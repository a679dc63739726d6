//! The messages to `codex app-server`, in its words: settings, prompts and their threads.

use aetheel_backend_sdk::wit::{Action, Chunk, Mode, Part, Safety, Settings, Write};
use serde_json::{Map, Value, json};

use crate::limits::{self, Limits};
use crate::prompt;

/// Stands around the number of a blob in a line that is not cut into chunks yet. JSON texts never
/// hold it: what people write has it as `\u0001`.
const BLOB: char = '\u{1}';

/// Keeps commands that may write in the working directory out of `/tmp`, which is everybody's:
/// `$TMPDIR` is their own.
pub(crate) const OWN_TEMPORARY_FOLDER: (&str, bool) =
    ("sandbox_workspace_write.exclude_slash_tmp", true);

/// The rules for the agent's actions, in Codex' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) approval: &'static str,
    pub(crate) sandbox: &'static str,
}

impl Policy {
    /// `on-request` asks when the sandbox is in the way: of commands that do more than look, and of
    /// changes of files, where it is read-only. (`untrusted` asks before every command, also `ls`,
    /// in 0.169.0.) What cannot be asked in `plan` cannot be allowed by mistake either.
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

    /// Finds one by the words it was saved with.
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

    /// The sandbox as a turn changes it; threads take its name.
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

/// The settings of a thread: as it was opened, and as turns changed it since. Changes last.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InForce {
    pub(crate) policy: Policy,
    pub(crate) cwd: String,
    pub(crate) model: Option<String>,
    pub(crate) effort: Option<String>,
    /// Codex' own mode for planning, in which it may ask questions.
    pub(crate) plan: bool,
    /// The thread has them to its end.
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

/// Parameters that open a thread: `thread/start`, and with an id `thread/resume` and `thread/fork`.
pub(crate) fn open(settings: &Settings, cwd: &str, thread: Option<&str>) -> Value {
    let policy = Policy::of(settings);
    let mut params =
        json!({ "cwd": cwd, "approvalPolicy": policy.approval, "sandbox": policy.sandbox });
    let (text, _) = prompt::instructions(settings);
    // Not kept with a thread: one that is resumed would have all tools again.
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

/// Parameters of `turn/start`: the prompt, and what the thread has to go by from now on. `model`
/// and `effort` are the thread's own, for going back to them.
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
    // No effort at all changes nothing where it stands alone, but is the default in here (seen in
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
    // The input may hold places of blobs, which JSON could not.
    format!("{},\"input\":{input}}}", params.strip_suffix('}').expect("an object ends so"))
}

/// Returns a prompt as JSON, with the places of its images, after a text that goes before it.
pub(crate) fn input(before: Option<&str>, parts: &[Part]) -> String {
    let text =
        |text: &str| json!({ "type": "text", "text": text, "text_elements": [] }).to_string();
    let mut items: Vec<String> = before.map(text).into_iter().collect();
    for part in parts {
        items.push(match part {
            Part::Image(image) => {
                let url = json!(format!("data:{};base64,", image.media_type)).to_string();
                let url = url.strip_suffix('"').expect("a JSON string ends so");
                format!("{{\"type\":\"image\",\"url\":{url}{BLOB}{}{BLOB}\"}}", image.blob)
            }
            part => text(&prompt::text(part)),
        });
    }
    format!("[{}]", items.join(","))
}

/// Puts the bytes of blobs where a line that was just written has their places.
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
