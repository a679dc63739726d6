//! Detects answers that an agent gave and that people could not read, whatever its backend reports.
//!
//! It works for every backend without knowing its agent's format: [`OutputLedger`] keeps the
//! agent's raw output and all text that the backend made of it. When a turn ends without a readable
//! answer, prose in the raw output that appears nowhere in that text was lost. `docs/drift.md`
//! states the rule and its limits. Pure: no I/O, no clock.

mod prose;
mod scan;
mod shown;

use std::collections::{BTreeMap, VecDeque};

use self::scan::Scan;
use self::shown::{ShownText, StreamKind, normal};
use aetheel_model::agent::{
    Action, AgentEventKind, ArgumentValue, Chunk, HostCommand, Input, Pipe, PromptPart, StartTurn,
    TextEvent, TurnDone, TurnKey, TurnOutcome,
};
use aetheel_model::baseline::{Baseline, Positions};
use aetheel_model::fold::MAX_TEXT_BYTES;

/// Maximum raw output that is kept of the open turns of a link, in bytes. The oldest units are
/// dropped first.
const RAW_LIMIT: usize = 512 << 10;
/// Maximum size of a line or body that is examined, in bytes. Larger ones are ignored.
const UNIT_LIMIT: usize = 256 << 10;
/// Number of characters at the beginning of the prompt by which it is recognised in the data that
/// the backend sends to the agent.
const PROMPT_MARK: usize = 24;

/// A piece of raw output: a line of stdout, the body of an HTTP response, or an event of a stream.
struct OutputUnit {
    number: u64,
    text: String,
    /// Whether the backend reported unknown output when it got the unit.
    unknown: bool,
}

/// The answer that people see of one turn so far, without spaces and punctuation.
#[derive(Default)]
struct VisibleAnswer {
    parts: BTreeMap<u32, AnswerPart>,
    tools: bool,
    /// Whether the backend reported output that it does not know.
    unknown: bool,
    /// The number (in order of arrival) of the first unit that may have arrived after the last tool
    /// event.
    boundary: u64,
}

#[derive(Default)]
struct AnswerPart {
    /// The text before the last tool event.
    before: String,
    /// The text after the last tool event.
    since: String,
}

impl VisibleAnswer {
    fn text(&mut self, text: &TextEvent) {
        let new = visible(&text.text);
        if !text.replace {
            let since = &mut self.parts.entry(text.part).or_default().since;
            if since.len() < MAX_TEXT_BYTES {
                since.push_str(&new);
            }
            return;
        }
        // Text from before the tool that is sent again does not answer what the tool found.
        if !new.is_empty() && self.parts.values().any(|part| part.before.contains(&new)) {
            return;
        }
        let part = self.parts.entry(text.part).or_default();
        if new.is_empty() {
            *part = AnswerPart::default();
        } else {
            part.since = new.strip_prefix(&part.before).unwrap_or(&new).to_owned();
        }
    }

    fn on_tool(&mut self, boundary: u64) {
        self.tools = true;
        self.boundary = self.boundary.max(boundary);
        for part in self.parts.values_mut() {
            part.before.push_str(&std::mem::take(&mut part.since));
        }
    }

    /// Returns whether people can read text that came after the last tool. `last` is the text with
    /// which the guest ended the turn.
    fn is_readable(&self, last: &str) -> bool {
        let repeats = self.tools && self.parts.values().any(|part| part.before.contains(last));
        self.parts.values().any(|part| !part.since.is_empty()) || (!last.is_empty() && !repeats)
    }
}

/// The result of comparing the raw output of a turn with the text that people saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examination {
    /// The path, in the agent's output, of an answer that people could not read.
    pub lost: Option<String>,
    /// The path of a part of the answer that people could not read, although they read another one.
    pub lost_part: Option<String>,
    /// The positions of text in the output, if people could read the answer and the baseline (the
    /// usual output of this version of the agent) is still learning.
    pub positions: Option<Positions>,
}

/// The raw output of a link's open turns, and the text that its backend made of it.
#[derive(Default)]
pub struct OutputLedger {
    units: VecDeque<OutputUnit>,
    bytes: usize,
    next: u64,
    /// The number of the first unit of the last call into the guest.
    batch: u64,
    shown: ShownText,
    turns: BTreeMap<TurnKey, VisibleAnswer>,
    /// The beginning of the prompt, until the backend sends it to the agent.
    prompt: Option<String>,
}

impl OutputLedger {
    /// Forgets everything. Called when no turn is open.
    pub fn clear(&mut self) {
        *self = Self { next: self.next, batch: self.next, ..Self::default() };
    }

    /// Adds the inputs of one call into the guest.
    pub fn inputs<'a>(&mut self, inputs: impl IntoIterator<Item = &'a Input>) {
        self.batch = self.next;
        inputs.into_iter().for_each(|input| self.input(input));
    }

    fn input(&mut self, input: &Input) {
        match input {
            Input::Line(line) if line.pipe == Pipe::Stdout => self.raw(&line.text),
            Input::HttpResponse(response) => self.raw(&response.body),
            Input::StreamEvent(event) => self.raw(&event.data),
            Input::Command(HostCommand::StartTurn(start)) => {
                self.turns.insert(
                    start.turn,
                    VisibleAnswer { boundary: self.next, ..VisibleAnswer::default() },
                );
                self.add_prompt(&start.parts);
                let first = start.parts.iter().find_map(|part| match part {
                    PromptPart::Text(text) => {
                        text.lines().map(normal).find(|line| !line.is_empty())
                    }
                    _ => None,
                });
                self.prompt = first.map(|line| line.chars().take(PROMPT_MARK).collect());
                if let Some(system) = &start.settings.system_prompt {
                    self.shown.add(system);
                }
                self.shown.add(&start.cwd);
            }
            Input::Command(HostCommand::Steer(steer)) => self.add_prompt(&steer.parts),
            Input::Command(HostCommand::Answer(answer)) => self.shown.add_all(&answer.decision),
            _ => {}
        }
    }

    fn add_prompt(&mut self, parts: &[PromptPart]) {
        for part in parts {
            if let PromptPart::Text(text) = part {
                self.shown.add(text);
            }
        }
    }

    fn raw(&mut self, text: &str) {
        let number = self.next;
        self.next += 1;
        if text.len() > UNIT_LIMIT || text.trim().is_empty() || self.turns.is_empty() {
            return;
        }
        self.bytes += text.len();
        self.units.push_back(OutputUnit { number, text: text.to_owned(), unknown: false });
        while self.bytes > RAW_LIMIT {
            let Some(oldest) = self.units.pop_front() else { return };
            self.bytes -= oldest.text.len();
        }
    }

    /// Adds the actions that the guest returned for the last inputs.
    pub fn actions<'a>(&mut self, actions: impl IntoIterator<Item = &'a Action>) {
        actions.into_iter().for_each(|action| self.action(action));
    }

    fn action(&mut self, action: &Action) {
        match action {
            Action::Spawn(spawn) => {
                let arguments = spawn.arguments.iter().filter_map(|value| match value {
                    ArgumentValue::Text(text) => Some(text.as_str()),
                    _ => None,
                });
                self.check_delivery(arguments.chain(texts(&spawn.stdin)));
            }
            Action::Write(write) => self.check_delivery(texts(&write.body)),
            Action::Http(request) => {
                self.check_delivery(request.body.iter().flat_map(|body| texts(body)))
            }
            Action::Event(event) => self.event(event.turn, &event.kind),
            Action::Ask(ask) => self.shown.add_all(ask),
            Action::ToolRequest(request) => self.shown.add_all(request),
            Action::TurnBegun(turn) => {
                let said = VisibleAnswer { boundary: self.next, ..VisibleAnswer::default() };
                self.turns.entry(turn.turn).or_insert(said);
            }
            Action::SessionReady(ready) => self.shown.add_all(ready),
            Action::QueryAnswer(answer) => self.shown.add_all(answer),
            Action::TurnDone(done) => {
                if let Some(text) = &done.text {
                    let key = (StreamKind::Answer, done.turn, "done".to_owned());
                    self.shown.stream(key, text);
                }
                if let TurnOutcome::Failed(failure) | TurnOutcome::Lost(failure) = &done.outcome {
                    self.shown.add(&failure.message);
                }
            }
            _ => {}
        }
    }

    /// Drops the units collected so far if one of `texts` contains the prompt: output from before
    /// the agent had the prompt cannot be its answer.
    fn check_delivery<'a>(&mut self, mut texts: impl Iterator<Item = &'a str>) {
        let Some(prompt) = &self.prompt else { return };
        if self.turns.len() == 1 && texts.any(|text| normal(text).contains(prompt.as_str())) {
            self.prompt = None;
            self.units.clear();
            self.bytes = 0;
        }
    }

    fn event(&mut self, turn: TurnKey, event: &AgentEventKind) {
        match event {
            AgentEventKind::Text(text) if text.parent.is_none() => {
                let stream = (StreamKind::Answer, turn, text.part.to_string());
                if text.replace {
                    self.shown.withdraw(&stream);
                }
                self.shown.stream(stream, &text.text);
                if let Some(said) = self.turns.get_mut(&turn) {
                    said.text(text);
                }
            }
            AgentEventKind::Text(text) | AgentEventKind::Thinking(text) => {
                let of = text.parent.clone().unwrap_or_default();
                let part = format!("{}{of}", text.part);
                self.shown.stream((StreamKind::Aside, turn, part), &text.text);
            }
            AgentEventKind::ToolOutput(output) => {
                let stream = (StreamKind::ToolOutput, turn, output.id.clone());
                if output.replace {
                    self.shown.withdraw(&stream);
                }
                self.shown.stream(stream, &output.text);
            }
            AgentEventKind::ToolStart(start) => {
                self.shown.add_all(start);
                if start.parent.is_none() {
                    self.tool(turn, &start.id);
                }
            }
            AgentEventKind::ToolEnd(end) => {
                self.shown.add_all(end);
                self.tool(turn, &end.id);
            }
            // Operators see the sample, people do not, so it may be the lost answer.
            AgentEventKind::Unrecognised(_) => {
                let batch = self.units.iter_mut().rev().take_while(|it| it.number >= self.batch);
                batch.for_each(|unit| unit.unknown = true);
                if let Some(said) = self.turns.get_mut(&turn) {
                    said.unknown = true;
                }
            }
            AgentEventKind::Raw(_) => {}
            other => self.shown.add_all(other),
        }
    }

    /// Marks the beginning or end of a tool: the answer is what follows. One call into the guest
    /// may contain several units, so the boundary is the first of them that contains the tool's id.
    fn tool(&mut self, turn: TurnKey, id: &str) {
        let named = self
            .units
            .iter()
            .filter(|unit| unit.number >= self.batch)
            .find(|unit| !id.is_empty() && unit.text.contains(id));
        let boundary = named.map_or(self.batch, |unit| unit.number + 1);
        if let Some(said) = self.turns.get_mut(&turn) {
            said.on_tool(boundary);
        }
    }

    /// Looks for an answer that a turn lost, except at positions that `baseline` ignores.
    ///
    /// If people can read the answer, collects positions for a baseline that is still learning.
    /// Turns that share their output with others, and turns with unknown output, are not used for
    /// learning, because part of their answers may be lost.
    #[must_use]
    pub fn examine(
        &self,
        turn: TurnKey,
        done: Option<&TurnDone>,
        baseline: Option<&Baseline>,
    ) -> Examination {
        let Some(said) = self.turns.get(&turn) else { return Examination::default() };
        let last = done.and_then(|done| done.text.as_deref()).map(visible).unwrap_or_default();
        if said.is_readable(&last) {
            return self.examine_readable(said, baseline);
        }
        let is_begun = said.parts.values().any(|part| !part.before.is_empty());
        let is_last = |unit: &OutputUnit| unit.number >= said.boundary;
        let shown = self.shown.index();
        let lost = |scan: Scan| scan.unaccounted(&shown, baseline);
        // The most likely place first: unknown output after the last tool, then all output after it.
        let lost = lost(self.scan(|unit| unit.unknown && is_last(unit)))
            .or_else(|| lost(self.scan(is_last)))
            .or_else(|| lost(self.scan(|_| true)).filter(|_| !is_begun))
            .or_else(|| {
                let read = self.shown.streamed(&[StreamKind::Answer, StreamKind::Aside])?;
                self.scan(is_last).missing_answer(&read, &shown, baseline?)
            });
        Examination { lost, ..Examination::default() }
    }

    /// Looks for a lost part of an answer, and collects positions for a baseline.
    fn examine_readable(&self, said: &VisibleAnswer, baseline: Option<&Baseline>) -> Examination {
        let mut examined = Examination::default();
        let Some(baseline) = baseline.filter(|_| self.turns.len() == 1 && !said.unknown) else {
            return examined;
        };
        if !baseline.is_learning() && baseline.answers().next().is_none() {
            return examined;
        }
        let scan = self.scan(|_| true);
        examined.lost_part = scan.missing_part(&self.shown.index_with_withdrawn(), baseline);
        if examined.lost_part.is_none() && baseline.is_learning() {
            let read = self.shown.streamed(&[StreamKind::Answer, StreamKind::Withdrawn]);
            let read = read.unwrap_or_default();
            examined.positions = Some(scan.positions(&self.shown.index(), &read, baseline));
        }
        examined
    }

    /// Scans the units that `is_chosen` selects. Learns from all of them which messages people
    /// wrote.
    fn scan(&self, is_chosen: impl Fn(&OutputUnit) -> bool) -> Scan {
        let mut scan = Scan::default();
        self.units.iter().for_each(|unit| scan.unit(&unit.text, is_chosen(unit)));
        scan.flush();
        scan
    }
}

/// Returns the position of text in a line of an agent that is in none of the actions of its backend,
/// so that people never see it.
pub(crate) fn hidden_text<'a>(
    start: Option<&StartTurn>,
    line: &str,
    actions: impl IntoIterator<Item = &'a Action>,
) -> Option<String> {
    let mut ledger = OutputLedger::default();
    let start = start.map(|start| Input::Command(HostCommand::StartTurn(start.clone())));
    ledger.inputs(&start);
    ledger.actions(actions);
    let mut scan = Scan::default();
    scan.unit(line, true);
    scan.flush();
    scan.unaccounted(&ledger.shown.index(), None)
}

/// Returns the normalised text, or the trimmed text if nothing is left of it, as of an emoji.
fn visible(text: &str) -> String {
    let normal = normal(text);
    if normal.is_empty() { text.trim().to_owned() } else { normal }
}

fn texts(chunks: &[Chunk]) -> impl Iterator<Item = &str> {
    chunks.iter().filter_map(|chunk| match chunk {
        Chunk::Text(text) => Some(text.as_str()),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
