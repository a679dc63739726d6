//! Cards of running turns and waiting prompts, as one user may see them.

use std::collections::HashMap;
use std::sync::Arc;

use maud::{Markup, PreEscaped, Render as _, html};

use super::access::SignedIn;
use super::components::{Button, Card, Form};
use super::paging::tail;
use super::times::clock;
use super::{rendered, waits};
use aetheel_dispatch::{LaneView, LaneWait, OpenQuestion, RunningTurn, Subject, TurnWatch};
use aetheel_model::access::LanePermissions;
use aetheel_model::agent::{AnswerForm, Question};
use aetheel_model::event::{Lane, Sequence};
use aetheel_model::fold::{ToolUse, Transcript};
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
struct LaneCard {
    lane: LaneView,
    /// Why the lane waits, if not for a turn.
    wait: Option<LaneWait>,
    permissions: LanePermissions,
}

/// The lanes that a user may see.
pub(super) struct VisibleCards {
    cards: Vec<LaneCard>,
    /// The number of further lanes.
    more: usize,
}

/// Returns the lanes that a user may see. With `only`, returns just the lane in which the turn of
/// this event runs.
pub(super) async fn visible_cards(user: &SignedIn, only: Option<Sequence>) -> VisibleCards {
    let mut waits: HashMap<Lane, LaneWait> = match only {
        Some(_) => HashMap::new(),
        None => {
            let waits = user.services().waits.all().await.into_iter();
            waits.map(|wait| (wait.lane.clone(), wait)).collect()
        }
    };
    let mut lanes = user.services().observer.lanes();
    lanes.retain(|view| {
        only.is_none_or(|event| view.running.as_ref().is_some_and(|turn| turn.event == event))
    });
    let lanes = lanes.into_iter().map(|view| (view.lane.clone(), view));
    let mut cards = Vec::new();
    for (permissions, lane) in user.permissions_in_all(lanes).await {
        if permissions.sees {
            cards.push(LaneCard { wait: waits.remove(&lane.lane), lane, permissions });
        }
    }
    // Lanes with questions come first, then lanes with running turns, then lanes that wait for a
    // decision.
    cards.sort_by_key(|card| {
        let running = card.lane.running.as_ref();
        let asks = running.is_some_and(|turn| !turn.questions.is_empty());
        (!asks, running.is_none(), card.wait.is_none())
    });
    let more = cards.len().saturating_sub(CARDS);
    cards.truncate(CARDS);
    VisibleCards { cards, more }
}

impl VisibleCards {
    pub(super) fn is_empty(&self) -> bool {
        self.cards.is_empty()
    }

    /// Returns the lanes and events of the running turns.
    pub(super) fn turns(&self) -> impl Iterator<Item = (&Lane, Sequence)> {
        let running = |card: &LaneCard| card.lane.running.as_ref().map(|turn| turn.event);
        self.cards.iter().filter_map(move |card| Some((&card.lane.lane, running(card)?)))
    }

    /// Renders all cards. `text` returns the text of a turn if it is to be included.
    pub(super) fn html(
        &self,
        user: &SignedIn,
        text: impl Fn(&Lane, Sequence) -> Option<Arc<str>>,
    ) -> Markup {
        html! {
            @if self.cards.is_empty() {
                p { "No turn is running or waiting in the channels that you can see." }
            }
            @for card in &self.cards { (card.html(user, &text)) }
            @if self.more > 0 { p { "And " (self.more) " more, which only Discord shows." } }
        }
    }
}

impl LaneCard {
    fn html(&self, user: &SignedIn, text: &impl Fn(&Lane, Sequence) -> Option<Arc<str>>) -> Markup {
        let (lane, waiting) = (&self.lane.lane, &self.lane.waiting);
        let content = html! {
            @if let Some(turn) = &self.lane.running {
                (head(turn))
                @if let Some(id) = &turn.turn { p { a href={ "/turns/" (id) } { "Open this turn" } } }
                div.live id={ "turn-" (turn.event) } {
                    @if let Some(text) = text(lane, turn.event) { (PreEscaped(text.as_ref())) }
                }
                @for asked in turn.questions.iter().take(QUESTIONS) {
                    (question(asked, turn, lane, user))
                }
                @if self.permissions.acts { (forms(lane, turn, user)) }
            }
            @if let Some(wait) = &self.wait { (waits::section(wait, &self.permissions, user)) }
            @if !waiting.is_empty() {
                h3 { "Waiting: " (waiting.len()) }
                ol {
                    @for waiting in waiting.iter().take(WAITING) {
                        li { bdi { (waiting.words) } " · " bdi { (waiting.who) } }
                    }
                }
                @if waiting.len() > WAITING { p { "and " (waiting.len() - WAITING) " more" } }
            }
        };
        let title = html! { bdi { (short_line(&self.permissions.place, 80)) } };
        Card::new(title).id(anchor(lane)).with(content).render()
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

fn head(turn: &RunningTurn) -> Markup {
    let summary = &turn.summary;
    html! {
        p.head {
            strong { "Running" } ": " bdi { (summary.words) } " · " bdi { (summary.who) }
            @if let Some(backend) = &turn.backend { " · " (backend) }
            " · since " (clock(summary.since))
        }
    }
}

/// Returns a form about a running turn.
fn turn_form(action: &str, lane: &Lane, turn: &RunningTurn, user: &SignedIn) -> Form {
    Form::post(user, action).hidden("lane", lane).hidden("turn", turn.event)
}

fn forms(lane: &Lane, turn: &RunningTurn, user: &SignedIn) -> Markup {
    let id = format!("steer-{}", turn.event);
    let message = html! {
        label for=(id) { "Message to the agent" }
        textarea id=(id) name="words" rows="2" required {}
    };
    let steer = turn_form("/turns/steer", lane, turn, user).with(message).with(Button::new("Send"));
    let stop = turn_form("/turns/stop", lane, turn, user).with(Button::stop("Stop this turn"));
    html! {
        @if matches!(lane, Lane::Channel(_)) { (steer) }
        (stop)
    }
}

fn question(asked: &OpenQuestion, turn: &RunningTurn, lane: &Lane, user: &SignedIn) -> Markup {
    let form = || turn_form("/questions/answer", lane, turn, user).hidden("question", &asked.id);
    let forms = match &asked.subject {
        Subject::Questions(questions) if questions.len() > PARTS => html! {
            p { "This has more questions than fit here: answer it in Discord." }
        },
        Subject::Questions(questions) => {
            let parts = questions.iter().enumerate().map(|(at, part)| fields(asked, at, part));
            html! {
                (form().with_all(parts).with(Button::main("Answer")))
                (form().with(Button::new("Deny").sends("word", "decline")))
            }
        }
        _ => form().with_all(choice_buttons(asked)).render(),
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
            (forms)
        }
    }
}

/// Returns a button for each answer. If two answers have the same word, only the first gets a
/// button.
fn choice_buttons(asked: &OpenQuestion) -> Vec<Button> {
    let mut words = Vec::new();
    let mut choices = asked.choices();
    choices.retain(|(word, ..)| !words.contains(word) && (words.push(*word), true).1);
    let button = |(word, label, _): &(&'static str, String, _)| {
        let label = if *word == "deny" { asked.deny_label() } else { label };
        Button::new(short_line(label, 100)).sends("word", word)
    };
    choices.iter().map(button).collect()
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

/// A tool of a turn on one line.
struct ToolLine {
    text: String,
    status: &'static str,
}

impl ToolLine {
    fn of(tool: &ToolUse) -> Self {
        let start = &tool.start;
        let about = start.target.as_deref().unwrap_or(&start.title);
        let text = short_line(&format!("{} {about}", start.native_name), 120);
        Self { text, status: rendered::tool_status(tool.status).unwrap_or("runs") }
    }
}

/// Renders an excerpt of a turn's output that fits on a page. The result is the same for all users
/// who may see the turn.
pub(super) fn excerpt_of(turn: &TurnWatch) -> Markup {
    // Copies the excerpt first, because the turn cannot go on while it is read.
    let (text, left_out, tools, retry) = turn.read(|transcript: &Transcript| {
        let tools = transcript.tools();
        let left_out = tools.len().saturating_sub(TOOLS);
        let tools: Vec<_> = tools[left_out..].iter().map(ToolLine::of).collect();
        let retry = transcript.retry().map(|why| short_line(why, 200));
        (transcript.text(), left_out, tools, retry)
    });
    let (text, cut) = tail(&text, TEXT);
    html! {
        @if left_out > 0 { p.tools { (left_out) " earlier tools" } }
        @if !tools.is_empty() {
            ul.tools {
                @for ToolLine { text, status } in &tools {
                    li { code { bdi { (text) } } " " (status) }
                }
            }
        }
        @if cut { p { "…" } }
        @if !text.trim().is_empty() {
            div.text tabindex="0" dir="auto" {
                // The end of a Markdown text may render wrongly without its beginning.
                @if cut { (text) } @else { (rendered::markdown(text)) }
            }
        }
        @if let Some(retry) = &retry { p { "Trying again: " bdi { (retry) } } }
    }
}
