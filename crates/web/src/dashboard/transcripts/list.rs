//! The list of finished turns, newest first, with a search by words and by channel. It contains the
//! turns of channels that the user may see.

use axum::response::Response;
use jiff::Timestamp;
use maud::{Markup, html};

use super::super::access::{LaneLookup, SignedIn};
use super::super::components::{Button, Form, Table, TextField};
use super::super::fields::Fields;
use super::super::layout::{self, MenuPage};
use super::super::times;
use super::super::url::address;
use super::blocks::took;
use super::path;
use super::reader::{place, who};
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

/// Shows the list. The fields of the address: `q` with the words, `in` with a lane in its text
/// form, and `before` with the time before which the turns ended, in RFC 3339.
pub(in crate::dashboard) async fn page(user: SignedIn, query: Fields) -> Response {
    let words = short_line(query.one("q"), WORDS);
    let lane: Option<Lane> = query.parse("in");
    let of = lane.as_ref().map(ToString::to_string).unwrap_or_default();
    let before = query.parse("before");
    let search = TurnSearch { words: words.clone(), lane, before, most: BATCH };
    let found = find(search, &user).await;
    let label = "Words of a prompt or an answer, a name, or an agent";
    let field = TextField::new("q", label, &words).most(WORDS);
    let mut form = Form::search("/turns").with(field);
    if !of.is_empty() {
        form = form.hidden("in", &of);
    }
    let earlier = |next: Timestamp| {
        address("/turns", &[("q", &words), ("in", &of), ("before", &next.to_string())])
    };
    let main = html! {
        (form.with(Button::main("Search")))
        @if !of.is_empty() {
            p { "Only one channel is searched. " a href=(address("/turns", &[("q", &words)])) { "Search all" } }
        }
        @if found.rows.is_empty() && found.next.is_none() { p { "There is no such turn, or you cannot see it." } }
        @if !found.rows.is_empty() { (table(&found.rows)) }
        @if let Some(next) = found.next {
            @if found.stopped { p { "The search stopped here, to answer in time. It covered the turns back to " (times::day(next)) "." } }
            p { a href=(earlier(next)) { "Earlier turns" } }
        }
    };
    layout::page(&user, MenuPage::Transcripts, false, &main)
}

/// Searches for turns in lanes that the user may see.
async fn find(mut search: TurnSearch, user: &SignedIn) -> FoundTurns {
    let mut lanes = LaneLookup::new(user, LANES);
    let mut found = FoundTurns { rows: Vec::new(), next: None, stopped: false };
    for _ in 0..BATCHES {
        let lines = user.services().history.ended_turns(search.clone()).await;
        let last = lines.len() < search.most;
        for line in lines {
            let Some(permissions) = lanes.permissions_in(&line.lane).await else {
                found.stopped = true;
                return found;
            };
            search.before = Some(line.ended);
            found.next = search.before;
            if !permissions.sees {
                continue;
            }
            found.rows.push(TurnRow { place: place(permissions, &line.lane), line });
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
    let table = Table::stacked(&["When", "Where", "Who", "What", "Agent", "Ended"]);
    table.rows(rows, |TurnRow { line, place }| {
        html! {
            td { (times::day(line.ended)) }
            td { a href=(address("/turns", &[("in", &line.lane.to_string())])) { (place) } }
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
    })
}

fn first_words(line: &TurnLine) -> String {
    let words = short_line(line.asked.as_deref().unwrap_or_default(), 100);
    if words.is_empty() { format!("Turn {}", line.turn) } else { words }
}
