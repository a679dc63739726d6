//! Finding turns: the newest first, by words and by channel, as far as somebody sees the channels
//! they ran in.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use super::super::guard::Guest;
use super::super::layout::{self, Here};
use super::super::{Shared, cards};
use super::blocks::took;
use super::path;
use super::reader::{place, who};
use aetheel_model::access::Standing;
use aetheel_model::event::Lane;
use aetheel_model::plain::short_line;
use aetheel_store::workspace::{Search, TurnLine};

/// Turns on a page.
const SHOWN: usize = 20;
/// Turns that are read at once, and how often for a page: where somebody sees few of the channels,
/// others go by unseen.
const BATCH: usize = 100;
const BATCHES: usize = 10;
/// Lanes that Discord is asked about for a page.
const LANES: usize = 60;
/// Longest search, characters.
const WORDS: usize = 200;

/// What somebody looks for.
#[derive(Default, Deserialize)]
pub(in crate::dashboard) struct Wanted {
    #[serde(default)]
    q: String,
    /// A lane, as it is written.
    #[serde(default, rename = "in")]
    lane: String,
    /// Turns that ended before this, RFC 3339.
    #[serde(default)]
    before: String,
}

/// A turn on the list.
struct Row {
    line: TurnLine,
    place: String,
}

/// What was found for a page.
struct Found {
    rows: Vec<Row>,
    /// Where the next page begins; none: there is nothing more.
    next: Option<Timestamp>,
    /// More was left unread, or Discord was not asked about every channel.
    stopped: bool,
}

/// The list.
pub(in crate::dashboard) async fn page(
    State(shared): State<Arc<Shared>>,
    guest: Guest,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Response {
    let wanted = wanted.map(|Query(wanted)| wanted).unwrap_or_default();
    let words = short_line(&wanted.q, WORDS);
    let lane: Option<Lane> = wanted.lane.parse().ok();
    let before: Option<Timestamp> = wanted.before.parse().ok();
    let search = Search { words: words.clone(), lane: lane.clone(), before, most: BATCH };
    let found = find(&shared, &guest, search).await;
    let of = lane.as_ref().map(ToString::to_string).unwrap_or_default();
    let main = html! {
        form method="get" action="/turns" role="search" {
            label for="q" { "Words of what was asked or answered, a name, an agent" }
            input type="text" id="q" name="q" value=(words) maxlength=(WORDS) autocomplete="off";
            @if lane.is_some() { input type="hidden" name="in" value=(of); }
            button.main type="submit" { "Search" }
        }
        @if lane.is_some() {
            p { "Only one channel is searched. " a href={ "/turns?q=" (encoded(&words)) } { "Search all" } }
        }
        @if found.rows.is_empty() && found.next.is_none() { p { "There is no such turn that you may see." } }
        @if !found.rows.is_empty() { (table(&found.rows)) }
        @if let Some(next) = found.next {
            @if found.stopped { p { "The search stopped here, to answer in time: nothing more was found back to " (cards::day(next)) "." } }
            p { a href={ "/turns?q=" (encoded(&words)) "&in=" (encoded(&of)) "&before=" (encoded(&next.to_string())) } { "Earlier turns" } }
        }
    };
    layout::page(&guest, Here::Transcripts, false, &main)
}

/// Looks for turns in lanes that somebody sees.
async fn find(shared: &Shared, guest: &Guest, mut search: Search) -> Found {
    let mut standings: HashMap<Lane, Standing> = HashMap::new();
    let mut found = Found { rows: Vec::new(), next: None, stopped: false };
    for _ in 0..BATCHES {
        let lines = shared.dispatcher.ended_turns(search.clone()).await;
        let last = lines.len() < search.most;
        for line in lines {
            if !standings.contains_key(&line.lane) {
                if standings.len() >= LANES {
                    found.stopped = true;
                    return found;
                }
                let standing = guest.standing_in(shared, &line.lane).await;
                standings.insert(line.lane.clone(), standing);
            }
            search.before = Some(line.ended);
            found.next = search.before;
            let Some(standing) = standings.get(&line.lane).filter(|standing| standing.sees) else {
                continue;
            };
            found.rows.push(Row { place: place(standing, &line.lane), line });
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

fn table(rows: &[Row]) -> Markup {
    html! {
        table {
            thead { tr { th { "When" } th { "Where" } th { "Who" } th { "What" } th { "Agent" } th { "Ended" } } }
            tbody {
                @for Row { line, place } in rows {
                    tr {
                        td { (cards::day(line.ended)) }
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

/// A value in an address.
fn encoded(value: &str) -> String {
    let mut encoded = String::new();
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
