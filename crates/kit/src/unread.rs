//! Answers in the agent's output that a component does not show, found in a replayed recording.

use serde_json::Value;

use aetheel_model::agent::{Action, TurnKey};
use aetheel_recording::replay::{ReplayResult, endings, lost_text};
use aetheel_recording::{Ending, RecordingEntry};

/// The position of a line that is not JSON.
const PLAIN: &str = "plain text";

/// An answer that is in no action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The turn that ended without it.
    pub turn: TurnKey,
    /// The index of the recording's entry that contains the answer, or at which the component
    /// reported unknown output. Otherwise the entry at which the turn ended.
    pub entry: usize,
    /// The position of the text in the agent's output, for example `message.content[].text`. `None`
    /// if no text was found.
    pub position: Option<String>,
    /// The text; empty if it is spread over several lines or was not found.
    pub text: String,
    /// Why the turn counts as unread, as the gateway says it.
    pub reason: String,
    /// Whether the component reported unknown output in the turn.
    pub is_reported: bool,
}

/// Returns the answers of the turns that the gateway would end as unread (see `docs/drift.md`).
/// Turns that the component did not end are left out.
#[must_use]
pub fn unread(entries: &[RecordingEntry], replayed: &ReplayResult) -> Vec<Unread> {
    let endings = endings(entries, replayed);
    let lost = endings.into_iter().filter_map(|(turn, ending)| {
        let Ending::Unread(reason) = ending else { return None };
        let replayed_turn = replayed.turns.get(&turn)?;
        let done = replayed_turn.done.as_ref()?;
        let ends = |action: &Action| matches!(action, Action::TurnDone(done) if done.turn == turn);
        let end = replayed.steps.iter().find(|step| step.actions.iter().any(ends))?.entry;
        let position = lost_text(entries, &replayed.steps, turn, Some(done));
        let (entry, text) = match &position {
            Some(position) => locate(&entries[..=end], position, replayed),
            None => (unknown_output(replayed, turn).unwrap_or(end), String::new()),
        };
        let is_reported = !replayed_turn.transcript.unrecognised().is_empty();
        Some(Unread { turn, entry, position, text, reason, is_reported })
    });
    lost.collect()
}

/// Returns the entry at which a component reported the first unknown output of a turn.
fn unknown_output(replayed: &ReplayResult, turn: TurnKey) -> Option<usize> {
    let reports = |action: &Action| action.unrecognised(Some(turn)).is_some();
    Some(replayed.steps.iter().find(|step| step.actions.iter().any(reports))?.entry)
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

/// Finds the last text at a position that people did not see. Prefers a line that the component did
/// not know.
pub(super) fn locate(
    entries: &[RecordingEntry],
    position: &str,
    replayed: &ReplayResult,
) -> (usize, String) {
    let is_unknown = |action: &Action| action.unrecognised(None).is_some();
    // The sample of an unknown line is not shown to people.
    let seen = replayed.actions().filter(|action| !is_unknown(action));
    let seen: Vec<Value> = seen.filter_map(|action| serde_json::to_value(action).ok()).collect();
    let unknown = |at: usize| {
        let mut here = replayed.steps.iter().filter(|step| step.entry == at);
        here.any(|step| step.actions.iter().any(is_unknown))
    };
    let outputs = entries.iter().enumerate().filter_map(|(at, entry)| Some((at, entry.output()?)));
    let found = outputs.clone().filter_map(|(at, output)| {
        let parsed = serde_json::from_str::<Value>(output);
        let mut found = Vec::new();
        match &parsed {
            Ok(value) => texts_at(value, position, &mut found),
            Err(_) if position == PLAIN => found.push(output),
            Err(_) => {}
        }
        found.retain(|text| !text.trim().is_empty());
        let unseen = found.iter().find(|text| !seen.iter().any(|action| holds(action, text)))?;
        Some((at, (*unseen).to_owned()))
    });
    let last_output = outputs.clone().next_back().map_or(0, |(at, _)| at);
    found.max_by_key(|(at, _)| (unknown(*at), *at)).unwrap_or((last_output, String::new()))
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
