//! Backends that run their agent either long-lived or once per turn, as the operator chooses.

use crate::Backend;
use crate::wit::{Action, Command, Input, TimedInput};

/// A long-lived backend `L` that can also run as the one-shot backend `O`. The first turn decides
/// (`start-turn.one-shot`). The descriptor is that of `L` and must declare `one-shot`.
#[derive(Debug)]
pub enum Either<L, O> {
    /// One agent for many turns. Also the state of a link before its first turn.
    Live(L),
    /// One agent for one turn.
    Once(O),
}

impl<L: Default, O> Default for Either<L, O> {
    fn default() -> Self {
        Self::Live(L::default())
    }
}

impl<L: Backend, O: Backend> Backend for Either<L, O> {
    fn describe() -> String {
        L::describe()
    }

    fn handle(&mut self, input: TimedInput, out: &mut Vec<Action>) -> Result<(), String> {
        if matches!(&input.input, Input::Command(Command::StartTurn(start)) if start.one_shot)
            && matches!(self, Self::Live(_))
        {
            *self = Self::Once(O::default());
        }
        match self {
            Self::Live(live) => live.handle(input, out),
            Self::Once(once) => once.handle(input, out),
        }
    }

    fn save(&self) -> Option<String> {
        match self {
            Self::Live(live) => live.save(),
            Self::Once(_) => None,
        }
    }

    fn load(&mut self, state: &str, saved_by: &str) -> Result<(), String> {
        match self {
            Self::Live(live) => live.load(state, saved_by),
            Self::Once(_) => Err("the state of a single turn cannot be loaded".to_owned()),
        }
    }
}
