//! A summary of a recording for people: one entry for each action of the agent. Parts of a text are
//! joined. `description` has the texts.

mod description;

use similar::{Algorithm, ChangeTag};

use self::description::{ActionDescription, StreamedText, TextPart};
use super::unread::unread;
use aetheel_model::agent::Action;
use aetheel_model::plain::shortened;
use aetheel_recording::ParsedRecording;
use aetheel_recording::replay::ReplayResult;

/// One entry of a summary.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryEntry {
    /// Milliseconds since the link was opened.
    pub t: f64,
    /// The line of the recording that caused it. For joined texts, the first line.
    pub line: usize,
    /// The turn that it belongs to, if any.
    pub turn: Option<u32>,
    /// The type of the entry, for example `text`, `bash` or `usage`.
    pub what: String,
    /// The content. It may have several lines.
    pub text: String,
    /// How it is shown.
    pub style: Style,
}

/// How an entry is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Text for users.
    Plain,
    /// Work in the background.
    Quiet,
    /// Success, shown in green.
    Good,
    /// A problem, shown in red.
    Bad,
}

/// Summarizes a replay that was made with one input per call.
#[must_use]
pub fn summarize(tape: &ParsedRecording, replayed: &ReplayResult) -> Vec<SummaryEntry> {
    let mut entries: Vec<SummaryEntry> = Vec::new();
    // The text that may continue.
    let mut open: Option<TextPart> = None;
    for step in &replayed.steps {
        let (t, line) = (tape.entries[step.entry].t, tape.lines[step.entry]);
        for action in &step.actions {
            if let Some(StreamedText { part, event }) = StreamedText::of(action) {
                match entries.last_mut().filter(|_| open == Some(part)) {
                    Some(last) if event.replace => last.text.clone_from(&event.text),
                    Some(last) => last.text.push_str(&event.text),
                    None => entries.push(part.describe(event.text.clone()).at(t, line)),
                }
                open = Some(part);
                continue;
            }
            let Some(described) = ActionDescription::of(action) else { continue };
            open = None;
            entries.push(described.at(t, line));
        }
    }
    for lost in unread(&tape.entries, replayed) {
        let (t, line) = (tape.entries[lost.entry].t, tape.lines[lost.entry]);
        let after = entries.iter().rposition(|entry| entry.turn == Some(lost.turn));
        let text = match (lost.position, shortened(&lost.text, 2_000)) {
            (None, _) => lost.reason,
            (Some(position), text) if text.is_empty() => {
                format!("the agent's text at `{position}`")
            }
            (Some(position), text) => format!("`{position}`: {text}"),
        };
        let (turn, what) = (Some(lost.turn), "unread".to_owned());
        let entry = SummaryEntry { t, line, turn, what, text, style: Style::Bad };
        entries.insert(after.unwrap_or(entries.len()), entry);
    }
    // A part that was sent in pieces and then as a whole, with other events in between, is shown
    // once.
    entries.retain(|entry| !entry.text.is_empty() || entry.what != "text");
    if let Some((at, failure)) = &replayed.failure {
        let (t, line) = (tape.entries[*at].t, tape.lines[*at]);
        let (what, text) = ("failed".to_owned(), failure.to_string());
        entries.push(SummaryEntry { t, line, turn: None, what, text, style: Style::Bad });
    }
    entries
}

/// Compares the meaning of two replays: their summaries, without times. Parts of a text count as one
/// text, and actions that people never see do not count. Entries of the first replay only are
/// [`ChangeTag::Delete`], and entries of the second only are [`ChangeTag::Insert`].
#[must_use]
pub fn changes(
    tape: &ParsedRecording,
    first: &ReplayResult,
    second: &ReplayResult,
) -> Vec<(ChangeTag, SummaryEntry)> {
    let [first, second] = [first, second].map(|replayed| summarize(tape, replayed));
    let key = |entry: &SummaryEntry| (entry.turn, entry.what.clone(), entry.text.clone());
    similar::capture_diff_slices_by_key(Algorithm::Myers, &first, &second, key)
        .iter()
        .flat_map(|op| op.iter_slices(&first[..], &second[..]))
        .filter(|(tag, _)| *tag != ChangeTag::Equal)
        .flat_map(|(tag, entries)| entries.iter().map(move |entry| (tag, entry.clone())))
        .collect()
}

/// Returns a short description of an action: its type and its content.
#[must_use]
pub fn line(action: &Action) -> (String, String) {
    if let Some(StreamedText { part, event }) = StreamedText::of(action) {
        let described = part.describe(shortened(&event.text, 160));
        return (described.what, described.text);
    }
    match ActionDescription::of(action) {
        Some(described) => (described.what, described.text),
        None => {
            let json = serde_json::to_string(action).unwrap_or_default();
            ("action".to_owned(), shortened(&json, 160))
        }
    }
}
