//! A turn of an agent, as parts of turns and observers see it: the turn of an event or of a hook.

use aetheel_model::agent::StartTurn;
use aetheel_model::event::Event;
use aetheel_recording::Backend;
use aetheel_store::workspace::LaneSettings;
use aetheel_turn::TurnResult;

/// The name of a turn for its observers.
#[derive(Clone, Copy)]
pub struct RunName<'a> {
    /// The event of the turn.
    pub event: &'a Event,
    /// The correlation id.
    pub id: &'a str,
    /// The name of the backend.
    pub backend: &'a str,
}

/// A turn that an agent begins or continues.
pub struct BegunRun<'a> {
    /// The event of the turn.
    pub event: &'a Event,
    /// The correlation id.
    pub id: &'a str,
    /// The backend.
    pub backend: &'a dyn Backend,
    /// The input that starts the turn.
    pub start: &'a StartTurn,
    /// The operator's settings for the lane.
    pub lane: &'a LaneSettings,
    /// Whether a previous process began the turn.
    pub is_resumed: bool,
}

/// A turn that an agent has ended.
pub struct EndedRun<'a> {
    /// The name of the turn.
    pub name: RunName<'a>,
    /// The result of the agent.
    pub result: &'a TurnResult,
}
