//! One process for each turn: `droid exec` that prints JSON lines.
//!
//! A one-shot run cannot ask for permissions, and Droid relies on the *model's* statement about
//! which actions have low risk. Therefore, below `danger` it only gets tools that are safe for the
//! level. The level `edit` cannot be limited to the working directory.

use aetheel_backend_sdk::json::Value as Json;
use aetheel_backend_sdk::one_shot::{Agent, spawn};
use aetheel_backend_sdk::wit::{
    Chunk, Failure, FailureKind, Line, Mode, Outcome, Safety, Settings, Signal, Spawn, StartTurn,
    Value,
};
use aetheel_backend_sdk::{Emit, TOOL_SERVER, TurnResult, failure};

use crate::answer::{Answer, Holds, REMINDED};
use crate::plan::{self, EDITING, Fixed, READING, word};
use crate::{failure, tool, usage};

/// Precedes a prompt that must only be planned, if Droid is not in its planning mode.
const PLAN_ONLY: &str = "<planning>\nThis message is for planning only: look around, work out what is to be done, and answer with the plan. \
    Nothing can be changed now. This note was not written by the people you talk with; their message follows.\n</planning>\n\n";

/// One turn with `droid exec`.
#[derive(Debug, Default)]
pub struct Once {
    resumed: Option<String>,
    fork: bool,
    started: bool,
    answer: Answer,
    /// The ids of the model's messages in this run.
    rounds: Vec<String>,
    /// The last error of the model provider.
    error: Option<String>,
    /// The files that tools announced to write, by tool use.
    writes: Vec<(String, aetheel_backend_sdk::wit::FileDiff)>,
}

impl Agent for Once {
    /// On SIGINT and SIGTERM, Droid 0.225.2 only ends its current command, asks the model again,
    /// and reports success. The session of a killed process can be resumed.
    const INTERRUPT: Signal = Signal::Kill;

    fn describe() -> String {
        include_str!("descriptor.json").to_owned()
    }

    fn plan(&mut self, mut start: StartTurn, emit: &mut Emit) -> Result<Spawn, Failure> {
        let mut prompt = plan::prompt(&start.parts, false);
        // For an empty prompt, Droid 0.225.2 exits with code 1 and prints nothing.
        if prompt.trim().is_empty() {
            return Err(failure(FailureKind::BadRequest, "the prompt is empty"));
        }
        if start.settings.mode == Mode::Plan {
            // A call of a tool of an MCP server ends a run that only plans.
            start.tools.clear();
        }
        let fixed = Fixed::of(&start);
        let settings = start.settings;
        plan::check_tools(&settings, emit)?;
        let mut arguments: Vec<Value> =
            ["exec", "--output-format", "stream-json"].map(word).to_vec();
        let mut files = Vec::new();
        fixed.flags(&mut arguments, &mut files);
        files.into_iter().for_each(|file| emit.action(file));
        let mut option =
            |flag: &str, value: String| arguments.extend([word(flag), Value::Text(value)]);
        match offered(&settings)? {
            Some(mut tools) => {
                tools.extend(tool::of_host(&start.tools));
                option("--only-tools", tools.join(","));
            }
            // Otherwise Droid does not wait for the server, so the model may not know its tools.
            None if !start.tools.is_empty() => option("--add-tools", format!("MCP:{TOOL_SERVER}")),
            None => {}
        }
        if let Some(id) = start.native_id {
            if !plan::is_session(&id) {
                return Err(failure(
                    FailureKind::SessionUnknown,
                    "the session id is not one of Droid",
                ));
            }
            option(if start.fork { "--fork" } else { "--session-id" }, id.clone());
            (self.resumed, self.fork) = (Some(id), start.fork);
        }
        if let Some(model) = settings.model.clone() {
            option("--model", model);
        }
        if let Some(effort) = plan::effort(&settings, emit) {
            option("--reasoning-effort", effort);
        }
        match (settings.mode, settings.safety) {
            // Droid's planning mode works only for new sessions. Without it, the model still has no
            // tools that change anything.
            (Mode::Plan, _) if self.resumed.is_some() => prompt.insert_str(0, PLAN_ONLY),
            (Mode::Plan, _) => arguments.push(word("--use-spec")),
            (Mode::Build, Safety::Edit) => arguments.extend(["--auto", "low"].map(word)),
            (Mode::Build, Safety::Default | Safety::Danger) => {}
        }
        Ok(spawn("droid", arguments, vec![Chunk::Text(prompt)]))
    }

    fn line(&mut self, line: Line, emit: &mut Emit) -> Option<TurnResult> {
        let said = emit.object(&line)?;
        self.read(&said, &line.text, emit)
    }

    fn failure(&mut self, stderr: &str) -> Failure {
        // If Droid cannot load a session, it exits without output. With `FACTORY_AIRGAP_ENABLED`,
        // Droid 0.225.2 cannot load any session this way.
        if !self.started && self.resumed.is_some() && stderr.is_empty() {
            return failure(FailureKind::SessionUnknown, "Droid could not load the session");
        }
        match self.error.take() {
            Some(error) => failure::of_model(&error),
            None => failure::of_model(stderr),
        }
    }
}

impl Once {
    fn read(&mut self, line: &Json, raw: &str, emit: &mut Emit) -> Option<TurnResult> {
        let text = |key| line.text(key).unwrap_or_default();
        match line.text("type") {
            Some("system") if line.text("subtype") == Some("init") => {
                emit.required_id(line, "session_id", raw);
                self.init(line, emit);
            }
            Some("message") => match line.text("role") {
                Some("assistant") => {
                    let id = emit.required_id(line, "id", raw);
                    let said = emit.required_text(line, "text", raw);
                    self.round(id);
                    self.answer.whole(id, 1, Holds::Text, said, emit);
                    self.answer.message(id, Some(said.to_owned()), emit);
                }
                // The prompt.
                Some("user") => {}
                role => emit.unrecognised(
                    format!("message of {:?}", role.unwrap_or_default()),
                    Some("role".to_owned()),
                    raw,
                ),
            },
            Some("reasoning") => {
                let id = emit.required_id(line, "id", raw);
                let said = emit.required_text(line, "text", raw);
                self.round(id);
                self.answer.whole(id, 0, Holds::Thinking, said, emit);
            }
            Some("tool_call") => {
                let message = emit.required_id(line, "messageId", raw);
                let id = emit.required_id(line, "id", raw);
                let (name, input) = (emit.required_id(line, "toolName", raw), &line["parameters"]);
                self.round(message);
                self.answer.message(message, None, emit);
                emit.tool_start(tool::TOOLS.start(id, name, input));
                self.writes.extend(tool::writes(name, input).map(|diff| (id.to_owned(), diff)));
                if let Some(plan) = tool::todos(name, input) {
                    emit.plan(plan);
                }
            }
            Some("tool_result") => {
                emit.required_id(line, "id", raw);
                let is_error = line.is_true("isError");
                let output =
                    if is_error { line["error"].text("message").map(str::to_owned) } else { None };
                let output = output.unwrap_or_else(|| tool::text(&line["value"]));
                let writes = self
                    .writes
                    .iter()
                    .position(|(id, _)| id == text("id"))
                    .map(|at| self.writes.swap_remove(at).1);
                emit.tool_end(tool::end(text("id"), is_error, output, writes, false));
            }
            Some("error") if line.text("source") == Some("cli") => {
                let failure = match self.error.take() {
                    Some(error) => failure::of_model(&error),
                    None => failure::of_model(text("message")),
                };
                return Some(TurnResult {
                    outcome: Outcome::Failed(failure),
                    text: None,
                    usage: None,
                });
            }
            // The error does not end the run: a later line shows whether the run failed.
            Some("error") => self.error = Some(emit.required_text(line, "message", raw).to_owned()),
            Some("completion") => {
                emit.required_text(line, "finalText", raw);
                emit.required_id(line, "session_id", raw);
                return Some(self.completion(line, emit));
            }
            kind => emit.unrecognised(
                format!("line type {:?}", kind.unwrap_or_default()),
                Some("type".to_owned()),
                raw,
            ),
        }
        None
    }

    fn init(&mut self, line: &Json, emit: &mut Emit) {
        self.started = true;
        let Some(id) = line.text("session_id") else { return };
        let tools = line.list("tools").iter().filter_map(Json::as_str).map(str::to_owned);
        emit.session_with_tools(id, line.text("model").map(str::to_owned), tools.collect());
        if !self.fork && self.resumed.as_deref().is_some_and(|asked| asked != id) {
            emit.notice("Droid began a new session: the earlier conversation is lost");
        }
    }

    fn round(&mut self, message: &str) {
        if !self.rounds.iter().any(|round| round == message) {
            self.rounds.push(message.to_owned());
        }
    }

    fn completion(&mut self, line: &Json, emit: &mut Emit) -> TurnResult {
        let final_text = line.text("finalText").filter(|text| !text.is_empty());
        let text = match final_text {
            Some(final_text) if final_text.trim() == REMINDED => self.answer.last(),
            final_text => final_text.map(str::to_owned),
        };
        let turns = line.count("numTurns").and_then(|turns| usize::try_from(turns).ok());
        // Droid accepts any id. If its service does not know the id, Droid starts a new session
        // with it. This is only visible in the number of rounds, which is then not higher than in
        // this run.
        if self.resumed.is_some()
            && turns.is_some_and(|turns| (1..=self.rounds.len()).contains(&turns))
        {
            emit.notice("Droid counts nothing before this turn: it may not have found the earlier conversation");
        }
        // For a resumed session, the usage is the sum of all its turns, and the earlier sum is
        // unknown.
        let usage = if self.resumed.is_none() { usage::of_completion(line) } else { None };
        TurnResult { outcome: Outcome::Completed, text, usage }
    }
}

/// Returns the tools that Droid may use, or `None` for all tools.
fn offered(settings: &Settings) -> Result<Option<Vec<String>>, Failure> {
    let allowed = plan::tools(settings);
    let fitting: Vec<&str> = match (settings.mode, settings.safety) {
        (Mode::Build, Safety::Danger) => return Ok(Some(allowed).filter(|tools| !tools.is_empty())),
        (Mode::Plan, _) | (Mode::Build, Safety::Default) => READING.to_vec(),
        (Mode::Build, Safety::Edit) => READING.iter().chain(&EDITING).copied().collect(),
    };
    let tools: Vec<String> = fitting
        .into_iter()
        .filter(|tool| allowed.is_empty() || allowed.iter().any(|name| name == tool))
        .map(str::to_owned)
        .collect();
    if tools.is_empty() {
        let message = "none of the allowed tools may be used at this safety level without asking; allow `Read`, or raise the level";
        return Err(failure(FailureKind::Unsupported, message));
    }
    Ok(Some(tools))
}
