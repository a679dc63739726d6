//! The page of a turn: the current output of a running turn, or the recording of a finished one.

use axum::extract::Path;
use axum::response::Response;
use jiff::Timestamp;
use maud::{Markup, PreEscaped, html};

use super::super::access::SignedIn;
use super::super::components::{Link, nav};
use super::super::fields::Fields;
use super::super::layout::{self, MenuPage};
use super::super::{frame, times};
use super::reader::{VisibleTurn, place, visible_turn, who};
use super::sheet::TurnSheet;
use super::{path, sharing};
use aetheel_model::access::LanePermissions;
use aetheel_model::event::{Lane, Sequence};
use aetheel_model::id::Platform;
use aetheel_store::workspace::{TurnLine, TurnSearch};

/// The largest number of turns of a lane among which the next turn is searched.
const AFTER: usize = 200;

/// Shows a turn from the block that the field `from` of the address names.
pub(in crate::dashboard) async fn page(
    user: SignedIn,
    Path(turn): Path<String>,
    query: Fields,
) -> Response {
    if let Some((lane, event)) = user.services().observer.running_turn(&turn) {
        return running(&lane, event, &user).await;
    }
    let Some(seen) = visible_turn(&turn, &user).await else {
        return frame::not_found().await;
    };
    let transcript = user.services().history.transcript(&seen.line).await;
    let (line, base) = (&seen.line, path(&turn));
    let sheet = TurnSheet { line, transcript: &transcript, eyes: seen.eyes, base: &base };
    let main = html! {
        h2 { bdi { (place(&seen.permissions, &line.lane)) } " · " bdi { (who(line)) } }
        (turn_links(&seen, &user).await)
        (sheet.html(query.parse("from").unwrap_or(0)))
        (sharing::section(&seen, transcript.is_ok(), Timestamp::now(), &user).await)
    };
    layout::page(&user, MenuPage::Transcripts, false, &main)
}

/// Shows a page of a long text of a turn. The field `page` of the address is its number, from 1.
pub(in crate::dashboard) async fn part(
    user: SignedIn,
    Path((turn, part)): Path<(String, String)>,
    query: Fields,
) -> Response {
    let Some(seen) = visible_turn(&turn, &user).await else {
        return frame::not_found().await;
    };
    let transcript = user.services().history.transcript(&seen.line).await;
    let base = path(&turn);
    let sheet =
        TurnSheet { line: &seen.line, transcript: &transcript, eyes: seen.eyes, base: &base };
    match sheet.part(&part, query.parse("page").unwrap_or(1)) {
        Some(main) => layout::page(&user, MenuPage::Transcripts, false, &main),
        None => frame::not_found().await,
    }
}

/// Shows a running turn. Its text is updated by the script, or when the page is loaded again.
async fn running(lane: &Lane, event: Sequence, user: &SignedIn) -> Response {
    let permissions = user.permissions_in(lane).await;
    let view = user.services().observer.lanes().into_iter().find(|view| view.lane == *lane);
    let turn = view.and_then(|view| view.running).filter(|turn| turn.event == event);
    let (true, Some(turn)) = (permissions.sees, turn) else { return frame::not_found().await };
    let text = user.shared.turns.text(lane, event).map(|(_, text)| text);
    let main = html! {
        h2 { bdi { (place(&permissions, lane)) } " · " bdi { (turn.summary.who) } }
        p { strong { "Running" } ": " bdi { (turn.summary.words) } " · since " (times::day(turn.summary.since)) }
        p {
            a href="/" { "Stop, steer and answer it on the page Now" }
            @if !turn.questions.is_empty() { ". It has a question." }
        }
        div data-live={ "/live?turn=" (event) } data-once={ "/live/once?turn=" (event) } {
            div.live id={ "turn-" (event) } {
                @if let Some(text) = text { (PreEscaped(text.as_ref())) }
            }
        }
        p { "When it has ended, this page shows all of it." }
    };
    layout::page(user, MenuPage::Transcripts, true, &main)
}

/// Renders links to the message in Discord, to the turns before and after, and to the step viewer.
async fn turn_links(seen: &VisibleTurn, user: &SignedIn) -> Markup {
    let line = &seen.line;
    let of_lane = |before, most| TurnSearch {
        lane: Some(line.lane.clone()),
        before,
        most,
        ..TurnSearch::default()
    };
    let history = &user.services().history;
    let before = history.ended_turns(of_lane(Some(line.ended), 1)).await.pop();
    let latest = history.ended_turns(of_lane(None, AFTER)).await;
    let at = latest.iter().position(|other| other.turn == line.turn);
    let after = at.and_then(|at| at.checked_sub(1)).map(|at| &latest[at]);
    let message = message(line, &seen.permissions);
    let steps = user.is_owner() && line.recording.is_some();
    let links = [
        before.map(|before| Link::new("Previous turn", path(&before.turn))),
        after.map(|after| Link::new("Next turn", path(&after.turn))),
        message.map(|message| Link::new("In Discord", message).rel("noreferrer")),
        steps.then(|| Link::new("Time machine", format!("{}/machine", path(&line.turn)))),
    ];
    nav("From this turn", None, links.into_iter().flatten())
}

/// Returns the URL of the message with the prompt.
fn message(line: &TurnLine, permissions: &LanePermissions) -> Option<String> {
    let (Lane::Channel(channel), Some(message)) = (&line.lane, line.message) else { return None };
    let guild = permissions.guild.map_or_else(|| "@me".to_owned(), |guild| guild.to_string());
    match channel.platform() {
        Platform::Discord => {
            Some(format!("https://discord.com/channels/{guild}/{channel}/{message}"))
        }
    }
}
