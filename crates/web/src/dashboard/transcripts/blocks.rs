//! Renders the blocks of a turn (texts, tools, questions and plans) as HTML. Each block is small
//! enough for a page, links to a page with the rest, and contains only the parts that the reader
//! may see.

use maud::{Markup, html};

use super::super::paging::head;
use super::super::rendered::{self, tool_status};
use super::diffs::{self, DiffLineKind};
use aetheel_dispatch::{OpenQuestion, Subject};
use aetheel_model::agent::{AskDecision, AskKind, FileDiff, PlanEntry, PlanStatus, TaskStatus};
use aetheel_model::plain::{counted, short_line};
use aetheel_model::redact::Redactor;
use aetheel_recording::transcript::{
    ArtifactBlock, AskBlock, Block, BlockKind, BoundedText, ToolBlock,
};

/// Largest sizes in bytes on a page: for a text of the answer or of thinking, for the input, output
/// and changes of a tool, and for the subject of a question.
const TEXT: usize = 6_000;
const INPUT: usize = 1_000;
const OUTPUT: usize = 1_500;
const CHANGES: usize = 2_000;
const ABOUT: usize = 1_500;
/// Largest numbers of steps of a plan, of parts of a question, and of files of a tool.
const STEPS: usize = 40;
const PARTS: usize = 10;
const FILES: usize = 5;

/// The parts of a turn that a reader may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ViewLevel {
    /// Everything: for the author of the prompt, approvers and owners.
    All,
    /// As much as Discord shows in the channel.
    Lane,
    /// Less than in the channel, without the input of tools: for readers with a link.
    Link,
}

/// Renders a block. `part` is the URL of the page with the complete block. Returns `None` if the
/// reader may not see the block.
pub(super) fn shown(block: &Block, eyes: ViewLevel, part: &str) -> Option<Markup> {
    Some(match &block.kind {
        BlockKind::Text(text) if text.text.trim().is_empty() && text.bytes_left_out == 0 => {
            return None;
        }
        BlockKind::Text(text) => answer(text, part),
        BlockKind::Steered(text) => html! {
            p { strong { "Added by users" } }
            (words(text, TEXT, part))
        },
        BlockKind::Thinking(_) | BlockKind::SubAgent(..) if eyes != ViewLevel::All => return None,
        BlockKind::Thinking(text) => folded("Thinking", &words(text, TEXT, part)),
        BlockKind::SubAgent(_, text) => folded("Subagent", &words(text, TEXT, part)),
        BlockKind::Tool(tool) => used(tool, eyes, part),
        BlockKind::Plan(steps) => plan(steps),
        BlockKind::Task(_) if eyes == ViewLevel::Link => return None,
        BlockKind::Task(task) => {
            let status = match task.status {
                TaskStatus::Running => "runs",
                TaskStatus::Done => "done",
                TaskStatus::Failed => "failed",
                TaskStatus::Stopped => "was stopped",
            };
            html! { p { "Background task: " (short_line(&task.title, 200)) " " em { (status) } } }
        }
        BlockKind::Asked(asked) => question(asked, eyes, part),
        BlockKind::Stopped => html! { p { "The turn was asked to stop." } },
        BlockKind::Notice(text) => html! { p { "ℹ️ " (short_line(text, 500)) } },
        BlockKind::Retry(why) => html! { p { "The agent tried again: " (short_line(why, 300)) } },
        BlockKind::Artifact(made) => file(made),
    })
}

/// Returns the title and the complete text of a block, for pages of its own. Returns `None` if the
/// reader may not see the block, or if it has no further text.
pub(super) fn whole(block: &Block, eyes: ViewLevel) -> Option<(&'static str, String)> {
    let cut = |text: &BoundedText| match text.bytes_left_out {
        0 => text.text.clone(),
        more => format!("{}\n\n({more} more bytes are left out.)", text.text),
    };
    Some(match &block.kind {
        BlockKind::Text(text) => ("Answer", cut(text)),
        BlockKind::Steered(text) => ("Added by users", cut(text)),
        BlockKind::Thinking(_) | BlockKind::SubAgent(..) | BlockKind::Tool(_)
            if eyes != ViewLevel::All =>
        {
            return None;
        }
        BlockKind::Thinking(text) => ("Thinking", cut(text)),
        BlockKind::SubAgent(_, text) => ("Subagent", cut(text)),
        BlockKind::Tool(tool) => {
            let mut pieces = vec![named(tool)];
            pieces.push(format!("Input\n{}", pretty(&tool.input.text)));
            pieces.push(format!("Output\n{}", cut(&tool.output)));
            pieces.extend(tool.diffs.iter().map(|diff| {
                let lines: Vec<String> =
                    diffs::lines(diff).into_iter().map(|(_, line)| line).collect();
                format!("{}\n{}", diffs::title(diff), lines.join("\n"))
            }));
            ("Tool use", pieces.join("\n\n"))
        }
        BlockKind::Asked(_) if eyes == ViewLevel::Link => return None,
        BlockKind::Asked(asked) => {
            ("Question", about(asked).unwrap_or_else(|| asked.ask.title.clone()))
        }
        _ => return None,
    })
}

/// Renders as much of the answer as fits, with a link to the rest.
fn answer(text: &BoundedText, part: &str) -> Markup {
    let (beginning, rest) = head(&text.text, TEXT);
    html! {
        div dir="auto" { (rendered::markdown(beginning)) }
        (more(rest, text.bytes_left_out, part))
    }
}

/// Renders as much of a text as fits, with a link to the rest.
pub(super) fn words(text: &BoundedText, most: usize, part: &str) -> Markup {
    let (beginning, rest) = head(&text.text, most);
    html! {
        div.words dir="auto" { (beginning) }
        (more(rest, text.bytes_left_out, part))
    }
}

fn more(rest: &str, left_out: u64, part: &str) -> Markup {
    html! {
        @if !rest.is_empty() || left_out > 0 {
            p { "… " a href=(part) { "Read all of it" } " (" ((rest.len() as u64 + left_out).div_ceil(1024)) " KB more)" }
        }
    }
}

fn code(title: &str, text: &BoundedText, most: usize, part: &str) -> Markup {
    let (beginning, rest) = head(&text.text, most);
    html! {
        @if !text.text.trim().is_empty() || text.bytes_left_out > 0 {
            h4 { (title) }
            pre tabindex="0" { (beginning) }
            (more(rest, text.bytes_left_out, part))
        }
    }
}

fn folded(title: &str, inside: &Markup) -> Markup {
    html! { details { summary { (title) } (inside) } }
}

/// Returns the agent's name of a tool and its target, on one line.
fn named(tool: &ToolBlock) -> String {
    let about = tool.target.as_deref().filter(|target| !target.trim().is_empty());
    let about = about.unwrap_or(&tool.title);
    short_line(&format!("{} {about}", tool.name), 200)
}

/// Returns the result of a tool in a word, with its duration.
fn status(tool: &ToolBlock) -> String {
    let result = tool_status(tool.status).unwrap_or("did not end");
    let took = tool.took_ms.map_or_else(String::new, |ms| format!(", {}", took(ms)));
    format!("{result}{took}")
}

/// Formats a duration for people.
pub(super) fn took(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
    }
}

fn used(tool: &ToolBlock, eyes: ViewLevel, part: &str) -> Markup {
    let inside = match eyes {
        ViewLevel::Link => {
            return html! { p { "🔧 " code { (short_line(&tool.name, 80)) } " " em { (status(tool)) } } };
        }
        ViewLevel::Lane => {
            return html! { p { "🔧 " code { (named(tool)) } " " em { (status(tool)) } } };
        }
        ViewLevel::All => html! {
            (code("Input", &BoundedText { text: pretty(&tool.input.text), bytes_left_out: tool.input.bytes_left_out }, INPUT, part))
            (code("Output", &tool.output, OUTPUT, part))
            @if let Some(code) = tool.exit_code { p { "Exit code " (code) } }
            (changes(&tool.diffs, part))
        },
    };
    html! {
        details {
            summary { "🔧 " code { (named(tool)) } " " em { (status(tool)) } }
            (inside)
        }
    }
}

/// Indents JSON. Returns an empty string for an empty object.
fn pretty(input: &str) -> String {
    if input.len() > 256 << 10 {
        return input.to_owned();
    }
    match serde_json::from_str::<serde_json::Value>(input) {
        Ok(serde_json::Value::Object(fields)) if fields.is_empty() => String::new(),
        Ok(value) => serde_json::to_string_pretty(&value).unwrap_or_else(|_| input.to_owned()),
        Err(_) => input.to_owned(),
    }
}

fn changes(changed: &[FileDiff], part: &str) -> Markup {
    html! {
        @for diff in changed.iter().take(FILES) {
            h4 { (short_line(&diffs::title(diff), 200)) }
            (change(diff, CHANGES / changed.len().clamp(1, FILES), part))
        }
        @if changed.len() > FILES {
            p { a href=(part) { "And " (counted(changed.len() - FILES, "more file")) } }
        }
    }
}

fn change(diff: &FileDiff, most: usize, part: &str) -> Markup {
    let lines = diffs::lines(diff);
    let (mut left, mut fits) = (most, Vec::new());
    for (sign, line) in &lines {
        let (beginning, rest) = head(line, left.max(1));
        fits.push((*sign, beginning));
        // An estimate for the line with its element.
        left = left.saturating_sub(line.len() * 2 + 30);
        if !rest.is_empty() || left == 0 {
            break;
        }
    }
    let whole = fits.len() == lines.len()
        && fits.last().zip(lines.last()).is_none_or(|((_, fit), (_, line))| fit == line);
    html! {
        @if !lines.is_empty() {
            pre.diff tabindex="0" {
                @for (sign, line) in fits {
                    @match sign {
                        DiffLineKind::Added => ins { (line) },
                        DiffLineKind::Removed => del { (line) },
                        DiffLineKind::Place => b { (line) },
                        DiffLineKind::Around => (line),
                    }
                    "\n"
                }
            }
            @if !whole { p { "… " a href=(part) { "Read all of it" } } }
        }
    }
}

fn plan(steps: &[PlanEntry]) -> Markup {
    html! {
        p { strong { "Plan" } }
        ol {
            @for step in steps.iter().take(STEPS) {
                li {
                    (short_line(&step.text, 300)) " "
                    em {
                        @match step.status {
                            PlanStatus::Pending => "not started",
                            PlanStatus::Active => "in progress",
                            PlanStatus::Done => "done",
                        }
                    }
                }
            }
        }
        @if steps.len() > STEPS { p { "and " (counted(steps.len() - STEPS, "more step")) } }
    }
}

fn file(made: &ArtifactBlock) -> Markup {
    let name = made.name.as_deref().or(made.link.as_deref()).unwrap_or("unnamed");
    html! { p { "📎 " (short_line(name, 200)) " (" (short_line(&made.media_type, 80)) ")" } }
}

/// Returns the subject of a question: a command, changes, a plan, or a URL.
fn about(asked: &AskBlock) -> Option<String> {
    match subject(asked) {
        Subject::Permission { about, .. } => about.map(|about| about.text),
        Subject::Plan(plan) => Some(plan),
        Subject::SignIn(address) => Some(address),
        Subject::Questions(_) => None,
    }
}

/// Returns the subject of a question as Discord shows it. The transcript is already free of
/// secrets.
fn subject(asked: &AskBlock) -> Subject {
    OpenQuestion::of(String::new(), &asked.ask, None, &Redactor::default()).subject
}

fn question(asked: &AskBlock, eyes: ViewLevel, part: &str) -> Markup {
    let subject = subject(asked);
    let title = short_line(&asked.ask.title, 300);
    html! {
        p {
            strong { "❓ " }
            @match (&subject, eyes) {
                (Subject::Permission { tool, .. }, ViewLevel::Link) => { "Permission to use " code { (short_line(tool, 80)) } },
                (Subject::SignIn(_), ViewLevel::Link) => "A sign-in",
                _ => (title),
            }
        }
        @match &subject {
            Subject::Questions(questions) => {
                ul {
                    @for question in questions.iter().take(PARTS) { li { (short_line(&question.text, 300)) } }
                }
                @if questions.len() > PARTS { p { "and " (questions.len() - PARTS) " more" } }
            },
            Subject::Plan(plan) => (words(&BoundedText { text: plan.clone(), bytes_left_out: 0 }, ABOUT, part)),
            _ if eyes == ViewLevel::Link => {},
            _ => @if let Some(about) = about(asked) {
                @let (beginning, rest) = head(&about, ABOUT);
                pre tabindex="0" { (beginning) }
                (more(rest, 0, part))
            },
        }
        @if let Some(ruling) = asked.ruling.as_ref().filter(|_| eyes != ViewLevel::Link) {
            p { "Policies: " (short_line(ruling, 400)) "." }
        }
        p { (settled(asked)) }
    }
}

/// Describes the result of a question. The recording does not contain the person who decided.
fn settled(asked: &AskBlock) -> String {
    let label = |id: &String| -> String {
        let of_questions = match &asked.ask.kind {
            AskKind::Questions(questions) => questions.as_slice(),
            _ => &[],
        };
        let mut choices = of_questions.iter().flat_map(|question| &question.options);
        let chosen = choices.find(|choice| choice.id == *id).map(|choice| &choice.label);
        let own = asked.ask.options.iter().find(|option| option.id == *id);
        let label = chosen.or(own.map(|option| &option.label)).unwrap_or(id);
        short_line(label, 200)
    };
    match &asked.decision {
        None if asked.withdrawn => "The agent withdrew the question.".to_owned(),
        None => "It was not answered.".to_owned(),
        Some(AskDecision::AllowOnce) => "Allowed.".to_owned(),
        Some(AskDecision::AllowAlways) => "Allowed from then on.".to_owned(),
        Some(AskDecision::AllowChanged(_)) => "Allowed with changes.".to_owned(),
        Some(AskDecision::Chosen(id)) => format!("Chosen: {}", label(id)),
        Some(AskDecision::Deny(None)) => "Denied.".to_owned(),
        Some(AskDecision::Deny(Some(words))) => format!("Denied: {}", short_line(words, 300)),
        Some(AskDecision::DenyAndStop) => "Denied, and the turn was stopped.".to_owned(),
        Some(AskDecision::Declined) => "People declined to answer.".to_owned(),
        Some(AskDecision::Dismissed) => {
            "No one was available to answer, so the agent was refused.".to_owned()
        }
        Some(AskDecision::Answers(answers)) => {
            let given = answers.iter().take(PARTS).map(|(_, values)| {
                values.iter().take(PARTS).map(label).collect::<Vec<_>>().join(", ")
            });
            format!("Answered: {}", given.collect::<Vec<_>>().join(" · "))
        }
    }
}
