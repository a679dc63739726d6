//! Folding agent-events into what a person should see at this moment.
//!
//! [`Transcript`] is the state of one turn as told so far. It owns no I/O and no clock, and how
//! events were batched never changes it. Taking an event in costs as much as the event is long,
//! however many came before it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::agent::{
    Artifact, EventKind, PlanEntry, Quota, Task, Text, ToolEnd, ToolStart, ToolStatus,
    Unrecognised, Usage,
};

/// Artifacts of one turn that are kept.
const ARTIFACTS: usize = 10;

/// A tool use and how it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolUse {
    /// The event with which it began.
    pub start: ToolStart,
    /// None while it runs.
    pub status: Option<ToolStatus>,
}

/// A turn as told so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript {
    text: BTreeMap<u32, String>,
    thinking: BTreeMap<u32, String>,
    tools: Vec<ToolUse>,
    /// Where each tool use stands in `tools`, by its id.
    places: HashMap<String, usize>,
    /// Which of `tools` are still running.
    running: BTreeSet<usize>,
    plan: Vec<PlanEntry>,
    usage: Option<Usage>,
    artifacts: Vec<Artifact>,
    tasks: Vec<Task>,
    quota: Vec<Quota>,
    notices: Vec<String>,
    retry: Option<String>,
    unrecognised: BTreeMap<String, u32>,
    /// Something unknown came, and no tool began or ended after it.
    unknown_last: bool,
}

impl Transcript {
    /// Takes one event in.
    pub fn apply(&mut self, event: &EventKind) {
        match event {
            // A sub-agent's words are no part of the answer.
            EventKind::Text(text) | EventKind::Thinking(text) if text.parent.is_some() => {
                self.retry = None
            }
            EventKind::Text(text) => {
                self.retry = None;
                fold_text(&mut self.text, text);
            }
            EventKind::Thinking(text) => {
                self.retry = None;
                fold_text(&mut self.thinking, text);
            }
            EventKind::ToolStart(start) => {
                self.unknown_last = false;
                // Agents announce a tool first and tell its input later.
                if let Some(at) = self.places.get(&start.id) {
                    self.tools[*at].start = start.clone();
                } else {
                    self.places.insert(start.id.clone(), self.tools.len());
                    self.running.insert(self.tools.len());
                    self.tools.push(ToolUse { start: start.clone(), status: None });
                }
            }
            EventKind::ToolEnd(end) => {
                self.unknown_last = false;
                self.end_tool(end);
            }
            EventKind::Plan(plan) => self.plan.clone_from(plan),
            EventKind::Usage(usage) => self.usage = Some(usage.clone()),
            EventKind::Retry(failure) => self.retry = Some(failure.message.clone()),
            EventKind::Notice(notice) => self.notices.push(notice.clone()),
            EventKind::Unrecognised(Unrecognised { what, .. }) => {
                self.unknown_last = true;
                *self.unrecognised.entry(what.clone()).or_default() += 1;
            }
            EventKind::Artifact(artifact) if self.artifacts.len() < ARTIFACTS => {
                self.artifacts.push(artifact.clone())
            }
            EventKind::Task(task) => {
                match self.tasks.iter_mut().find(|known| known.id == task.id) {
                    Some(known) => known.clone_from(task),
                    None => self.tasks.push(task.clone()),
                }
            }
            EventKind::Quota(quota) => self.quota.clone_from(quota),
            EventKind::ToolOutput(_)
            | EventKind::Artifact(_)
            | EventKind::Mode(_)
            | EventKind::Title(_)
            | EventKind::Raw(_) => {}
        }
    }

    /// Ends a tool that the agent left open: the host says so, not the agent.
    pub fn end_tool(&mut self, end: &ToolEnd) {
        if let Some(at) = self.places.get(&end.id) {
            self.tools[*at].status = Some(end.status);
            self.running.remove(at);
        }
    }

    /// The answer so far: the text parts in order, a blank line between them.
    #[must_use]
    pub fn text(&self) -> String {
        joined(&self.text)
    }

    /// Whether text came, and nothing of it can be seen.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.text.values().any(|part| !part.is_empty())
            && self.text.values().all(|part| part.trim().is_empty())
    }

    /// The thinking so far.
    #[must_use]
    pub fn thinking(&self) -> String {
        joined(&self.thinking)
    }

    /// The tool uses in the order they began.
    #[must_use]
    pub fn tools(&self) -> &[ToolUse] {
        &self.tools
    }

    /// A tool use, by its id.
    #[must_use]
    pub fn tool(&self, id: &str) -> Option<&ToolUse> {
        self.places.get(id).map(|at| &self.tools[*at])
    }

    /// The tools that are still running, in the order they began.
    pub fn open_tools(&self) -> impl DoubleEndedIterator<Item = &ToolUse> {
        self.running.iter().map(|at| &self.tools[*at])
    }

    /// The agent's plan as it last told it; empty: it told none.
    #[must_use]
    pub fn plan(&self) -> &[PlanEntry] {
        &self.plan
    }

    /// The last usage told.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.usage.clone()
    }

    /// Images and resources of the answer, in order.
    #[must_use]
    pub fn artifacts(&self) -> &[Artifact] {
        &self.artifacts
    }

    /// Sub-agents and what goes on in the background, in the order they began.
    #[must_use]
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The allowances, as told last.
    #[must_use]
    pub fn quota(&self) -> &[Quota] {
        &self.quota
    }

    /// Notices for people, in order.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// The failure the agent is retrying after, until something else happens.
    #[must_use]
    pub fn retry(&self) -> Option<&str> {
        self.retry.as_deref()
    }

    /// Whether the last thing told, tools and unknown things alone counted, was unknown: what the
    /// agent said after its tools.
    #[must_use]
    pub fn ends_unknown(&self) -> bool {
        self.unknown_last
    }

    /// The kinds of things the parser did not know, each with how often.
    #[must_use]
    pub fn unrecognised(&self) -> &BTreeMap<String, u32> {
        &self.unrecognised
    }
}

fn fold_text(parts: &mut BTreeMap<u32, String>, text: &Text) {
    if text.replace {
        if text.text.is_empty() {
            parts.remove(&text.part);
        } else {
            parts.insert(text.part, text.text.clone());
        }
    } else {
        parts.entry(text.part).or_default().push_str(&text.text);
    }
}

fn joined(parts: &BTreeMap<u32, String>) -> String {
    let mut all = String::new();
    for part in parts.values().filter(|part| !part.trim().is_empty()) {
        if !all.is_empty() {
            all.push_str("\n\n");
        }
        all.push_str(part);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(part: u32, text: &str, replace: bool) -> EventKind {
        EventKind::Text(Text { part, text: text.to_owned(), replace, parent: None })
    }

    #[test]
    fn a_whole_part_supersedes_its_pieces_and_an_empty_one_withdraws_it() {
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
    fn a_tool_told_twice_is_one_tool() {
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
        transcript.apply(&EventKind::ToolStart(start.clone()));
        start.title = "ls".to_owned();
        transcript.apply(&EventKind::ToolStart(start));
        assert_eq!(
            transcript.open_tools().map(|tool| tool.start.id.as_str()).collect::<Vec<_>>(),
            ["t1"]
        );
        assert_eq!(transcript.tools()[0].start.title, "ls");
    }
}
