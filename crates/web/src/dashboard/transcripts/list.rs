//! The list of finished turns, newest first, with a search by words and by channel. It contains the
//! turns of channels that the user may see.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use super::super::layout::{self, MenuPage};
use super::super::middleware::SignedIn;
use super::super::url::encoded;
use super::super::{DashboardState, times};
use super::blocks::took;
use super::path;
use super::reader::{place, who};
use aetheel_model::access::LanePermissions;
use aetheel_model::event::Lane;
use aetheel_model::plain::short_line;
use aetheel_store::workspace::{TurnLine, TurnSearch};

/// The number of turns on a page.
const SHOWN: usize = 20;
/// The number of turns that are read at once, and the largest number of such reads for a page. Many
/// turns may belong to channels that the user cannot see.
const BATCH: usize = 100;
const BATCHES: usize = 10;
/// The largest number of lanes that are looked up in Discord for a page.
const LANES: usize = 60;
/// Longest search text in characters.
const WORDS: usize = 200;

/// The parameters of a search.
#[derive(Default, Deserialize)]
pub(in crate::dashboard) struct TurnQuery {
    #[serde(default)]
    q: String,
    /// A lane in its text form.
    #[serde(default, rename = "in")]
    lane: String,
    /// Only turns that ended before this time, in RFC 3339.
    #[serde(default)]
    before: String,
}

struct TurnRow {
    line: TurnLine,
    place: String,
}

/// The results for a page.
struct FoundTurns {
    rows: Vec<TurnRow>,
    /// The start of the next page, or `None` if this page is the last.
    next: Option<Timestamp>,
    /// Whether the search stopped early: there are more turns, or too many channels to look up.
    stopped: bool,
}

/// Shows the list.
pub(in crate::dashboard) async fn page(
    State(shared): State<Arc<DashboardState>>,
    guest: SignedIn,
    wanted: Result<Query<TurnQuery>, QueryRejection>,
) -> Response {
    let wanted = wanted.map(|Query(wanted)| wanted).unwrap_or_default();
    let words = short_line(&wanted.q, WORDS);
    let lane: Option<Lane> = wanted.lane.parse().ok();
    let before: Option<Timestamp> = wanted.before.parse().ok();
    let search = TurnSearch { words: words.clone(), lane: lane.clone(), before, most: BATCH };
    let found = find(&shared, &guest, search).await;
    let of = lane.as_ref().map(ToString::to_string).unwrap_or_default();
    let main = html! {
        form method="get" action="/turns" role="search" {
            label for="q" { "Words of a prompt or an answer, a name, or an agent" }
            input type="text" id="q" name="q" value=(words) maxlength=(WORDS) autocomplete="off";
            @if lane.is_some() { input type="hidden" name="in" value=(of); }
            button.main type="submit" { "Search" }
        }
        @if lane.is_some() {
            p { "Only one channel is searched. " a href={ "/turns?q=" (encoded(&words)) } { "Search all" } }
        }
        @if found.rows.is_empty() && found.next.is_none() { p { "There is no such turn, or you cannot see it." } }
        @if !found.rows.is_empty() { (table(&found.rows)) }
        @if let Some(next) = found.next {
            @if found.stopped { p { "The search stopped here, to answer in time. It covered the turns back to " (times::day(next)) "." } }
            p { a href={ "/turns?q=" (encoded(&words)) "&in=" (encoded(&of)) "&before=" (encoded(&next.to_string())) } { "Earlier turns" } }
        }
    };
    layout::page(&guest, MenuPage::Transcripts, false, &main)
}

/// Searches for turns in lanes that the user may see.
async fn find(shared: &DashboardState, guest: &SignedIn, mut search: TurnSearch) -> FoundTurns {
    let mut standings: HashMap<Lane, LanePermissions> = HashMap::new();
    let mut found = FoundTurns { rows: Vec::new(), next: None, stopped: false };
    for _ in 0..BATCHES {
        let lines = shared.services.history.ended_turns(search.clone()).await;
        let last = lines.len() < search.most;
        for line in lines {
            if !standings.contains_key(&line.lane) {
                if standings.len() >= LANES {
                    found.stopped = true;
                    return found;
                }
                let standing = guest.permissions_in(shared, &line.lane).await;
                standings.insert(line.lane.clone(), standing);
            }
            search.before = Some(line.ended);
            found.next = search.before;
            let Some(standing) = standings.get(&line.lane).filter(|standing| standing.sees) else {
                continue;
            };
            found.rows.push(TurnRow { place: place(standing, &line.lane), line });
            if found.rows.len() == SHOWN {
                return found;
            }
        }
        if last {
            found.next = None;
            return found;
        }
    }
    found.stopped = true;
    found
}

fn table(rows: &[TurnRow]) -> Markup {
    html! {
        table {
            thead { tr { th { "When" } th { "Where" } th { "Who" } th { "What" } th { "Agent" } th { "Ended" } } }
            tbody {
                @for TurnRow { line, place } in rows {
                    tr {
                        td { (times::day(line.ended)) }
                        td { a href={ "/turns?in=" (encoded(&line.lane.to_string())) } { (place) } }
                        td { (who(line)) }
                        td { a href=(path(&line.turn)) { (first_words(line)) } }
                        td { (short_line(&line.backend, 40)) }
                        td {
                            (line.how.to_string()) ", " (took(line.took_ms))
                            @if let Some(cost) = line.usage.as_ref().and_then(|usage| usage.cost_usd) {
                                ", $" (format!("{cost:.4}"))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn first_words(line: &TurnLine) -> String {
    let words = short_line(line.asked.as_deref().unwrap_or_default(), 100);
    if words.is_empty() { format!("Turn {}", line.turn) } else { words }
}
