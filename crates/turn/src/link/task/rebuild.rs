//! Rebuilds a link after the gateway was restarted: a fresh guest replays the recording, or loads
//! the state of a checkpoint and replays the rest, and reaches the state of the old one.
//!
//! The guest's actions are compared with the recorded ones and are not performed again. Unfinished
//! work at the end of the recording is completed: commands that the holder did not receive are
//! sent, and HTTP requests without a response fail.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::LinkTask;
use super::log::dropped_note;
use super::rebuild_state::{OpenSession, RebuildState, RebuiltTurn, RecordedClock, is_command};
use crate::link::sessions::LinkSession;
use crate::link::turns::OpenTurn;
use crate::link::{Keepsake, LinkReport};
use crate::{Blob, ProcessCommand, Survivor, ToolReply};
use aetheel_model::agent::{
    Action, AskDecision, Exit, HostCommand, HttpFailed, Input, PromptPart, Spawned, StartTurn,
    StreamClosed, TimedInput, ToolRequest, ToolResult, TurnKey, TurnRef,
};
use aetheel_recording::comparison::RebuildError;
use aetheel_recording::{EntryKind, RecordingTail};

/// The reason that a guest gets for requests and streams that were open when the gateway ended.
const RESTARTED: &str = "the gateway was restarted";

/// The open turns and sessions of a rebuilt link.
pub(crate) struct Rebuilt {
    pub(crate) turns: Vec<RebuiltTurn>,
    pub(crate) sessions: Vec<OpenSession>,
    /// The highest key of a turn so far.
    pub(crate) last_turn: TurnKey,
    /// The number of inputs that the guest got.
    pub(crate) replayed: u64,
}

impl LinkTask {
    /// Replays a part of the recording to the guest and takes over the link's processes.
    ///
    /// # Errors
    /// [`RebuildError`]. If it [allows another attempt](RebuildError::allows_another_attempt),
    /// nothing was changed.
    pub(super) async fn rebuild(
        &mut self,
        tail: &RecordingTail,
        survivor: &Survivor,
        keepsake: Keepsake,
    ) -> Result<Rebuilt, RebuildError> {
        let entries = &tail.entries;
        let mut notes = RebuildState::of(entries)?;
        if let Some(folder) = &keepsake.folder {
            self.files.take_over(folder).map_err(RebuildError::Folder)?;
        }
        self.body_sources.take_over(keepsake.secrets.clone());
        self.rebuilding = true;
        if let Some(checkpoint) = &tail.checkpoint {
            notes.start_from(checkpoint, survivor)?;
            self.load_checkpoint(checkpoint).await?;
        }
        let mut now = 0.0;
        for (at, entry) in entries.iter().enumerate() {
            now = entry.t.max(now);
            match &entry.kind {
                EntryKind::Turn { turn, event, lane, .. } => {
                    let lane =
                        lane.parse().map_err(|_| RebuildError::Incomplete("a lane is invalid"))?;
                    notes.next_turn = Some((turn.clone(), *event, lane));
                }
                EntryKind::Ending { turn, .. } => {
                    if let Some(turn) = self.turns.by_id(turn) {
                        self.turns.end(turn);
                        self.calls.turn_ends(turn);
                        self.served.turn_ends(turn);
                        self.body_sources.forget_blobs(turn);
                        self.state.set_turns(self.turns.len());
                    }
                }
                EntryKind::Called(request) => {
                    self.served.restore(request);
                    self.restore_call(&mut notes, request, entry.t);
                }
                EntryKind::Returned(result) => {
                    self.restore_result(&mut notes, result, entry.t);
                    let ToolResult { call, text, failed } = result.clone();
                    self.served.end(call, &ToolReply { text, failed });
                }
                EntryKind::In(input) => {
                    self.apply_input(&mut notes, input, entry.t).await?;
                    self.inputs.push(TimedInput { at_ms: entry.t, input: input.clone() });
                    let more = entries.get(at + 1).map(|next| &next.kind);
                    if !matches!(more, Some(EntryKind::In(_))) || self.inputs.len() >= super::BATCH
                    {
                        self.replay_inputs(&mut notes, survivor, entry.t).await?;
                    }
                }
                _ => {}
            }
        }
        if !notes.expected.is_empty() {
            return Err(RebuildError::Differs);
        }
        if self.closing.is_ending() && self.turns.is_empty() {
            return Err(RebuildError::Leaving);
        }
        for surviving in &survivor.processes {
            let lines = notes.line_counts.get(&surviving.proc).copied().unwrap_or_default();
            if lines < surviving.recorded {
                return Err(RebuildError::Incomplete("lines of its agent are missing"));
            }
        }
        self.recording.host(EntryKind::Host(format!("{RESTARTED}: the link goes on from here")));
        for entry in std::mem::take(&mut notes.unrecorded) {
            match entry {
                EntryKind::Out(action) => {
                    self.counters.actions += self.recording.action(&action) as u64;
                }
                note => self.recording.host(note),
            }
        }
        self.adopt_processes(&mut notes, survivor, &keepsake).await?;
        self.processes.set_command_counts(std::mem::take(&mut notes.commands));
        self.checkpoints.add_inputs(notes.replayed);
        self.rebuilding = false;
        // The recording does not show whether the agent has its tools.
        self.body_sources.forget_addressed();
        self.carry_out_all();
        self.resume_turns(&mut notes, now);
        let sessions = self.turns.sessions.iter().map(|(key, session)| OpenSession {
            lane: session.lane.clone(),
            key,
            cwd: session.cwd.clone(),
            native: session.native.clone(),
        });
        Ok(Rebuilt {
            sessions: sessions.collect(),
            turns: notes.turns,
            last_turn: self.turns.sessions.last_turn(),
            replayed: notes.replayed,
        })
    }

    /// Applies an input of the recording to the state of the link, except for its guest.
    async fn apply_input(
        &mut self,
        notes: &mut RebuildState,
        input: &Input,
        t: f64,
    ) -> Result<(), RebuildError> {
        match input {
            Input::Command(command) => self.apply_command(notes, command, t).await?,
            Input::Spawned(spawned) => {
                notes.pending_spawns.retain(|spawn| spawn.proc != spawned.proc);
                notes.running.insert(spawned.proc);
            }
            Input::SpawnFailed(failed) => {
                notes.pending_spawns.retain(|spawn| spawn.proc != failed.proc);
            }
            Input::Line(line) => {
                *notes.line_counts.entry(line.proc).or_default() += 1;
                self.count_output(line.text.len() as u64 + 1);
            }
            Input::Exited(exited) => {
                *notes.line_counts.entry(exited.proc).or_default() += 1;
                notes.running.remove(&exited.proc);
                self.report_exit(exited.how, &exited.stderr_tail);
            }
            Input::HttpResponse(response) => {
                notes.requests.remove(&response.request);
                self.count_output(response.body.len() as u64);
            }
            Input::HttpFailed(failed) => drop(notes.requests.remove(&failed.request)),
            Input::StreamEvent(event) => self.count_output(event.data.len() as u64),
            Input::StreamClosed(closed) => drop(notes.streams.remove(&closed.stream)),
            Input::StreamOpened(_) => {}
            Input::Timer(timer) => drop(notes.timers.remove(timer)),
            Input::ToolResult(result) => self.restore_result(notes, result, t),
        }
        Ok(())
    }

    /// Opens a call that was recorded, and attaches its recorded file.
    fn restore_call(&mut self, notes: &mut RebuildState, request: &ToolRequest, t: f64) {
        if let Ok(Some(ask)) = self.open_call(request)
            && let Some(clock) = notes.clocks.get_mut(&request.turn)
        {
            clock.ask(ask, t);
        }
        if let Some(artifact) = notes.attached.remove(&(request.turn, request.call)) {
            self.attach(request.call, artifact);
        }
    }

    /// Ends a call whose result was recorded.
    fn restore_result(&mut self, notes: &mut RebuildState, result: &ToolResult, t: f64) {
        self.show_call(result);
        if let Some(ask) = self.calls.close(result.call) {
            // The audience needs the decision only for questions of the guest.
            self.turns.close_ask_as_recorded(ask, AskDecision::Dismissed);
            notes.clocks.values_mut().for_each(|clock| clock.answered(ask, t));
        }
    }

    async fn apply_command(
        &mut self,
        notes: &mut RebuildState,
        command: &HostCommand,
        t: f64,
    ) -> Result<(), RebuildError> {
        match command {
            HostCommand::StartTurn(start) => self.apply_turn_start(notes, start, t).await?,
            HostCommand::Interrupt(turn) => {
                if self.is_one_shot() {
                    self.closing.interrupt();
                }
                // Does nothing if the turn has already ended.
                let _ = self.turns.report(*turn, LinkReport::Stopping);
            }
            HostCommand::Answer(answer) => {
                let decision = answer.decision.clone();
                self.turns.close_ask_as_recorded(answer.ask, decision);
                notes.clocks.values_mut().for_each(|clock| clock.answered(answer.ask, t));
            }
            HostCommand::Steer(steer) => {
                self.replies.skip();
                let turn = TurnRef { session: steer.session, turn: steer.turn };
                let _ = self.turns.report(turn, LinkReport::Steered);
            }
            HostCommand::Query(_) => self.replies.skip(),
            HostCommand::CloseSession(session) => {
                self.turns.sessions.close(*session);
                self.calls.session_closes(*session);
            }
            HostCommand::Shutdown => return Err(RebuildError::Leaving),
        }
        Ok(())
    }

    async fn apply_turn_start(
        &mut self,
        notes: &mut RebuildState,
        start: &StartTurn,
        t: f64,
    ) -> Result<(), RebuildError> {
        let Some((id, event, lane)) = notes.next_turn.take() else {
            return Err(RebuildError::Incomplete("a turn has no name"));
        };
        let turn = TurnRef { session: start.session, turn: start.turn };
        let (reports, received) = mpsc::unbounded_channel();
        if let Some(place) = notes.open.get_mut(&id) {
            *place = received;
            self.body_sources.add_blobs(turn.turn, blobs(start).await);
            let clock = RecordedClock::begin(t);
            notes.clocks.insert(turn.turn, clock);
            notes.turns.push(RebuiltTurn {
                id: id.clone(),
                event,
                lane: lane.clone(),
                start: start.clone(),
                reports: mpsc::unbounded_channel().1,
                asks: Vec::new(),
            });
        }
        if self.turns.is_empty() {
            self.ledger.clear();
            self.state.set_output(false);
        }
        self.agent_version = self.deps.host.agent_version(self.name());
        self.calls.turn_begins(turn, &start.tools);
        self.turns.begin(
            OpenTurn { turn, id, event, reports, done: false },
            LinkSession::of(lane, start),
        );
        self.state.set_turns(self.turns.len());
        self.counters = super::TurnCounters::default();
        self.processes.turn_begins();
        self.closing.turn_begins();
        Ok(())
    }

    /// Passes the collected inputs to the guest, compares its actions with the recorded ones and
    /// applies them to the state of the link.
    async fn replay_inputs(
        &mut self,
        notes: &mut RebuildState,
        survivor: &Survivor,
        t: f64,
    ) -> Result<(), RebuildError> {
        let inputs = std::mem::take(&mut self.inputs);
        self.ledger.inputs(inputs.iter().map(|timed| &timed.input));
        let guest = self.guest.as_mut().map_err(|failure| failure.clone())?;
        notes.replayed += inputs.len() as u64;
        let actions = guest.handle(inputs).await?;
        self.ledger.actions(&actions);
        for action in actions {
            let is_recorded = notes.expected.consume(&action)?;
            if !is_recorded {
                notes.unrecorded.push(EntryKind::Out(action.clone()));
            }
            self.apply_replayed_action(notes, survivor, (action, is_recorded), t).await;
        }
        // The inputs that result from these actions are in the recording.
        self.inputs.clear();
        Ok(())
    }

    async fn apply_replayed_action(
        &mut self,
        notes: &mut RebuildState,
        survivor: &Survivor,
        (action, is_recorded): (Action, bool),
        t: f64,
    ) {
        // The old link counted only the commands that it sent.
        let was_sent = !is_recorded || !is_command(&action) || notes.next_was_sent();
        match action {
            Action::Spawn(spawn) => notes.pending_spawns.push(spawn),
            Action::Write(_) | Action::CloseStdin(_) | Action::Stop(_) if !was_sent => {}
            Action::Write(write) if is_recorded => {
                // The body of one that was sent may not be available any more.
                if notes.is_pending(survivor, write.proc)
                    && let Ok(bytes) = self.body_sources.body(&write.body)
                {
                    notes.pending_commands.push((write.proc, ProcessCommand::Write(bytes)));
                }
            }
            Action::Write(write) => match self.body_sources.body(&write.body) {
                Ok(bytes) => {
                    if notes.is_pending(survivor, write.proc) {
                        notes.pending_commands.push((write.proc, ProcessCommand::Write(bytes)));
                    }
                }
                Err(error) => notes.unrecorded.push(EntryKind::Host(dropped_note("write", &error))),
            },
            Action::CloseStdin(proc) => {
                if notes.is_pending(survivor, proc) {
                    notes.pending_commands.push((proc, ProcessCommand::CloseStdin));
                }
            }
            Action::Stop(stop) => {
                if notes.is_pending(survivor, stop.proc) {
                    notes.pending_commands.push((stop.proc, super::actions::stop(&stop)));
                }
            }
            Action::PutFile(file) => {
                if !self.files.restore(&file.name) {
                    let _ = self.files.put(&file, &mut self.body_sources);
                }
            }
            Action::Http(request) => drop(notes.requests.insert(request.request)),
            Action::OpenStream(open) => drop(notes.streams.insert(open.stream)),
            // The end of the stream is a recorded input.
            Action::CloseStream(_) => {}
            Action::SetTimer(timer) => {
                notes.timers.insert(timer.timer, t + f64::from(timer.after_ms));
            }
            Action::CancelTimer(timer) => drop(notes.timers.remove(&timer)),
            Action::ToolRequest(request) => self.restore_call(notes, &request, t),
            other => {
                match &other {
                    Action::TurnDone(done) => self.finish_files(done.turn).await,
                    Action::Ask(ask) => {
                        if let Some(clock) = notes.clocks.get_mut(&ask.turn) {
                            clock.ask(ask.ask, t);
                        }
                        if let Some(ruling) = notes.next_ruling(ask.ask) {
                            let turn = TurnRef { session: ask.session, turn: ask.turn };
                            // Fails only if the question is not asked either.
                            let _ = self.turns.report(turn, LinkReport::Ruled(ruling));
                        }
                    }
                    Action::AskWithdrawn(ask) => {
                        notes.clocks.values_mut().for_each(|clock| clock.answered(*ask, t));
                    }
                    Action::Event(event) => {
                        let turn = TurnRef { session: event.session, turn: event.turn };
                        let ago_ms = (self.recording.now() - t).max(0.0) as i64;
                        let at_ms = jiff::Timestamp::now().as_millisecond() - ago_ms;
                        // Fails only if the event is not reported either.
                        let _ = self.turns.report(turn, LinkReport::Replayed(at_ms));
                    }
                    _ => {}
                }
                self.apply(other).await;
            }
        }
    }

    /// Takes over the running processes, starts those that were about to start, and sends the
    /// commands that they did not receive.
    async fn adopt_processes(
        &mut self,
        notes: &mut RebuildState,
        survivor: &Survivor,
        keepsake: &Keepsake,
    ) -> Result<(), RebuildError> {
        for surviving in &survivor.processes {
            let proc = surviving.proc;
            let lines = notes.line_counts.get(&proc).copied().unwrap_or_default();
            let spawn = notes.pending_spawns.iter().position(|spawn| spawn.proc == proc);
            let starting = spawn.map(|at| notes.pending_spawns.remove(at));
            let process = self.deps.launcher.adopt(&self.deps.id, proc, lines).await;
            let process = process.map_err(|error| RebuildError::Process(error.into()))?;
            if starting.is_none() && !notes.running.remove(&proc) {
                // Its end is recorded, so it is kept only as long as the open turns need it.
                self.processes.add_ended(proc, process, lines);
                continue;
            }
            let endpoint = keepsake.endpoints.get(&proc).cloned();
            self.processes.take_over(proc, process, endpoint, lines);
            if starting.is_some() {
                let agent_version = self.deps.host.agent_version(self.name());
                self.input(Input::Spawned(Spawned { proc, agent_version }));
            }
        }
        for (proc, command) in notes.pending_commands.drain(..) {
            self.processes.command(proc, command);
        }
        // Their exit is unknown, because they were lost together with the process that held them.
        for proc in std::mem::take(&mut notes.running) {
            self.process_exited(proc, Exit::Unknown, String::new());
        }
        for spawn in std::mem::take(&mut notes.pending_spawns) {
            self.write_ahead().await;
            self.spawn(spawn).await;
        }
        Ok(())
    }

    /// Fails the open requests and streams, and starts the timers and the turns' time limits.
    fn resume_turns(&mut self, notes: &mut RebuildState, now: f64) {
        for request in &notes.requests {
            self.input(Input::HttpFailed(HttpFailed {
                request: *request,
                message: RESTARTED.to_owned(),
                timed_out: false,
            }));
        }
        for stream in &notes.streams {
            let message = Some(RESTARTED.to_owned());
            self.input(Input::StreamClosed(StreamClosed { stream: *stream, message }));
        }
        let present = self.recording.now();
        self.timers = notes
            .timers
            .iter()
            .map(|(timer, at)| {
                let left = Duration::try_from_secs_f64((at - present) / 1000.0);
                (*timer, Instant::now() + left.unwrap_or_default())
            })
            .collect();
        for turn in &mut notes.turns {
            if let Some(clock) = notes.clocks.get(&turn.start.turn) {
                turn.asks = clock.open();
                self.turns.caught_up(turn.start.turn, clock.spent(now), clock.elapsed(present));
            }
            if let Some(reports) = notes.open.remove(&turn.id) {
                turn.reports = reports;
            }
        }
        self.renew_span();
        self.ack_recorded();
        if notes.turns.is_empty() || notes.turns.iter().any(|turn| !turn.asks.is_empty()) {
            // While the agent is idle or waits for people nothing new is recorded, so confirm again
            // that the gateway is alive.
            self.processes.repeat_acks();
        }
        if self.turns.is_empty() {
            self.turn_ended();
        }
    }
}

/// Reads the contents of a turn's files from the paths at which they were stored for the agent.
async fn blobs(start: &StartTurn) -> Vec<Blob> {
    let parts = start.parts.clone();
    let attachment = |part: &PromptPart| match part {
        PromptPart::Image(file) | PromptPart::File(file) => Blob::stored(file),
        PromptPart::Text(_) => None,
    };
    let read = move || parts.iter().filter_map(attachment).collect();
    tokio::task::spawn_blocking(read).await.unwrap_or_default()
}
