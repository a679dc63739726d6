//! Decides which parts of a turn a user may see. Users who can see the channel may see the parts
//! that Discord shows there. Thinking, and the input, output and changes of tools, are only for the
//! author of the prompt, approvers and owners.

use super::super::access::SignedIn;
use super::blocks::ViewLevel;
use super::is_turn;
use aetheel_model::access::LanePermissions;
use aetheel_model::event::{EventKind, Lane};
use aetheel_model::plain::short_line;
use aetheel_store::workspace::TurnLine;

/// A finished turn, and the user's permissions for it.
pub(super) struct VisibleTurn {
    pub(super) line: TurnLine,
    pub(super) permissions: LanePermissions,
    pub(super) eyes: ViewLevel,
}

/// Returns a finished turn if the user may see it now.
pub(super) async fn visible_turn(turn: &str, user: &SignedIn) -> Option<VisibleTurn> {
    if !is_turn(turn) {
        return None;
    }
    let line = user.services().history.ended_turn(turn).await?;
    let permissions = user.visible(&line.lane).await?;
    let person = user.person(&permissions);
    let all = user.services().questions.may_decide(line.user, &line.lane, &person);
    Some(VisibleTurn {
        line,
        permissions,
        eyes: if all { ViewLevel::All } else { ViewLevel::Lane },
    })
}

/// Returns the display name of a lane.
pub(super) fn place(permissions: &LanePermissions, lane: &Lane) -> String {
    match lane {
        Lane::Channel(_) => short_line(&permissions.place, 80),
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
