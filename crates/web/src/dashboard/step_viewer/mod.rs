//! The step viewer for owners, which the dashboard calls the time machine. Shows a recorded turn
//! step by step, with the agent's output, the component's actions and the messages in Discord.
//!
//! | module | content |
//! |---|---|
//! | [`text`] | formats agents' text for owners, split into parts |
//! | [`view`] | renders the page |

mod text;
mod view;

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;

use self::view::StepView;
use super::middleware::SignedIn;
use super::url::encoded;
use super::{DashboardState, RecordedTurn, frame, layout};
use aetheel_kit::step_viewer::{RecordedStep, StepSearch, StepViewer, TurnSteps};
use aetheel_model::event::Lane;
use aetheel_model::plain::{one_line, short_line};

const TITLE: &str = "Time machine";
/// The largest number of characters of a search.
const WORDS: usize = 200;
/// The number of digits of a digest that identify a component.
const SHORT: usize = 12;

/// The parameters of a request.
pub(super) struct StepQuery {
    turn: String,
    /// The number of an existing step, from 1.
    step: usize,
    words: String,
    /// The displayed parts of the input and of the actions, from 1.
    part: usize,
    more: usize,
}

impl StepQuery {
    /// Returns the URL of another step with the other parameters unchanged.
    fn at(&self, step: usize) -> String {
        self.address(step, "")
    }

    fn address(&self, step: usize, further: &str) -> String {
        let mut address = format!("/turns/{}/machine?step={step}", self.turn);
        if !self.words.is_empty() {
            address.push_str(&format!("&q={}", encoded(&self.words)));
        }
        address.push_str(further);
        address
    }
}

/// Shows a step.
pub(super) async fn page(
    State(shared): State<Arc<DashboardState>>,
    guest: SignedIn,
    Path(turn): Path<String>,
    Query(fields): Query<Vec<(String, String)>>,
) -> Response {
    let Some(recorded) = seen(&shared, &guest, &turn).await else {
        return frame::not_found().await;
    };
    let machine = shared.api.step_viewer();
    let steps = match &recorded.recording {
        None => Err("this turn was not recorded, or its recording was deleted because of its age"
            .to_owned()),
        Some(recording) => machine.open(recording, &turn).await.map_err(|error| error.to_string()),
    };
    let steps = match steps {
        Ok(steps) if !may_see(&shared, &guest, &recorded, &steps).await => {
            return frame::not_found().await;
        }
        Ok(steps) if steps.is_empty() => return nothing(&guest, "its guest received no input"),
        Ok(steps) => steps,
        Err(why) => return nothing(&guest, &machine.redactor().redact(why)),
    };
    let field = |name: &str| {
        let found = fields.iter().find(|(given, _)| given == name);
        found.map_or("", |(_, value)| value.trim())
    };
    let number = |name: &str| field(name).parse::<usize>().unwrap_or(1).max(1);
    let asked = StepQuery {
        step: number("step").min(steps.len()),
        words: one_line(field("q")).chars().take(WORDS).collect(),
        part: number("part"),
        more: number("more"),
        turn,
    };
    if field("go") == "hit" && !asked.words.is_empty() {
        return search(machine, &guest, &steps, &asked).await;
    }
    let step = asked.step - 1;
    let (read, drawn) =
        tokio::join!(look(machine, &steps, step), shared.api.messages(&asked.turn, &steps, step),);
    let (Ok(read), Ok(drawn)) = (read, drawn) else {
        return nothing(&guest, "the recording cannot be read any more");
    };
    let view = StepView {
        steps: &steps,
        recorded: &recorded,
        asked: &asked,
        step: &read,
        drawn: &drawn,
        redactor: machine.redactor(),
    };
    layout::inner(&guest, None, TITLE, None, &view.html())
}

/// Returns the record of a turn if the user may open it here.
async fn seen(shared: &DashboardState, guest: &SignedIn, turn: &str) -> Option<RecordedTurn> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !guest.standing.owner || turn.len() > 64 || !turn.bytes().all(plain) {
        return None;
    }
    let recorded = shared.api.recorded_turn(turn).await?;
    // Owners cannot open private conversations of other people.
    let standing = guest.permissions_in(shared, &recorded.lane).await;
    (standing.sees && standing.owner).then_some(recorded)
}

/// Returns whether a user who may open a turn may also see its recording. People can edit the
/// record of a turn, so the recording could belong to another lane.
async fn may_see(
    shared: &DashboardState,
    guest: &SignedIn,
    recorded: &RecordedTurn,
    steps: &TurnSteps,
) -> bool {
    match steps.facts().lane.parse::<Lane>() {
        Ok(lane) if lane == recorded.lane => true,
        Ok(lane) => guest.permissions_in(shared, &lane).await.sees,
        Err(_) => false,
    }
}

fn nothing(guest: &SignedIn, why: &str) -> Response {
    let main = html! {
        p { "This turn cannot be shown: " (short_line(why, 500)) "." }
    };
    layout::inner(guest, None, TITLE, None, &main)
}

/// Redirects to the next step that contains the searched words.
async fn search(
    machine: &StepViewer,
    guest: &SignedIn,
    steps: &Arc<TurnSteps>,
    asked: &StepQuery,
) -> Response {
    let notice = match machine.search(steps, asked.step - 1, &asked.words).await {
        Ok(StepSearch::At(step)) => return Redirect::to(&asked.at(step + 1)).into_response(),
        Ok(StepSearch::Nothing) => "No further step contains these words.".to_owned(),
        Ok(StepSearch::Stopped(step)) => {
            guest.session.set_notice("Nothing was found up to here. Search again to continue.");
            return Redirect::to(&asked.at(step + 1)).into_response();
        }
        Err(error) => error.to_string(),
    };
    guest.session.set_notice(notice);
    Redirect::to(&asked.at(asked.step)).into_response()
}

async fn look(
    machine: &StepViewer,
    steps: &Arc<TurnSteps>,
    step: usize,
) -> Result<RecordedStep, ()> {
    let steps = Arc::clone(steps);
    machine.run_blocking(move || steps.read(step)).await.map_err(drop)?.map_err(drop)
}
