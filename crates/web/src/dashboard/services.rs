//! The services of the dispatcher that the dashboard uses.

use std::sync::Arc;

use aetheel_dispatch::{
    BackendControl, Budgets, ClaimDesk, Conversations, Dispatcher, Intake, LaterTurns, Observer,
    Questions, Rollouts, Settings, TurnHistory, Turns, Waits,
};

pub(super) struct DashboardServices {
    pub(super) intake: Intake,
    pub(super) turns: Turns,
    pub(super) questions: Arc<Questions>,
    pub(super) settings: Settings,
    pub(super) conversations: Conversations,
    pub(super) observer: Observer,
    pub(super) history: TurnHistory,
    pub(super) backends: BackendControl,
    pub(super) rollouts: Rollouts,
    pub(super) claims: ClaimDesk,
    pub(super) budgets: Budgets,
    pub(super) waits: Waits,
    pub(super) later_turns: LaterTurns,
}

impl DashboardServices {
    pub(super) fn of(dispatcher: &Dispatcher) -> Self {
        Self {
            intake: dispatcher.intake.clone(),
            turns: dispatcher.turns.clone(),
            questions: Arc::clone(&dispatcher.questions),
            settings: dispatcher.settings.clone(),
            conversations: dispatcher.conversations.clone(),
            observer: dispatcher.observer.clone(),
            history: dispatcher.history.clone(),
            backends: dispatcher.backends.clone(),
            rollouts: dispatcher.rollouts.clone(),
            claims: dispatcher.claims.clone(),
            budgets: dispatcher.budgets.clone(),
            waits: dispatcher.waits.clone(),
            later_turns: dispatcher.later_turns.clone(),
        }
    }
}
