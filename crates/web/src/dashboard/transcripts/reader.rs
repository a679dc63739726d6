//! Who reads a turn, and as far as what: who sees the channel sees what Discord shows there.
//! Thinking, what tools got and gave, and what they changed are for whoever asked, approvers and
//! owners.

use serde::Deserialize;

use super::super::Shared;
use super::super::guard::Guest;
use super::blocks::Eyes;
use super::is_turn;
use aetheel_model::access::Standing;
use aetheel_model::event::{EventKind, Lane};
use aetheel_model::plain::short_line;
use aetheel_store::workspace::TurnLine;

/// Where on the page of a turn, or of a part of one, somebody is.
#[derive(Deserialize)]
pub(in crate::dashboard) struct At {
    /// The first block that is shown.
    #[serde(default)]
    pub(super) from: usize,
    /// The page of a long text, from 1.
    #[serde(default = "first")]
    pub(super) page: usize,
}

fn first() -> usize {
    1
}

/// A turn that ended, and what somebody may there.
pub(super) struct Seen {
    pub(super) line: TurnLine,
    pub(super) standing: Standing,
    pub(super) eyes: Eyes,
}

/// A turn that ended, if somebody may see it now.
pub(super) async fn seen(shared: &Shared, guest: &Guest, turn: &str) -> Option<Seen> {
    if !is_turn(turn) {
        return None;
    }
    let line = shared.dispatcher.ended_turn(turn).await?;
    let standing = guest.standing_in(shared, &line.lane).await;
    if !standing.sees {
        return None;
    }
    let person = guest.person(&standing);
    let all = shared.dispatcher.may_decide(line.user, &line.lane, &person);
    Some(Seen { line, standing, eyes: if all { Eyes::All } else { Eyes::Lane } })
}

/// The name of the place of a lane.
pub(super) fn place(standing: &Standing, lane: &Lane) -> String {
    match lane {
        Lane::Channel(_) => short_line(&standing.place, 80),
        lane => short_line(&lane.to_string(), 80),
    }
}

/// Who asked, or what.
pub(super) fn who(line: &TurnLine) -> String {
    let kind = match line.kind {
        EventKind::Message => "somebody",
        EventKind::Heartbeat => "heartbeat",
        EventKind::Cron => "cron job",
        EventKind::Hook => "hook",
        EventKind::Webhook => "webhook",
    };
    short_line(line.name.as_deref().unwrap_or(kind), 60)
}
