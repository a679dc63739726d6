//! An answer as messages: while it grows, and when it is complete. Pure.

use jiff::Timestamp;

use super::footer::{self, answer_messages, first_messages};
use crate::api::MAX_MESSAGE_CHARS;
use crate::setup::options::DiscordOptions;
use crate::text::tables::without_growing_table;
use aetheel_dispatch::TurnAnswer;
use aetheel_model::fold::Transcript;
use aetheel_model::plain::{cut, short_line};

/// Maximum number of messages of a growing answer that may become a file.
const MAX_DRAFT_MESSAGES: usize = 3;
/// Maximum number of lines of a running tool's output in a draft, and of characters of each.
const MAX_OUTPUT_LINES: usize = 3;
const MAX_OUTPUT_LINE_CHARS: usize = 120;

/// Renders a finished answer, or the text of `shown` if there is no answer yet, as Discord
/// messages. Both must be without secrets. Leaves out the prompt of a command, questions, files
/// and buttons. The module `reply` posts an answer, and must give its messages the same texts.
pub(crate) fn preview(
    options: &DiscordOptions,
    shown: &Transcript,
    answer: Option<&TurnAnswer>,
) -> Vec<String> {
    let long = options.settings.long_answer;
    let Some(answer) = answer else {
        let (text, status) = (shown.text(), status(shown, |_| None));
        if status.is_none() && text.trim().is_empty() {
            return Vec::new();
        }
        return draft(&text, status, max_messages(long));
    };
    let lines = footer::lines(answer, &options.settings.footer, true);
    if is_long(&answer.text, long) {
        messages_above_file(&answer.text, &answer.text, max_messages(long), &lines)
    } else {
        answer_messages(&answer.text, &lines)
    }
}

/// Returns the draft of a text: at most `limit` messages, and the agent's current action if there
/// is room.
pub(crate) fn draft(text: &str, status: Option<String>, limit: usize) -> Vec<String> {
    // The answer may become a file, so no more messages are posted than can stay.
    let mut pieces = first_messages(without_growing_table(text), limit, "The rest follows.");
    let Some(status) = status else { return pieces };
    let Some(piece) = pieces.last_mut() else { return vec![status] };
    let room = MAX_MESSAGE_CHARS.saturating_sub(piece.chars().count() + 1);
    // The output of a tool is left out before its name is.
    let first = status.lines().next().unwrap_or_default();
    if let Some(status) = [status.as_str(), first].iter().find(|it| it.chars().count() <= room) {
        piece.push('\n');
        piece.push_str(status);
    }
    pieces
}

pub(crate) fn messages_above_file(
    text: &str,
    answer: &str,
    limit: usize,
    below: &[String],
) -> Vec<String> {
    let note =
        format!("The whole answer ({} characters) is attached below.", answer.chars().count());
    let mut pieces = first_messages(text, limit, &note);
    let last = pieces.pop().unwrap_or_default();
    let mut below = below.to_vec();
    if !last.ends_with(&note) {
        below.insert(0, format!("-# {note}"));
    }
    pieces.extend(answer_messages(&last, &below));
    pieces
}

/// Returns how many messages an answer may have while it grows, and above its file. `long` is the
/// number of characters above which it becomes a file.
pub(crate) fn max_messages(long: Option<usize>) -> usize {
    long.map_or(usize::MAX, |max| (max / MAX_MESSAGE_CHARS).clamp(1, MAX_DRAFT_MESSAGES))
}

/// Returns whether an answer becomes a file.
pub(crate) fn is_long(text: &str, long: Option<usize>) -> bool {
    // No text has more characters than bytes.
    long.is_some_and(|max_chars| text.len() > max_chars && text.chars().count() > max_chars)
}

/// Returns the agent's current action: one short line and, for a slow tool, the last lines of its
/// output. `long_since` returns when a slow tool began, by its id.
pub(crate) fn status(
    transcript: &Transcript,
    long_since: impl FnOnce(&str) -> Option<Timestamp>,
) -> Option<String> {
    if let Some(failure) = transcript.retry() {
        return Some(format!("-# ⏳ trying again: {}", short_line(failure, 100)));
    }
    let tool = transcript.open_tools().next_back()?;
    let what = [Some(tool.start.title.as_str()), tool.start.target.as_deref()]
        .into_iter()
        .flatten()
        .find(|text| !text.trim().is_empty() && *text != tool.start.native_name);
    let mut status = format!("-# 🔧 {}", short_line(&tool.start.native_name, 40));
    if let Some(what) = what {
        status.push_str(&format!(": {}", short_line(what, 100)));
    }
    if let Some(since) = long_since(&tool.start.id) {
        // Discord updates a relative time by itself, without an edit.
        status.push_str(&format!(" · started <t:{}:R>", since.as_second()));
        let lines = tool.last_lines(MAX_OUTPUT_LINES);
        if !lines.is_empty() {
            let lines =
                lines.iter().map(|line| cut(line, MAX_OUTPUT_LINE_CHARS).replace("```", "'''"));
            let lines = lines.collect::<Vec<_>>().join("\n");
            status.push_str(&format!("\n```\n{lines}\n```"));
        }
    }
    Some(status)
}

/// Returns the line that an agent has reported nothing since a time. Some agents print nothing while
/// they try a refused request again.
pub(crate) fn silence(since: Timestamp) -> String {
    let since = since.as_second();
    format!("-# ⏳ waiting for the agent, which may be trying again · last activity <t:{since}:R>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::agent::{AgentEventKind, ToolOutput, ToolStart};

    fn building(output: &str) -> Transcript {
        let mut transcript = Transcript::default();
        transcript.apply(&AgentEventKind::ToolStart(ToolStart {
            id: "t".to_owned(),
            parent: None,
            kind: "bash".to_owned(),
            native_name: "Bash".to_owned(),
            title: "make".to_owned(),
            target: None,
            input: String::new(),
        }));
        let (id, text) = ("t".to_owned(), output.to_owned());
        transcript.apply(&AgentEventKind::ToolOutput(ToolOutput { id, text, replace: false }));
        transcript
    }

    #[test]
    fn a_slow_tool_shows_its_start_and_its_last_lines() {
        let transcript = building("one\ntwo\nthree\n\n```four");
        assert_eq!(status(&transcript, |_| None).as_deref(), Some("-# 🔧 Bash: make"));
        let since = Timestamp::from_second(1_790_000_000).expect("a time");
        assert_eq!(
            status(&transcript, |id| (id == "t").then_some(since)).as_deref(),
            Some("-# 🔧 Bash: make · started <t:1790000000:R>\n```\ntwo\nthree\n'''four\n```")
        );
    }

    #[test]
    fn output_is_left_out_if_the_message_has_no_room_for_it() {
        let status = format!("-# tool\n```\n{}\n```", "x".repeat(300));
        let with = |text: usize| draft(&"a".repeat(text), Some(status.clone()), 1).concat();
        assert!(with(1_000).ends_with(&status));
        assert!(with(1_900).ends_with("a\n-# tool"));
        assert!(with(1_995).ends_with('a'));
    }
}
