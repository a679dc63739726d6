//! A summary of a recording for people: one entry for each action of the agent. Parts of a text are
//! joined.

use similar::{Algorithm, ChangeTag};

use super::unread::unread;
use aetheel_model::agent::{
    Action, AgentEventKind, AgentFailure, AskKind, PlanStatus, ToolStatus, TurnOutcome, Usage,
};
use aetheel_model::plain::shortened;
use aetheel_recording::ParsedRecording;
use aetheel_recording::replay::ReplayResult;

/// One entry of a summary.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryEntry {
    /// Milliseconds since the link was opened.
    pub t: f64,
    /// The line of the recording that caused it. For joined texts, the first line.
    pub line: usize,
    /// The turn that it belongs to, if any.
    pub turn: Option<u32>,
    /// The type of the entry, for example `text`, `bash` or `usage`.
    pub what: String,
    /// The content. It may have several lines.
    pub text: String,
    /// How it is shown.
    pub style: Style,
}

/// How an entry is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Text for users.
    Plain,
    /// Work in the background.
    Quiet,
    /// Success, shown in green.
    Good,
    /// A problem, shown in red.
    Bad,
}

/// Summarizes a replay that was made with one input per call.
#[must_use]
pub fn summarize(tape: &ParsedRecording, replayed: &ReplayResult) -> Vec<SummaryEntry> {
    let mut entries: Vec<SummaryEntry> = Vec::new();
    // The text that may continue: its turn, whether it is thinking, and its part.
    let mut open: Option<(u32, bool, u32)> = None;
    for step in &replayed.steps {
        let (t, line) = (tape.entries[step.entry].t, tape.lines[step.entry]);
        for action in &step.actions {
            if let Action::Event(event) = action
                && let AgentEventKind::Text(text) | AgentEventKind::Thinking(text) = &event.kind
            {
                let thinking = matches!(event.kind, AgentEventKind::Thinking(_));
                let this = (event.turn, thinking, text.part);
                let last = entries.last_mut().filter(|_| open == Some(this));
                match last {
                    Some(last) if text.replace => last.text.clone_from(&text.text),
                    Some(last) => last.text.push_str(&text.text),
                    None => {
                        let (what, style) = match thinking {
                            true => ("thinking".to_owned(), Style::Quiet),
                            false => ("text".to_owned(), Style::Plain),
                        };
                        let (turn, text) = (Some(event.turn), text.text.clone());
                        entries.push(SummaryEntry { t, line, turn, what, text, style });
                    }
                }
                open = Some(this);
                continue;
            }
            let Some((turn, what, text, style)) = summarize_action(action) else { continue };
            open = None;
            entries.push(SummaryEntry { t, line, turn, what, text, style });
        }
    }
    for lost in unread(&tape.entries, replayed) {
        let (t, line) = (tape.entries[lost.entry].t, tape.lines[lost.entry]);
        let after = entries.iter().rposition(|entry| entry.turn == Some(lost.turn));
        let text = match (lost.position, shortened(&lost.text, 2_000)) {
            (None, _) => lost.reason,
            (Some(position), text) if text.is_empty() => {
                format!("the agent's text at `{position}`")
            }
            (Some(position), text) => format!("`{position}`: {text}"),
        };
        let (turn, what) = (Some(lost.turn), "unread".to_owned());
        let entry = SummaryEntry { t, line, turn, what, text, style: Style::Bad };
        entries.insert(after.unwrap_or(entries.len()), entry);
    }
    // A part that was sent in pieces and then as a whole, with other events in between, is shown
    // once.
    entries.retain(|entry| !entry.text.is_empty() || entry.what != "text");
    if let Some((at, failure)) = &replayed.failure {
        let (t, line) = (tape.entries[*at].t, tape.lines[*at]);
        let (what, text) = ("failed".to_owned(), failure.to_string());
        entries.push(SummaryEntry { t, line, turn: None, what, text, style: Style::Bad });
    }
    entries
}

/// Compares the meaning of two replays: their summaries, without times. Parts of a text count as one
/// text, and actions that people never see do not count. Entries of the first replay only are
/// [`ChangeTag::Delete`], and entries of the second only are [`ChangeTag::Insert`].
#[must_use]
pub fn changes(
    tape: &ParsedRecording,
    first: &ReplayResult,
    second: &ReplayResult,
) -> Vec<(ChangeTag, SummaryEntry)> {
    let [first, second] = [first, second].map(|replayed| summarize(tape, replayed));
    let key = |entry: &SummaryEntry| (entry.turn, entry.what.clone(), entry.text.clone());
    similar::capture_diff_slices_by_key(Algorithm::Myers, &first, &second, key)
        .iter()
        .flat_map(|op| op.iter_slices(&first[..], &second[..]))
        .filter(|(tag, _)| *tag != ChangeTag::Equal)
        .flat_map(|(tag, entries)| entries.iter().map(move |entry| (tag, entry.clone())))
        .collect()
}

/// Returns a short description of an action: its type and its content.
#[must_use]
pub fn line(action: &Action) -> (String, String) {
    if let Action::Event(event) = action {
        match &event.kind {
            AgentEventKind::Text(text) => return ("text".to_owned(), shortened(&text.text, 160)),
            AgentEventKind::Thinking(text) => {
                return ("thinking".to_owned(), shortened(&text.text, 160));
            }
            _ => {}
        }
    }
    match summarize_action(action) {
        Some((_, what, text, _)) => (what, text),
        None => {
            let json = serde_json::to_string(action).unwrap_or_default();
            ("action".to_owned(), shortened(&json, 160))
        }
    }
}

type ActionSummary = (Option<u32>, String, String, Style);

fn summarize_action(action: &Action) -> Option<ActionSummary> {
    let quiet = |what: &str, text: String| Some((None, what.to_owned(), text, Style::Quiet));
    match action {
        Action::Spawn(spawn) => {
            let arguments = spawn.arguments.iter().map(|value| match value {
                aetheel_model::agent::ArgumentValue::Text(text) => shortened(text, 80),
                other => serde_json::to_string(other).unwrap_or_default(),
            });
            quiet(
                "start",
                std::iter::once(spawn.program.clone())
                    .chain(arguments)
                    .collect::<Vec<_>>()
                    .join(" "),
            )
        }
        Action::Stop(stop) => quiet("stop", format!("{:?}", stop.signal).to_lowercase()),
        Action::SessionReady(ready) => {
            let model = ready.model.as_ref().map(|model| format!(" ({model})")).unwrap_or_default();
            quiet("session", format!("{}{model}", ready.native_id))
        }
        Action::Http(request) => {
            quiet("request", format!("{} {}", request.method, shortened(&request.path, 120)))
        }
        Action::TurnBegun(turn) => Some((
            Some(turn.turn),
            "begun".into(),
            "the agent began a turn on its own".into(),
            Style::Quiet,
        )),
        Action::Event(event) => {
            event_line(&event.kind).map(|(what, text, style)| (Some(event.turn), what, text, style))
        }
        Action::Ask(ask) => {
            let about = match &ask.kind {
                AskKind::Permission(tool) => {
                    tool.target.clone().unwrap_or_else(|| tool.title.clone())
                }
                AskKind::PlanApproval(plan) => plan.clone(),
                AskKind::Questions(questions) => questions
                    .iter()
                    .map(|question| question.text.clone())
                    .collect::<Vec<_>>()
                    .join("; "),
                AskKind::SignIn(address) => address.clone(),
            };
            Some((
                Some(ask.turn),
                "asks".into(),
                format!("{}: {}", ask.title, shortened(&about, 160)),
                Style::Plain,
            ))
        }
        Action::AskWithdrawn(_) => quiet("asks", "no longer".into()),
        Action::Steered(steered) => {
            quiet("steered", format!("{:?}", steered.outcome).to_lowercase())
        }
        Action::TurnDone(done) => {
            let (text, style) = match &done.outcome {
                TurnOutcome::Completed => ("completed".to_owned(), Style::Good),
                TurnOutcome::Interrupted => ("interrupted".to_owned(), Style::Plain),
                TurnOutcome::Failed(failure) => {
                    (format!("failed: {}", failed(failure)), Style::Bad)
                }
                TurnOutcome::Lost(failure) => (format!("lost: {}", failed(failure)), Style::Bad),
                TurnOutcome::Limit(limit) => (format!("a limit: {limit}"), Style::Bad),
            };
            let usage = done
                .usage
                .as_ref()
                .map(|usage| format!(" · {}", tokens(usage)))
                .unwrap_or_default();
            Some((Some(done.turn), "end".into(), text + &usage, style))
        }
        Action::QueryAnswer(answer) => quiet(
            "answer",
            shortened(&serde_json::to_string(&answer.answer).unwrap_or_default(), 200),
        ),
        Action::Diagnostic(line) => quiet("log", shortened(&line.text, 200)),
        Action::ToolRequest(request) => Some((
            Some(request.turn),
            "calls".into(),
            format!("{}: {}", request.name, shortened(&request.input, 160)),
            Style::Plain,
        )),
        Action::Write(_)
        | Action::CloseStdin(_)
        | Action::PutFile(_)
        | Action::OpenStream(_)
        | Action::CloseStream(_)
        | Action::SetTimer(_)
        | Action::CancelTimer(_) => None,
    }
}

fn event_line(event: &AgentEventKind) -> Option<(String, String, Style)> {
    let line = |what: &str, text: String, style| Some((what.to_owned(), text, style));
    match event {
        // The caller joins these.
        AgentEventKind::Text(_) | AgentEventKind::Thinking(_) => None,
        AgentEventKind::ToolStart(tool) => {
            let about =
                tool.target.as_ref().filter(|target| !target.is_empty()).unwrap_or(&tool.title);
            line(
                &tool.kind,
                format!("{} · {}", tool.native_name, shortened(about, 160)),
                Style::Plain,
            )
        }
        AgentEventKind::ToolOutput(output) => {
            line("output", shortened(output.text.trim_end(), 160), Style::Quiet)
        }
        AgentEventKind::ToolEnd(end) => {
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
            let style = if end.status == ToolStatus::Ok { Style::Quiet } else { Style::Bad };
            line("result", text, style)
        }
        AgentEventKind::Plan(plan) => {
            let done = plan.iter().filter(|entry| entry.status == PlanStatus::Done).count();
            let active = plan
                .iter()
                .find(|entry| entry.status == PlanStatus::Active)
                .map(|entry| format!(", now: {}", entry.text));
            line(
                "plan",
                format!("{done} of {} done{}", plan.len(), active.unwrap_or_default()),
                Style::Quiet,
            )
        }
        AgentEventKind::Usage(usage) => line("usage", tokens(usage), Style::Quiet),
        AgentEventKind::Artifact(artifact) => {
            let name = artifact.name.as_deref().unwrap_or_default();
            line(
                "artifact",
                format!("{} {}", artifact.media_type, shortened(name, 160)).trim().to_owned(),
                Style::Plain,
            )
        }
        AgentEventKind::Task(task) => {
            let status = format!("{:?}", task.status).to_lowercase();
            line("task", format!("{}: {status}", shortened(&task.title, 160)), Style::Quiet)
        }
        AgentEventKind::Quota(all) => {
            let used = |quota: &aetheel_model::agent::Quota| match quota.used_percent {
                Some(percent) => format!("{} {percent:.0}% used", quota.label),
                None => quota.label.clone(),
            };
            line("quota", all.iter().map(used).collect::<Vec<_>>().join(", "), Style::Quiet)
        }
        AgentEventKind::Retry(failure) => line("retry", failed(failure), Style::Bad),
        AgentEventKind::Notice(notice) => {
            line("notice", shortened(&notice.text, 200), Style::Plain)
        }
        AgentEventKind::Compaction(compaction) => {
            let text = compaction.line().unwrap_or_else(|| "compaction began".to_owned());
            line("compaction", text, Style::Quiet)
        }
        AgentEventKind::Mode(mode) => line("mode", mode.clone(), Style::Quiet),
        AgentEventKind::Title(title) => line("title", title.clone(), Style::Quiet),
        AgentEventKind::Unrecognised(unknown) => {
            let at = unknown.path.as_ref().map(|path| format!(" at {path}")).unwrap_or_default();
            line(
                unknown.difference.word(),
                format!("{}{at}: {}", unknown.what, shortened(&unknown.sample, 160)),
                Style::Bad,
            )
        }
        AgentEventKind::Raw(json) => line("raw", shortened(json, 160), Style::Quiet),
    }
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
