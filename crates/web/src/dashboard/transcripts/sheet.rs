//! Renders the page of a finished turn, and the pages of its long texts.

use maud::{Markup, PreEscaped, html};

use super::super::components::{Facts, Link, nav};
use super::super::paging::{head, pages};
use super::super::times::day;
use super::blocks::{self, ViewLevel, took};
use aetheel_model::agent::Usage;
use aetheel_model::plain::{counted, short_line};
use aetheel_recording::transcript::{BoundedText, Gap, TranscriptError, TurnTranscript};
use aetheel_store::workspace::TurnLine;

/// Largest sizes in bytes: of the blocks on a page, of the prompt, and of a page of a long text.
const BLOCKS: usize = 30_000;
const ASKED: usize = 3_000;
const PART: usize = 36_000;
/// The largest number of attachments and of models that are listed.
const PIECES: usize = 5;
const TOOL_NAMES: usize = 2_000;

/// A turn as one reader may see it.
pub(super) struct TurnSheet<'a> {
    pub(super) line: &'a TurnLine,
    pub(super) transcript: &'a Result<TurnTranscript, TranscriptError>,
    pub(super) eyes: ViewLevel,
    /// The URL of the page.
    pub(super) base: &'a str,
}

impl TurnSheet<'_> {
    /// Renders the facts, the prompt, and the blocks from this one on.
    pub(super) fn html(&self, from: usize) -> Markup {
        let transcript = self.transcript.as_ref().ok();
        html! {
            (self.facts())
            @if let Err(why) = self.transcript { (self.without_recording(why)) }
            @if let Some(transcript) = transcript {
                @for gap in &transcript.gaps { p { "⚠️ " (missing(gap)) } }
                @if from == 0 { (self.asked(transcript)) }
                (self.happened(transcript, from))
            }
        }
    }

    fn facts(&self) -> Facts {
        let (line, transcript) = (self.line, self.transcript.as_ref().ok());
        let model =
            line.model.as_ref().or(transcript.and_then(|transcript| transcript.model.as_ref()));
        let agent = html! {
            (short_line(&line.backend, 40))
            @if let Some(version) = &line.agent_version { " " (short_line(version, 60)) }
            @if let Some(model) = model { ", " (short_line(model, 80)) }
        };
        let facts = Facts::default()
            .row("Ended", html! { (day(line.ended)) ", " (line.how.to_string()) })
            .row("Took", took(line.took_ms))
            .row("Agent", agent);
        if self.eyes == ViewLevel::Link {
            return facts;
        }
        let digest = line.digest.get(..12).unwrap_or_default();
        let version = html! { (short_line(&line.component, 40)) " " code { (digest) } };
        let facts = facts
            .maybe("Backend version", Some(version).filter(|_| !line.component.is_empty()))
            .row("Tools", line.tools);
        let facts = with_usage(facts, line.usage.as_ref());
        let session = transcript.and_then(|transcript| transcript.session.as_ref());
        let Some(session) = session.filter(|_| self.eyes == ViewLevel::All) else { return facts };
        let title = session.title.as_ref().map(|title| short_line(title, 100));
        let id = short_line(&session.native_id, 100);
        let tools = Some(&session.tools).filter(|tools| !tools.is_empty());
        facts
            .row("Session", html! { code { (id) } @if let Some(title) = title { " " (title) } })
            .maybe(
                "Tools of the agent",
                tools.map(|tools| short_line(&tools.join(", "), TOOL_NAMES)),
            )
    }

    /// Renders the facts that are known without a recording.
    fn without_recording(&self, why: &TranscriptError) -> Markup {
        let (asked, answered) = (&self.line.asked, &self.line.answered);
        html! {
            p { "⚠️ Only these facts are known: " (why) "." }
            @for (title, text, most) in [("Prompt", asked, ASKED), ("Beginning of the answer", answered, 2 * ASKED)] {
                @if let Some(text) = text {
                    h2 { (title) }
                    div.words dir="auto" { (head(text, most).0) }
                }
            }
        }
    }

    fn asked(&self, transcript: &TurnTranscript) -> Markup {
        let all = prompt(transcript);
        html! {
            h2 { "Prompt" }
            (blocks::words(&BoundedText { text: all, bytes_left_out: 0 }, ASKED, &format!("{}/part/prompt", self.base)))
            @for name in transcript.attached.iter().take(PIECES) { p { "📎 " (short_line(name, 200)) } }
            @if transcript.attached.len() > PIECES { p { "and " (counted(transcript.attached.len() - PIECES, "more file")) } }
        }
    }

    fn happened(&self, transcript: &TurnTranscript, from: usize) -> Markup {
        let (mut size, mut shown, mut next) = (0, Vec::new(), None);
        for (at, block) in transcript.blocks.iter().enumerate().skip(from) {
            let part = format!("{}/part/{at}", self.base);
            let Some(html) = blocks::shown(block, self.eyes, &part) else { continue };
            let html = html.into_string();
            size += html.len() + 120;
            if size > BLOCKS && !shown.is_empty() {
                next = Some(at);
                break;
            }
            shown.push((at, block.at_ms, PreEscaped(html)));
        }
        html! {
            h2 { "What happened" }
            @if from > 0 { p { a href=(self.base) { "From the beginning" } } }
            @if shown.is_empty() { p { "There is nothing that you may see." } }
            @for (at, at_ms, html) in &shown {
                section.block id={ "block-" (at) } {
                    p.at { "+ " (took(*at_ms)) }
                    (html)
                }
            }
            @if let Some(next) = next {
                p { a href={ (self.base) "?from=" (next) } { "Later events" } }
            } @else if transcript.blocks_left_out > 0 {
                p { (counted(transcript.blocks_left_out, "more event")) " cannot be shown: there are too many." }
            }
        }
    }

    /// Renders a page of a long text. Returns `None` if there is no such text, or if the reader may
    /// not see it.
    pub(super) fn part(&self, part: &str, page: usize) -> Option<Markup> {
        let transcript = self.transcript.as_ref().ok()?;
        let (title, text) = if part == "prompt" {
            ("Prompt", prompt(transcript))
        } else {
            blocks::whole(transcript.blocks.get(part.parse::<usize>().ok()?)?, self.eyes)?
        };
        let all = pages(&text, PART);
        let shown = all.get(page.checked_sub(1)?)?;
        let address = format!("{}/part/{part}", self.base);
        let link = |title: &str, page: usize| Link::new(title, format!("{address}?page={page}"));
        let links = [
            (page > 1).then(|| link("Page before", page - 1)),
            (page < all.len()).then(|| link("Next page", page + 1)),
        ];
        Some(html! {
            h2 { (title) }
            p { a href=(self.base) { "Back to the turn" } }
            @if all.len() > 1 { p { "Page " (page) " of " (all.len()) } }
            div.words dir="auto" { (shown) }
            @if all.len() > 1 { (nav("Pages of this text", None, links.into_iter().flatten())) }
        })
    }
}

/// Returns the whole prompt as one text.
fn prompt(transcript: &TurnTranscript) -> String {
    transcript.prompt.join("\n\n")
}

/// Adds the tokens and costs.
fn with_usage(facts: Facts, usage: Option<&Usage>) -> Facts {
    const UNKNOWN: &str = "not reported by the agent";
    let Some(usage) = usage else { return facts.row("Tokens", UNKNOWN) };
    let dollars = |cost: f64| format!("${cost:.4}");
    let tokens = html! {
        (usage.input) " in, " (usage.output) " out"
        @if usage.reasoning > 0 { " (" (usage.reasoning) " of them reasoning)" }
        ", " (usage.cached) " cached"
    };
    let facts = facts
        .row("Tokens", tokens)
        .row("Cost", usage.cost_usd.map_or_else(|| UNKNOWN.to_owned(), dollars));
    usage.models.iter().take(PIECES).fold(facts, |facts, model| {
        let cost = model.cost_usd.map_or_else(String::new, |cost| format!(", {}", dollars(cost)));
        let tokens = html! {
            (model.input) " in, " (model.output) " out, " (model.cached) " cached" (cost)
        };
        facts.row(short_line(&model.model, 80), tokens)
    })
}

fn missing(gap: &Gap) -> String {
    match gap {
        Gap::Sparse => "The agent wrote so much that not all of it was recorded.".to_owned(),
        Gap::Lost(lines) => {
            format!("The disk was too slow for {} of the recording.", counted(*lines, "line"))
        }
        Gap::Cut(why) => format!("The recording was cut: {}.", short_line(why, 200)),
        Gap::Unseen => "The backend failed. Later output of the agent is missing.".to_owned(),
        Gap::Unreadable(lines) => {
            format!("{} of the recording cannot be read.", counted(*lines, "line"))
        }
        Gap::TooLong => "The recording is too long: its end was not read.".to_owned(),
    }
}
