//! Renders the page of a step.

use maud::{Markup, html};

use super::text::{readable, visible};
use super::{SHORT, StepQuery};
use crate::dashboard::components::{Button, Form, Link, TextField, nav};
use crate::dashboard::paging::{TextPart, part, tail};
use crate::dashboard::{MessagePreview, RecordedTurn};
use aetheel_kit::step_viewer::{RecordedStep, STEPS, StepSign, TurnSteps};
use aetheel_kit::summary;
use aetheel_model::agent::{Action, HostCommand, Input, Pipe};
use aetheel_model::plain::{counted, short_line};
use aetheel_model::redact::Redactor;

/// Largest sizes in bytes on a page: of the input, of the actions, and of all messages.
const INPUT_BYTES: usize = 9_000;
const MADE: usize = 7_000;
const MESSAGES: usize = 5_000;
/// The largest number of actions of a step that are listed. The first actions take precedence.
const NAMED: usize = 12;
/// The largest number of messages. The latest messages take precedence.
const SHOWN: usize = 4;

/// The data of a page.
pub(super) struct StepView<'a> {
    pub(super) steps: &'a TurnSteps,
    pub(super) recorded: &'a RecordedTurn,
    pub(super) asked: &'a StepQuery,
    pub(super) step: &'a RecordedStep,
    pub(super) drawn: &'a MessagePreview,
    pub(super) redactor: &'a Redactor,
}

impl StepView<'_> {
    pub(super) fn html(&self) -> Markup {
        html! {
            (self.facts())
            (self.steps())
            div.panes {
                section.card aria-labelledby="input" { (self.input_section()) }
                section.card aria-labelledby="made" { (self.made()) }
            }
            section.card aria-labelledby="shown" { (self.shown()) }
        }
    }

    /// Returns the index of the displayed step.
    fn at(&self) -> usize {
        self.asked.step - 1
    }

    fn facts(&self) -> Markup {
        let facts = self.steps.facts();
        let header = &facts.header;
        html! {
            p {
                a href={ "/turns/" (self.asked.turn) } { "Turn " code { (self.asked.turn) } } " of " (short_line(&self.recorded.backend, 60))
                ", recorded with version " (short_line(&header.backend_version, 60))
                " (" code { (short(&header.digest)) } ")"
                @if let Some(agent) = &header.agent_version { " and agent " (short_line(agent, 60)) }
                @if let Some((how, took)) = &facts.ended {
                    "; ended " (short_line(&self.clean(how), 200)) " after " (seconds(*took))
                }
                "."
            }
            @if let Some(fault) = &facts.fault {
                p { "⚠️ The recording is incomplete: " (short_line(&self.clean(fault), 300)) "." }
            }
            @if facts.lost > 0 {
                p { "⚠️ The disk was too slow for " (counted(facts.lost, "line")) " of the recording." }
            }
            @if facts.sparse.is_some_and(|from| self.at() >= from) {
                p { "⚠️ From here on no agent events were recorded: there were 8 MiB of them." }
            }
            @if facts.left_out > 0 {
                p { "⚠️ Only the first " (STEPS) " steps are shown; " (facts.left_out) " more follow." }
            }
            @if facts.of_others > 0 {
                p { (facts.of_others) " inputs of other turns of the same agent are left out." }
            }
        }
    }

    fn steps(&self) -> Markup {
        let (at, of) = (self.asked.step, self.steps.len());
        let link = |title, to: Option<usize>| Link::maybe(title, to.map(|to| self.asked.at(to)));
        let sign = |sign| self.steps.next_with(self.at(), sign).map(|at| at + 1);
        let links = [
            link("First", (at > 1).then_some(1)).rel("first"),
            link("Previous", (at > 1).then(|| at - 1)).rel("prev"),
            link("Next", (at < of).then_some(at + 1)).rel("next"),
            link("Last", (at < of).then_some(of)).rel("last"),
            link("Next visible step", sign(StepSign::Seen)),
            link("Next unknown output", sign(StepSign::Unknown)),
        ];
        let form = || Form::get(format!("/turns/{}/machine", self.asked.turn)).class("steps");
        let mut go = form();
        if !self.asked.words.is_empty() {
            go = go.hidden("q", &self.asked.words);
        }
        let range = html! {
            label for="step" { "Step " output id="at" for="step" { (at) } " of " (of) }
            input type="range" id="step" name="step" min="1" max=(of) value=(at);
        };
        let label = "Search in inputs and actions";
        let words = TextField::new("words", label, &self.asked.words).name("q").required();
        let find = form().hidden("step", at).hidden("go", "hit").with(words);
        html! {
            (nav("Steps", Some("steps"), links))
            (go.with(range).with(Button::new("Go")))
            (find.with(Button::new("Find the next")))
        }
    }

    fn input_section(&self) -> Markup {
        let (kind, text) = self
            .step
            .input
            .as_ref()
            .map_or_else(|| ("mixed with another turn", String::new()), input_text);
        let text = readable(&self.clean(&text));
        let part = part(&text, self.asked.part, INPUT_BYTES);
        html! {
            h2 id="input" { "Input" }
            p.head {
                strong { (kind) } " · line " (self.step.line) " · " (seconds(f64::from(self.step.t_ms)))
            }
            @if self.step.input.is_none() {
                p { "Another turn used the same agent at this moment. Its input is not shown." }
            } @else if !text.trim().is_empty() {
                pre tabindex="0" { (part.text) }
            }
            (self.parts("part", part))
            @for note in &self.step.notes {
                p.tools { "Host: " (short_line(&visible(&self.clean(note)), 300)) }
            }
        }
    }

    fn made(&self) -> Markup {
        let actions = &self.step.actions;
        let text = visible(&self.clean(&listed(actions)));
        let part = part(&text, self.asked.more, MADE);
        html! {
            h2 id="made" { "Actions of the backend" }
            @if actions.is_empty() {
                p {
                    "No actions were recorded. The inputs of one call are answered together, "
                    "so the actions may be listed at one of the next steps."
                }
            } @else {
                ul.list { @for action in actions.iter().take(NAMED) { (self.named(action)) } }
                @if actions.len() > NAMED { p { "and " (actions.len() - NAMED) " more" } }
                details open[self.asked.more > 1] {
                    summary { "As JSON" }
                    pre tabindex="0" { (part.text) }
                    (self.parts("more", part))
                }
            }
        }
    }

    fn named(&self, action: &Action) -> Markup {
        let (what, text) = summary::line(action);
        html! { li { strong { (what) } " " (short_line(&self.clean(&text), 200)) } }
    }

    fn shown(&self) -> Markup {
        html! {
            h2 id="shown" { "Messages in Discord" }
            p.tools {
                "Rendered from the recording. Discord updates a growing answer about once a second, "
                "and shows questions and files in separate messages, which are left out here."
            }
            (messages(self.drawn))
        }
    }

    fn parts(&self, name: &str, part: TextPart<'_>) -> Markup {
        let to = |number: usize| self.asked.address(self.asked.step, name, &number.to_string());
        html! {
            @if part.of > 1 {
                p {
                    "Part " (part.number) " of " (part.of)
                    @if part.number > 1 { " · " a href=(to(part.number - 1)) { "the part before" } }
                    @if part.number < part.of { " · " a href=(to(part.number + 1)) { "the next part" } }
                }
            }
        }
    }

    fn clean(&self, text: &str) -> String {
        self.redactor.redact(text.to_owned())
    }
}

fn messages(drawn: &MessagePreview) -> Markup {
    let before = drawn.messages.len().saturating_sub(SHOWN);
    let shown = &drawn.messages[before..];
    let each = MESSAGES / shown.len().max(1);
    html! {
        @if drawn.messages.is_empty() { p { "Nothing yet." } }
        @if before > 0 { p { (before) " earlier messages" } }
        @for message in shown {
            @let text = visible(message);
            @let (end, cut) = tail(&text, each);
            div.message { @if cut { "… " } (end) }
        }
        @if !drawn.ended { p.tools { "The turn continues." } }
    }
}

/// Returns the kind of an input, and its text.
fn input_text(input: &Input) -> (&'static str, String) {
    let json = || serde_json::to_string(input).unwrap_or_default();
    match input {
        Input::Line(line) => (
            match line.pipe {
                Pipe::Stdout => "agent, stdout",
                Pipe::Stderr => "agent, stderr",
            },
            line.text.clone(),
        ),
        Input::HttpResponse(response) => ("agent, HTTP response", response.body.clone()),
        Input::StreamEvent(event) => ("agent, event of a stream", event.data.clone()),
        Input::HttpFailed(_) => ("HTTP request failed", json()),
        Input::StreamOpened(_) => ("stream opened", json()),
        Input::StreamClosed(_) => ("stream closed", json()),
        Input::Spawned(_) => ("agent started", json()),
        Input::SpawnFailed(_) => ("agent not started", json()),
        Input::Exited(_) => ("agent exited", json()),
        Input::Timer(_) => ("timer", json()),
        Input::ToolResult(_) => ("gateway: the result of a tool", json()),
        Input::Command(command) => (
            match command {
                HostCommand::StartTurn(_) => "gateway: the turn begins",
                HostCommand::Steer(_) => "gateway: a message for the turn",
                HostCommand::Interrupt(_) => "gateway: stop the turn",
                HostCommand::Answer(_) => "gateway: an answer to a question",
                HostCommand::CloseSession(_) | HostCommand::Shutdown => "gateway: close",
                HostCommand::Query(_) => "gateway: a query",
            },
            json(),
        ),
    }
}

/// Formats actions as indented JSON.
fn listed(actions: &[Action]) -> String {
    let each = actions.iter().map(|action| {
        let json = serde_json::to_string(action).unwrap_or_default();
        readable(&json)
    });
    each.collect::<Vec<_>>().join("\n")
}

fn short(digest: &str) -> &str {
    digest.get(..SHORT).unwrap_or(digest)
}

fn seconds(ms: f64) -> String {
    format!("{:.3} s", ms / 1000.0)
}
