//! `codex exec --json`: one process per turn.
//!
//! The prompt is written to stdin, which the argument `-` selects, and the system prompt precedes
//! it: Codex 0.169.0 accepts a system prompt only from an argument, which every user of the machine
//! can read, or from its own folder, which belongs to the operator.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::one_shot::{Agent, spawn};
use aetheel_backend_sdk::wit::{
    Chunk, Failure, FailureKind, Level, Line, Mode, Outcome, Safety, Settings, Spawn, StartTurn,
    Value as Argument,
};
use aetheel_backend_sdk::{Emit, TurnResult};

use crate::limits::{self, Limits};
use crate::live::OWN_TEMPORARY_FOLDER;
use crate::native_id::NativeId;
use crate::story::{ItemStage, Story};
use crate::tokens::Tokens;
use crate::{failure, prompt};

/// A turn of `codex exec`.
#[derive(Debug, Default)]
pub struct Once {
    story: Story,
    /// The requested thread, and whether to continue a copy of it.
    requested: Option<(NativeId, bool)>,
    /// The thread that Codex reported.
    thread: Option<NativeId>,
    prompt_hash: u64,
    model: Option<String>,
    error: Option<String>,
}

impl Agent for Once {
    fn describe() -> String {
        include_str!("descriptor.json").to_owned()
    }

    fn plan(&mut self, start: StartTurn, emit: &mut Emit) -> Result<Spawn, Failure> {
        prompt::check(&start.parts)?;
        if let Some(id) = &start.native_id {
            // Codex silently begins a new thread if this is not a UUID.
            let Some(id) = NativeId::parse(id) else {
                let message = "the session id is not one of Codex".to_owned();
                return Err(Failure {
                    kind: FailureKind::SessionUnknown,
                    message,
                    retry_after_ms: None,
                });
            };
            self.requested = Some((id, start.fork));
        }
        let settings = &start.settings;
        self.prompt_hash = prompt::instructions(settings).1;
        self.model.clone_from(&settings.model);
        let mut arguments = vec!["exec".to_owned()];
        // Below `danger`, the sandbox decides without questions. `resume` and `fork` do not accept
        // the flag.
        let sandbox = sandbox(settings);
        arguments
            .extend(sandbox.iter().flat_map(|sandbox| ["-s".to_owned(), (*sandbox).to_owned()]));
        match &self.requested {
            Some((_, true)) => arguments.push("fork".to_owned()),
            Some(_) => arguments.push("resume".to_owned()),
            None => {}
        }
        arguments.extend(["--json", "--skip-git-repo-check"].map(str::to_owned));
        if sandbox.is_none() {
            arguments.push("--dangerously-bypass-approvals-and-sandbox".to_owned());
        }
        if let Some(model) = &settings.model {
            arguments.extend(["-m".to_owned(), model.clone()]);
        }
        match &settings.effort {
            Some(effort) if effort.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                arguments.extend(["-c".to_owned(), format!("model_reasoning_effort={effort}")]);
            }
            Some(effort) => emit.diagnostic(
                Level::Warn,
                format!("Codex has no effort {effort:?}: the default is used"),
            ),
            None => {}
        }
        if sandbox == Some("workspace-write") {
            let (key, value) = OWN_TEMPORARY_FOLDER;
            arguments.extend(["-c".to_owned(), format!("{key}={value}")]);
        }
        let own = prompt::own_settings(settings);
        arguments.extend(
            own.into_iter().flat_map(|(key, value)| ["-c".to_owned(), format!("{key}={value}")]),
        );
        arguments.extend(Limits::of(settings).arguments());
        let prompt_hash = self.requested.as_ref().and_then(|(id, _)| id.prompt_hash);
        let stdin: Vec<String> = prompt::change(settings, prompt_hash)
            .into_iter()
            .chain(start.parts.iter().map(prompt::text))
            .collect();
        arguments.push("--".to_owned());
        arguments.extend(self.requested.iter().map(|(id, _)| id.thread.clone()));
        arguments.push("-".to_owned());
        Ok(spawn(
            "codex",
            arguments.into_iter().map(Argument::Text),
            vec![Chunk::Text(stdin.join("\n\n"))],
        ))
    }

    fn line(&mut self, line: Line, emit: &mut Emit) -> Option<TurnResult> {
        let event = emit.object(&line)?;
        match event.text("type") {
            Some("thread.started") => {
                let thread = emit.required_id(&event, "thread_id", &line.text);
                self.thread(thread, emit);
            }
            Some("turn.started") => {}
            Some("item.started") => drop(self.story.item(&event["item"], ItemStage::Started, emit)),
            Some("item.updated") => drop(self.story.item(&event["item"], ItemStage::Updated, emit)),
            Some("item.completed") => {
                self.story.item(&event["item"], ItemStage::Completed, emit);
            }
            Some("error") => {
                let message = emit.required_text(&event, "message", &line.text);
                match failure::retry(message) {
                    Some(kind) => emit.retry(kind, message, None),
                    None => self.error = Some(message.to_owned()),
                }
            }
            Some("turn.completed") => {
                let usage = emit.required_object(&event, "usage", &line.text);
                return Some(self.completed(usage, emit));
            }
            Some("turn.failed") => {
                self.story.end(emit);
                emit.required_text(&event["error"], "error.message", &line.text);
                let error = event["error"].text("message").map(str::to_owned);
                let message = error
                    .or_else(|| self.error.clone())
                    .unwrap_or_else(|| "the turn failed".to_owned());
                return Some(TurnResult {
                    outcome: failure::outcome(&message, &Value::Null),
                    text: None,
                    usage: None,
                });
            }
            Some(kind) => emit.unrecognised(
                format!("line type {kind:?}"),
                Some("type".to_owned()),
                &line.text,
            ),
            None => emit.unrecognised("line without a type", Some("type".to_owned()), &line.text),
        }
        None
    }

    fn failure(&mut self, stderr: &str) -> Failure {
        let lines: Vec<&str> =
            stderr.lines().filter(|line| !line.starts_with("Reading ")).collect();
        let message = self.error.clone().unwrap_or_else(|| lines.join("\n"));
        failure::failure(message.trim_start_matches("Error: "), &Value::Null)
    }
}

impl Once {
    fn thread(&mut self, thread: &str, emit: &mut Emit) {
        if thread.is_empty() || self.thread.is_some() {
            return;
        }
        if let Some((requested, false)) = &self.requested
            && requested.thread != thread
        {
            emit.notice("Codex could not continue the conversation and began a new one.");
            self.requested = None;
        }
        let before =
            self.requested.as_ref().map_or_else(|| NativeId::bare(thread), |(id, _)| id.clone());
        let id =
            NativeId { thread: thread.to_owned(), prompt_hash: Some(self.prompt_hash), ..before };
        emit.session_ready(id.to_string(), self.model.clone());
        self.thread = Some(id);
    }

    /// Codex reports the sums of the whole thread. The usage of the turn is known only if the
    /// earlier sums are.
    fn completed(&mut self, sums: &Value, emit: &mut Emit) -> TurnResult {
        self.story.end(emit);
        let sums = Tokens::read(sums);
        let before = match &self.requested {
            Some((id, _)) => id.spent,
            None => Some(Tokens::default()),
        };
        if let Some(id) = &mut self.thread
            && id.spent != Some(sums)
        {
            id.spent = Some(sums);
            emit.session_ready(id.to_string(), self.model.clone());
        }
        let usage = before.and_then(|before| sums.since(before)).map(Tokens::usage);
        TurnResult { outcome: Outcome::Completed, text: self.story.answer.last(), usage }
    }
}

/// Returns the sandbox mode, or `None` to run without a sandbox.
fn sandbox(settings: &Settings) -> Option<&'static str> {
    match (settings.mode, settings.safety) {
        _ if !limits::may_write(settings) => Some("read-only"),
        (Mode::Plan, _) | (Mode::Build, Safety::Default) => Some("read-only"),
        (Mode::Build, Safety::Edit) => Some("workspace-write"),
        (Mode::Build, Safety::Danger) => None,
    }
}
