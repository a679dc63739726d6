//! Extracts one turn from the entries of a recording: the file positions of its steps, and which
//! entries belong to it. Pure.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use aetheel_model::agent::{
    Action, AgentEventKind, HostCommand, Input, SessionKey, TurnKey, TurnRef,
};
use aetheel_recording::{EntryKind, RecordingEntry, SPARSE};

/// Maximum number of steps that are kept of a turn. Further ones are only counted.
pub const STEPS: usize = 200_000;

/// The position of a step in the file, and its flags.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepPosition {
    pub(super) start: u64,
    pub(super) length: u32,
    pub(super) line: u32,
    /// Milliseconds since the turn began.
    pub(super) t_ms: u32,
    pub(super) flags: u8,
}

pub(super) const HAS_ACTIONS: u8 = 1;
/// Users saw something of the step.
pub(super) const VISIBLE: u8 = 2;
/// The step has output that the backend does not know.
pub(super) const UNRECOGNISED: u8 = 4;
/// The step is mixed with inputs or actions of another turn.
pub(super) const MIXED: u8 = 8;

/// The session and the turn that an action belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnOwner {
    session: Option<SessionKey>,
    turn: Option<TurnKey>,
}

impl TurnOwner {
    pub(super) fn is(self, turn: TurnRef) -> bool {
        self.turn.map_or(self.session == Some(turn.session), |of| of == turn.turn)
    }
}

/// Returns the session and turn of an action, or `None` if it names neither.
pub(super) fn owner_of(action: &Action) -> Option<TurnOwner> {
    let (session, turn) = match action {
        Action::Event(of) => (Some(of.session), Some(of.turn)),
        Action::TurnDone(of) => (Some(of.session), Some(of.turn)),
        Action::Ask(of) => (Some(of.session), Some(of.turn)),
        Action::TurnBegun(of) => (Some(of.session), Some(of.turn)),
        Action::SessionReady(of) => (Some(of.session), None),
        Action::Spawn(of) => (of.session, of.turn),
        _ => return None,
    };
    (session.is_some() || turn.is_some()).then_some(TurnOwner { session, turn })
}

/// Returns whether a command of the host belongs to this turn, or `None` if the input is not a
/// command or does not name a turn.
pub(super) fn is_own_command(input: &Input, own: TurnRef, asks: &HashSet<u32>) -> Option<bool> {
    let Input::Command(command) = input else { return None };
    match command {
        HostCommand::StartTurn(of) => Some(of.turn == own.turn),
        HostCommand::Steer(of) => Some(of.turn == own.turn),
        HostCommand::Interrupt(of) => Some(of.turn == own.turn),
        HostCommand::Answer(of) => Some(asks.contains(&of.ask)),
        HostCommand::CloseSession(of) => Some(*of == own.session),
        HostCommand::Query(of) => of.session.map(|of| of == own.session),
        HostCommand::Shutdown => None,
    }
}

pub(super) struct TurnSlicer<'a> {
    turn: &'a str,
    cut: Option<TurnSlice>,
    began: f64,
    /// The running turns, by their ids.
    open: BTreeMap<String, TurnKey>,
    /// Index of the first step of the open group: the steps whose actions may still follow.
    group: usize,
    /// Whether a group is open: an input was read since the last group was closed.
    is_open: bool,
    answered: bool,
    alone: bool,
    has_own: bool,
    has_foreign: bool,
}

#[derive(Default)]
pub(super) struct TurnSlice {
    pub(super) marks: Vec<StepPosition>,
    pub(super) own: TurnRef,
    pub(super) asks: HashSet<u32>,
    pub(super) lane: String,
    pub(super) left_out: usize,
    pub(super) of_others: usize,
    pub(super) lost: u64,
    pub(super) sparse: Option<usize>,
    pub(super) ended: Option<(String, f64)>,
}

impl<'a> TurnSlicer<'a> {
    pub(super) fn new(turn: &'a str) -> Self {
        Self {
            turn,
            cut: None,
            began: 0.0,
            open: BTreeMap::new(),
            group: 0,
            is_open: false,
            answered: false,
            alone: true,
            has_own: false,
            has_foreign: false,
        }
    }

    /// Processes the next entry, which lies between these byte positions. Returns `true` when the
    /// turn has ended.
    pub(super) fn take(
        &mut self,
        entry: &RecordingEntry,
        bytes: Range<u64>,
        number: usize,
    ) -> bool {
        let began = self.began;
        match &entry.kind {
            EntryKind::Turn { turn, lane, session, key, .. } => {
                // All inputs up to here were answered before this entry.
                self.close();
                self.open.insert(turn.clone(), *key);
                if turn == self.turn && self.cut.is_none() {
                    self.began = entry.t;
                    let own = TurnRef { session: *session, turn: *key };
                    self.cut = Some(TurnSlice { own, lane: lane.clone(), ..TurnSlice::default() });
                }
            }
            EntryKind::Ending { turn, how } => {
                self.close();
                self.open.remove(turn);
                if turn == self.turn
                    && let Some(cut) = &mut self.cut
                {
                    cut.ended = Some((how.clone(), (entry.t - began).max(0.0)));
                    return true;
                }
            }
            EntryKind::In(input) => {
                if self.cut.is_none() {
                    return false;
                }
                if self.answered || !self.is_open {
                    self.close();
                }
                self.begin_step(input, entry.t, bytes, number);
            }
            EntryKind::Out(action) if self.is_open => {
                self.answered = true;
                self.extend(bytes.end, flags_of(action) | HAS_ACTIONS);
                let Some(cut) = &mut self.cut else { return false };
                if let Action::Ask(ask) = action
                    && ask.turn == cut.own.turn
                {
                    cut.asks.insert(ask.ask);
                }
                if let Some(whose) = owner_of(action) {
                    let ours = whose.is(cut.own);
                    self.has_own |= ours;
                    self.has_foreign |= !ours;
                }
            }
            EntryKind::Out(_) => {}
            other => {
                if let (EntryKind::Lost(lines), Some(cut)) = (other, &mut self.cut) {
                    cut.lost += lines;
                }
                if entry.is_note(SPARSE)
                    && let Some(cut) = &mut self.cut
                {
                    cut.sparse.get_or_insert(cut.marks.len().saturating_sub(1));
                }
                if self.is_open {
                    self.extend(bytes.end, 0);
                }
            }
        }
        false
    }

    fn begin_step(&mut self, input: &Input, t: f64, bytes: Range<u64>, number: usize) {
        let Some(cut) = &mut self.cut else { return };
        if cut.marks.len() >= STEPS {
            cut.left_out += 1;
            self.is_open = false;
            return;
        }
        self.is_open = true;
        if let Some(ours) = is_own_command(input, cut.own, &cut.asks) {
            self.has_own |= ours;
            self.has_foreign |= !ours;
        }
        self.alone &= self.open.len() <= 1;
        cut.marks.push(StepPosition {
            start: bytes.start,
            length: u32::try_from(bytes.end - bytes.start).unwrap_or(u32::MAX),
            line: u32::try_from(number).unwrap_or(u32::MAX),
            t_ms: (t - self.began).clamp(0.0, f64::from(u32::MAX)) as u32,
            flags: 0,
        });
    }

    /// Extends the last step to this position, and adds flags.
    fn extend(&mut self, end: u64, is: u8) {
        if let Some(mark) = self.cut.as_mut().and_then(|cut| cut.marks.last_mut()) {
            mark.length = u32::try_from(end - mark.start).unwrap_or(u32::MAX);
            mark.flags |= is;
        }
    }

    /// Closes the open group: its actions are complete. Drops its steps if they belong to other
    /// turns.
    fn close(&mut self) {
        let Some(cut) = &mut self.cut else { return };
        if !self.alone && !self.has_own {
            cut.of_others += cut.marks.len() - self.group;
            cut.marks.truncate(self.group);
        } else if !self.alone && (self.has_foreign || cut.marks.len() - self.group > 1) {
            // If the group has several inputs, it is unknown which action belongs to which input.
            cut.marks[self.group..].iter_mut().for_each(|mark| mark.flags |= MIXED);
        }
        self.group = cut.marks.len();
        self.is_open = false;
        self.answered = false;
        self.alone = self.open.len() <= 1;
        self.has_own = false;
        self.has_foreign = false;
    }

    /// Returns the turn, or `None` if the recording does not contain it.
    pub(super) fn finish(mut self) -> Option<TurnSlice> {
        self.close();
        self.cut
    }
}

fn flags_of(action: &Action) -> u8 {
    match action {
        Action::Event(event) => match &event.kind {
            AgentEventKind::Text(text) if text.parent.is_none() => VISIBLE,
            AgentEventKind::ToolStart(_)
            | AgentEventKind::ToolEnd(_)
            | AgentEventKind::Plan(_)
            | AgentEventKind::Retry(_)
            | AgentEventKind::Notice(_)
            | AgentEventKind::Compaction(_)
            | AgentEventKind::Artifact(_) => VISIBLE,
            AgentEventKind::Unrecognised(_) => UNRECOGNISED,
            _ => 0,
        },
        Action::Ask(_) | Action::AskWithdrawn(_) | Action::TurnDone(_) => VISIBLE,
        _ => 0,
    }
}
