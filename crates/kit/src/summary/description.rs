//! The texts that describe one action of the agent.

use super::{Style, SummaryEntry};
use aetheel_model::agent::{
    Action, AgentEventKind, AgentFailure, ArgumentValue, Ask, AskKind, PlanEntry, PlanStatus,
    Quota, Spawn, TextEvent, ToolEnd, ToolStart, ToolStatus, TurnDone, TurnOutcome, Unrecognised,
    Usage,
};
use aetheel_model::plain::shortened;

/// A part of the answer or of the thinking, which several actions add to.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct TextPart {
    turn: u32,
    is_thinking: bool,
    part: u32,
}

impl TextPart {
    pub(super) fn describe(self, text: String) -> ActionDescription {
        let (what, style) = match self.is_thinking {
            true => ("thinking", Style::Quiet),
            false => ("text", Style::Plain),
        };
        ActionDescription { turn: Some(self.turn), what: what.to_owned(), text, style }
    }
}

pub(super) struct StreamedText<'a> {
    pub(super) part: TextPart,
    pub(super) event: &'a TextEvent,
}

impl<'a> StreamedText<'a> {
    /// Returns `None` for an action that adds no text.
    pub(super) fn of(action: &'a Action) -> Option<Self> {
        let Action::Event(event) = action else { return None };
        let (is_thinking, text) = match &event.kind {
            AgentEventKind::Text(text) => (false, text),
            AgentEventKind::Thinking(text) => (true, text),
            _ => return None,
        };
        let part = TextPart { turn: event.turn, is_thinking, part: text.part };
        Some(Self { part, event: text })
    }
}

pub(super) struct ActionDescription {
    turn: Option<u32>,
    pub(super) what: String,
    pub(super) text: String,
    style: Style,
}

impl ActionDescription {
    fn new(what: &str, text: String, style: Style) -> Self {
        Self { turn: None, what: what.to_owned(), text, style }
    }

    fn quiet(what: &str, text: String) -> Self {
        Self::new(what, text, Style::Quiet)
    }

    fn in_turn(self, turn: u32) -> Self {
        Self { turn: Some(turn), ..self }
    }

    /// Returns the entry of a summary for an action at this time, which this line caused.
    pub(super) fn at(self, t: f64, line: usize) -> SummaryEntry {
        let Self { turn, what, text, style } = self;
        SummaryEntry { t, line, turn, what, text, style }
    }

    /// Describes an action, unless it concerns only the host or is a part of a text.
    pub(super) fn of(action: &Action) -> Option<Self> {
        Some(match action {
            Action::Spawn(spawn) => Self::quiet("start", command_line(spawn)),
            Action::Stop(stop) => Self::quiet("stop", format!("{:?}", stop.signal).to_lowercase()),
            Action::SessionReady(ready) => {
                let model = ready.model.as_ref();
                let model = model.map(|model| format!(" ({model})")).unwrap_or_default();
                Self::quiet("session", format!("{}{model}", ready.native_id))
            }
            Action::Http(request) => {
                let text = format!("{} {}", request.method, shortened(&request.path, 120));
                Self::quiet("request", text)
            }
            Action::TurnBegun(turn) => {
                Self::quiet("begun", "the agent began a turn on its own".into()).in_turn(turn.turn)
            }
            Action::Event(event) => Self::of_event(&event.kind)?.in_turn(event.turn),
            Action::Ask(ask) => {
                let text = format!("{}: {}", ask.title, shortened(&subject(ask), 160));
                Self::new("asks", text, Style::Plain).in_turn(ask.turn)
            }
            Action::AskWithdrawn(_) => Self::quiet("asks", "no longer".into()),
            Action::Steered(steered) => {
                Self::quiet("steered", format!("{:?}", steered.outcome).to_lowercase())
            }
            Action::TurnDone(done) => Self::of_end(done).in_turn(done.turn),
            Action::QueryAnswer(answer) => {
                let json = serde_json::to_string(&answer.answer).unwrap_or_default();
                Self::quiet("answer", shortened(&json, 200))
            }
            Action::Diagnostic(line) => Self::quiet("log", shortened(&line.text, 200)),
            Action::ToolRequest(request) => {
                let text = format!("{}: {}", request.name, shortened(&request.input, 160));
                Self::new("calls", text, Style::Plain).in_turn(request.turn)
            }
            Action::Write(_)
            | Action::CloseStdin(_)
            | Action::PutFile(_)
            | Action::OpenStream(_)
            | Action::CloseStream(_)
            | Action::SetTimer(_)
            | Action::CancelTimer(_) => return None,
        })
    }

    fn of_end(done: &TurnDone) -> Self {
        let (text, style) = match &done.outcome {
            TurnOutcome::Completed => ("completed".to_owned(), Style::Good),
            TurnOutcome::Interrupted => ("interrupted".to_owned(), Style::Plain),
            TurnOutcome::Failed(failure) => (format!("failed: {}", failed(failure)), Style::Bad),
            TurnOutcome::Lost(failure) => (format!("lost: {}", failed(failure)), Style::Bad),
            TurnOutcome::Limit(limit) => (format!("a limit: {limit}"), Style::Bad),
        };
        let usage = done.usage.as_ref();
        let usage = usage.map(|usage| format!(" · {}", tokens(usage))).unwrap_or_default();
        Self::new("end", text + &usage, style)
    }

    fn of_event(event: &AgentEventKind) -> Option<Self> {
        Some(match event {
            // These are a `StreamedText`.
            AgentEventKind::Text(_) | AgentEventKind::Thinking(_) => return None,
            AgentEventKind::ToolStart(tool) => Self::new(&tool.kind, tool_use(tool), Style::Plain),
            AgentEventKind::ToolOutput(output) => {
                Self::quiet("output", shortened(output.text.trim_end(), 160))
            }
            AgentEventKind::ToolEnd(end) => {
                let style = if end.status == ToolStatus::Ok { Style::Quiet } else { Style::Bad };
                Self::new("result", tool_result(end), style)
            }
            AgentEventKind::Plan(plan) => Self::quiet("plan", progress(plan)),
            AgentEventKind::Usage(usage) => Self::quiet("usage", tokens(usage)),
            AgentEventKind::Artifact(artifact) => {
                let name = artifact.name.as_deref().unwrap_or_default();
                let text = format!("{} {}", artifact.media_type, shortened(name, 160));
                Self::new("artifact", text.trim().to_owned(), Style::Plain)
            }
            AgentEventKind::Task(task) => {
                let status = format!("{:?}", task.status).to_lowercase();
                Self::quiet("task", format!("{}: {status}", shortened(&task.title, 160)))
            }
            AgentEventKind::Quota(all) => {
                let used: Vec<String> = all.iter().map(used).collect();
                Self::quiet("quota", used.join(", "))
            }
            AgentEventKind::Retry(failure) => Self::new("retry", failed(failure), Style::Bad),
            AgentEventKind::Notice(notice) => {
                Self::new("notice", shortened(&notice.text, 200), Style::Plain)
            }
            AgentEventKind::Compaction(compaction) => {
                let text = compaction.line().unwrap_or_else(|| "compaction began".to_owned());
                Self::quiet("compaction", text)
            }
            AgentEventKind::Mode(mode) => Self::quiet("mode", mode.clone()),
            AgentEventKind::Title(title) => Self::quiet("title", title.clone()),
            AgentEventKind::Unrecognised(unknown) => {
                Self::new(unknown.difference.word(), unknown_output(unknown), Style::Bad)
            }
            AgentEventKind::Raw(json) => Self::quiet("raw", shortened(json, 160)),
        })
    }
}

fn command_line(spawn: &Spawn) -> String {
    let arguments = spawn.arguments.iter().map(|value| match value {
        ArgumentValue::Text(text) => shortened(text, 80),
        other => serde_json::to_string(other).unwrap_or_default(),
    });
    std::iter::once(spawn.program.clone()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Returns the content of a question, without its title.
fn subject(ask: &Ask) -> String {
    match &ask.kind {
        AskKind::Permission(tool) => tool.target.clone().unwrap_or_else(|| tool.title.clone()),
        AskKind::PlanApproval(plan) => plan.clone(),
        AskKind::Questions(questions) => {
            let texts: Vec<&str> = questions.iter().map(|question| &*question.text).collect();
            texts.join("; ")
        }
        AskKind::SignIn(address) => address.clone(),
    }
}

fn tool_use(tool: &ToolStart) -> String {
    let about = tool.target.as_ref().filter(|target| !target.is_empty()).unwrap_or(&tool.title);
    format!("{} · {}", tool.native_name, shortened(about, 160))
}

fn tool_result(end: &ToolEnd) -> String {
    let mut text = format!("{:?}", end.status).to_lowercase();
    if let Some(code) = end.exit_code {
        text.push_str(&format!(" (exit {code})"));
    }
    let output = end.output.as_deref().map(str::trim).filter(|output| !output.is_empty());
    if let Some(output) = output {
        text.push_str(&format!(": {}", shortened(output, 160)));
    }
    for diff in &end.diffs {
        text.push_str(&format!(" · changed {}", diff.path));
    }
    text
}

fn progress(plan: &[PlanEntry]) -> String {
    let done = plan.iter().filter(|entry| entry.status == PlanStatus::Done).count();
    let active = plan
        .iter()
        .find(|entry| entry.status == PlanStatus::Active)
        .map(|entry| format!(", now: {}", entry.text));
    format!("{done} of {} done{}", plan.len(), active.unwrap_or_default())
}

fn used(quota: &Quota) -> String {
    match quota.used_percent {
        Some(percent) => format!("{} {percent:.0}% used", quota.label),
        None => quota.label.clone(),
    }
}

fn unknown_output(unknown: &Unrecognised) -> String {
    let at = unknown.path.as_ref().map(|path| format!(" at {path}")).unwrap_or_default();
    format!("{}{at}: {}", unknown.what, shortened(&unknown.sample, 160))
}

fn failed(failure: &AgentFailure) -> String {
    let kind = serde_json::to_value(failure.kind)
        .ok()
        .and_then(|kind| kind.as_str().map(str::to_owned))
        .unwrap_or_default();
    let after = failure
        .retry_after_ms
        .map(|ms| format!(" (again after {} s)", f64::from(ms) / 1000.0))
        .unwrap_or_default();
    format!("{kind}: {}{after}", shortened(&failure.message, 300))
}

fn tokens(usage: &Usage) -> String {
    let mut text = format!("{} in, {} out", usage.input, usage.output);
    if usage.cached > 0 {
        text.push_str(&format!(", {} cached", usage.cached));
    }
    if usage.cache_write > 0 {
        text.push_str(&format!(", {} written to the cache", usage.cache_write));
    }
    if usage.reasoning > 0 {
        text.push_str(&format!(", {} of it reasoning", usage.reasoning));
    }
    if let Some(cost) = usage.cost_usd {
        text.push_str(&format!(", ${cost:.4}"));
    }
    text
}
