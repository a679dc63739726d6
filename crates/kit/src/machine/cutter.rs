//! Cutting one turn out of the entries of a recording: where its steps begin and end, and whose what
//! stands in them is. Pure.

use std::collections::{BTreeMap, HashSet};

use aetheel_model::agent::{Action, Command, EventKind, Input, SessionKey, TurnKey};
use aetheel_turn::recording::{Entry, SPARSE, What};
use aetheel_turn::replay::Keys;

/// Steps of a turn that are held; what follows is counted.
pub const STEPS: usize = 200_000;

/// Where a step stands, and what it is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) start: u64,
    pub(super) length: u32,
    pub(super) line: u32,
    /// Milliseconds since the turn began.
    pub(super) t_ms: u32,
    pub(super) is: u8,
}

/// Actions were recorded with it.
pub(super) const SAYS: u8 = 1;
/// People saw something of it.
pub(super) const SEEN: u8 = 2;
/// Something in it is unknown to the backend.
pub(super) const UNKNOWN: u8 = 4;
/// It came together with something of another turn.
pub(super) const MIXED: u8 = 8;

/// The session and the turn that something names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whose(Option<SessionKey>, Option<TurnKey>);

impl Whose {
    pub(super) fn is(self, session: SessionKey, turn: TurnKey) -> bool {
        self.1.map_or(self.0 == Some(session), |of| of == turn)
    }
}

/// Whose an action is; none: it does not say.
pub(super) fn whose(action: &Action) -> Option<Whose> {
    let (session, turn) = match action {
        Action::Event(of) => (Some(of.session), Some(of.turn)),
        Action::TurnDone(of) => (Some(of.session), Some(of.turn)),
        Action::Ask(of) => (Some(of.session), Some(of.turn)),
        Action::TurnBegun(of) => (Some(of.session), Some(of.turn)),
        Action::SessionReady(of) => (Some(of.session), None),
        Action::Spawn(of) => (of.session, of.turn),
        _ => return None,
    };
    (session.is_some() || turn.is_some()).then_some(Whose(session, turn))
}

/// Whether a command of the host is about this turn; none: it does not say, or is no command.
pub(super) fn is_own_command(
    input: &Input,
    (session, turn): (SessionKey, TurnKey),
    asks: &HashSet<u32>,
) -> Option<bool> {
    let Input::Command(command) = input else { return None };
    match command {
        Command::StartTurn(of) => Some(of.turn == turn),
        Command::Steer(of) => Some(of.turn == turn),
        Command::Interrupt(of) => Some(of.turn == turn),
        Command::Answer(of) => Some(asks.contains(&of.ask)),
        Command::CloseSession(of) => Some(*of == session),
        Command::Query(of) => of.session.map(|of| of == session),
        Command::Shutdown => None,
    }
}

/// Cuts a turn out of the lines of a recording.
pub(super) struct Cutter<'a> {
    turn: &'a str,
    cut: Option<Cut>,
    keys: Keys,
    began: f64,
    /// The turns that run, by their ids.
    open: BTreeMap<String, TurnKey>,
    /// Where the steps begin whose actions are not all there yet.
    group: usize,
    /// None of these: nothing was told since the last one was closed.
    is_open: bool,
    answered: bool,
    alone: bool,
    of_us: bool,
    of_others: bool,
}

/// A turn, cut out.
#[derive(Default)]
pub(super) struct Cut {
    pub(super) marks: Vec<Mark>,
    pub(super) keys: Keys,
    pub(super) ours: (SessionKey, TurnKey),
    pub(super) asks: HashSet<u32>,
    pub(super) lane: String,
    pub(super) left_out: usize,
    pub(super) of_others: usize,
    pub(super) lost: u64,
    pub(super) sparse: Option<usize>,
    pub(super) ended: Option<(String, f64)>,
}

impl<'a> Cutter<'a> {
    pub(super) fn new(turn: &'a str) -> Self {
        Self {
            turn,
            cut: None,
            keys: Keys::default(),
            began: 0.0,
            open: BTreeMap::new(),
            group: 0,
            is_open: false,
            answered: false,
            alone: true,
            of_us: false,
            of_others: false,
        }
    }

    /// Takes the next entry in, which stands between these bytes; true: the turn is over.
    pub(super) fn take(&mut self, entry: &Entry, (start, end): (u64, u64), number: usize) -> bool {
        self.keys.record(entry);
        let began = self.began;
        match &entry.what {
            What::Turn { turn, lane, session, key, .. } => {
                // What was told until now was answered before.
                self.close();
                self.open.insert(turn.clone(), *key);
                if turn == self.turn && self.cut.is_none() {
                    self.began = entry.t;
                    let ours = (*session, *key);
                    self.cut = Some(Cut { ours, lane: lane.clone(), ..Cut::default() });
                }
            }
            What::Ending { turn, how } => {
                self.close();
                self.open.remove(turn);
                if turn == self.turn
                    && let Some(cut) = &mut self.cut
                {
                    cut.ended = Some((how.clone(), (entry.t - began).max(0.0)));
                    return true;
                }
            }
            What::In(input) => {
                if self.cut.is_none() {
                    return false;
                }
                if self.answered || !self.is_open {
                    self.close();
                }
                self.tell(input, entry.t, (start, end), number);
            }
            What::Out(action) if self.is_open => {
                self.answered = true;
                self.extend(end, marks_of(action) | SAYS);
                let Some(cut) = &mut self.cut else { return false };
                if let Action::Ask(ask) = action
                    && ask.turn == cut.ours.1
                {
                    cut.asks.insert(ask.ask);
                }
                if let Some(whose) = whose(action) {
                    let ours = whose.is(cut.ours.0, cut.ours.1);
                    self.of_us |= ours;
                    self.of_others |= !ours;
                }
            }
            What::Out(_) => {}
            other => {
                if let (What::Lost(lines), Some(cut)) = (other, &mut self.cut) {
                    cut.lost += lines;
                }
                if matches!(other, What::Host(did) if did == SPARSE)
                    && let Some(cut) = &mut self.cut
                {
                    cut.sparse.get_or_insert(cut.marks.len().saturating_sub(1));
                }
                if self.is_open {
                    self.extend(end, 0);
                }
            }
        }
        false
    }

    /// An input begins a step.
    fn tell(&mut self, input: &Input, t: f64, (start, end): (u64, u64), number: usize) {
        let Some(cut) = &mut self.cut else { return };
        if cut.marks.len() >= STEPS {
            cut.left_out += 1;
            self.is_open = false;
            return;
        }
        self.is_open = true;
        if let Some(ours) = is_own_command(input, cut.ours, &cut.asks) {
            self.of_us |= ours;
            self.of_others |= !ours;
        }
        self.alone &= self.open.len() <= 1;
        cut.marks.push(Mark {
            start,
            length: u32::try_from(end - start).unwrap_or(u32::MAX),
            line: u32::try_from(number).unwrap_or(u32::MAX),
            t_ms: (t - self.began).clamp(0.0, f64::from(u32::MAX)) as u32,
            is: 0,
        });
    }

    /// The last step goes on to this byte.
    fn extend(&mut self, end: u64, is: u8) {
        if let Some(mark) = self.cut.as_mut().and_then(|cut| cut.marks.last_mut()) {
            mark.length = u32::try_from(end - mark.start).unwrap_or(u32::MAX);
            mark.is |= is;
        }
    }

    /// The steps whose actions are all there are this turn's, or not.
    fn close(&mut self) {
        let Some(cut) = &mut self.cut else { return };
        if !self.alone && !self.of_us {
            cut.of_others += cut.marks.len() - self.group;
            cut.marks.truncate(self.group);
        } else if !self.alone && (self.of_others || cut.marks.len() - self.group > 1) {
            // Of several inputs nobody can tell whose each is.
            cut.marks[self.group..].iter_mut().for_each(|mark| mark.is |= MIXED);
        }
        self.group = cut.marks.len();
        self.is_open = false;
        self.answered = false;
        self.alone = self.open.len() <= 1;
        self.of_us = false;
        self.of_others = false;
    }

    /// The turn; none: the recording does not tell of it.
    pub(super) fn finish(mut self) -> Option<Cut> {
        self.close();
        let Self { cut, keys, .. } = self;
        cut.map(|cut| Cut { keys, ..cut })
    }
}

/// What an action makes of its step.
fn marks_of(action: &Action) -> u8 {
    match action {
        Action::Event(event) => match &event.kind {
            EventKind::Text(text) if text.parent.is_none() => SEEN,
            EventKind::ToolStart(_)
            | EventKind::ToolEnd(_)
            | EventKind::Plan(_)
            | EventKind::Retry(_)
            | EventKind::Notice(_)
            | EventKind::Artifact(_) => SEEN,
            EventKind::Unrecognised(_) => UNKNOWN,
            _ => 0,
        },
        Action::Ask(_) | Action::AskWithdrawn(_) | Action::TurnDone(_) => SEEN,
        _ => 0,
    }
}
