//! The lines below an answer (failures, notices, tools and the footer), and the cutting of long answers.
//! Pure.

use std::time::Duration;

use crate::api::MAX_MESSAGE_CHARS;
use crate::rest::RestError;
use crate::text::tables::with_tables;
use crate::text::times::with_times;
use aetheel_dispatch::TurnAnswer;
use aetheel_model::agent::Usage;
use aetheel_model::choice::FooterPart;
use aetheel_model::plain::short_line;
use aetheel_model::split::split;

/// Maximum number of bytes of a file that Discord accepts from every account (Discord's
/// documentation of uploads, 2026-08: 10 MiB).
pub(crate) const MAX_FILE_BYTES: usize = 10 << 20;
const EMPTY_ANSWER: &str = "-# The agent finished without an answer.";
/// Number of characters reserved for the note that the rest of a text follows elsewhere.
const NOTE_CHARS: usize = 100;

/// Returns the lines below an answer, without secrets. `awaited` means that a person waits for the
/// answer. Without footer parts, the line about tools is left out as well.
pub(crate) fn lines(
    answer: &TurnAnswer,
    footer_parts: &[FooterPart],
    awaited: bool,
) -> Vec<String> {
    let failure = answer.failure.as_deref();
    let mut lines: Vec<String> =
        failure.map(|failure| format!("⚠️ {}", short_line(failure, 500))).into_iter().collect();
    let silent = answer.text.trim().is_empty();
    if silent && failure.is_none() && awaited {
        lines.push(EMPTY_ANSWER.to_owned());
    }
    let notices = answer.notices.iter().map(|notice| with_times(&short_line(notice, 300)));
    lines.extend(notices.map(|notice| format!("-# {notice}")));
    let tools = answer.tools.as_ref().filter(|_| !footer_parts.is_empty());
    let facts = tools.map(|tools| format!("-# {tools}")).into_iter();
    lines.extend(facts.chain(footer(answer, footer_parts)).filter(|_| awaited || !silent));
    lines
}

/// Returns the footer: the backend, the duration and the cost of the turn, as far as `parts` has
/// them. A failure has no footer, and facts that the agent did not report are left out. The cost is
/// called a list price, because it is unknown whether the agent uses a subscription.
fn footer(answer: &TurnAnswer, parts: &[FooterPart]) -> Option<String> {
    if answer.failure.is_some() {
        return None;
    }
    let tokens = |usage: &Usage| {
        (usage.input > 0 || usage.output > 0)
            .then(|| format!("{} in, {} out", count(usage.input), count(usage.output)))
    };
    let shown: Vec<String> = parts
        .iter()
        .filter_map(|part| match part {
            FooterPart::Backend => Some(short_line(&answer.backend, 40)),
            FooterPart::Model => answer.model.as_deref().map(|model| short_line(model, 60)),
            FooterPart::Time => (answer.took > Duration::ZERO).then(|| time(answer.took)),
            FooterPart::Tokens => answer.usage.as_ref().and_then(tokens),
            FooterPart::Cost => answer
                .usage
                .as_ref()
                .and_then(|usage| usage.cost_usd)
                .filter(|cost| *cost > 0.0)
                .map(|cost| format!("{} list price", money(cost))),
        })
        .filter(|part| !part.is_empty())
        .collect();
    (!shown.is_empty()).then(|| format!("-# {}", shown.join(" · ")))
}

pub(crate) fn time(took: Duration) -> String {
    match took.as_secs() {
        0 => format!("{:.1} s", took.as_secs_f64().max(0.1)),
        seconds @ 1..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

fn count(tokens: u32) -> String {
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..999_950 => format!("{:.1}k", f64::from(tokens) / 1e3),
        _ => format!("{:.1}M", f64::from(tokens) / 1e6),
    }
}

fn money(dollars: f64) -> String {
    if dollars < 0.01 { "<$0.01".to_owned() } else { format!("${dollars:.2}") }
}

/// Returns the messages of an answer: the text, and the lines below it.
pub(crate) fn answer_messages(text: &str, below: &[String]) -> Vec<String> {
    let mut pieces = split(&with_tables(text), MAX_MESSAGE_CHARS);
    if below.is_empty() {
        return pieces;
    }
    let below = below.join("\n");
    match pieces.last_mut() {
        Some(piece) if piece.chars().count() + below.chars().count() < MAX_MESSAGE_CHARS => {
            piece.push('\n');
            piece.push_str(&below);
        }
        _ => pieces.extend(split(&below, MAX_MESSAGE_CHARS)),
    }
    pieces
}

/// Returns the first messages of a text, at most `limit`. If there are more, the last one is cut at
/// a suitable place and ends with `note`.
pub(crate) fn first_messages(text: &str, limit: usize, note: &str) -> Vec<String> {
    let mut pieces = split(&with_tables(text), MAX_MESSAGE_CHARS);
    if pieces.len() > limit {
        pieces.truncate(limit);
        let last = pieces.pop().unwrap_or_default();
        let first =
            split(&last, MAX_MESSAGE_CHARS - NOTE_CHARS).into_iter().next().unwrap_or_default();
        pieces.push(format!("{first}\n-# {}", short_line(note, NOTE_CHARS - 4)));
    }
    pieces
}

/// Returns a long text as files of at most [`MAX_FILE_BYTES`] bytes.
pub(crate) fn files(text: &str) -> Vec<(String, Vec<u8>)> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (part, left) = rest.split_at(rest.floor_char_boundary(MAX_FILE_BYTES));
        parts.push(part.as_bytes().to_vec());
        rest = left;
    }
    let one = parts.len() == 1;
    (1..)
        .zip(parts)
        .map(|(number, part)| {
            (if one { "answer.md".to_owned() } else { format!("answer-{number}.md") }, part)
        })
        .collect()
}

/// Returns a hint for the operator if an answer cannot be sent.
pub(crate) fn hint(error: &RestError) -> &'static str {
    if error.is_archived() {
        return "; hint: the thread is archived or locked; unlock it, or give the bot Manage Threads";
    }
    if error.is_forbidden() {
        "; hint: the bot needs View Channel, Send Messages and Read Message History there"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> TurnAnswer {
        TurnAnswer {
            text: text.to_owned(),
            failure: None,
            notices: vec![],
            backend: "claude".to_owned(),
            model: None,
            detail: None,
            agent_lost: false,
            paused: false,
            limit: None,
            cut: None,
            usage: None,
            took: Duration::ZERO,
            tools: None,
            files: vec![],
            offer: None,
            ping: None,
            continuation: None,
            turn: None,
        }
    }

    fn shown(answer: &TurnAnswer) -> Vec<String> {
        answer_messages(&answer.text, &lines(answer, &[], true))
    }

    #[test]
    fn a_failure_and_notices_are_shown_below_the_text() {
        let timeout = Some("Query timed out".to_owned());
        let notices = vec!["the session is a new one".to_owned()];
        let half = TurnAnswer { failure: timeout.clone(), notices, ..answer("Half an") };
        assert_eq!(shown(&half), ["Half an\n⚠️ Query timed out\n-# the session is a new one"]);
        assert_eq!(shown(&TurnAnswer { failure: timeout, ..answer("") }), ["⚠️ Query timed out"]);
        assert_eq!(shown(&answer("")), [EMPTY_ANSWER]);
        assert_eq!(shown(&answer("Done")), ["Done"]);
        assert!(
            lines(&answer(""), &[FooterPart::Backend], false).is_empty(),
            "nobody waits for it"
        );
    }

    #[test]
    fn the_tools_of_a_turn_are_shown_above_the_footer_unless_it_is_turned_off() {
        let tools = Some("1 file read, `make` ✗".to_owned());
        let done = TurnAnswer { tools, ..answer("Done") };
        let parts = [FooterPart::Backend];
        assert_eq!(lines(&done, &parts, true), ["-# 1 file read, `make` ✗", "-# claude"]);
        assert!(lines(&done, &[], true).is_empty());
        let failed = TurnAnswer { failure: Some("Stopped.".to_owned()), ..done.clone() };
        assert_eq!(lines(&failed, &parts, true), ["⚠️ Stopped.", "-# 1 file read, `make` ✗"]);
        let silent = TurnAnswer { text: String::new(), ..done };
        assert!(lines(&silent, &parts, false).is_empty(), "nobody waits for it");
    }

    #[test]
    fn lines_below_an_answer_never_make_a_message_too_long() {
        let text = "x".repeat(1_995);
        let timed_out = TurnAnswer { failure: Some("Query timed out".to_owned()), ..answer(&text) };
        assert_eq!(shown(&timed_out), [text, "⚠️ Query timed out".to_owned()]);
    }

    #[test]
    fn the_footer_shows_known_facts_and_is_never_empty() {
        let all = [
            FooterPart::Backend,
            FooterPart::Model,
            FooterPart::Time,
            FooterPart::Tokens,
            FooterPart::Cost,
        ];
        let usage = Usage { input: 3_120, output: 800, cost_usd: Some(0.0234), ..Usage::default() };
        let shown = TurnAnswer {
            model: Some("opus".to_owned()),
            usage: Some(usage),
            took: Duration::from_secs(12),
            ..answer("Done")
        };
        assert_eq!(
            footer(&shown, &all).as_deref(),
            Some("-# claude · opus · 12 s · 3.1k in, 800 out · $0.02 list price")
        );
        assert_eq!(
            footer(&shown, &[FooterPart::Cost, FooterPart::Backend]).as_deref(),
            Some("-# $0.02 list price · claude")
        );
        assert_eq!(footer(&answer("Done"), &all).as_deref(), Some("-# claude"));
        assert_eq!(
            footer(
                &answer("Done"),
                &[FooterPart::Model, FooterPart::Time, FooterPart::Tokens, FooterPart::Cost]
            ),
            None
        );
        assert_eq!(footer(&shown, &[]), None);
        assert_eq!(
            footer(&TurnAnswer { failure: Some("Stopped.".to_owned()), ..shown }, &all),
            None
        );
        assert_eq!(
            (time(Duration::from_secs(75)), count(1_250_000), money(0.002)),
            ("1 min 15 s".into(), "1.2M".into(), "<$0.01".into())
        );
    }

    #[test]
    fn a_long_text_begins_in_messages_and_continues_in_files_within_the_limits() {
        let text = format!("Intro\n```rust\n{}```\n", "let a = 1;\n".repeat(2_000));
        let messages = first_messages(&text, 2, "The whole answer is attached.");
        let fits = |piece: &String| {
            piece.chars().count() <= MAX_MESSAGE_CHARS
                && piece.matches("```").count().is_multiple_of(2)
        };
        assert!(
            messages.len() == 2
                && messages.iter().all(fits)
                && messages[0] == split(&text, MAX_MESSAGE_CHARS)[0],
            "{messages:?}"
        );
        assert!(messages[1].ends_with("```\n-# The whole answer is attached."), "{messages:?}");
        assert_eq!(first_messages("short", 2, "more"), ["short"]);
        let parts = files(&"ä".repeat(MAX_FILE_BYTES));
        assert_eq!(
            parts.iter().map(|(name, bytes)| (name.as_str(), bytes.len())).collect::<Vec<_>>(),
            [("answer-1.md", MAX_FILE_BYTES), ("answer-2.md", MAX_FILE_BYTES)]
        );
        assert_eq!(files("x"), [("answer.md".to_owned(), b"x".to_vec())]);
    }
}
