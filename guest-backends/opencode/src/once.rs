//! One `opencode run` for each turn. It prints each part once, when the part is complete, and no
//! final result: the turn ends with an error, or with a model request whose finish reason is not
//! tool calls.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::one_shot::{Agent, spawn};
use aetheel_backend_sdk::wit::{
    Action, Chunk, Failure, FailureKind, Level, Line, Outcome, PutFile, Safety, Spawn, StartTurn,
    Value as Argument, Variable,
};
use aetheel_backend_sdk::{Emit, TurnResult, failure};

use crate::parts::Parts;
use crate::{failure, prompt, safety, todo, tool_server};

const CONFIG: &str = "opencode.json";
const SYSTEM_PROMPT: &str = "system-prompt.md";
/// The environment variable with the path of the system prompt's file. The configuration refers to
/// it, because the host decides the path.
const SYSTEM_PROMPT_VARIABLE: &str = "AETHEEL_SYSTEM_PROMPT";
const EFFORTS: [&str; 6] = ["minimal", "low", "medium", "high", "xhigh", "max"];

/// One turn with `opencode run`.
#[derive(Debug, Default)]
pub struct Once {
    resumed: Option<String>,
    session: Option<String>,
    model: Option<String>,
    error: Option<Failure>,
    parts: Parts,
}

impl Agent for Once {
    fn describe() -> String {
        include_str!("descriptor.json").to_owned()
    }

    fn plan(&mut self, start: StartTurn, emit: &mut Emit) -> Result<Spawn, Failure> {
        if prompt::is_empty(&start.parts) {
            return Err(prompt::nothing());
        }
        let settings = &start.settings;
        let mut words =
            vec!["run", "--format", "json", "--thinking", "--agent", prompt::agent(settings.mode)];
        if settings.safety == Safety::Danger
            && settings.mode == aetheel_backend_sdk::wit::Mode::Build
        {
            words.push("--auto");
        }
        if let Some(model) = &settings.model {
            prompt::model(model)?;
            words.extend(["--model", model]);
        }
        match settings.effort.as_deref() {
            Some(effort) if EFFORTS.contains(&effort) => words.extend(["--variant", effort]),
            Some(effort) => emit.diagnostic(
                Level::Warn,
                format!("OpenCode has no effort {effort:?}: the default is used"),
            ),
            None => {}
        }
        if let Some(id) = &start.native_id {
            if !prompt::is_session(id) {
                return Err(failure(
                    FailureKind::SessionUnknown,
                    "the session id is not one of OpenCode",
                ));
            }
            words.extend(["--session", id]);
            if start.fork {
                words.push("--fork");
            }
        }
        let text = |text: &str| Argument::Text(text.to_owned());
        let server = (!start.tools.is_empty()).then_some(tool_server::ONCE);
        let mut environment = vec![("OPENCODE_DISABLE_AUTOUPDATE", text("1"))];
        environment.extend(
            safety::of_run(settings, server)
                .map(|rules| ("OPENCODE_PERMISSION", Argument::Text(rules))),
        );
        let mut config = Vec::new();
        if let Some(system) = settings.system_prompt.as_ref().filter(|text| !text.is_empty()) {
            put_file(SYSTEM_PROMPT, vec![Chunk::Text(system.clone())], emit);
            environment.push((SYSTEM_PROMPT_VARIABLE, Argument::File(SYSTEM_PROMPT.to_owned())));
            let instructions = format!("\"instructions\":[\"{{env:{SYSTEM_PROMPT_VARIABLE}}}\"]");
            config.push(vec![Chunk::Text(instructions)]);
        }
        if let Some(server) = server {
            let mut entry = vec![Chunk::Text(format!("\"mcp\":{{\"{server}\":"))];
            entry.extend(tool_server::entry(start.session));
            entry.push(Chunk::Text("}".to_owned()));
            config.push(entry);
        }
        if !config.is_empty() {
            let text = |text: &str| vec![Chunk::Text(text.to_owned())];
            put_file(CONFIG, [text("{"), config.join(&text(",")[..]), text("}")].concat(), emit);
            environment.push(("OPENCODE_CONFIG", Argument::File(CONFIG.to_owned())));
            emit.diagnostic(
                Level::Info,
                "in one-shot runs, the system prompt and the tools of the host replace \
                 OPENCODE_CONFIG: use `~/.config/opencode/opencode.json` or \
                 OPENCODE_CONFIG_CONTENT instead of it",
            );
        }
        let environment = environment
            .into_iter()
            .map(|(name, value)| Variable { name: name.to_owned(), value })
            .collect();
        let plan = spawn(
            "opencode",
            words.into_iter().map(text),
            vec![Chunk::Text(prompt::text(&start.parts))],
        );
        self.resumed = start.native_id.filter(|_| !start.fork);
        self.model = start.settings.model;
        Ok(Spawn { environment, ..plan })
    }

    fn line(&mut self, line: Line, emit: &mut Emit) -> Option<TurnResult> {
        let message = emit.object(&line)?;
        self.message(&message, line.text.trim(), emit)
    }

    fn failure(&mut self, stderr: &str) -> Failure {
        self.error.take().unwrap_or_else(|| {
            // `Error: …`, with a terminal escape sequence if the host did not remove it.
            let said = stderr
                .lines()
                .rev()
                .find_map(|line| line.split_once("Error: "))
                .map_or(stderr, |(_, said)| said);
            failure::of_words(said.trim_start_matches("\u{1b}[0m"))
        })
    }
}

fn put_file(name: &str, body: Vec<Chunk>, emit: &mut Emit) {
    emit.action(Action::PutFile(PutFile { name: name.to_owned(), body }));
}

impl Once {
    fn message(&mut self, message: &Value, raw: &str, emit: &mut Emit) -> Option<TurnResult> {
        if let Some(session) = message.text("sessionID")
            && self.session.is_none()
        {
            self.session = Some(session.to_owned());
            emit.session_ready(session, self.model.clone());
            if self.resumed.as_deref().is_some_and(|resumed| resumed != session) {
                emit.notice("OpenCode began a new session: the earlier conversation is lost");
            }
        }
        emit.required_id(message, "sessionID", raw);
        let part = &message["part"];
        match message.text("type") {
            Some("step_start" | "text" | "reasoning" | "tool_use") => {
                self.parts.part(part, None, emit);
                if part.text("tool") == Some("todowrite")
                    && part["state"].text("status") == Some("completed")
                {
                    emit.plan(todo::plan(part["state"]["input"].list("todos")));
                }
                None
            }
            Some("step_finish") => {
                self.parts.part(part, None, emit);
                let outcome = match emit.required_id(part, "part.reason", raw) {
                    "" => return None,
                    "tool-calls" | "unknown" => return None,
                    // An error with the provider's message follows.
                    "content-filter" => Outcome::Failed(failure::filtered()),
                    _ => Outcome::Completed,
                };
                let text = if outcome == Outcome::Completed { self.parts.answer() } else { None };
                Some(TurnResult { outcome, text, usage: self.parts.usage() })
            }
            Some("error") => {
                let failure = failure::of_error(&message["error"]);
                self.error = Some(failure.clone());
                // OpenCode compacts the conversation and continues.
                let last = failure.kind != FailureKind::ContextFull;
                last.then(|| TurnResult {
                    outcome: Outcome::Failed(failure),
                    text: None,
                    usage: self.parts.usage(),
                })
            }
            kind => {
                emit.unrecognised(
                    format!("line type {:?}", kind.unwrap_or("none")),
                    Some("type".to_owned()),
                    raw,
                );
                None
            }
        }
    }
}
