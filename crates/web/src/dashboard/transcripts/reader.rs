//! Decides which parts of a turn a user may see. Users who can see the channel may see the parts
//! that Discord shows there. Thinking, and the input, output and changes of tools, are only for the
//! author of the prompt, approvers and owners.

use serde::Deserialize;

use super::super::DashboardState;
use super::super::middleware::SignedIn;
use super::blocks::ViewLevel;
use super::is_turn;
use aetheel_model::access::LanePermissions;
use aetheel_model::event::{EventKind, Lane};
use aetheel_model::plain::short_line;
use aetheel_store::workspace::TurnLine;

/// The position on the page of a turn, or on the pages of a part of a turn.
#[derive(Deserialize)]
pub(in crate::dashboard) struct PagePosition {
    /// The first displayed block.
    #[serde(default)]
    pub(super) from: usize,
    /// The page of a long text, from 1.
    #[serde(default = "first")]
    pub(super) page: usize,
}

fn first() -> usize {
    1
}

/// A finished turn, and the user's permissions for it.
pub(super) struct VisibleTurn {
    pub(super) line: TurnLine,
    pub(super) standing: LanePermissions,
    pub(super) eyes: ViewLevel,
}

/// Returns a finished turn if the user may see it now.
pub(super) async fn visible_turn(
    shared: &DashboardState,
    guest: &SignedIn,
    turn: &str,
) -> Option<VisibleTurn> {
    if !is_turn(turn) {
        return None;
    }
    let line = shared.services.history.ended_turn(turn).await?;
    let standing = guest.permissions_in(shared, &line.lane).await;
    if !standing.sees {
        return None;
    }
    let person = guest.person(&standing);
    let all = shared.services.questions.may_decide(line.user, &line.lane, &person);
    Some(VisibleTurn { line, standing, eyes: if all { ViewLevel::All } else { ViewLevel::Lane } })
}

/// Returns the display name of a lane.
pub(super) fn place(standing: &LanePermissions, lane: &Lane) -> String {
    match lane {
        Lane::Channel(_) => short_line(&standing.place, 80),
        lane => short_line(&lane.to_string(), 80),
    }
}

/// Returns the name of the person or the kind of event that started the turn.
pub(super) fn who(line: &TurnLine) -> String {
    let kind = match line.kind {
        EventKind::Message => "somebody",
        EventKind::Heartbeat => "heartbeat",
        EventKind::Cron => "cron job",
        EventKind::Hook => "hook",
        EventKind::Webhook => "webhook",
        EventKind::Agent => "an agent",
    };
    short_line(line.name.as_deref().unwrap_or(kind), 60)
}
