//! A backend for {{name}}, run as the operator chooses: one process for each conversation, which
//! reads prompts from stdin and asks for permissions, or one process for each turn, which asks
//! nothing.
//!
//! The SDK (`sdk/`) manages processes and turns. This file starts the agent, writes its input and
//! parses its output.

use aetheel_backend_sdk::json::{self, Value as Json};
use aetheel_backend_sdk::live::{self, Asks, LinkContext, Live, Step};
use aetheel_backend_sdk::one_shot::{self, OneShot};
use aetheel_backend_sdk::tool::{self, Tools};
use aetheel_backend_sdk::wit::{
    Action, Answer, AskKind, Chunk, Decision, Failure, FailureKind, Line, Mode, Outcome, PutFile, Safety, Spawn, StartTurn, TurnRef, Value,
};
use aetheel_backend_sdk::{Either, Emit, TurnResult, text, tokens};
use serde_json::json;

/// The backend. The first turn selects one of the two ways to run.
pub type Backend = Either<Live<Chat>, OneShot<Once>>;

aetheel_backend_sdk::export_backend!(crate::Backend);

/// The agent's tools: unified kinds (see `wit/types.wit`), names, and the input fields with the
/// target of a call.
const TOOLS: Tools =
    Tools::new(&[("bash", &["shell"], &["command"]), ("file_read", &["read"], &["path"]), ("file_edit", &["edit"], &["path"])]);

/// The fields that each type of line always has: texts and objects. The loss of a field that is not
/// listed here would go unnoticed.
const FIELDS: &[(&str, &[&str], &[&str])] = &[
    ("session", &["id"], &[]),
    ("text", &["text"], &[]),
    ("tool", &["id", "name"], &["input"]),
    ("tool-result", &["id", "output"], &[]),
    ("ask", &["id", "tool", "name", "always"], &["input"]),
    ("ask-over", &["id"], &[]),
    ("done", &[], &["usage"]),
    ("error", &["message"], &[]),
];

/// Reports the fields that a line lacks.
fn report_missing(said: &Json, raw: &str, emit: &mut Emit) {
    let kind = said.text("type").unwrap_or_default();
    for (_, texts, objects) in FIELDS.iter().filter(|(of, ..)| *of == kind) {
        emit.require(said, texts, objects, raw);
    }
    let target = match said.text("name") {
        Some("shell") => "input.command",
        Some("read" | "edit") => "input.path",
        _ => return,
    };
    emit.require(said, &[target], &[], raw);
}

/// The name of the system prompt's file.
const INSTRUCTIONS: &str = "instructions.md";

/// Returns the arguments, and the action that writes the system prompt's file. The host refuses
/// flags that are not in `descriptor.json`. Texts of users and operators are passed in files or on
/// stdin, never as arguments.
fn arguments(first: &str, start: Option<&StartTurn>) -> (Vec<Value>, Option<Action>) {
    let mut arguments = vec![Value::Text(first.to_owned())];
    let Some(start) = start else { return (arguments, None) };
    if let Some(id) = &start.native_id {
        arguments.extend([Value::Text("--resume".to_owned()), Value::Text(id.clone())]);
    }
    if start.settings.safety == Safety::Danger && start.settings.mode == Mode::Build {
        arguments.push(Value::Text("--yes".to_owned()));
    }
    let file = start.settings.system_prompt.clone().map(|text| {
        arguments.extend([Value::Text("--instructions".to_owned()), Value::File(INSTRUCTIONS.to_owned())]);
        Action::PutFile(PutFile { name: INSTRUCTIONS.to_owned(), body: vec![Chunk::Text(text)] })
    });
    (arguments, file)
}

/// Handles a line of output, for both ways to run the agent. Returns the result if the line ends
/// the turn.
fn means(said: &Json, raw: &str, emit: &mut Emit) -> Option<TurnResult> {
    let text = |key| said.text(key).unwrap_or_default();
    match text("type") {
        "session" => emit.session_ready(text("id"), None),
        "text" => emit.text(0, text("text")),
        "tool" => emit.tool_start(TOOLS.start(text("id"), text("name"), &said["input"])),
        "tool-result" => emit.tool_end(tool::end(text("id"), said.is_true("ok"), said.text("output").map(str::to_owned))),
        "done" => {
            let count = |key| said["usage"].count(key);
            let usage = count("input").map(|input| tokens(input, count("output").unwrap_or_default()));
            let outcome = if said.is_true("stopped") { Outcome::Interrupted } else { Outcome::Completed };
            return Some(TurnResult { outcome, text: None, usage });
        }
        "error" => return Some(TurnResult::failed(FailureKind::Other, text("message"))),
        // Unknown output is reported, because it shows that the agent changed.
        kind => emit.unrecognised(format!("line type {kind:?}"), Some("type".to_owned()), raw),
    }
    None
}

/// The state of a conversation.
#[derive(Debug, Default)]
pub struct Chat {
    /// Open questions, each with the agent's id.
    asks: Asks<String>,
}

impl live::Agent for Chat {
    const NAME: &'static str = "{{name}}";

    fn describe() -> String {
        include_str!("../descriptor.json").to_owned()
    }

    fn launch(&mut self, start: Option<&StartTurn>, context: &mut LinkContext) -> Result<Spawn, Failure> {
        let (arguments, file) = arguments("--serve", start);
        file.into_iter().for_each(|file| context.action(file));
        Ok(live::spawn("{{name}}", arguments))
    }

    /// Sends a prompt. If the agent needs something else first, send that and return `Step::Wait`.
    fn prompt(&mut self, start: &StartTurn, context: &mut LinkContext) -> Step {
        context.say(&json!({ "type": "prompt", "text": text::prompt(&start.parts) }).to_string());
        Step::Prompted
    }

    /// Asks the agent to stop. It reports the end of the turn in a line.
    fn interrupt(&mut self, _turn: TurnRef, context: &mut LinkContext) {
        context.say(r#"{"type":"stop"}"#);
    }

    fn line(&mut self, line: Line, context: &mut LinkContext) {
        let Some(said) = context.object(&line) else { return };
        let Some(turn) = context.turn() else { return };
        report_missing(&said, &line.text, &mut context.emit(turn));
        match said.text("type") {
            Some("ask") => {
                let tool = TOOLS.start(&said.string("tool"), &said.string("name"), &said["input"]);
                let title = format!("{}: {}", tool.native_name, tool.title);
                let always = said.text("always").map(str::to_owned);
                self.asks.ask(turn, title, AskKind::Permission(tool), always, said.string("id"), context.out());
            }
            Some("ask-over") => self.asks.withdraw(|open| Some(open.as_str()) == said.text("id"), context.out()),
            _ => {
                if let Some(result) = means(&said, &line.text, &mut context.emit(turn)) {
                    self.asks.close(turn.session);
                    context.end(turn, result);
                }
            }
        }
    }

    /// Ends a turn without a result of the agent, and closes its questions.
    fn finish(&mut self, turn: TurnRef, outcome: Outcome, context: &mut LinkContext) {
        self.asks.close(turn.session);
        context.end(turn, TurnResult { outcome, text: None, usage: None });
    }

    /// Sends a decision to the agent. A dismissed question is answered with no.
    fn answer(&mut self, Answer { ask, decision }: Answer, context: &mut LinkContext) {
        let Some(id) = self.asks.take(ask) else { return };
        let answer = match decision {
            Decision::AllowOnce => "once",
            Decision::AllowAlways => "always",
            _ => "no",
        };
        context.say(&json!({ "answer": answer, "id": id, "type": "answer" }).to_string());
    }

    /// Returns what a newer version needs to continue with the process between two turns.
    fn save(&self, proc: u32) -> Option<String> {
        self.asks.is_empty().then(|| json!({ "asks": self.asks.last(), "proc": proc }).to_string())
    }

    fn load(&mut self, state: &str, _saved_by: &str) -> Result<u32, String> {
        let state = json::parse(state).map_err(|error| error.to_string())?;
        self.asks = Asks::counting_from(state.count("asks").ok_or("no `asks`")?);
        state.count("proc").ok_or_else(|| "no `proc`".to_owned())
    }
}

/// The state of a single turn.
#[derive(Debug, Default)]
pub struct Once;

impl one_shot::Agent for Once {
    fn describe() -> String {
        include_str!("../descriptor.json").to_owned()
    }

    fn plan(&mut self, start: StartTurn, emit: &mut Emit) -> Result<Spawn, Failure> {
        let (arguments, file) = arguments("--json", Some(&start));
        file.into_iter().for_each(|file| emit.action(file));
        Ok(one_shot::spawn("{{name}}", arguments, one_shot::prompt(&start.parts)))
    }

    /// Handles a line of output. After a result, the turn ends when the process exits.
    fn line(&mut self, line: Line, emit: &mut Emit) -> Option<TurnResult> {
        let said = emit.object(&line)?;
        report_missing(&said, &line.text, emit);
        means(&said, &line.text, emit)
    }

    /// Returns why a run without `done` and `error` failed, from the end of stderr.
    fn failure(&mut self, stderr: &str) -> Failure {
        aetheel_backend_sdk::failure(FailureKind::Other, stderr)
    }
}
