//! Converts between the generated types and those of [`aetheel_model::agent`]. Only this module
//! uses both.
//!
//! Values are moved, not copied. Values from a guest are checked on the way: a list of more than
//! [`ACTIONS_MAX`] actions or a text of more than [`TEXT_MAX`] bytes is refused, except that the
//! answer of a turn is cut. The total size was already limited by the hostcall fuel of the store.

mod same;
pub(super) mod v0_1;
pub(super) mod v0_2;
pub(super) mod v0_3;

use aetheel_model::agent::{Action, AgentNotice, Input, TimedInput};

pub(super) const ACTIONS_MAX: usize = 10_000;
/// Maximum length of a string or JSON text from a guest, in bytes.
pub(super) const TEXT_MAX: usize = 8 << 20;

#[derive(Debug, thiserror::Error)]
pub(super) enum Excess {
    #[error("it returned {0} actions in one call, the limit is {ACTIONS_MAX}")]
    Actions(usize),
    #[error("it returned a text of {0} bytes, the limit is {TEXT_MAX}")]
    Text(usize),
}

/// Cuts the answer of a turn to [`TEXT_MAX`]. Users see less than that of it, so a long answer is
/// not a reason to end the link.
fn shorten_answer(text: &mut Option<String>) {
    if let Some(text) = text {
        text.truncate(text.floor_char_boundary(TEXT_MAX));
    }
}

/// Removes inputs that contracts before 0.3 cannot express. They answer requests of a guest, which
/// such a guest cannot send.
fn expressible_before_0_3(mut inputs: Vec<TimedInput>) -> Vec<TimedInput> {
    inputs.retain(|timed| !matches!(timed.input, Input::ToolResult(_)));
    inputs
}

fn unbounded<T: Carry<U>, U>(inputs: Vec<T>) -> Vec<U> {
    inputs.carry(usize::MAX).expect("no text is longer than the address space")
}

fn bounded<T: Carry<Action>>(actions: Vec<T>) -> Result<Vec<Action>, Excess> {
    if actions.len() > ACTIONS_MAX {
        return Err(Excess::Actions(actions.len()));
    }
    actions.carry(TEXT_MAX)
}

/// Checks a single text from a guest.
///
/// # Errors
/// [`Excess`] if it is too long.
pub(super) fn text(text: String) -> Result<String, Excess> {
    text.carry(TEXT_MAX)
}

/// Converts a value. Texts longer than `cap` bytes are refused.
trait Carry<T> {
    fn carry(self, cap: usize) -> Result<T, Excess>;
}

impl Carry<String> for String {
    fn carry(self, cap: usize) -> Result<String, Excess> {
        if self.len() > cap { Err(Excess::Text(self.len())) } else { Ok(self) }
    }
}

/// Notices of contracts before 0.3 are plain texts.
impl Carry<AgentNotice> for String {
    fn carry(self, cap: usize) -> Result<AgentNotice, Excess> {
        let text: String = self.carry(cap)?;
        Ok(text.into())
    }
}

impl<T: Carry<U>, U> Carry<Option<U>> for Option<T> {
    fn carry(self, cap: usize) -> Result<Option<U>, Excess> {
        self.map(|value| value.carry(cap)).transpose()
    }
}

impl<T: Carry<U>, U> Carry<Vec<U>> for Vec<T> {
    fn carry(self, cap: usize) -> Result<Vec<U>, Excess> {
        self.into_iter().map(|value| value.carry(cap)).collect()
    }
}

impl<A: Carry<C>, B: Carry<D>, C, D> Carry<(C, D)> for (A, B) {
    fn carry(self, cap: usize) -> Result<(C, D), Excess> {
        Ok((self.0.carry(cap)?, self.1.carry(cap)?))
    }
}

macro_rules! plain {
    ($($type:ty)*) => { $(
        impl Carry<$type> for $type {
            fn carry(self, _cap: usize) -> Result<$type, Excess> {
                Ok(self)
            }
        }
    )* };
}
plain!(u32 f64 bool);

/// Defines the conversion of actions from the generated types that `wit` is in the calling module.
macro_rules! checked_actions {
    () => {
        /// Converts the actions that a guest returned.
        ///
        /// # Errors
        /// [`Excess`] if they exceed a limit.
        pub(crate) fn actions(mut actions: Vec<wit::Action>) -> Result<Vec<Action>, Excess> {
            for action in &mut actions {
                if let wit::Action::TurnDone(done) = action {
                    shorten_answer(&mut done.text);
                }
            }
            bounded(actions)
        }
    };
}

/// Implements [`Carry`] for a record that has the same fields on both sides. A missing field does
/// not compile.
macro_rules! record {
    ($from:ty => $to:ty { $($field:ident),* $(,)? }) => {
        impl Carry<$to> for $from {
            fn carry(self, cap: usize) -> Result<$to, Excess> {
                type To = $to;
                Ok(To { $($field: self.$field.carry(cap)?),* })
            }
        }
    };
}

/// Implements [`Carry`] for a variant or enum. The cases with a value come first, then those
/// without.
macro_rules! variant {
    ($from:ty => $to:ty { $($full:ident),* ; $($bare:ident),* $(,)? }) => {
        impl Carry<$to> for $from {
            #[allow(unused_variables, reason = "no case of an enum carries anything")]
            fn carry(self, cap: usize) -> Result<$to, Excess> {
                type From = $from;
                type To = $to;
                Ok(match self {
                    $(From::$full(value) => To::$full(value.carry(cap)?),)*
                    $(From::$bare => To::$bare,)*
                })
            }
        }
    };
}
use {checked_actions, record, variant};
