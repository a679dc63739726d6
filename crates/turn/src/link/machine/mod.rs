//! The state of a link as a function of its recording. Pure: no I/O and no clock.
//!
//! The machine gets every entry of the recording in order: inputs of the guest, actions of the guest
//! and notes of the host. For each it changes its state and returns [`LinkEffect`]s. While the link
//! runs, `task` adds the entries and performs the effects. After a restart of the gateway, the
//! recording is passed to a new machine: effects that the recording shows as performed are dropped,
//! and the others are performed (`task::rebuild`). So an entry is interpreted in one place.
//!
//! A recording does not contain deadlines and the requests to retire the link or to give a turn up.
//! They change the state too, and a link that is rebuilt starts without them.
//!
//! `actions` applies the actions of the guest, `processes` counts what processes and the network
//! exchange with the link, `checkpoint` saves and restores the state between turns, `unsolicited` has the turns that the agent begins by itself, and `closing`
//! ends turns and the link. The turns report to their drivers, and the calls of host tools carry
//! themselves out (`link::turns`, `link::calls`). Times are in milliseconds since the link was opened.

mod actions;
mod checkpoint;
mod closing;

use std::collections::BTreeMap;
use std::time::Duration;

use self::closing::ClosingState;
use super::LinkReport;
use super::calls::{CallState, ToolCalls, artifact_size};
use super::effects::LinkEffect;
use super::process_table::ProcessTable;
use super::reads::FileRead;
use super::replies::ReplyKeys;
use super::sessions::LinkSession;
use super::turns::{LinkTurns, OpenTurn, TurnNames};
use aetheel_model::agent::descriptor::{LinkSharing, StderrNoise};
use aetheel_model::agent::{
    AgentFailure, Descriptor, Exit, FailureKind, HostCommand, Input, StartTurn, TurnDone, TurnKey,
    TurnRef,
};
use aetheel_model::baseline::Baselines;
use aetheel_model::plain::one_line;
use aetheel_recording::conservation::OutputLedger;
use aetheel_recording::{EntryKind, reason};

/// The signals by which somebody asks a process to end: HUP, INT and TERM.
const ENDING_SIGNALS: [u32; 3] = [1, 2, 15];

/// The settings of a link that its machine needs.
pub(super) struct MachineSettings {
    /// Whether the agent serves one turn and exits.
    pub(super) is_one_shot: bool,
    /// The name of the backend.
    pub(super) backend: String,
    baselines: Baselines,
    stderr_noise: StderrNoise,
    /// Maximum size of the agent's output in a turn, in bytes.
    output_limit: u64,
    /// Time after which a link without turns ends.
    idle: Duration,
    /// Time between the request to end and the kill of an agent.
    stop_grace: Duration,
}

impl MachineSettings {
    pub(super) fn new(descriptor: &Descriptor, host: &crate::Host) -> Self {
        Self {
            is_one_shot: descriptor.sharing == LinkSharing::Turn,
            backend: descriptor.name.clone(),
            baselines: host.agents.baselines().clone(),
            stderr_noise: descriptor.stderr_noise.clone(),
            output_limit: host.resources.output,
            idle: host.limits.link_idle,
            stop_grace: host.limits.stop_grace,
        }
    }
}

/// The output of the agent since the last turn began.
#[derive(Default)]
pub(super) struct AgentOutput {
    bytes: u64,
    /// Whether the agent has written anything since the link last had no turn.
    pub(super) any: bool,
}

impl AgentOutput {
    /// Counts output, and reports it to the turns. `limit` is the maximum for a turn, in bytes.
    fn count(&mut self, bytes: u64, limit: u64, turns: &mut LinkTurns) {
        let was_within = self.bytes <= limit;
        self.bytes = self.bytes.saturating_add(bytes);
        self.any |= bytes > 0;
        if was_within && self.bytes > limit {
            turns.report_all(|| LinkReport::OutputLimit);
        }
        // One report about several lines in a row is enough.
        let is_repeated =
            matches!(turns.effects.last(), Some(LinkEffect::Report(_, LinkReport::Active)));
        // If several turns are open, only a turn's own events show that it makes progress.
        if bytes > 0 && turns.len() == 1 && !is_repeated {
            turns.report_all(|| LinkReport::Active);
        }
    }
}

pub(super) struct LinkMachine {
    pub(super) settings: MachineSettings,
    /// The number of inputs of the guest so far.
    pub(super) inputs: u64,
    pub(super) turns: LinkTurns,
    pub(super) calls: ToolCalls,
    pub(super) replies: ReplyKeys,
    pub(super) processes: ProcessTable,
    pub(super) closing: ClosingState,
    /// When each timer of the guest expires.
    pub(super) timers: BTreeMap<u32, f64>,
    pub(super) ledger: OutputLedger,
    /// The agent's version when the last turn began.
    pub(super) agent_version: Option<String>,
    pub(super) output: AgentOutput,
}

impl LinkMachine {
    pub(super) fn new(settings: MachineSettings) -> Self {
        Self {
            settings,
            inputs: 0,
            turns: LinkTurns::default(),
            calls: ToolCalls::default(),
            replies: ReplyKeys::default(),
            processes: ProcessTable::default(),
            closing: ClosingState::default(),
            timers: BTreeMap::new(),
            ledger: OutputLedger::default(),
            agent_version: None,
            output: AgentOutput::default(),
        }
    }

    /// Attaches a file that was read for a call to the answer, or refuses the call. Returns the entry
    /// for the recording. Does nothing if the turn has ended.
    pub(super) fn file_read(&mut self, now: f64, read: FileRead) -> Option<EntryKind> {
        let FileRead { call, result } = read;
        let open = self.calls.get(call)?;
        let turn = open.turn.turn;
        if !matches!(open.state, CallState::File(_)) {
            return None;
        }
        match result {
            Ok(artifact) => {
                let name = artifact.name.as_deref().map(one_line);
                let bytes = artifact_size(&artifact);
                tracing::info!(call, name, bytes, "the agent posts a file");
                let note = EntryKind::Attached { call, turn, artifact };
                self.apply_entry(now, &note);
                Some(note)
            }
            Err(error) => {
                self.calls.refuse(call, error.into(), &mut self.turns);
                None
            }
        }
    }

    /// Returns whether the link has no turn and no question.
    pub(super) fn is_between_turns(&self) -> bool {
        self.turns.is_empty()
            && self.turns.asks.is_empty()
            && self.turns.unsolicited.is_empty()
            && !self.closing.is_ending()
    }

    /// Applies an input of the guest.
    pub(super) fn apply_input(&mut self, now: f64, input: &Input) {
        self.inputs += 1;
        match input {
            Input::Command(command) => self.apply_command(now, command),
            Input::Spawned(spawned) => {
                self.processes.started(spawned.proc);
                self.turns.report_all(|| LinkReport::Active);
            }
            Input::SpawnFailed(failed) => {
                self.processes.failed(failed.proc);
                let kind = match failed.not_found {
                    true => FailureKind::NotFound,
                    false => FailureKind::Other,
                };
                self.report_failure(kind, &failed.message);
            }
            Input::Line(line) => {
                self.processes.line(line.proc);
                self.count(line.text.len() + 1);
            }
            Input::Exited(exited) => {
                self.processes.ended(exited.proc);
                self.report_exit(exited.how, &exited.stderr_tail);
            }
            Input::HttpResponse(response) => {
                self.processes.connection_ended(input);
                self.count(response.body.len());
            }
            Input::StreamEvent(event) => self.count(event.data.len()),
            Input::HttpFailed(_) | Input::StreamClosed(_) => self.processes.connection_ended(input),
            Input::StreamOpened(_) => {}
            Input::Timer(timer) => drop(self.timers.remove(timer)),
            Input::ToolResult(result) => {
                self.calls.close(result, &mut self.turns);
            }
        }
    }

    fn count(&mut self, bytes: usize) {
        let limit = self.settings.output_limit;
        self.output.count(bytes as u64, limit, &mut self.turns);
    }

    fn apply_command(&mut self, now: f64, command: &HostCommand) {
        match command {
            HostCommand::StartTurn(start) => self.begin_turn(start),
            HostCommand::Interrupt(turn) => {
                self.turns.repeat(*turn, LinkReport::Stopping);
                if self.settings.is_one_shot {
                    self.closing.interrupt();
                }
            }
            HostCommand::Answer(answer) => {
                let decision = answer.decision.clone();
                self.turns.answered(answer.ask, decision);
            }
            HostCommand::Steer(steer) => {
                let turn = TurnRef { session: steer.session, turn: steer.turn };
                self.turns.repeat(turn, LinkReport::Steered);
                self.replies.skip_to(steer.message);
            }
            HostCommand::Query(query) => {
                self.replies.begin_query(query.query, query.session);
                self.closing.restart_idle(now, self.settings.idle);
            }
            HostCommand::CloseSession(session) => {
                self.turns.sessions.close(*session);
                self.calls.session_closes(*session);
            }
            HostCommand::Shutdown => self.closing.leave(now),
        }
    }

    /// Compares the agent's output in a turn with the text that people saw, and reports that.
    /// `done` is the end of the turn, if the guest ended it.
    pub(super) fn examine(&mut self, turn: TurnKey, done: Option<&TurnDone>) {
        let MachineSettings { backend, baselines, .. } = &self.settings;
        let baseline = baselines.get(backend, self.agent_version.as_deref());
        let examined = self.ledger.examine(turn, done, baseline.as_ref());
        self.turns.effects.report(turn, LinkReport::Examined(examined));
    }

    /// Begins the turn of a `start-turn` command. Does nothing if the turn has no names.
    fn begin_turn(&mut self, start: &StartTurn) {
        let Some(names) = self.turns.next.take() else { return };
        if self.turns.is_empty() {
            self.ledger.clear();
            self.output.any = false;
        }
        let turn = TurnRef { session: start.session, turn: start.turn };
        self.calls.turn_begins(turn, &start.tools);
        let session = LinkSession::of(names.lane, start);
        let open = OpenTurn { turn, id: names.id, event: names.event, done: false };
        self.turns.begin(open, session);
        self.output.bytes = 0;
        self.processes.turn_begins();
        self.closing.turn_begins();
        self.agent_version.clone_from(&start.agent_version);
    }

    fn report_failure(&mut self, kind: FailureKind, message: &str) {
        let failure = AgentFailure { kind, message: message.to_owned(), retry_after_ms: None };
        self.turns.report_all(|| LinkReport::AgentFailed(failure.clone()));
    }

    /// Reports the end of a process to all turns.
    fn report_exit(&mut self, how: Exit, stderr_tail: &str) {
        let message = exit_message(stderr_tail, how, &self.settings.stderr_noise);
        self.report_failure(FailureKind::Crashed, &message);
        self.turns.report_all(|| LinkReport::Stderr(stderr_tail.to_owned()));
        match how {
            // Something else had asked the agent to end when the prompt arrived. It never read the
            // prompt, because an agent that begins to work prints something.
            how if is_asked_for(how)
                && !self.settings.is_one_shot
                && !self.closing.is_ending()
                && !self.processes.any_started()
                && !self.output.any =>
            {
                self.turns.report_all(|| LinkReport::Orphaned);
            }
            Exit::Code(0) => self.turns.report_all(|| LinkReport::ExitedWell),
            Exit::Unknown => self.turns.report_all(|| LinkReport::Orphaned),
            _ => {}
        }
    }

    /// Applies a note of the host.
    pub(super) fn apply_entry(&mut self, now: f64, entry: &EntryKind) {
        match entry {
            EntryKind::Turn { turn, event, lane, .. } => {
                let names = |lane| TurnNames { id: turn.clone(), event: *event, lane };
                self.turns.next = lane.parse().ok().map(names);
            }
            EntryKind::Ending { turn, .. } => self.end_turn(now, turn),
            EntryKind::Called(request) => {
                self.calls.served.add(request);
                self.calls.begin(request, &mut self.turns);
            }
            EntryKind::Returned(result) => {
                self.calls.close(result, &mut self.turns);
                self.calls.served.end(result);
            }
            EntryKind::Attached { call, artifact, .. } => {
                let artifact = artifact.clone();
                self.calls.attach(*call, artifact, &mut self.turns);
            }
            _ => {}
        }
    }
}

/// Returns whether a process ended as it does when it is asked to. Many agents report the signal as
/// exit code 128 plus its number.
fn is_asked_for(how: Exit) -> bool {
    match how {
        Exit::Code(0) => true,
        Exit::Code(code) => code > 128 && ENDING_SIGNALS.contains(&(code - 128)),
        Exit::Signal(signal) => ENDING_SIGNALS.contains(&signal),
        Exit::Unknown => false,
    }
}

/// Returns the failure message of an agent that exited without ending its turn.
fn exit_message(stderr: &str, how: Exit, noise: &StderrNoise) -> String {
    let tail = reason::reason(stderr, noise);
    let how = match how {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        Exit::Unknown => "unknown exit".to_owned(),
    };
    if tail.is_empty() {
        format!("the agent ended without a result ({how})")
    } else {
        format!("{tail} ({how})")
    }
}
