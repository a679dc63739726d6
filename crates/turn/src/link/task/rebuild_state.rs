//! The state that is collected while a link is rebuilt: the turns, sessions, processes, requests
//! and timers that are open at the end of its recording.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::sync::mpsc;

use super::log::is_dropped_command;
use crate::link::LinkReport;
use crate::tools::CallKey;
use crate::{ProcessCommand, Survivor};
use aetheel_model::agent::{
    Action, Artifact, AskKey, ProcKey, SessionKey, Spawn, StartTurn, TurnKey,
};
use aetheel_model::event::Lane;
use aetheel_model::policy::PolicyRuling;
use aetheel_recording::comparison::{ExpectedActions, RebuildError};
use aetheel_recording::{Checkpoint, EntryKind, RecordingEntry, open_turns};

/// A turn that began before a restart of the gateway and continues.
#[derive(Debug)]
pub(crate) struct RebuiltTurn {
    /// The correlation id.
    pub(crate) id: String,
    /// The event's sequence number.
    pub(crate) event: u64,
    pub(crate) lane: Lane,
    pub(crate) start: StartTurn,
    /// All reports from the beginning of the turn. [`LinkReport::CaughtUp`] follows the reports
    /// from before the restart.
    pub(crate) reports: mpsc::UnboundedReceiver<LinkReport>,
    /// The open questions, and how often each key was used.
    pub(crate) asks: Vec<(AskKey, u32)>,
}

/// An open session of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenSession {
    pub(crate) lane: Lane,
    pub(crate) key: SessionKey,
    pub(crate) cwd: String,
    /// The agent's id of the session, once it is known.
    pub(crate) native: Option<String>,
}

#[derive(Default)]
pub(super) struct RebuildState {
    /// The recorded actions that the guest has not returned yet.
    pub(super) expected: ExpectedActions,
    /// Whether each recorded command to a process was sent, in order.
    pub(super) sent: VecDeque<bool>,
    /// The actions of the guest that are not recorded, and notes about them.
    pub(super) unrecorded: Vec<EntryKind>,
    /// The number of inputs that the guest got.
    pub(super) replayed: u64,
    /// The reports of turns whose end is not in the recording, by correlation id.
    pub(super) open: BTreeMap<String, mpsc::UnboundedReceiver<LinkReport>>,
    pub(super) turns: Vec<RebuiltTurn>,
    /// The turn that begins with the next `start-turn` command.
    pub(super) next_turn: Option<(String, u64, Lane)>,
    /// Requested processes that are not known to have started.
    pub(super) pending_spawns: Vec<Spawn>,
    /// Processes that had started and not ended.
    pub(super) running: BTreeSet<ProcKey>,
    /// The number of recorded lines of each process. Its end counts as one more line.
    pub(super) line_counts: BTreeMap<ProcKey, u64>,
    /// The number of commands to each process.
    pub(super) commands: BTreeMap<ProcKey, u64>,
    /// Commands that the process did not receive.
    pub(super) pending_commands: Vec<(ProcKey, ProcessCommand)>,
    pub(super) requests: BTreeSet<u32>,
    pub(super) streams: BTreeSet<u32>,
    /// When each timer expires, in milliseconds of the link's time.
    pub(super) timers: BTreeMap<u32, f64>,
    pub(super) clocks: BTreeMap<TurnKey, RecordedClock>,
    /// The files that were attached to answers, by the turn and the call.
    pub(super) attached: BTreeMap<(TurnKey, CallKey), Artifact>,
    /// The decision of policies about each recorded question, by its key, in order.
    rulings: BTreeMap<AskKey, VecDeque<Option<PolicyRuling>>>,
}

/// The times of a turn, in milliseconds of the link's time.
pub(super) struct RecordedClock {
    pub(super) began: f64,
    /// The total time in which questions were open.
    pub(super) paused: f64,
    pub(super) open_asks: BTreeSet<AskKey>,
    /// How often each key was used.
    pub(super) use_counts: BTreeMap<AskKey, u32>,
    pub(super) paused_since: f64,
}

impl RecordedClock {
    pub(super) fn begin(t: f64) -> Self {
        Self {
            began: t,
            paused: 0.0,
            open_asks: BTreeSet::new(),
            use_counts: BTreeMap::new(),
            paused_since: t,
        }
    }

    /// Returns the open questions, and how often each key was used.
    pub(super) fn open(&self) -> Vec<(AskKey, u32)> {
        self.open_asks
            .iter()
            .map(|ask| (*ask, self.use_counts.get(ask).copied().unwrap_or(1)))
            .collect()
    }

    pub(super) fn ask(&mut self, ask: AskKey, t: f64) {
        if self.open_asks.is_empty() {
            self.paused_since = t;
        }
        self.open_asks.insert(ask);
        *self.use_counts.entry(ask).or_default() += 1;
    }

    pub(super) fn answered(&mut self, ask: AskKey, t: f64) {
        if self.open_asks.remove(&ask) && self.open_asks.is_empty() {
            self.paused += t - self.paused_since;
        }
    }

    /// Returns the time since the turn began.
    pub(super) fn elapsed(&self, t: f64) -> Duration {
        Duration::try_from_secs_f64((t - self.began) / 1000.0).unwrap_or_default()
    }

    /// Returns the time since the turn began without the time in which people were asked.
    pub(super) fn spent(&self, t: f64) -> Duration {
        let standing = if self.open_asks.is_empty() { 0.0 } else { t - self.paused_since };
        Duration::try_from_secs_f64((t - self.began - self.paused - standing) / 1000.0)
            .unwrap_or_default()
    }
}

impl RebuildState {
    pub(super) fn of(entries: &[RecordingEntry]) -> Result<Self, RebuildError> {
        let open = open_turns(entries)
            .map(|turn| (turn.to_owned(), mpsc::unbounded_channel().1))
            .collect();
        let attached = entries.iter().filter_map(|entry| match &entry.kind {
            EntryKind::Attached { call, turn, artifact } => {
                Some(((*turn, *call), artifact.clone()))
            }
            _ => None,
        });
        let attached = attached.collect();
        let (expected, sent) = (ExpectedActions::of(entries)?, sent_commands(entries));
        let rulings = rulings(entries);
        Ok(Self { expected, sent, open, attached, rulings, ..Self::default() })
    }

    /// Returns the decision of policies about the next recorded question with this key, if people
    /// did not see the question for that reason.
    pub(super) fn next_ruling(&mut self, ask: AskKey) -> Option<PolicyRuling> {
        self.rulings.get_mut(&ask)?.pop_front()?.filter(PolicyRuling::is_final)
    }

    /// Returns whether the next recorded command to a process was sent.
    pub(super) fn next_was_sent(&mut self) -> bool {
        self.sent.pop_front().unwrap_or(true)
    }

    /// Adds what a checkpoint says about processes, requests, streams and timers.
    ///
    /// # Errors
    /// [`RebuildError::Incomplete`] if a process did not receive all commands from before the
    /// checkpoint.
    pub(super) fn start_from(
        &mut self,
        checkpoint: &Checkpoint,
        survivor: &Survivor,
    ) -> Result<(), RebuildError> {
        for process in &checkpoint.processes {
            let proc = process.proc;
            let living = survivor.processes.iter().find(|living| living.proc == proc);
            if process.running && living.is_some_and(|living| living.commands < process.commands) {
                return Err(RebuildError::Incomplete(
                    "its agent did not receive a command from before the checkpoint",
                ));
            }
            self.line_counts.insert(proc, process.lines);
            self.commands.insert(proc, process.commands);
            if process.running {
                self.running.insert(proc);
            }
        }
        self.requests.extend(&checkpoint.requests);
        self.streams.extend(&checkpoint.streams);
        let timers = checkpoint.timers.iter().map(|timer| (timer.timer, timer.at_ms as f64));
        self.timers.extend(timers);
        Ok(())
    }

    /// Counts a command to a process. Returns true if the process did not receive it.
    pub(super) fn is_pending(&mut self, survivor: &Survivor, proc: ProcKey) -> bool {
        let count = self.commands.entry(proc).or_default();
        *count += 1;
        survivor.processes.iter().any(|living| living.proc == proc && living.commands < *count)
    }
}

/// Returns the decision of policies about each recorded question.
fn rulings(entries: &[RecordingEntry]) -> BTreeMap<AskKey, VecDeque<Option<PolicyRuling>>> {
    let mut rulings: BTreeMap<AskKey, VecDeque<_>> = BTreeMap::new();
    for entry in entries {
        match &entry.kind {
            EntryKind::Out(Action::Ask(ask)) => rulings.entry(ask.ask).or_default().push_back(None),
            EntryKind::Ruled(ruling) => {
                if let Some(last) = rulings.get_mut(&ruling.ask).and_then(VecDeque::back_mut) {
                    *last = Some(ruling.clone());
                }
            }
            _ => {}
        }
    }
    rulings
}

/// Returns whether an action is a command to a process.
pub(super) fn is_command(action: &Action) -> bool {
    matches!(action, Action::Write(_) | Action::CloseStdin(_) | Action::Stop(_))
}

/// Returns whether each recorded command to a process was sent. A note that it was not follows the
/// command.
fn sent_commands(entries: &[RecordingEntry]) -> VecDeque<bool> {
    let (mut sent, mut is_last) = (VecDeque::new(), false);
    for entry in entries {
        match &entry.kind {
            EntryKind::Out(action) => {
                is_last = is_command(action);
                sent.extend(is_last.then_some(true));
            }
            EntryKind::In(_) => is_last = false,
            EntryKind::Host(note) if is_last && is_dropped_command(note) => {
                sent.pop_back();
                sent.push_back(false);
                is_last = false;
            }
            _ => {}
        }
    }
    sent
}
