//! The page of a turn: the current output of a running turn, or the recording of a finished one.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use jiff::Timestamp;
use maud::{Markup, html};

use super::super::layout::{self, MenuPage};
use super::super::middleware::SignedIn;
use super::super::{DashboardState, frame, times};
use super::reader::{PagePosition, VisibleTurn, place, visible_turn, who};
use super::sheet::TurnSheet;
use super::{path, sharing};
use aetheel_model::access::LanePermissions;
use aetheel_model::event::{Lane, Sequence};
use aetheel_model::id::Platform;
use aetheel_store::workspace::{TurnLine, TurnSearch};

/// The largest number of turns of a lane among which the next turn is searched.
const AFTER: usize = 200;

/// Shows a turn.
pub(in crate::dashboard) async fn page(
    State(shared): State<Arc<DashboardState>>,
    guest: SignedIn,
    Path(turn): Path<String>,
    at: Result<Query<PagePosition>, QueryRejection>,
) -> Response {
    if let Some((lane, event)) = shared.services.observer.running_turn(&turn) {
        return running(&shared, &guest, &lane, event).await;
    }
    let Some(seen) = visible_turn(&shared, &guest, &turn).await else {
        return frame::not_found().await;
    };
    let from = at.ok().map_or(0, |Query(at)| at.from);
    let transcript = shared.services.history.transcript(&seen.line).await;
    let (line, base) = (&seen.line, path(&turn));
    let sheet = TurnSheet { line, transcript: &transcript, eyes: seen.eyes, base: &base };
    let main = html! {
        h2 { bdi { (place(&seen.standing, &line.lane)) } " · " bdi { (who(line)) } }
        (turn_links(&shared, &guest, &seen).await)
        (sheet.html(from))
        (sharing::section(&shared, &guest, &seen, transcript.is_ok(), Timestamp::now()).await)
    };
    layout::page(&guest, MenuPage::Transcripts, false, &main)
}

/// Shows a page of a long text of a turn.
pub(in crate::dashboard) async fn part(
    State(shared): State<Arc<DashboardState>>,
    guest: SignedIn,
    Path((turn, part)): Path<(String, String)>,
    at: Result<Query<PagePosition>, QueryRejection>,
) -> Response {
    let Some(seen) = visible_turn(&shared, &guest, &turn).await else {
        return frame::not_found().await;
    };
    let transcript = shared.services.history.transcript(&seen.line).await;
    let base = path(&turn);
    let sheet =
        TurnSheet { line: &seen.line, transcript: &transcript, eyes: seen.eyes, base: &base };
    match sheet.part(&part, at.ok().map_or(1, |Query(at)| at.page)) {
        Some(main) => layout::page(&guest, MenuPage::Transcripts, false, &main),
        None => frame::not_found().await,
    }
}

/// Shows a running turn. Its text is updated by the script, or when the page is loaded again.
async fn running(
    shared: &Arc<DashboardState>,
    guest: &SignedIn,
    lane: &Lane,
    event: Sequence,
) -> Response {
    let standing = guest.permissions_in(shared, lane).await;
    let view = shared.services.observer.lanes().into_iter().find(|view| view.lane == *lane);
    let turn = view.and_then(|view| view.running).filter(|turn| turn.event == event);
    let (true, Some(turn)) = (standing.sees, turn) else { return frame::not_found().await };
    let text = shared.turns.text(&shared.services.observer, lane, event).map(|(_, text)| text);
    let main = html! {
        h2 { bdi { (place(&standing, lane)) } " · " bdi { (turn.summary.who) } }
        p { strong { "Running" } ": " bdi { (turn.summary.words) } " · since " (times::day(turn.summary.since)) }
        p {
            a href="/" { "Stop, steer and answer it on the page Now" }
            @if !turn.questions.is_empty() { ". It has a question." }
        }
        div data-live={ "/live?turn=" (event) } data-once={ "/live/once?turn=" (event) } {
            div.live id={ "turn-" (event) } {
                @if let Some(text) = text { (frame::made(&text)) }
            }
        }
        p { "When it has ended, this page shows all of it." }
    };
    layout::page(guest, MenuPage::Transcripts, true, &main)
}

/// Renders links to the message in Discord, to the turns before and after, and to the step viewer.
async fn turn_links(shared: &DashboardState, guest: &SignedIn, seen: &VisibleTurn) -> Markup {
    let line = &seen.line;
    let of_lane = |before, most| TurnSearch {
        lane: Some(line.lane.clone()),
        before,
        most,
        ..TurnSearch::default()
    };
    let history = &shared.services.history;
    let before = history.ended_turns(of_lane(Some(line.ended), 1)).await.pop();
    let latest = history.ended_turns(of_lane(None, AFTER)).await;
    let at = latest.iter().position(|other| other.turn == line.turn);
    let after = at.and_then(|at| at.checked_sub(1)).map(|at| &latest[at]);
    html! {
        nav aria-label="From this turn" {
            ul {
                @if let Some(before) = before { li { a href=(path(&before.turn)) { "Previous turn" } } }
                @if let Some(after) = after { li { a href=(path(&after.turn)) { "Next turn" } } }
                @if let Some(message) = message(line, &seen.standing) {
                    li { a href=(message) rel="noreferrer" { "In Discord" } }
                }
                @if guest.standing.owner && line.recording.is_some() {
                    li { a href={ (path(&line.turn)) "/machine" } { "Time machine" } }
                }
            }
        }
    }
}

/// Returns the URL of the message with the prompt.
fn message(line: &TurnLine, standing: &LanePermissions) -> Option<String> {
    let (Lane::Channel(channel), Some(message)) = (&line.lane, line.message) else { return None };
    let guild = standing.guild.map_or_else(|| "@me".to_owned(), |guild| guild.to_string());
    match channel.platform() {
        Platform::Discord => {
            Some(format!("https://discord.com/channels/{guild}/{channel}/{message}"))
        }
    }
}
