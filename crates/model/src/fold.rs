//! Folds agent events into the state that people should see.
//!
//! [`Transcript`] is the current state of one turn. It has no I/O and no clock. The result does not
//! depend on how the events were batched. Applying an event costs time in proportion to its length,
//! however many came before.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::agent::{
    AgentEventKind, AgentNotice, AgentTask, Artifact, Compaction, DiagnosticLevel, PlanEntry,
    Quota, TextEvent, ToolEnd, ToolOutput, ToolStart, ToolStatus, Unrecognised, Usage,
};

/// Maximum number of artifacts of one turn that are kept.
pub const MAX_ARTIFACTS: usize = 10;
/// Maximum number of changed files of one tool use that are kept.
const CHANGED_FILES: usize = 200;
/// Maximum number of background tasks of one turn that are kept.
const TASKS: usize = 200;
const QUOTAS: usize = 20;
/// Maximum number of notices of one turn that are kept.
const NOTICES: usize = 50;
/// Maximum number of kinds of unknown output of one turn that are distinguished.
const UNKNOWN_KINDS: usize = 200;
/// Maximum size of the answer, and of the thinking, of one turn, in bytes. The recording has the
/// rest.
pub const MAX_TEXT_BYTES: usize = 1 << 20;
/// Ends a text that was longer than [`MAX_TEXT_BYTES`].
const CUT: &str = "\n\n… (cut after 1 MiB; the recording of this turn has the rest)";
/// The key of the notice about compactions.
const COMPACTIONS: &str = "\0compactions";
/// Size, in bytes, of the end of a running tool's output that is kept.
const TAIL: usize = 2 << 10;

/// A tool use and its status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolUse {
    /// The event with which it began, or the latest one with the same id.
    pub start: ToolStart,
    /// The result, or `None` while it runs.
    pub status: Option<ToolStatus>,
    /// The exit status of a command that has ended, if the agent reports it.
    pub exit_code: Option<u32>,
    /// The files that it changed, as far as the agent reports them, at most 200.
    pub changed: Vec<String>,
    /// The end of the output that was reported while it runs.
    tail: String,
}

impl ToolUse {
    /// Returns up to `count` of the last lines that the running tool printed, oldest first. Blank
    /// lines are left out; the last line may not be complete yet.
    #[must_use]
    pub fn last_lines(&self, count: usize) -> Vec<&str> {
        let lines = self.tail.lines().rev().map(str::trim_end).filter(|line| !line.is_empty());
        let mut last: Vec<&str> = lines.take(count).collect();
        last.reverse();
        last
    }

    fn print(&mut self, ToolOutput { text, replace, .. }: &ToolOutput) {
        if *replace {
            self.tail.clear();
        }
        let text = &text[text.ceil_char_boundary(text.len().saturating_sub(TAIL))..];
        self.tail.push_str(text);
        let excess = self.tail.ceil_char_boundary(self.tail.len().saturating_sub(TAIL));
        self.tail.drain(..excess);
    }
}

/// Tool uses in the order in which they began.
#[derive(Clone, Debug, Default, PartialEq)]
struct ToolUses {
    all: Vec<ToolUse>,
    /// The index of each tool use in `all`, by its id.
    indexes: HashMap<String, usize>,
    /// The indexes of the running tools.
    running: BTreeSet<usize>,
}

impl ToolUses {
    fn start(&mut self, start: &ToolStart) {
        // Agents may announce a tool before its input is known.
        if let Some(at) = self.indexes.get(&start.id) {
            self.all[*at].start = start.clone();
            return;
        }
        self.indexes.insert(start.id.clone(), self.all.len());
        self.running.insert(self.all.len());
        self.all.push(ToolUse { start: start.clone(), ..ToolUse::default() });
    }

    fn print(&mut self, output: &ToolOutput) {
        let known = self.indexes.get(&output.id);
        if let Some(at) = known.filter(|at| self.running.contains(at)) {
            self.all[*at].print(output);
        }
    }

    fn end(&mut self, end: &ToolEnd) {
        let Some(at) = self.indexes.get(&end.id) else { return };
        let tool = &mut self.all[*at];
        tool.status = Some(end.status);
        tool.exit_code = end.exit_code;
        let changed = end.diffs.iter().take(CHANGED_FILES);
        tool.changed = changed.map(|diff| diff.path.clone()).collect();
        tool.tail = String::new();
        self.running.remove(at);
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Notices {
    texts: Vec<String>,
    /// The index of each notice with a key in `texts`, by its key.
    indexes: HashMap<String, usize>,
    /// The number of times that the agent shortened the history.
    compactions: u32,
}

impl Notices {
    /// Adds a notice, or replaces the one with the same key.
    fn add(&mut self, AgentNotice { level, key, text }: &AgentNotice) {
        if *level < DiagnosticLevel::Info {
            return;
        }
        if let Some(at) = key.as_ref().and_then(|key| self.indexes.get(key)) {
            self.texts[*at].clone_from(text);
        } else if self.texts.len() < NOTICES {
            if let Some(key) = key {
                self.indexes.insert(key.clone(), self.texts.len());
            }
            self.texts.push(text.clone());
        }
    }

    /// Adds or updates the notice that the agent shortened the history.
    fn add_compaction(&mut self, compaction: &Compaction) {
        let Some(line) = compaction.line() else { return };
        self.compactions += 1;
        let text = match self.compactions {
            1 => line,
            count => format!("{line} It did so {count} times in this turn."),
        };
        let key = Some(COMPACTIONS.to_owned());
        self.add(&AgentNotice { level: DiagnosticLevel::Info, key, text });
    }
}

/// The state of a turn so far. (A transcript of a finished turn, with everything in order, is
/// `TurnTranscript` in the crate `recording`.)
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript {
    text: Parts,
    thinking: Parts,
    tools: ToolUses,
    plan: Vec<PlanEntry>,
    usage: Option<Usage>,
    artifacts: Vec<Artifact>,
    tasks: Vec<AgentTask>,
    quota: Vec<Quota>,
    notices: Notices,
    retry: Option<String>,
    unrecognised: BTreeMap<String, u32>,
    /// Whether unknown output came after the last beginning and end of a tool.
    unknown_last: bool,
}

impl Transcript {
    /// Applies an event.
    pub fn apply(&mut self, event: &AgentEventKind) {
        match event {
            AgentEventKind::Text(text) | AgentEventKind::Thinking(text) => {
                self.retry = None;
                let is_answer = matches!(event, AgentEventKind::Text(_));
                let parts = if is_answer { &mut self.text } else { &mut self.thinking };
                // Text of a sub-agent is not part of the answer.
                if text.parent.is_none() {
                    parts.fold(text);
                }
            }
            AgentEventKind::ToolStart(start) => {
                self.unknown_last = false;
                self.tools.start(start);
            }
            AgentEventKind::ToolOutput(output) => self.tools.print(output),
            AgentEventKind::ToolEnd(end) => {
                self.unknown_last = false;
                self.end_tool(end);
            }
            AgentEventKind::Plan(plan) => self.plan.clone_from(plan),
            AgentEventKind::Usage(usage) => self.usage = Some(usage.clone()),
            AgentEventKind::Retry(failure) => self.retry = Some(failure.message.clone()),
            AgentEventKind::Notice(notice) => self.notices.add(notice),
            AgentEventKind::Compaction(compaction) => self.notices.add_compaction(compaction),
            AgentEventKind::Unrecognised(Unrecognised { what, .. }) => {
                self.unknown_last = true;
                if self.unrecognised.len() < UNKNOWN_KINDS || self.unrecognised.contains_key(what) {
                    *self.unrecognised.entry(what.clone()).or_default() += 1;
                }
            }
            AgentEventKind::Artifact(artifact) if self.artifacts.len() < MAX_ARTIFACTS => {
                self.artifacts.push(artifact.clone())
            }
            AgentEventKind::Task(task) => {
                if let Some(known) = self.tasks.iter_mut().find(|known| known.id == task.id) {
                    known.clone_from(task);
                } else if self.tasks.len() < TASKS {
                    self.tasks.push(task.clone());
                }
            }
            AgentEventKind::Quota(quota) => self.quota = quota[..quota.len().min(QUOTAS)].to_vec(),
            AgentEventKind::Artifact(_)
            | AgentEventKind::Mode(_)
            | AgentEventKind::Title(_)
            | AgentEventKind::Raw(_) => {}
        }
    }

    /// Ends a tool. The host calls this for a tool that the agent did not end.
    pub fn end_tool(&mut self, end: &ToolEnd) {
        self.tools.end(end);
    }

    /// Returns the answer so far: the text parts in order, separated by blank lines.
    #[must_use]
    pub fn text(&self) -> String {
        self.text.joined()
    }

    /// Returns whether there is text, but only white space.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        let mut parts = self.text.parts.values();
        parts.clone().any(|part| !part.is_empty()) && parts.all(|part| part.trim().is_empty())
    }

    /// Returns the thinking so far.
    #[must_use]
    pub fn thinking(&self) -> String {
        self.thinking.joined()
    }

    /// Returns the tool uses in the order in which they began.
    #[must_use]
    pub fn tools(&self) -> &[ToolUse] {
        &self.tools.all
    }

    /// Returns the tool use with this id.
    #[must_use]
    pub fn tool(&self, id: &str) -> Option<&ToolUse> {
        self.tools.indexes.get(id).map(|at| &self.tools.all[*at])
    }

    /// Returns the running tools in the order in which they began.
    pub fn open_tools(&self) -> impl DoubleEndedIterator<Item = &ToolUse> {
        self.tools.running.iter().map(|at| &self.tools.all[*at])
    }

    /// Returns the latest plan of the agent. It is empty if the agent sent none.
    #[must_use]
    pub fn plan(&self) -> &[PlanEntry] {
        &self.plan
    }

    /// Returns the latest usage.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.usage.clone()
    }

    /// Returns images and resources of the answer, in order.
    #[must_use]
    pub fn artifacts(&self) -> &[Artifact] {
        &self.artifacts
    }

    /// Returns sub-agents and background tasks, in the order in which they began.
    #[must_use]
    pub fn tasks(&self) -> &[AgentTask] {
        &self.tasks
    }

    /// Returns the latest quotas.
    #[must_use]
    pub fn quota(&self) -> &[Quota] {
        &self.quota
    }

    /// Returns notices for people, in order.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.notices.texts
    }

    /// Returns the failure after which the agent retries, until something else happens.
    #[must_use]
    pub fn retry(&self) -> Option<&str> {
        self.retry.as_deref()
    }

    /// Returns whether unknown output came after the last tool began or ended, so that the agent's
    /// final output may be unknown.
    #[must_use]
    pub fn ends_unknown(&self) -> bool {
        self.unknown_last
    }

    /// Returns the kinds of unknown output, each with its count.
    #[must_use]
    pub fn unrecognised(&self) -> &BTreeMap<String, u32> {
        &self.unrecognised
    }
}

/// Returns a text of at most [`MAX_TEXT_BYTES`], with a note if it was cut.
#[must_use]
pub fn bounded(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES + CUT.len() {
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        text.shrink_to_fit();
        text.push_str(CUT);
    }
    text
}

/// Parts of a text, by their numbers, of at most [`MAX_TEXT_BYTES`] together.
#[derive(Clone, Debug, Default, PartialEq)]
struct Parts {
    parts: BTreeMap<u32, String>,
    bytes: usize,
    /// The parts of which text was dropped. Such a part does not grow until it is replaced.
    cut: BTreeSet<u32>,
}

impl Parts {
    fn fold(&mut self, text: &TextEvent) {
        if text.replace {
            let replaced = self.parts.remove(&text.part).unwrap_or_default();
            self.bytes -= replaced.len();
            self.cut.remove(&text.part);
            if text.text.is_empty() {
                return;
            }
        }
        if self.cut.contains(&text.part) {
            return;
        }
        let fitting = text.text.floor_char_boundary(MAX_TEXT_BYTES - self.bytes);
        self.parts.entry(text.part).or_default().push_str(&text.text[..fitting]);
        self.bytes += fitting;
        if fitting < text.text.len() {
            self.cut.insert(text.part);
        }
    }

    fn joined(&self) -> String {
        let mut all = String::new();
        for part in self.parts.values().filter(|part| !part.trim().is_empty()) {
            if !all.is_empty() {
                all.push_str("\n\n");
            }
            all.push_str(part);
        }
        if !self.cut.is_empty() {
            all.push_str(CUT);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{TaskKind, TaskStatus};

    fn text(part: u32, text: &str, replace: bool) -> AgentEventKind {
        AgentEventKind::Text(TextEvent { part, text: text.to_owned(), replace, parent: None })
    }

    #[test]
    fn a_complete_part_replaces_its_pieces_and_an_empty_one_removes_it() {
        let mut transcript = Transcript::default();
        for event in [text(0, "Hel", false), text(0, "lo", false), text(1, "there", false)] {
            transcript.apply(&event);
        }
        assert_eq!(transcript.text(), "Hello\n\nthere");
        transcript.apply(&text(0, "Good day", true));
        assert_eq!(transcript.text(), "Good day\n\nthere");
        transcript.apply(&text(1, "", true));
        assert_eq!(transcript.text(), "Good day");
    }

    #[test]
    fn a_notice_replaces_the_one_with_its_key_and_quiet_ones_are_left_out() {
        let mut transcript = Transcript::default();
        for (level, key, text) in [
            (DiagnosticLevel::Info, None, "plain"),
            (DiagnosticLevel::Warn, Some("server"), "starting"),
            (DiagnosticLevel::Debug, Some("server"), "a detail"),
            (DiagnosticLevel::Info, None, "plain"),
            (DiagnosticLevel::Info, Some("server"), "ready"),
        ] {
            let (key, text) = (key.map(str::to_owned), text.to_owned());
            transcript.apply(&AgentEventKind::Notice(AgentNotice { level, key, text }));
        }
        let compaction =
            |done| Compaction { done, tokens_before: Some(9_000), tokens_after: Some(800) };
        transcript.apply(&AgentEventKind::Compaction(compaction(false)));
        transcript.apply(&AgentEventKind::Compaction(compaction(true)));
        let shortened =
            "The agent shortened the history of this conversation from 9000 to 800 tokens.";
        assert_eq!(transcript.notices(), ["plain", "ready", "plain", shortened]);
        for _ in 0..3_000 {
            transcript.apply(&AgentEventKind::Compaction(compaction(true)));
        }
        let often = format!("{shortened} It did so 3001 times in this turn.");
        assert_eq!(transcript.notices(), ["plain", "ready", "plain", &often]);
    }

    #[test]
    fn a_long_answer_is_cut_at_the_same_place_however_it_arrives() {
        let long = "é".repeat(MAX_TEXT_BYTES);
        let mut whole = Transcript::default();
        whole.apply(&text(0, &long, false));
        assert!(whole.text().len() <= MAX_TEXT_BYTES + CUT.len());
        assert!(whole.text().ends_with("the recording of this turn has the rest)"));
        let mut pieces = Transcript::default();
        let mut rest = long.as_str();
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(rest.ceil_char_boundary(100_001));
            pieces.apply(&text(0, piece, false));
            rest = more;
        }
        assert_eq!(pieces, whole);
        assert_eq!(bounded(long), whole.text());
        assert_eq!(bounded(whole.text()), whole.text());
        // An agent that withdraws the long part can add text again, and the note stays while any
        // part is incomplete.
        whole.apply(&text(2, "later", false));
        whole.apply(&text(0, "", true));
        assert!(whole.text().ends_with(CUT));
        whole.apply(&text(2, "", true));
        whole.apply(&text(1, "short", false));
        assert_eq!(whole.text(), "short");
    }

    #[test]
    fn the_state_after_a_flood_of_events_is_bounded() {
        let mut transcript = Transcript::default();
        let task = |id: usize| AgentTask {
            id: id.to_string(),
            kind: TaskKind::Command,
            title: String::new(),
            status: TaskStatus::Running,
            tool: None,
            background: true,
            summary: None,
        };
        let quota = Quota {
            id: "week".to_owned(),
            label: "week".to_owned(),
            used_percent: None,
            resets: None,
            exhausted: false,
        };
        for id in 0..10_000 {
            transcript.apply(&AgentEventKind::Task(task(id)));
            transcript.apply(&AgentEventKind::Notice("look".into()));
            let (path, sample) = (None, String::new());
            let unknown =
                Unrecognised { what: id.to_string(), path, sample, ..Unrecognised::default() };
            transcript.apply(&AgentEventKind::Unrecognised(unknown));
        }
        transcript.apply(&AgentEventKind::Quota(vec![quota; 10_000]));
        let counts = (transcript.tasks().len(), transcript.quota().len());
        assert_eq!(counts, (TASKS, QUOTAS));
        let counts = (transcript.notices().len(), transcript.unrecognised().len());
        assert_eq!(counts, (NOTICES, UNKNOWN_KINDS));
        // A known task can still change.
        transcript.apply(&AgentEventKind::Task(AgentTask { title: "new".to_owned(), ..task(0) }));
        assert_eq!(transcript.tasks()[0].title, "new");
    }

    #[test]
    fn a_tool_announced_twice_is_one_tool() {
        let mut transcript = Transcript::default();
        let mut start = ToolStart {
            id: "t1".to_owned(),
            parent: None,
            kind: "bash".to_owned(),
            native_name: "Bash".to_owned(),
            title: String::new(),
            target: None,
            input: "{}".to_owned(),
        };
        transcript.apply(&AgentEventKind::ToolStart(start.clone()));
        start.title = "ls".to_owned();
        transcript.apply(&AgentEventKind::ToolStart(start));
        assert_eq!(
            transcript.open_tools().map(|tool| tool.start.id.as_str()).collect::<Vec<_>>(),
            ["t1"]
        );
        assert_eq!(transcript.tools()[0].start.title, "ls");
    }

    #[test]
    fn a_running_tool_whose_output_is_resent_shows_the_last_one() {
        let mut transcript = Transcript::default();
        transcript.apply(&AgentEventKind::ToolStart(ToolStart {
            id: "t1".to_owned(),
            parent: None,
            kind: "bash".to_owned(),
            native_name: "Bash".to_owned(),
            title: String::new(),
            target: None,
            input: "{}".to_owned(),
        }));
        for (text, replace) in [("one\n", true), ("one\ntwo\n", true), ("three\n", false)] {
            let (id, text) = ("t1".to_owned(), text.to_owned());
            transcript.apply(&AgentEventKind::ToolOutput(ToolOutput { id, text, replace }));
        }
        assert_eq!(transcript.tools()[0].last_lines(9), ["one", "two", "three"]);
    }

    #[test]
    fn a_running_tool_keeps_the_end_of_its_output_however_it_was_cut() {
        let start = ToolStart {
            id: "t1".to_owned(),
            parent: None,
            kind: "bash".to_owned(),
            native_name: "Bash".to_owned(),
            title: String::new(),
            target: None,
            input: "{}".to_owned(),
        };
        let said: String = (0..600).map(|line| format!("línea {line}\n\n")).collect();
        let printed = |size: usize| {
            let mut transcript = Transcript::default();
            transcript.apply(&AgentEventKind::ToolStart(start.clone()));
            let mut rest = said.as_str();
            while !rest.is_empty() {
                let (piece, more) = rest.split_at(rest.ceil_char_boundary(size));
                let (id, text) = ("t1".to_owned(), piece.to_owned());
                transcript.apply(&AgentEventKind::ToolOutput(ToolOutput {
                    id,
                    text,
                    replace: false,
                }));
                rest = more;
            }
            transcript
        };
        let whole = printed(said.len());
        assert_eq!(whole.tools()[0].last_lines(3), ["línea 597", "línea 598", "línea 599"]);
        assert!(whole.tools()[0].tail.len() <= TAIL);
        for size in [1, 7, 100, 3000] {
            assert_eq!(printed(size), whole, "in pieces of {size}");
        }
        let mut ended = whole;
        let (id, status, output) = ("t1".to_owned(), ToolStatus::Ok, None);
        let end = ToolEnd { id, status, output, exit_code: None, diffs: Vec::new() };
        ended.apply(&AgentEventKind::ToolEnd(end));
        assert!(ended.tools()[0].last_lines(3).is_empty(), "nothing of it is kept");
    }
}
