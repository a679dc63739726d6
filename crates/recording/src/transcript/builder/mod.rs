//! Builds the transcript of one turn from the entries of a recording. Pure, with bounded memory.
//!
//! `blocks` has the blocks within their limits. `streams`, `tools`, `asks` and `latest` know which
//! blocks later entries change.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

mod asks;
mod blocks;
mod latest;
mod streams;
mod tools;

use self::asks::AskBlocks;
use self::blocks::{BoundedBlocks, MAX_BLOCKS};
use self::latest::{LatestBlocks, LatestKey};
use self::streams::{TextStream, TextStreams};
use self::tools::ToolBlocks;
use super::{ArtifactBlock, BlockKind, Gap, TurnTranscript};
use crate::{EntryKind, Header, RecordingEntry, SPARSE, UNSEEN};
use aetheel_model::agent::{
    Action, AgentEvent, AgentEventKind, AgentNotice, ArtifactBody, AskAnswer, DiagnosticLevel,
    HostCommand, Input, PromptPart, SessionKey, SessionReady, StartTurn, TurnDone, TurnRef,
};

const MAX_PARTS: usize = 50;

/// The beginning of the turn in the recording.
#[derive(Clone, Copy)]
struct TurnBegin {
    /// The guest's keys of the turn.
    turn: TurnRef,
    /// In milliseconds of the link's time.
    at_ms: f64,
}

pub(super) struct TranscriptBuilder {
    turn: String,
    transcript: TurnTranscript,
    started: Option<Timestamp>,
    /// `None` before the turn begins.
    begin: Option<TurnBegin>,
    /// The latest report on each session of the link.
    sessions: HashMap<SessionKey, SessionReady>,
    blocks: BoundedBlocks,
    streams: TextStreams,
    tools: ToolBlocks,
    asks: AskBlocks,
    latest: LatestBlocks,
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
            begin: None,
            sessions: HashMap::new(),
            blocks: BoundedBlocks::default(),
            streams: TextStreams::default(),
            tools: ToolBlocks::default(),
            asks: AskBlocks::default(),
            latest: LatestBlocks::default(),
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
            (Some(kind), _) => self.begin.is_some() && matches!(kind, "command" | "tool-result"),
            (_, Some("session-ready")) => true,
            (_, Some(kind)) => {
                self.begin.is_some()
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
        self.unreadable += u64::from(self.begin.is_some());
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
        let TurnBegin { turn, .. } = self.begin?;
        self.transcript.session = self.sessions.remove(&turn.session);
        if self.unreadable > 0 {
            self.gap(Gap::Unreadable(self.unreadable));
        }
        self.transcript.blocks = self.blocks.list;
        self.transcript.blocks_left_out = self.blocks.left_out;
        Some(self.transcript)
    }

    /// Adds an entry, whose line has `bytes` bytes.
    pub(super) fn add_entry(&mut self, entry: RecordingEntry, bytes: usize) {
        let t = entry.t;
        self.blocks.line = bytes;
        let Some(TurnBegin { turn: own, at_ms: began }) = self.begin else {
            match entry.kind {
                EntryKind::Turn { turn, session, key, .. } if turn == self.turn => {
                    let turn = TurnRef { session, turn: key };
                    self.begin = Some(TurnBegin { turn, at_ms: t });
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
        let blocks = &mut self.blocks;
        match entry.kind {
            EntryKind::Ending { turn, how } if turn == self.turn => {
                self.transcript.ending = Some(how);
                self.transcript.took_ms = Some(at_ms);
                self.over = true;
            }
            EntryKind::Attached { turn, artifact, .. } if turn == own.turn => {
                self.event(AgentEventKind::Artifact(artifact), at_ms);
            }
            EntryKind::Cut(why) => self.gap(Gap::Cut(why)),
            EntryKind::Lost(lines) => self.gap(Gap::Lost(lines)),
            EntryKind::Host(what) if what == SPARSE => self.gap(Gap::Sparse),
            EntryKind::Host(what) if what == UNSEEN => self.gap(Gap::Unseen),
            EntryKind::In(Input::Command(command)) => self.command(command, own, at_ms),
            EntryKind::Out(Action::SessionReady(ready)) => self.session(ready),
            EntryKind::Out(Action::Event(AgentEvent { turn, kind, .. })) if turn == own.turn => {
                self.event(kind, at_ms)
            }
            EntryKind::Out(Action::Ask(ask)) if ask.turn == own.turn => {
                self.asks.ask(ask, blocks, at_ms);
            }
            EntryKind::Out(Action::ToolRequest(request)) | EntryKind::Called(request)
                if request.turn == own.turn =>
            {
                self.asks.call(&request, blocks, at_ms);
            }
            EntryKind::In(Input::ToolResult(result)) | EntryKind::Returned(result) => {
                self.asks.returned(result, blocks);
            }
            EntryKind::Ruled(ruling) => {
                if let Some(asked) = self.asks.asked(ruling.ask, blocks) {
                    asked.ruling = ruling.line();
                }
            }
            EntryKind::Out(Action::AskWithdrawn(ask)) => {
                if let Some(asked) = self.asks.asked(ask, blocks) {
                    asked.withdrawn = true;
                }
            }
            EntryKind::Out(Action::TurnDone(done)) if done.turn == own.turn => {
                self.done(done, at_ms);
            }
            _ => {}
        }
    }

    fn command(&mut self, command: HostCommand, own: TurnRef, at_ms: u64) {
        match command {
            HostCommand::StartTurn(start)
                if (start.session, start.turn) == (own.session, own.turn) =>
            {
                self.start(start)
            }
            HostCommand::Steer(steer) if steer.turn == own.turn => {
                let words: String = steer.parts.into_iter().map(part_text).collect();
                let words = self.blocks.bounded(&words);
                self.blocks.push(at_ms, BlockKind::Steered(words));
            }
            HostCommand::Interrupt(turn) if turn.turn == own.turn => {
                self.blocks.push(at_ms, BlockKind::Stopped);
            }
            HostCommand::Answer(AskAnswer { ask, decision }) => {
                if let Some(asked) = self.asks.asked(ask, &mut self.blocks) {
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
                    self.transcript.prompt.push(self.blocks.bounded(&text).text);
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
        let blocks = &mut self.blocks;
        match kind {
            AgentEventKind::Text(text) => {
                self.streams.add(TextStream::of_answer(&text), &text, blocks, at_ms);
            }
            AgentEventKind::Thinking(text) => {
                self.streams.add(TextStream::of_thinking(&text), &text, blocks, at_ms);
            }
            AgentEventKind::ToolStart(start) => self.tools.start(start, blocks, at_ms),
            AgentEventKind::ToolOutput(output) => self.tools.output(&output, blocks),
            AgentEventKind::ToolEnd(end) => self.tools.end(end, blocks, at_ms),
            AgentEventKind::Plan(plan) => {
                self.latest.show(LatestKey::Plan, BlockKind::Plan(plan), blocks, at_ms);
            }
            AgentEventKind::Usage(usage) => self.transcript.usage = Some(usage),
            AgentEventKind::Artifact(artifact) => {
                let link = match artifact.body {
                    ArtifactBody::Link(link) => Some(link),
                    ArtifactBody::Base64(_) | ArtifactBody::Text(_) => None,
                };
                let (name, media_type) = (artifact.name, artifact.media_type);
                blocks.push(at_ms, BlockKind::Artifact(ArtifactBlock { name, media_type, link }));
            }
            AgentEventKind::Task(task) => {
                let key = LatestKey::Task(task.id.clone());
                self.latest.show(key, BlockKind::Task(task), blocks, at_ms);
            }
            AgentEventKind::Retry(failure) => {
                blocks.push(at_ms, BlockKind::Retry(failure.message));
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

    /// Shows a notice, unless it is only for the log.
    fn notice(&mut self, notice: AgentNotice, at_ms: u64) {
        let kind = BlockKind::Notice(notice.text);
        match notice.key {
            _ if notice.level < DiagnosticLevel::Info => {}
            Some(key) => {
                self.latest.show(LatestKey::Notice(key), kind, &mut self.blocks, at_ms);
            }
            None => drop(self.blocks.push(at_ms, kind)),
        }
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
            && text.trim() != TurnTranscript::answer_in(&self.blocks.list).trim()
        {
            let words = self.blocks.bounded(&text);
            self.blocks.push(at_ms, BlockKind::Text(words));
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

fn part_text(part: PromptPart) -> String {
    match part {
        PromptPart::Text(text) => text,
        PromptPart::Image(file) | PromptPart::File(file) => file.name,
    }
}
