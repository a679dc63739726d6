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

use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;

use self::view::StepView;
use super::access::{Owner, SignedIn};
use super::fields::Fields;
use super::url::address;
use super::{RecordedTurn, frame, layout};
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
        self.address(step, "", "")
    }

    /// Returns the URL of a step with a further field.
    fn address(&self, step: usize, name: &str, value: &str) -> String {
        let path = format!("/turns/{}/machine", self.turn);
        address(&path, &[("step", &step.to_string()), ("q", &self.words), (name, value)])
    }
}

/// Shows a step.
pub(super) async fn page(Owner(user): Owner, Path(turn): Path<String>, query: Fields) -> Response {
    let Some(recorded) = visible_turn(&turn, &user).await else {
        return frame::not_found().await;
    };
    let viewer = user.shared.api.step_viewer();
    let steps = match &recorded.recording {
        None => Err("this turn was not recorded, or its recording was deleted because of its age"
            .to_owned()),
        Some(recording) => viewer.open(recording, &turn).await.map_err(|error| error.to_string()),
    };
    let steps = match steps {
        Ok(steps) if !may_see(&recorded, &steps, &user).await => {
            return frame::not_found().await;
        }
        Ok(steps) if steps.is_empty() => return nothing(&user, "its guest received no input"),
        Ok(steps) => steps,
        Err(why) => return nothing(&user, &viewer.redactor().redact(why)),
    };
    let number = |name: &str| query.parse(name).unwrap_or(1).max(1);
    let asked = StepQuery {
        step: number("step").min(steps.len()),
        words: one_line(query.one("q").trim()).chars().take(WORDS).collect(),
        part: number("part"),
        more: number("more"),
        turn,
    };
    if query.one("go") == "hit" && !asked.words.is_empty() {
        return search(viewer, &user, &steps, &asked).await;
    }
    let at = asked.step - 1;
    let messages = user.shared.api.messages(&asked.turn, &steps, at);
    let (step, drawn) = tokio::join!(look(viewer, &steps, at), messages);
    let (Ok(step), Ok(drawn)) = (step, drawn) else {
        return nothing(&user, "the recording cannot be read any more");
    };
    let view = StepView {
        steps: &steps,
        recorded: &recorded,
        asked: &asked,
        step: &step,
        drawn: &drawn,
        redactor: viewer.redactor(),
    };
    layout::inner(&user, None, TITLE, None, &view.html())
}

/// Returns the record of a turn if the user may open it here.
async fn visible_turn(turn: &str, user: &SignedIn) -> Option<RecordedTurn> {
    if !super::transcripts::is_turn(turn) {
        return None;
    }
    let recorded = user.shared.api.recorded_turn(turn).await?;
    // Owners cannot open private conversations of other people.
    let permissions = user.visible(&recorded.lane).await?;
    permissions.owner.then_some(recorded)
}

/// Returns whether a user who may open a turn may also see its recording. People can edit the
/// record of a turn, so the recording could belong to another lane.
async fn may_see(recorded: &RecordedTurn, steps: &TurnSteps, user: &SignedIn) -> bool {
    match steps.facts().lane.parse::<Lane>() {
        Ok(lane) if lane == recorded.lane => true,
        Ok(lane) => user.permissions_in(&lane).await.sees,
        Err(_) => false,
    }
}

fn nothing(user: &SignedIn, why: &str) -> Response {
    let main = html! {
        p { "This turn cannot be shown: " (short_line(why, 500)) "." }
    };
    layout::inner(user, None, TITLE, None, &main)
}

/// Redirects to the next step that contains the searched words.
async fn search(
    viewer: &StepViewer,
    user: &SignedIn,
    steps: &Arc<TurnSteps>,
    asked: &StepQuery,
) -> Response {
    let same = || asked.at(asked.step);
    let (to, notice) = match viewer.search(steps, asked.step - 1, &asked.words).await {
        Ok(StepSearch::At(step)) => return Redirect::to(&asked.at(step + 1)).into_response(),
        Ok(StepSearch::Nothing) => (same(), "No further step contains these words.".to_owned()),
        Ok(StepSearch::Stopped(step)) => {
            let text = "Nothing was found up to here. Search again to continue.";
            (asked.at(step + 1), text.to_owned())
        }
        Err(error) => (same(), error.to_string()),
    };
    user.redirect(&to, notice)
}

async fn look(
    viewer: &StepViewer,
    steps: &Arc<TurnSteps>,
    step: usize,
) -> Result<RecordedStep, ()> {
    let steps = Arc::clone(steps);
    viewer.run_blocking(move || steps.read(step)).await.map_err(drop)?.map_err(drop)
}
