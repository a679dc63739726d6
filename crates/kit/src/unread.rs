//! Answers in the agent's output that a component does not show, found in a replayed recording.

use serde_json::Value;

use aetheel_model::agent::{Action, Input, TurnKey, TurnOutcome};
use aetheel_turn::recording::{ParsedRecording, RecordingEntry};
use aetheel_turn::replay::{ReplayResult, lost_text};

/// The position of a line that is not JSON.
const PLAIN: &str = "plain text";

/// An answer that is in no action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The turn that ended without it.
    pub turn: TurnKey,
    /// The index of the recording's entry that contains the answer.
    pub entry: usize,
    /// The position of the text in the agent's output, for example `message.content[].text`.
    pub position: String,
    /// The text; empty if it is spread over several lines.
    pub text: String,
}

/// Returns the answers that turns lost although they completed, by the rule that the gateway uses
/// (see `docs/drift.md`). Skips turns for which the component reported `unrecognised`.
#[must_use]
pub fn unread(tape: &ParsedRecording, replayed: &ReplayResult) -> Vec<Unread> {
    let actions: Vec<Value> =
        replayed.actions().filter_map(|action| serde_json::to_value(action).ok()).collect();
    let lost = replayed.turns.iter().filter_map(|(turn, replayed_turn)| {
        let done =
            replayed_turn.done.as_ref().filter(|done| done.outcome == TurnOutcome::Completed)?;
        if !replayed_turn.transcript.unrecognised().is_empty() {
            return None;
        }
        let position = lost_text(&tape.entries, &replayed.steps, *turn, Some(done))?;
        let end = replayed.steps.iter().find(|step| {
            step.actions
                .iter()
                .any(|action| matches!(action, Action::TurnDone(done) if done.turn == *turn))
        });
        let until = end.map_or(tape.entries.len(), |step| step.entry + 1);
        let (entry, text) = locate(&tape.entries[..until], &position, &actions);
        Some(Unread { turn: *turn, entry, position, text })
    });
    lost.collect()
}

/// Returns whether any text of a value contains this text.
pub(super) fn holds(value: &Value, text: &str) -> bool {
    match value {
        Value::String(said) => said.contains(text),
        Value::Array(list) => list.iter().any(|value| holds(value, text)),
        Value::Object(map) => map.values().any(|value| holds(value, text)),
        _ => false,
    }
}

/// Finds the last text at a position that no action contains.
pub(super) fn locate(
    entries: &[RecordingEntry],
    position: &str,
    actions: &[Value],
) -> (usize, String) {
    let mut last_output = 0;
    for (at, output) in
        entries.iter().enumerate().filter_map(|(at, entry)| Some((at, output(entry)?))).rev()
    {
        last_output = last_output.max(at);
        let parsed = serde_json::from_str::<Value>(output);
        let mut found = Vec::new();
        match &parsed {
            Ok(value) => texts_at(value, position, &mut found),
            Err(_) if position == PLAIN => found.push(output),
            Err(_) => {}
        }
        found.retain(|text| !text.trim().is_empty());
        let unseen = found.iter().find(|text| !actions.iter().any(|action| holds(action, text)));
        if let Some(text) = unseen {
            return (at, (*text).to_owned());
        }
    }
    (last_output, String::new())
}

/// Returns the agent's output in an entry.
pub(super) fn output(entry: &RecordingEntry) -> Option<&str> {
    match entry.input()? {
        Input::Line(line) => Some(&line.text),
        Input::HttpResponse(response) => Some(&response.body),
        Input::StreamEvent(event) => Some(&event.data),
        _ => None,
    }
}

/// Collects the texts at a path of keys, where `[]` stands for every item of a list.
pub(super) fn texts_at<'v>(value: &'v Value, path: &str, found: &mut Vec<&'v str>) {
    if let Some(rest) = path.strip_prefix("[]") {
        let items = value.as_array().into_iter().flatten();
        return items.for_each(|item| texts_at(item, rest.trim_start_matches('.'), found));
    }
    if path.is_empty() {
        return found.extend(value.as_str());
    }
    // Keys may contain dots and brackets themselves.
    let Some(map) = value.as_object() else { return };
    for (key, item) in map {
        if let Some(rest) = path.strip_prefix(key.as_str())
            && (rest.is_empty() || rest.starts_with(['.', '[']))
        {
            texts_at(item, rest.trim_start_matches('.'), found);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_found_by_their_path() {
        let value = json!({ "a.b": { "c": [{ "d": "one" }, { "d": "two" }] }, "a": "other" });
        let mut found = Vec::new();
        texts_at(&value, "a.b.c[].d", &mut found);
        assert_eq!(found, ["one", "two"]);
    }
}
