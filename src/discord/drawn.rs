//! An answer as messages: while it grows, and when it is there. Pure, but for what [`Discord`] was
//! set up with.

use super::Discord;
use super::below::{self, MESSAGE, opening, whole};
use crate::dispatch::Answer;
use crate::fold::Transcript;
use crate::plain::short_line;

/// Messages of an answer that grows, where it may become a file.
const DRAFTED: usize = 3;

impl Discord {
    /// The messages of a turn as they would stand here: of its answer, or without one of what was
    /// told so far. Both are without secrets. What is not the agent's text (the line of a command
    /// above, questions between, files and buttons below) is left out.
    #[must_use]
    pub fn draw(&self, shown: &Transcript, answer: Option<&Answer>) -> Vec<String> {
        let options = &self.inner.options;
        let long = options.long_answer;
        let Some(answer) = answer else {
            let (text, status) = (shown.text(), status(shown));
            if status.is_none() && text.trim().is_empty() {
                return Vec::new();
            }
            return draft(&text, status, drafted(long));
        };
        let lines = below::lines(answer, &options.footer, true);
        if is_long(&answer.text, long) {
            above_file(&answer.text, &answer.text, drafted(long), &lines)
        } else {
            whole(&answer.text, &lines)
        }
    }
}

/// The draft of a text: as many messages as may be, and the agent's action where there is room.
pub(super) fn draft(text: &str, status: Option<String>, most: usize) -> Vec<String> {
    // It may end as a file: what is posted now need not go then.
    let mut pieces = opening(text, most, "The rest follows.");
    if let Some(status) = status {
        match pieces.last_mut() {
            Some(piece) if piece.chars().count() + status.chars().count() < MESSAGE => {
                piece.push('\n');
                piece.push_str(&status);
            }
            Some(_) => {}
            None => pieces.push(status),
        }
    }
    pieces
}

/// The messages above the file with the whole answer.
pub(super) fn above_file(text: &str, answer: &str, most: usize, below: &[String]) -> Vec<String> {
    let note =
        format!("The whole answer ({} characters) is attached below.", answer.chars().count());
    let mut pieces = opening(text, most, &note);
    let last = pieces.pop().unwrap_or_default();
    let mut below = below.to_vec();
    if !last.ends_with(&note) {
        below.insert(0, format!("-# {note}"));
    }
    pieces.extend(whole(&last, &below));
    pieces
}

/// How many messages an answer has at most while it grows, and above its file. `long`: characters
/// from which on it becomes a file.
pub(super) fn drafted(long: Option<usize>) -> usize {
    long.map_or(usize::MAX, |most| (most / MESSAGE).clamp(1, DRAFTED))
}

/// Whether an answer becomes a file.
pub(super) fn is_long(text: &str, long: Option<usize>) -> bool {
    // No text has more characters than bytes.
    long.is_some_and(|most| text.len() > most && text.chars().count() > most)
}

/// One short line on what the agent is doing.
pub(super) fn status(transcript: &Transcript) -> Option<String> {
    if let Some(failure) = transcript.retry() {
        return Some(format!("-# ⏳ trying again: {}", short_line(failure, 100)));
    }
    let tool = transcript.open_tools().next_back()?;
    let what = [Some(tool.start.title.as_str()), tool.start.target.as_deref()]
        .into_iter()
        .flatten()
        .find(|text| !text.trim().is_empty());
    Some(match what {
        Some(what) => {
            format!("-# 🔧 {}: {}", short_line(&tool.start.native_name, 40), short_line(what, 100))
        }
        None => format!("-# 🔧 {}", short_line(&tool.start.native_name, 40)),
    })
}
