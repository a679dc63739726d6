//! Cards of running turns and waiting prompts, as one user may see them.

use std::collections::HashMap;
use std::sync::Arc;

use maud::{Markup, html};
use tokio::task::JoinSet;

use super::DashboardState;
use super::frame::{made, tail};
use super::layout::csrf;
use super::middleware::SignedIn;
use super::times::clock;
use super::{rendered, waits};
use aetheel_dispatch::{
    EventSummary, LaneView, LaneWait, OpenQuestion, RunningTurn, Subject, TurnWatch,
};
use aetheel_model::access::LanePermissions;
use aetheel_model::agent::{AnswerForm, Question, ToolStatus};
use aetheel_model::event::{Lane, Sequence};
use aetheel_model::fold::Transcript;
use aetheel_model::plain::short_line;

/// The largest number of cards on a page. Further cards are only counted.
const CARDS: usize = 12;
/// The largest number of waiting prompts of a lane that are listed. Further ones are only counted.
const WAITING: usize = 5;
/// Largest size in bytes on a page, for the text of a turn and for the subject of a question.
const TEXT: usize = 1_500;
const ABOUT: usize = 1_000;
/// The number of tools of a turn that are listed, the latest ones.
const TOOLS: usize = 4;
/// Limits for the questions of a turn, for the parts of a question, and for the options of a part.
const QUESTIONS: usize = 2;
const PARTS: usize = 4;
const OPTIONS: usize = 12;

/// A lane that a user may see.
pub(super) struct Card {
    lane: LaneView,
    /// Why the lane waits, if not for a turn.
    wait: Option<LaneWait>,
    standing: LanePermissions,
}

impl Card {
    /// Returns the lane and the running turn.
    pub(super) fn turn(&self) -> Option<(&Lane, Sequence)> {
        self.lane.running.as_ref().map(|turn| (&self.lane.lane, turn.event))
    }
}

/// Returns the lanes that a user may see, and the number of further ones. With `only`, returns just
/// the lane in which the turn of this event runs.
pub(super) async fn visible_cards(
    shared: &Arc<DashboardState>,
    guest: &SignedIn,
    only: Option<Sequence>,
) -> (Vec<Card>, usize) {
    let mut asking = JoinSet::new();
    let mut waits: HashMap<Lane, LaneWait> = match only {
        Some(_) => HashMap::new(),
        None => {
            let waits = shared.services.waits.all().await.into_iter();
            waits.map(|wait| (wait.lane.clone(), wait)).collect()
        }
    };
    let mut lanes = shared.services.observer.lanes();
    lanes.retain(|view| {
        only.is_none_or(|event| view.running.as_ref().is_some_and(|turn| turn.event == event))
    });
    for (at, view) in lanes.into_iter().enumerate() {
        let (shared, guest) = (Arc::clone(shared), guest.clone());
        let wait = waits.remove(&view.lane);
        asking.spawn(async move {
            let standing = guest.permissions_in(&shared, &view.lane).await;
            (at, Card { lane: view, wait, standing })
        });
    }
    // A lane is not shown if its task panicked.
    let mut cards = Vec::new();
    while let Some(answered) = asking.join_next().await {
        cards.extend(answered.ok().filter(|(_, card)| card.standing.sees));
    }
    // Lanes with questions come first, then lanes with running turns, then lanes that wait for a
    // decision.
    cards.sort_by_key(|(at, card)| {
        let running = card.lane.running.as_ref();
        let asks = running.is_some_and(|turn| !turn.questions.is_empty());
        (!asks, running.is_none(), card.wait.is_none(), *at)
    });
    let more = cards.len().saturating_sub(CARDS);
    cards.truncate(CARDS);
    (cards.into_iter().map(|(_, card)| card).collect(), more)
}

/// Renders all cards. `text` returns the text of a turn if it is to be included.
pub(super) fn list(
    (cards, more): (&[Card], usize),
    guest: &SignedIn,
    text: impl Fn(&Lane, Sequence) -> Option<Arc<str>>,
) -> Markup {
    html! {
        @if cards.is_empty() {
            p { "No turn is running or waiting in the channels that you can see." }
        }
        @for card in cards {
            (one(card, guest, &text))
        }
        @if more > 0 {
            p { "And " (more) " more, which only Discord shows." }
        }
    }
}

fn one(
    card: &Card,
    guest: &SignedIn,
    text: &impl Fn(&Lane, Sequence) -> Option<Arc<str>>,
) -> Markup {
    let (lane, acts) = (&card.lane.lane, card.standing.acts);
    html! {
        article.card id=(anchor(lane)) {
            h2 { bdi { (short_line(&card.standing.place, 80)) } }
            @if let Some(turn) = &card.lane.running {
                (head("Running", &turn.summary, turn.backend.as_deref()))
                @if let Some(id) = &turn.turn { p { a href={ "/turns/" (id) } { "Open this turn" } } }
                div.live id={ "turn-" (turn.event) } {
                    @if let Some(text) = text(lane, turn.event) { (made(&text)) }
                }
                @for asked in turn.questions.iter().take(QUESTIONS) {
                    (question(asked, turn, lane, guest))
                }
                @if acts { (forms(lane, turn, guest)) }
            }
            @if let Some(wait) = &card.wait { (waits::section(wait, &card.standing, guest)) }
            @if !card.lane.waiting.is_empty() {
                h3 { "Waiting: " (card.lane.waiting.len()) }
                ol {
                    @for waiting in card.lane.waiting.iter().take(WAITING) {
                        li { bdi { (waiting.words) } " · " bdi { (waiting.who) } }
                    }
                }
                @if card.lane.waiting.len() > WAITING { p { "and " (card.lane.waiting.len() - WAITING) " more" } }
            }
        }
    }
}

/// Returns the id of a lane's card, by which the script finds it again.
fn anchor(lane: &Lane) -> String {
    let one = |c: char| match c {
        c if c.is_ascii_alphanumeric() => c.to_string(),
        c => format!("_{:x}", u32::from(c)),
    };
    format!("lane-{}", lane.to_string().chars().map(one).collect::<String>())
}

fn head(what: &str, summary: &EventSummary, backend: Option<&str>) -> Markup {
    html! {
        p.head {
            strong { (what) } ": " bdi { (summary.words) } " · " bdi { (summary.who) }
            @if let Some(backend) = backend { " · " (backend) }
            " · since " (clock(summary.since))
        }
    }
}

fn forms(lane: &Lane, turn: &RunningTurn, guest: &SignedIn) -> Markup {
    let steer = format!("steer-{}", turn.event);
    html! {
        @if matches!(lane, Lane::Channel(_)) {
            form method="post" action="/turns/steer" {
                (csrf(guest)) (which(lane, turn))
                label for=(steer) { "Message to the agent" }
                textarea id=(steer) name="words" rows="2" required {}
                button type="submit" { "Send" }
            }
        }
        form method="post" action="/turns/stop" {
            (csrf(guest)) (which(lane, turn))
            button.stop type="submit" { "Stop this turn" }
        }
    }
}

/// Renders the fields that identify the turn of a form.
fn which(lane: &Lane, turn: &RunningTurn) -> Markup {
    html! {
        input type="hidden" name="lane" value=(lane);
        input type="hidden" name="turn" value=(turn.event);
    }
}

fn question(asked: &OpenQuestion, turn: &RunningTurn, lane: &Lane, guest: &SignedIn) -> Markup {
    let hidden = html! {
        (csrf(guest)) (which(lane, turn))
        input type="hidden" name="question" value=(asked.id);
    };
    html! {
        section.question id={ "question-" (asked.id) } aria-label="A question from the agent" {
            h3 dir="auto" { (short_line(&asked.title, 300)) }
            @if let Some(note) = asked.collision_note() { p dir="auto" { (short_line(&note, 500)) } }
            @match &asked.subject {
                Subject::Permission { tool, about } => {
                    p dir="auto" { (short_line(tool, 100)) }
                    @if let Some(about) = about { (excerpt(&about.text)) }
                }
                Subject::Plan(plan) => (excerpt(plan)),
                Subject::SignIn(address) => p { "Sign in at " code { (short_line(address, 500)) } },
                Subject::Questions(_) => {}
            }
            @if let Subject::Questions(questions) = &asked.subject {
                @if questions.len() > PARTS {
                    p { "This has more questions than fit here: answer it in Discord." }
                } @else {
                    form method="post" action="/questions/answer" {
                        (hidden)
                        @for (at, part) in questions.iter().enumerate() { (fields(asked, at, part)) }
                        button.main type="submit" { "Answer" }
                    }
                    form method="post" action="/questions/answer" {
                        (hidden)
                        button type="submit" name="word" value="decline" { "Deny" }
                    }
                }
            } @else {
                form method="post" action="/questions/answer" {
                    (hidden)
                    @for (word, label, _) in shown_choices(asked) {
                        button type="submit" name="word" value=(word) { (short_line(&label, 100)) }
                    }
                }
            }
        }
    }
}

/// Returns the answers that get a button. If two answers have the same word, only the first gets a
/// button.
fn shown_choices(
    asked: &OpenQuestion,
) -> Vec<(&'static str, String, aetheel_model::agent::AskDecision)> {
    let mut choices = asked.choices();
    let mut seen = Vec::new();
    choices.retain(|(word, ..)| {
        let first = !seen.contains(word);
        seen.push(*word);
        first
    });
    for (word, label, _) in &mut choices {
        if *word == "deny" {
            asked.deny_label().clone_into(label);
        }
    }
    choices
}

fn excerpt(text: &str) -> Markup {
    let (end, cut) = tail(text, ABOUT);
    html! {
        @if cut { p { "This is only the end; Discord has the whole text." } }
        pre tabindex="0" dir="auto" { (end) }
    }
}

fn fields(asked: &OpenQuestion, at: usize, part: &Question) -> Markup {
    let name = format!("answer{at}");
    let id = format!("{}-{at}", asked.id);
    let own = part.free_text;
    html! {
        fieldset {
            legend dir="auto" { (short_line(&part.text, 300)) }
            @if let Some(more) = &part.description { p dir="auto" { (short_line(more, 300)) } }
            @for (number, option) in part.options.iter().take(OPTIONS).enumerate() {
                div {
                    input type=(if part.many { "checkbox" } else { "radio" }) id={ (id) "-" (number) } name=(name)
                        value=(option.id) checked[part.preset.contains(&option.id)];
                    label for={ (id) "-" (number) } {
                        bdi { (short_line(&option.label, 100)) }
                        @if let Some(more) = &option.description { " – " bdi { (short_line(more, 100)) } }
                    }
                }
            }
            @if part.options.len() > OPTIONS { p { "There are more options in Discord." } }
            @if own {
                label for={ (id) "-own" } {
                    @if part.options.is_empty() { "Your answer" } @else { "Or in your own words" }
                }
                input id={ (id) "-own" } name=(name) autocomplete="off"
                    type=(if part.secret { "password" } else { "text" })
                    inputmode=[(!matches!(part.form, AnswerForm::Text | AnswerForm::YesNo)).then_some("decimal")];
            }
        }
    }
}

/// An excerpt of a turn's output that fits on a page.
pub(super) struct TurnExcerpt {
    text: String,
    cut: bool,
    tools: Vec<(String, Option<ToolStatus>)>,
    left_out: usize,
    retry: Option<String>,
}

impl TurnExcerpt {
    /// Copies the part of the turn that users may see now.
    pub(super) fn of(turn: &TurnWatch) -> Self {
        turn.read(|transcript: &Transcript| {
            let text = transcript.text();
            let (end, cut) = tail(&text, TEXT);
            let tools = transcript.tools();
            let left_out = tools.len().saturating_sub(TOOLS);
            let tool = |tool: &aetheel_model::fold::ToolUse| {
                let (name, title) = (&tool.start.native_name, &tool.start.title);
                let more = tool.start.target.as_deref().unwrap_or(title);
                (short_line(&format!("{name} {more}"), 120), tool.status)
            };
            Self {
                text: end.to_owned(),
                cut,
                tools: tools[left_out..].iter().map(tool).collect(),
                left_out,
                retry: transcript.retry().map(|why| short_line(why, 200)),
            }
        })
    }

    /// Renders the excerpt. The result is the same for all users who may see the turn.
    pub(super) fn html(&self) -> Markup {
        html! {
            @if self.left_out > 0 { p.tools { (self.left_out) " earlier tools" } }
            @if !self.tools.is_empty() {
                ul.tools {
                    @for (tool, status) in &self.tools {
                        li { code { bdi { (tool) } } " " (status_text(*status)) }
                    }
                }
            }
            @if self.cut { p { "…" } }
            @if !self.text.trim().is_empty() {
                div.text tabindex="0" dir="auto" {
                    // The end of a Markdown text may render wrongly without its beginning.
                    @if self.cut { (self.text) } @else { (rendered::markdown(&self.text)) }
                }
             }
            @if let Some(retry) = &self.retry { p { "Trying again: " bdi { (retry) } } }
        }
    }
}

fn status_text(status: Option<ToolStatus>) -> &'static str {
    match status {
        None => "runs",
        Some(ToolStatus::Ok) => "done",
        Some(ToolStatus::Failed) => "failed",
        Some(ToolStatus::Denied) => "was denied",
        Some(ToolStatus::Cancelled) => "was stopped",
        Some(ToolStatus::Unknown) => "ended",
    }
}
