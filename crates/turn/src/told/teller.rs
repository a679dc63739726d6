//! Builds the transcript of one turn from the entries of a recording. Pure, with bounded memory.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use super::{Asked, Block, Gap, Happened, Made, Told, Tool, Words};
use crate::recording::{Entry, Header, SPARSE, UNSEEN, What};
use aetheel_model::agent::{
    Action, AgentEvent, Answer, ArtifactBody, Ask, AskKey, AskKind, Command, Decision, EventKind,
    Input, Part, SessionKey, SessionReady, StartTurn, Text, ToolEnd, ToolStart, TurnDone, TurnKey,
};

/// Maximum number of blocks of a turn. Further blocks are only counted.
const BLOCKS: usize = 4_000;
/// Maximum size of one text, in bytes.
const TEXT: usize = 4 << 20;
/// Maximum size of all texts of a turn together, in bytes.
const ALL: usize = 24 << 20;
/// Maximum number of parts of a prompt.
const PIECES: usize = 50;

/// The key of a streamed text: the part of the answer or of the thinking, or the sub-agent and its
/// part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stream {
    Text(u32),
    Thinking(u32),
    Aside(String, u32),
}

pub(super) struct Teller {
    turn: String,
    told: Told,
    started: Option<Timestamp>,
    /// The guest's keys of the turn and its beginning in milliseconds of the link's time, or `None`
    /// before the turn begins.
    keys: Option<(SessionKey, TurnKey, f64)>,
    /// The latest report on each session of the link.
    sessions: HashMap<SessionKey, SessionReady>,
    /// The blocks of each stream, in order.
    streams: HashMap<Stream, Vec<usize>>,
    /// The stream of the last block, if no other block followed.
    open: Option<Stream>,
    tools: HashMap<String, usize>,
    asks: HashMap<AskKey, usize>,
    tasks: HashMap<String, usize>,
    plan: Option<usize>,
    /// The size of all stored texts, in bytes.
    kept: usize,
    /// The size of the line that is being added, in bytes.
    line: usize,
    unreadable: u64,
    over: bool,
}

impl Teller {
    pub(super) fn new(header: Header, turn: &str) -> Self {
        let told = Told {
            backend: header.backend,
            backend_version: header.backend_version,
            agent_version: header.agent_version,
            ..Told::default()
        };
        Self {
            turn: turn.to_owned(),
            told,
            started: header.started.parse().ok(),
            keys: None,
            sessions: HashMap::new(),
            streams: HashMap::new(),
            open: None,
            tools: HashMap::new(),
            asks: HashMap::new(),
            tasks: HashMap::new(),
            plan: None,
            kept: 0,
            line: 0,
            unreadable: 0,
            over: false,
        }
    }

    /// Returns whether a line may concern the turn. Most lines are output of agents and need no
    /// parsing.
    pub(super) fn wants(&self, line: &str) -> bool {
        let told = |side: &str| {
            let (_, rest) = line.get(..80).unwrap_or(line).split_once(side)?;
            rest.split('"').next()
        };
        match (told("\"in\":{\""), told("\"out\":{\"")) {
            (Some(kind), _) => kind == "command" && self.keys.is_some(),
            (_, Some("session-ready")) => true,
            (_, Some(kind)) => {
                self.keys.is_some()
                    && matches!(kind, "event" | "ask" | "ask-withdrawn" | "turn-done")
            }
            (None, None) => !line.contains("\"launch\":{"),
        }
    }

    /// Counts a line that could not be read.
    pub(super) fn unreadable(&mut self) {
        // Damage before the beginning of the turn does not concern it.
        self.unreadable += u64::from(self.keys.is_some());
    }

    /// Notes that the rest of the recording is not read.
    pub(super) fn endless(&mut self) {
        self.gap(Gap::Endless);
    }

    /// Returns whether the turn has ended, so that later lines do not concern it.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Returns the transcript, or `None` if the recording does not contain the turn.
    pub(super) fn told(mut self) -> Option<Told> {
        let (session, ..) = self.keys?;
        self.told.session = self.sessions.remove(&session);
        if self.unreadable > 0 {
            self.gap(Gap::Unreadable(self.unreadable));
        }
        Some(self.told)
    }

    /// Adds an entry, whose line has `bytes` bytes.
    pub(super) fn take(&mut self, entry: Entry, bytes: usize) {
        let t = entry.t;
        self.line = bytes;
        let Some((session, key, began)) = self.keys else {
            match entry.what {
                What::Turn { turn, session, key, .. } if turn == self.turn => {
                    self.keys = Some((session, key, t));
                    self.told.began = self.started.and_then(|started| {
                        started.checked_add(Duration::try_from_secs_f64(t / 1000.0).ok()?).ok()
                    });
                }
                What::Out(Action::SessionReady(ready)) => self.session(ready),
                _ => {}
            }
            return;
        };
        // Float casts saturate.
        let at_ms = (t - began).max(0.0) as u64;
        match entry.what {
            What::Ending { turn, how } if turn == self.turn => {
                self.told.ending = Some(how);
                self.told.took_ms = Some(at_ms);
                self.over = true;
            }
            What::Cut(why) => self.gap(Gap::Cut(why)),
            What::Lost(lines) => self.gap(Gap::Lost(lines)),
            What::Host(what) if what == SPARSE => self.gap(Gap::Sparse),
            What::Host(what) if what == UNSEEN => self.gap(Gap::Unseen),
            What::In(Input::Command(command)) => self.command(command, (session, key), at_ms),
            What::Out(Action::SessionReady(ready)) => self.session(ready),
            What::Out(Action::Event(AgentEvent { turn, kind, .. })) if turn == key => {
                self.event(kind, at_ms)
            }
            What::Out(Action::Ask(ask)) if ask.turn == key => self.ask(ask, at_ms),
            What::Out(Action::AskWithdrawn(ask)) => {
                if let Some(asked) = self.asked(ask) {
                    asked.withdrawn = true;
                }
            }
            What::Out(Action::TurnDone(done)) if done.turn == key => self.done(done, at_ms),
            _ => {}
        }
    }

    fn command(&mut self, command: Command, (session, key): (SessionKey, TurnKey), at_ms: u64) {
        match command {
            Command::StartTurn(start) if (start.session, start.turn) == (session, key) => {
                self.start(start)
            }
            Command::Steer(steer) if steer.turn == key => {
                let mut words = Words::default();
                for part in steer.parts {
                    self.add_to(&mut words, &said(part));
                }
                self.push(at_ms, Happened::Steered(words));
            }
            Command::Interrupt(turn) if turn.turn == key => {
                self.push(at_ms, Happened::Stopped);
            }
            Command::Answer(Answer { ask, decision }) => {
                if let Some(asked) = self.asked(ask) {
                    asked.decision.get_or_insert(decision);
                    asked.hide_secrets();
                }
            }
            _ => {}
        }
    }

    fn start(&mut self, start: StartTurn) {
        self.told.model = start.settings.model;
        for part in start.parts.into_iter().take(PIECES) {
            match part {
                Part::Text(text) => {
                    let mut words = Words::default();
                    self.add_to(&mut words, &text);
                    self.told.prompt.push(words.text);
                }
                Part::Image(file) | Part::File(file) => self.told.attached.push(file.name),
            }
        }
    }

    fn session(&mut self, ready: SessionReady) {
        if self.sessions.len() < BLOCKS || self.sessions.contains_key(&ready.session) {
            self.sessions.insert(ready.session, ready);
        }
    }

    fn event(&mut self, kind: EventKind, at_ms: u64) {
        match kind {
            EventKind::Text(Text { part, text, replace, parent: None }) => {
                self.words(Stream::Text(part), &text, replace, at_ms)
            }
            EventKind::Thinking(Text { part, text, replace, parent: None }) => {
                self.words(Stream::Thinking(part), &text, replace, at_ms)
            }
            EventKind::Text(Text { part, text, replace, parent: Some(parent) })
            | EventKind::Thinking(Text { part, text, replace, parent: Some(parent) }) => {
                self.words(Stream::Aside(parent, part), &text, replace, at_ms)
            }
            EventKind::ToolStart(start) => self.tool_start(start, at_ms),
            EventKind::ToolOutput(output) => {
                self.with_tool(&output.id, |teller, tool| {
                    teller.add_to(&mut tool.output, &output.text);
                });
            }
            EventKind::ToolEnd(end) => self.tool_end(end, at_ms),
            EventKind::Plan(plan) => match self.plan {
                Some(at) => self.told.blocks[at].what = Happened::Plan(plan),
                None => self.plan = self.push(at_ms, Happened::Plan(plan)),
            },
            EventKind::Usage(usage) => self.told.usage = Some(usage),
            EventKind::Artifact(artifact) => {
                let link = match artifact.body {
                    ArtifactBody::Link(link) => Some(link),
                    ArtifactBody::Base64(_) | ArtifactBody::Text(_) => None,
                };
                let (name, media_type) = (artifact.name, artifact.media_type);
                self.push(at_ms, Happened::Made(Made { name, media_type, link }));
            }
            EventKind::Task(task) => match self.tasks.get(&task.id) {
                Some(at) => self.told.blocks[*at].what = Happened::Task(task),
                None => {
                    let id = task.id.clone();
                    if let Some(at) = self.push(at_ms, Happened::Task(task)) {
                        self.tasks.insert(id, at);
                    }
                }
            },
            EventKind::Retry(failure) => {
                self.push(at_ms, Happened::Retry(failure.message));
            }
            EventKind::Notice(notice) => {
                self.push(at_ms, Happened::Notice(notice));
            }
            EventKind::Unrecognised(_) => self.told.unknown += 1,
            EventKind::Quota(_) | EventKind::Mode(_) | EventKind::Title(_) | EventKind::Raw(_) => {}
        }
    }

    /// Adds text to a stream. If another block interrupted the stream, the text begins a new block,
    /// so that the order is visible. Text of a sub-agent stays in one block.
    fn words(&mut self, stream: Stream, text: &str, replace: bool, at_ms: u64) {
        let blocks = self.streams.get(&stream).cloned().unwrap_or_default();
        if replace {
            return self.replace(stream, &blocks, text, at_ms);
        }
        if text.is_empty() {
            return;
        }
        let goes_on = self.open.as_ref() == Some(&stream) || matches!(stream, Stream::Aside(..));
        let last = blocks.last().copied().filter(|_| goes_on);
        let Some(at) = last else {
            let mut words = Words::default();
            self.add_to(&mut words, text);
            let what = match &stream {
                Stream::Text(_) => Happened::Text(words),
                Stream::Thinking(_) => Happened::Thinking(words),
                Stream::Aside(tool, _) => Happened::Aside(tool.clone(), words),
            };
            if let Some(at) = self.push(at_ms, what) {
                self.streams.entry(stream.clone()).or_default().push(at);
                self.open = Some(stream);
            }
            return;
        };
        self.with_words(at, |teller, words| teller.add_to(words, text));
    }

    /// Replaces the text of a stream. Text that is already there stays in its blocks.
    fn replace(&mut self, stream: Stream, blocks: &[usize], text: &str, at_ms: u64) {
        let told: String = blocks
            .iter()
            .filter_map(|at| self.told.blocks[*at].what.words())
            .map(|words| words.text.as_str())
            .collect();
        if let Some(more) = text.strip_prefix(told.as_str()) {
            return match blocks.last().filter(|_| !told.is_empty()) {
                Some(at) => self.with_words(*at, |teller, words| teller.add_to(words, more)),
                None => self.words(stream, text, false, at_ms),
            };
        }
        // The text is different, so it goes to the stream's last block.
        let Some((last, before)) = blocks.split_last() else { return };
        for at in before.iter().chain([last]) {
            self.with_words(*at, |teller, words| {
                teller.kept -= words.text.len();
                *words = Words::default();
            });
        }
        self.with_words(*last, |teller, words| teller.add_to(words, text));
    }

    fn tool_start(&mut self, start: ToolStart, at_ms: u64) {
        let ToolStart { id, native_name: name, title, target, input, .. } = start;
        let mut words = Words::default();
        self.add_to(&mut words, &input);
        // Agents announce a tool first and report its input later.
        let known = self.with_tool(&id, |teller, tool| {
            teller.kept -= tool.input.text.len();
            tool.input = words.clone();
            (tool.name, tool.title, tool.target) = (name.clone(), title.clone(), target.clone());
        });
        if !known {
            let tool = Tool { name, title, target, input: words, ..Tool::default() };
            if let Some(at) = self.push(at_ms, Happened::Tool(Box::new(tool))) {
                self.tools.insert(id, at);
            }
        }
    }

    fn tool_end(&mut self, end: ToolEnd, at_ms: u64) {
        let began = self.tools.get(&end.id).map(|at| self.told.blocks[*at].at_ms);
        let room = ALL.saturating_sub(self.kept);
        let size = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let diffs: usize = end
            .diffs
            .iter()
            .map(|diff| size(&diff.old_text) + size(&diff.new_text) + size(&diff.unified))
            .sum();
        self.with_tool(&end.id, |teller, tool| {
            tool.status = Some(end.status);
            tool.exit_code = end.exit_code;
            tool.took_ms = began.map(|began| at_ms.saturating_sub(began));
            if diffs <= room {
                teller.kept += diffs;
                tool.diffs = end.diffs.clone();
            } else {
                tool.output.left_out += diffs as u64;
            }
            if let Some(output) = &end.output {
                teller.kept -= tool.output.text.len();
                tool.output = Words::default();
                teller.add_to(&mut tool.output, output);
            }
        });
    }

    fn ask(&mut self, ask: Ask, at_ms: u64) {
        let key = ask.ask;
        let asked = Asked { ask, decision: None, withdrawn: false };
        // A key may be used again. An answer belongs to its latest use.
        if let Some(at) = self.push(at_ms, Happened::Asked(Box::new(asked))) {
            self.asks.insert(key, at);
        }
    }

    fn asked(&mut self, ask: AskKey) -> Option<&mut Asked> {
        match &mut self.told.blocks[*self.asks.get(&ask)?].what {
            Happened::Asked(asked) => Some(asked),
            _ => None,
        }
    }

    fn done(&mut self, done: TurnDone, at_ms: u64) {
        if self.told.outcome.is_some() {
            return;
        }
        if let Some(usage) = done.usage {
            self.told.usage = Some(usage);
        }
        // The text at the end of the turn has priority over the streamed text.
        if let Some(text) = done.text
            && text.trim() != self.told.answer().trim()
        {
            let mut words = Words::default();
            self.add_to(&mut words, &text);
            self.push(at_ms, Happened::Text(words));
        }
        self.told.outcome = Some(done.outcome);
    }

    /// Adds a block and returns its index, or `None` if there are too many blocks.
    fn push(&mut self, at_ms: u64, what: Happened) -> Option<usize> {
        self.open = None;
        if self.told.blocks.len() >= BLOCKS || self.kept >= ALL {
            self.told.blocks_left_out += 1;
            return None;
        }
        if what.words().is_none() && !matches!(what, Happened::Tool(_) | Happened::Steered(_)) {
            self.kept += self.line;
        }
        self.told.blocks.push(Block { at_ms, what });
        Some(self.told.blocks.len() - 1)
    }

    /// Appends to a text as much as the limits allow.
    fn add_to(&mut self, words: &mut Words, text: &str) {
        let room = TEXT.saturating_sub(words.text.len()).min(ALL.saturating_sub(self.kept));
        // After a gap nothing may be appended, because it would look contiguous.
        let room = if words.left_out > 0 { 0 } else { room };
        let taken = text.floor_char_boundary(room);
        words.text.push_str(&text[..taken]);
        words.left_out += (text.len() - taken) as u64;
        self.kept += taken;
    }

    fn with_words(&mut self, at: usize, change: impl FnOnce(&mut Self, &mut Words)) {
        let mut what = std::mem::replace(&mut self.told.blocks[at].what, Happened::Stopped);
        if let Some(words) = what.words_mut() {
            change(self, words);
        }
        self.told.blocks[at].what = what;
    }

    /// Changes a tool. Returns false if no tool has this id.
    fn with_tool(&mut self, id: &str, change: impl FnOnce(&mut Self, &mut Tool)) -> bool {
        let Some(at) = self.tools.get(id).copied() else { return false };
        let mut what = std::mem::replace(&mut self.told.blocks[at].what, Happened::Stopped);
        if let Happened::Tool(tool) = &mut what {
            change(self, tool);
        }
        self.told.blocks[at].what = what;
        true
    }

    fn gap(&mut self, gap: Gap) {
        let same =
            |known: &&mut Gap| std::mem::discriminant(&**known) == std::mem::discriminant(&gap);
        match (self.told.gaps.iter_mut().find(same), &gap) {
            (Some(Gap::Lost(all)), Gap::Lost(more)) => *all = all.saturating_add(*more),
            (Some(_), _) => {}
            (None, _) => self.told.gaps.push(gap),
        }
    }
}

/// Returns the text of a part of a message.
fn said(part: Part) -> String {
    match part {
        Part::Text(text) => text,
        Part::Image(file) | Part::File(file) => file.name,
    }
}

impl Happened {
    fn words(&self) -> Option<&Words> {
        match self {
            Self::Text(words) | Self::Thinking(words) | Self::Aside(_, words) => Some(words),
            _ => None,
        }
    }

    fn words_mut(&mut self) -> Option<&mut Words> {
        match self {
            Self::Text(words) | Self::Thinking(words) | Self::Aside(_, words) => Some(words),
            _ => None,
        }
    }
}

impl Asked {
    /// Masks the answers to questions for secrets, however short they are.
    fn hide_secrets(&mut self) {
        let (AskKind::Questions(questions), Some(Decision::Answers(answers))) =
            (&self.ask.kind, &mut self.decision)
        else {
            return;
        };
        let secret = |id: &str| questions.iter().any(|asked| asked.secret && asked.id == id);
        for (_, values) in answers.iter_mut().filter(|(id, _)| secret(id)) {
            values.iter_mut().for_each(|value| "***".clone_into(value));
        }
    }
}
