//! Builds the transcript of one turn from the entries of a recording. Pure, with bounded memory.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

mod asks;
mod limits;

use self::asks::ask_of;
use self::limits::{MAX_BLOCKS, MAX_TOTAL_BYTES};
use super::{ArtifactBlock, AskBlock, BlockKind, BoundedText, Gap, ToolBlock, TurnTranscript};
use crate::{EntryKind, Header, RecordingEntry, SPARSE, UNSEEN};
use aetheel_model::agent::{
    Action, AgentEvent, AgentEventKind, AgentNotice, ArtifactBody, AskAnswer, AskKey,
    DiagnosticLevel, HostCommand, Input, PromptPart, SessionKey, SessionReady, StartTurn,
    TextEvent, ToolEnd, ToolStart, TurnDone, TurnKey,
};
use aetheel_model::host_tool::AskPeople;

/// Maximum number of parts of a prompt.
const MAX_PARTS: usize = 50;

/// The key of a streamed text: the part of the answer or of the thinking, or the sub-agent and its
/// part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum TextStream {
    Text(u32),
    Thinking(u32),
    Aside(String, u32),
}

pub(super) struct TranscriptBuilder {
    turn: String,
    transcript: TurnTranscript,
    started: Option<Timestamp>,
    /// The guest's keys of the turn and its beginning in milliseconds of the link's time, or `None`
    /// before the turn begins.
    keys: Option<(SessionKey, TurnKey, f64)>,
    /// The latest report on each session of the link.
    sessions: HashMap<SessionKey, SessionReady>,
    /// The blocks of each stream, in order.
    streams: HashMap<TextStream, Vec<usize>>,
    /// The stream of the last block, if no other block followed.
    open: Option<TextStream>,
    tools: HashMap<String, usize>,
    asks: HashMap<AskKey, usize>,
    /// The blocks of open calls of host tools that ask people.
    calls: HashMap<u32, usize>,
    tasks: HashMap<String, usize>,
    /// The blocks of notices with a key.
    notices: HashMap<String, usize>,
    plan: Option<usize>,
    /// The size of all stored texts, in bytes.
    kept: usize,
    /// The size of the line that is being added, in bytes.
    line: usize,
    unreadable: u64,
    over: bool,
}

impl TranscriptBuilder {
    pub(super) fn new(header: Header, turn: &str) -> Self {
        let transcript = TurnTranscript {
            backend: header.backend,
            backend_version: header.backend_version,
            agent_version: header.agent_version,
            ..TurnTranscript::default()
        };
        Self {
            turn: turn.to_owned(),
            transcript,
            started: header.started.parse().ok(),
            keys: None,
            sessions: HashMap::new(),
            streams: HashMap::new(),
            open: None,
            tools: HashMap::new(),
            asks: HashMap::new(),
            calls: HashMap::new(),
            tasks: HashMap::new(),
            notices: HashMap::new(),
            plan: None,
            kept: 0,
            line: 0,
            unreadable: 0,
            over: false,
        }
    }

    /// Returns whether a line may concern the turn. Most lines are output of agents and need no
    /// parsing.
    pub(super) fn is_relevant(&self, line: &str) -> bool {
        let kind_after = |side: &str| {
            let (_, rest) = line.get(..80).unwrap_or(line).split_once(side)?;
            rest.split('"').next()
        };
        match (kind_after("\"in\":{\""), kind_after("\"out\":{\"")) {
            (Some(kind), _) => self.keys.is_some() && matches!(kind, "command" | "tool-result"),
            (_, Some("session-ready")) => true,
            (_, Some(kind)) => {
                self.keys.is_some()
                    && matches!(
                        kind,
                        "event" | "ask" | "ask-withdrawn" | "tool-request" | "turn-done"
                    )
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
    pub(super) fn mark_too_long(&mut self) {
        self.gap(Gap::TooLong);
    }

    /// Returns whether the turn has ended, so that later lines do not concern it.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Returns the transcript, or `None` if the recording does not contain the turn.
    pub(super) fn finish(mut self) -> Option<TurnTranscript> {
        let (session, ..) = self.keys?;
        self.transcript.session = self.sessions.remove(&session);
        if self.unreadable > 0 {
            self.gap(Gap::Unreadable(self.unreadable));
        }
        Some(self.transcript)
    }

    /// Adds an entry, whose line has `bytes` bytes.
    pub(super) fn add_entry(&mut self, entry: RecordingEntry, bytes: usize) {
        let t = entry.t;
        self.line = bytes;
        let Some((session, key, began)) = self.keys else {
            match entry.kind {
                EntryKind::Turn { turn, session, key, .. } if turn == self.turn => {
                    self.keys = Some((session, key, t));
                    self.transcript.began = self.started.and_then(|started| {
                        started.checked_add(Duration::try_from_secs_f64(t / 1000.0).ok()?).ok()
                    });
                }
                EntryKind::Out(Action::SessionReady(ready)) => self.session(ready),
                _ => {}
            }
            return;
        };
        // Float casts saturate.
        let at_ms = (t - began).max(0.0) as u64;
        match entry.kind {
            EntryKind::Ending { turn, how } if turn == self.turn => {
                self.transcript.ending = Some(how);
                self.transcript.took_ms = Some(at_ms);
                self.over = true;
            }
            EntryKind::Attached { turn, artifact, .. } if turn == key => {
                self.event(AgentEventKind::Artifact(artifact), at_ms);
            }
            EntryKind::Cut(why) => self.gap(Gap::Cut(why)),
            EntryKind::Lost(lines) => self.gap(Gap::Lost(lines)),
            EntryKind::Host(what) if what == SPARSE => self.gap(Gap::Sparse),
            EntryKind::Host(what) if what == UNSEEN => self.gap(Gap::Unseen),
            EntryKind::In(Input::Command(command)) => self.command(command, (session, key), at_ms),
            EntryKind::Out(Action::SessionReady(ready)) => self.session(ready),
            EntryKind::Out(Action::Event(AgentEvent { turn, kind, .. })) if turn == key => {
                self.event(kind, at_ms)
            }
            EntryKind::Out(Action::Ask(ask)) if ask.turn == key => self.ask(ask, at_ms),
            EntryKind::Out(Action::ToolRequest(request)) | EntryKind::Called(request)
                if request.turn == key =>
            {
                if let Some(ask) = ask_of(&request)
                    && let Some(at) = self.push(at_ms, AskBlock::of(ask))
                {
                    self.calls.insert(request.call, at);
                }
            }
            EntryKind::In(Input::ToolResult(result)) | EntryKind::Returned(result) => {
                if let Some(at) = self.calls.remove(&result.call)
                    && let BlockKind::Asked(asked) = &mut self.transcript.blocks[at].kind
                {
                    asked.decision = Some(AskPeople::decision(result.text));
                }
            }
            EntryKind::Ruled(ruling) => {
                if let Some(asked) = self.asked(ruling.ask) {
                    asked.ruling = ruling.line();
                }
            }
            EntryKind::Out(Action::AskWithdrawn(ask)) => {
                if let Some(asked) = self.asked(ask) {
                    asked.withdrawn = true;
                }
            }
            EntryKind::Out(Action::TurnDone(done)) if done.turn == key => self.done(done, at_ms),
            _ => {}
        }
    }

    fn command(&mut self, command: HostCommand, (session, key): (SessionKey, TurnKey), at_ms: u64) {
        match command {
            HostCommand::StartTurn(start) if (start.session, start.turn) == (session, key) => {
                self.start(start)
            }
            HostCommand::Steer(steer) if steer.turn == key => {
                let mut words = BoundedText::default();
                for part in steer.parts {
                    self.add_to(&mut words, &part_text(part));
                }
                self.push(at_ms, BlockKind::Steered(words));
            }
            HostCommand::Interrupt(turn) if turn.turn == key => {
                self.push(at_ms, BlockKind::Stopped);
            }
            HostCommand::Answer(AskAnswer { ask, decision }) => {
                if let Some(asked) = self.asked(ask) {
                    asked.decision.get_or_insert(decision);
                    asked.hide_secrets();
                }
            }
            _ => {}
        }
    }

    fn start(&mut self, start: StartTurn) {
        self.transcript.model = start.settings.model;
        for part in start.parts.into_iter().take(MAX_PARTS) {
            match part {
                PromptPart::Text(text) => {
                    let mut words = BoundedText::default();
                    self.add_to(&mut words, &text);
                    self.transcript.prompt.push(words.text);
                }
                PromptPart::Image(file) | PromptPart::File(file) => {
                    self.transcript.attached.push(file.name)
                }
            }
        }
    }

    fn session(&mut self, ready: SessionReady) {
        if self.sessions.len() < MAX_BLOCKS || self.sessions.contains_key(&ready.session) {
            self.sessions.insert(ready.session, ready);
        }
    }

    fn event(&mut self, kind: AgentEventKind, at_ms: u64) {
        match kind {
            AgentEventKind::Text(TextEvent { part, text, replace, parent: None }) => {
                self.words(TextStream::Text(part), &text, replace, at_ms)
            }
            AgentEventKind::Thinking(TextEvent { part, text, replace, parent: None }) => {
                self.words(TextStream::Thinking(part), &text, replace, at_ms)
            }
            AgentEventKind::Text(TextEvent { part, text, replace, parent: Some(parent) })
            | AgentEventKind::Thinking(TextEvent { part, text, replace, parent: Some(parent) }) => {
                self.words(TextStream::Aside(parent, part), &text, replace, at_ms)
            }
            AgentEventKind::ToolStart(start) => self.tool_start(start, at_ms),
            AgentEventKind::ToolOutput(output) => {
                self.with_tool(&output.id, |builder, tool| {
                    if output.replace {
                        builder.replace_in(&mut tool.output, &output.text);
                    } else {
                        builder.add_to(&mut tool.output, &output.text);
                    }
                });
            }
            AgentEventKind::ToolEnd(end) => self.tool_end(end, at_ms),
            AgentEventKind::Plan(plan) => match self.plan {
                Some(at) => self.transcript.blocks[at].kind = BlockKind::Plan(plan),
                None => self.plan = self.push(at_ms, BlockKind::Plan(plan)),
            },
            AgentEventKind::Usage(usage) => self.transcript.usage = Some(usage),
            AgentEventKind::Artifact(artifact) => {
                let link = match artifact.body {
                    ArtifactBody::Link(link) => Some(link),
                    ArtifactBody::Base64(_) | ArtifactBody::Text(_) => None,
                };
                let (name, media_type) = (artifact.name, artifact.media_type);
                self.push(at_ms, BlockKind::Artifact(ArtifactBlock { name, media_type, link }));
            }
            AgentEventKind::Task(task) => match self.tasks.get(&task.id) {
                Some(at) => self.transcript.blocks[*at].kind = BlockKind::Task(task),
                None => {
                    let id = task.id.clone();
                    if let Some(at) = self.push(at_ms, BlockKind::Task(task)) {
                        self.tasks.insert(id, at);
                    }
                }
            },
            AgentEventKind::Retry(failure) => {
                self.push(at_ms, BlockKind::Retry(failure.message));
            }
            AgentEventKind::Notice(notice) => self.notice(notice, at_ms),
            AgentEventKind::Compaction(compaction) => {
                if let Some(line) = compaction.line() {
                    self.notice(line.into(), at_ms);
                }
            }
            AgentEventKind::Unrecognised(_) => self.transcript.unknown += 1,
            AgentEventKind::Quota(_)
            | AgentEventKind::Mode(_)
            | AgentEventKind::Title(_)
            | AgentEventKind::Raw(_) => {}
        }
    }

    fn notice(&mut self, notice: AgentNotice, at_ms: u64) {
        if notice.level < DiagnosticLevel::Info {
            return;
        }
        let known = notice.key.as_ref().and_then(|key| self.notices.get(key));
        if let Some(at) = known {
            self.transcript.blocks[*at].kind = BlockKind::Notice(notice.text);
        } else if let Some(at) = self.push(at_ms, BlockKind::Notice(notice.text))
            && let Some(key) = notice.key
        {
            self.notices.insert(key, at);
        }
    }

    /// Adds text to a stream. If another block interrupted the stream, the text begins a new block,
    /// so that the order is visible. Text of a sub-agent stays in one block.
    fn words(&mut self, stream: TextStream, text: &str, replace: bool, at_ms: u64) {
        let blocks = self.streams.get(&stream).cloned().unwrap_or_default();
        if replace {
            return self.replace(stream, &blocks, text, at_ms);
        }
        if text.is_empty() {
            return;
        }
        let goes_on =
            self.open.as_ref() == Some(&stream) || matches!(stream, TextStream::Aside(..));
        let last = blocks.last().copied().filter(|_| goes_on);
        let Some(at) = last else {
            let mut words = BoundedText::default();
            self.add_to(&mut words, text);
            let what = match &stream {
                TextStream::Text(_) => BlockKind::Text(words),
                TextStream::Thinking(_) => BlockKind::Thinking(words),
                TextStream::Aside(tool, _) => BlockKind::SubAgent(tool.clone(), words),
            };
            if let Some(at) = self.push(at_ms, what) {
                self.streams.entry(stream.clone()).or_default().push(at);
                self.open = Some(stream);
            }
            return;
        };
        self.with_words(at, |builder, words| builder.add_to(words, text));
    }

    /// Replaces the text of a stream. Text that is already there stays in its blocks.
    fn replace(&mut self, stream: TextStream, blocks: &[usize], text: &str, at_ms: u64) {
        let written: String = blocks
            .iter()
            .filter_map(|at| self.transcript.blocks[*at].kind.words())
            .map(|words| words.text.as_str())
            .collect();
        if let Some(more) = text.strip_prefix(written.as_str()) {
            return match blocks.last().filter(|_| !written.is_empty()) {
                Some(at) => self.with_words(*at, |builder, words| builder.add_to(words, more)),
                None => self.words(stream, text, false, at_ms),
            };
        }
        // The text is different, so it goes to the stream's last block.
        let Some((last, before)) = blocks.split_last() else { return };
        for at in before.iter().chain([last]) {
            self.with_words(*at, |builder, words| {
                builder.kept -= words.text.len();
                *words = BoundedText::default();
            });
        }
        self.with_words(*last, |builder, words| builder.add_to(words, text));
    }

    fn tool_start(&mut self, start: ToolStart, at_ms: u64) {
        let ToolStart { id, kind, native_name: name, title, target, input, .. } = start;
        let mut words = BoundedText::default();
        self.add_to(&mut words, &input);
        // Agents announce a tool first and report its input later.
        let known = self.with_tool(&id, |builder, tool| {
            builder.kept -= tool.input.text.len();
            tool.input = words.clone();
            tool.kind.clone_from(&kind);
            (tool.name, tool.title, tool.target) = (name.clone(), title.clone(), target.clone());
        });
        if !known {
            let tool =
                ToolBlock { kind, name, title, target, input: words, ..ToolBlock::default() };
            if let Some(at) = self.push(at_ms, BlockKind::Tool(Box::new(tool))) {
                self.tools.insert(id, at);
            }
        }
    }

    fn tool_end(&mut self, end: ToolEnd, at_ms: u64) {
        let began = self.tools.get(&end.id).map(|at| self.transcript.blocks[*at].at_ms);
        let room = MAX_TOTAL_BYTES.saturating_sub(self.kept);
        let size = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let diffs: usize = end
            .diffs
            .iter()
            .map(|diff| size(&diff.old_text) + size(&diff.new_text) + size(&diff.unified))
            .sum();
        self.with_tool(&end.id, |builder, tool| {
            tool.status = Some(end.status);
            tool.exit_code = end.exit_code;
            tool.took_ms = began.map(|began| at_ms.saturating_sub(began));
            if diffs <= room {
                builder.kept += diffs;
                tool.diffs = end.diffs.clone();
            } else {
                tool.output.bytes_left_out += diffs as u64;
            }
            if let Some(output) = &end.output {
                builder.replace_in(&mut tool.output, output);
            }
        });
    }

    fn done(&mut self, done: TurnDone, at_ms: u64) {
        if self.transcript.outcome.is_some() {
            return;
        }
        if let Some(usage) = done.usage {
            self.transcript.usage = Some(usage);
        }
        // The text at the end of the turn has priority over the streamed text.
        if let Some(text) = done.text
            && text.trim() != self.transcript.answer().trim()
        {
            let mut words = BoundedText::default();
            self.add_to(&mut words, &text);
            self.push(at_ms, BlockKind::Text(words));
        }
        self.transcript.outcome = Some(done.outcome);
    }

    fn gap(&mut self, gap: Gap) {
        let same =
            |known: &&mut Gap| std::mem::discriminant(&**known) == std::mem::discriminant(&gap);
        match (self.transcript.gaps.iter_mut().find(same), &gap) {
            (Some(Gap::Lost(all)), Gap::Lost(more)) => *all = all.saturating_add(*more),
            (Some(_), _) => {}
            (None, _) => self.transcript.gaps.push(gap),
        }
    }
}

/// Returns the text of a part of a message.
fn part_text(part: PromptPart) -> String {
    match part {
        PromptPart::Text(text) => text,
        PromptPart::Image(file) | PromptPart::File(file) => file.name,
    }
}
