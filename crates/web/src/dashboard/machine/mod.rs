//! The time machine, for owners: what the agent said, what its component made of it, and what
//! Discord showed, step by step; and the same as another component would have it.
//!
//! | room | owns |
//! |---|---|
//! | [`text`] | agents' text as owners read it, in parts that fit |
//! | [`view`] | the page |

mod text;
mod view;

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;

use self::view::{Chosen, View};
use super::guard::Guest;
use super::{Drawn, RecordedTurn, Shared, frame, layout};
use aetheel_kit::machine::{Compared, Film, Found, Machine, Reading, Step};
use aetheel_model::event::Lane;
use aetheel_model::plain::{one_line, short_line};
use aetheel_turn::KnownComponent;

const TITLE: &str = "Time machine";
/// Characters of words that are looked for.
const WORDS: usize = 200;
/// Letters of a digest that name a component.
const SHORT: usize = 12;
/// How soon a page is loaded again while a component reads.
const AGAIN: u32 = 2;

/// What an address asks for.
pub(super) struct Asked {
    turn: String,
    /// From 1, one that there is.
    step: usize,
    words: String,
    /// The beginning of a component's digest.
    with: String,
    /// Which part of what was told, and of what came of it.
    part: usize,
    more: usize,
}

impl Asked {
    /// The address of another step, with everything else that makes a page what it is.
    fn at(&self, step: usize) -> String {
        self.address(step, "")
    }

    fn address(&self, step: usize, further: &str) -> String {
        let mut address = format!("/turns/{}/machine?step={step}", self.turn);
        for (name, value) in [("q", &self.words), ("with", &self.with)] {
            if !value.is_empty() {
                address.push_str(&format!("&{name}={}", encoded(value)));
            }
        }
        address.push_str(further);
        address
    }
}

/// The page of a step.
pub(super) async fn page(
    State(shared): State<Arc<Shared>>,
    guest: Guest,
    Path(turn): Path<String>,
    Query(fields): Query<Vec<(String, String)>>,
) -> Response {
    let Some(recorded) = seen(&shared, &guest, &turn).await else { return frame::nowhere().await };
    let machine = shared.house.machine();
    let film = match &recorded.recording {
        None => Err("nothing was recorded of this turn, or it is gone with its age".to_owned()),
        Some(recording) => machine.open(recording, &turn).await,
    };
    let film = match film {
        Ok(film) if !may_see(&shared, &guest, &recorded, &film).await => {
            return frame::nowhere().await;
        }
        Ok(film) if film.is_empty() => return nothing(&guest, "nothing was told to its guest"),
        Ok(film) => film,
        Err(why) => return nothing(&guest, &machine.redactor().clean(why)),
    };
    let field = |name: &str| {
        let found = fields.iter().find(|(given, _)| given == name);
        found.map_or("", |(_, value)| value.trim())
    };
    let number = |name: &str| field(name).parse::<usize>().unwrap_or(1).max(1);
    let asked = Asked {
        step: number("step").min(film.len()),
        words: one_line(field("q")).chars().take(WORDS).collect(),
        with: field("with").chars().filter(char::is_ascii_hexdigit).take(SHORT).collect(),
        part: number("part"),
        more: number("more"),
        turn,
    };
    let components = machine.components(&recorded.backend).await;
    let chosen = chosen(machine, &film, &recorded, &asked, field("with"), &components).await;
    let other = match &chosen {
        Some(Chosen::Compared(Compared::Done(reading))) => Some(Arc::clone(reading)),
        _ => None,
    };
    if field("go") == "hit" && !asked.words.is_empty() {
        return search(machine, &guest, &film, &asked, other).await;
    }
    let step = asked.step - 1;
    let (read, drawn, redrawn) = tokio::join!(
        look(machine, &film, step),
        shared.house.messages(&asked.turn, &film, step, None),
        async {
            match &other {
                None => None,
                Some(other) => {
                    let other = Some(Arc::clone(other));
                    Some(shared.house.messages(&asked.turn, &film, step, other).await)
                }
            }
        }
    );
    let (Ok(read), Ok(drawn), Ok(redrawn)) = (read, drawn, redrawn.transpose()) else {
        return nothing(&guest, "the recording cannot be read any more");
    };
    let reads = matches!(chosen, Some(Chosen::Compared(Compared::Reads(_))));
    let view = View {
        film: &film,
        recorded: &recorded,
        asked: &asked,
        step: &read,
        drawn: &drawn,
        chosen: chosen.as_ref(),
        other: other.as_deref(),
        redrawn: redrawn.as_ref(),
        components: &components,
        redactor: machine.redactor(),
    };
    layout::inner(&guest, None, TITLE, reads.then_some(AGAIN), &view.html())
}

/// The record of a turn that somebody may look at here.
async fn seen(shared: &Shared, guest: &Guest, turn: &str) -> Option<RecordedTurn> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !guest.standing.owner || turn.len() > 64 || !turn.bytes().all(plain) {
        return None;
    }
    let recorded = shared.house.recorded(turn).await?;
    // Not even owners look into what others talk about in private.
    let standing = guest.standing_in(shared, &recorded.lane).await;
    (standing.sees && standing.owner).then_some(recorded)
}

/// Whether somebody who may look at a turn may look at what its record names as its recording.
async fn may_see(shared: &Shared, guest: &Guest, recorded: &RecordedTurn, film: &Film) -> bool {
    match film.facts().lane.parse::<Lane>() {
        Ok(lane) if lane == recorded.lane => true,
        Ok(lane) => guest.standing_in(shared, &lane).await.sees,
        Err(_) => false,
    }
}

fn nothing(guest: &Guest, why: &str) -> Response {
    let main = html! {
        p { "This turn cannot be looked at: " (short_line(why, 500)) "." }
    };
    layout::inner(guest, None, TITLE, None, &main)
}

async fn chosen(
    machine: &Machine,
    film: &Arc<Film>,
    recorded: &RecordedTurn,
    asked: &Asked,
    with: &str,
    components: &[KnownComponent],
) -> Option<Chosen> {
    if with.is_empty() {
        return None;
    }
    let known = components
        .iter()
        .find(|known| asked.with.len() == SHORT && known.digest.starts_with(&asked.with));
    let Some(known) = known.filter(|_| asked.with == with) else { return Some(Chosen::Unknown) };
    let compared = machine.compare(film, &asked.turn, &recorded.backend, &known.digest).await;
    Some(Chosen::Compared(compared))
}

/// Goes to the next step with the words that are looked for.
async fn search(
    machine: &Machine,
    guest: &Guest,
    film: &Arc<Film>,
    asked: &Asked,
    other: Option<Arc<Reading>>,
) -> Response {
    let said = match machine.search(film, asked.step - 1, &asked.words, other).await {
        Ok(Found::At(step)) => return Redirect::to(&asked.at(step + 1)).into_response(),
        Ok(Found::Nothing) => "No further step has these words.".to_owned(),
        Ok(Found::Stopped(step)) => {
            guest.session.say("Nothing until here: look on from here.");
            return Redirect::to(&asked.at(step + 1)).into_response();
        }
        Err(why) => why,
    };
    guest.session.say(said);
    Redirect::to(&asked.at(asked.step)).into_response()
}

async fn look(machine: &Machine, film: &Arc<Film>, step: usize) -> Result<Step, ()> {
    let film = Arc::clone(film);
    machine.work(move || film.read(step)).await.map_err(drop)?.map_err(drop)
}

/// Whether two renderings of the same step are the same.
fn same(one: &Drawn, other: &Drawn) -> bool {
    one.messages == other.messages
}

/// A value in an address.
fn encoded(value: &str) -> String {
    value
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}
