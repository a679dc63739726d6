//! Removes the lines and the parts of lines that a fault does not need.

use serde_json::{Map, Value};

use super::ddmin::ddmin;
use super::fault::{process_start, start_before};
use super::trials::FaultTrials;
use super::words::is_kind;
use aetheel_model::agent::{HostCommand, Input, StartTurn, TurnSettings};
use aetheel_recording::{EntryKind, RecordingEntry};

/// Texts of more characters are shortened, if the fault does not need their length.
const LONG: usize = 48;
/// Number of characters to which a long text is shortened first.
const SHORT: usize = 24;

/// Removes lines. `entry` is the index of the line at which the fault shows.
pub(super) async fn remove_lines(
    trials: &mut FaultTrials<'_>,
    entries: Vec<RecordingEntry>,
    entry: usize,
) -> Vec<RecordingEntry> {
    let mut entries = entries;
    // Without the actions, inputs are matched by the keys that the guest chose itself.
    for needs_keys in [false, true] {
        let reads = |entry: &RecordingEntry| match entry.kind {
            EntryKind::In(_) | EntryKind::Moved { .. } => true,
            EntryKind::Out(_) => needs_keys,
            _ => false,
        };
        let inputs: Vec<RecordingEntry> = entries.iter().filter(|it| reads(it)).cloned().collect();
        if trials.show(&inputs).await {
            let before = entries.iter().take(entry + 1).filter(|it| reads(it)).count();
            if trials.show(&inputs[..before]).await {
                entries = inputs[..before].to_vec();
            } else {
                entries = inputs;
            }
            break;
        }
    }
    let last = entries.len().saturating_sub(1);
    let start = start_before(&entries, last);
    let rest: Vec<usize> = (0..entries.len()).filter(|at| Some(*at) != start).collect();
    let choose = |keep: &[usize]| -> Vec<RecordingEntry> {
        let mut chosen: Vec<usize> = keep.iter().map(|at| rest[*at]).chain(start).collect();
        chosen.sort_unstable();
        chosen.into_iter().map(|at| entries[at].clone()).collect()
    };
    let needed = ddmin(rest.len(), async |keep: &[usize]| trials.show(&choose(keep)).await).await;
    with_process_start(trials, &entries, choose(&needed)).await
}

/// Adds the confirmation of a process that a host always sends, if the fault still shows with it.
async fn with_process_start(
    trials: &mut FaultTrials<'_>,
    all: &[RecordingEntry],
    needed: Vec<RecordingEntry>,
) -> Vec<RecordingEntry> {
    let start = start_before(&needed, needed.len()).map_or(0, |at| at + 1);
    if process_start(&needed, 0).is_some() {
        return needed;
    }
    let Some(spawned) = process_start(all, 0) else { return needed };
    let mut more = needed.clone();
    more.insert(start, all[spawned].clone());
    if trials.show(&more).await { more } else { needed }
}

pub(super) async fn shrink_lines(trials: &mut FaultTrials<'_>, entries: &mut Vec<RecordingEntry>) {
    for at in 0..entries.len() {
        if entries[at].turn_start().is_some() {
            shrink_start(trials, entries, at).await;
        }
        if let Some(text) = text_of(&entries[at]).filter(|text| text != "{}") {
            shrink_text(trials, entries, at, text).await;
        }
    }
}

/// Removes the choices of a turn.
async fn shrink_start(trials: &mut FaultTrials<'_>, entries: &mut Vec<RecordingEntry>, at: usize) {
    let changes: [fn(&mut StartTurn); 7] = [
        |start| start.tools.clear(),
        |start| start.native_id = None,
        |start| start.fork = false,
        |start| start.parts.truncate(1),
        |start| start.agent_version = None,
        |start| {
            let TurnSettings { safety, mode, .. } = start.settings;
            start.settings = TurnSettings { mode, ..TurnSettings::plain(safety) };
        },
        |start| "{}".clone_into(&mut start.settings.options),
    ];
    let change = |keep: &[usize]| {
        let mut changed = entries.clone();
        if let EntryKind::In(Input::Command(HostCommand::StartTurn(start))) = &mut changed[at].kind
        {
            let made = changes.iter().enumerate().filter(|(at, _)| !keep.contains(at));
            made.for_each(|(_, change)| change(start));
        }
        changed
    };
    let left = ddmin(changes.len(), async |keep: &[usize]| trials.show(&change(keep)).await).await;
    let changed = change(&left);
    *entries = changed;
}

/// Shrinks a text of the agent: the fields of JSON, or the length of other texts.
async fn shrink_text(
    trials: &mut FaultTrials<'_>,
    entries: &mut [RecordingEntry],
    at: usize,
    text: String,
) {
    let Ok(mut value) = serde_json::from_str::<Value>(&text) else {
        let mut shortened = text;
        shorten(&mut shortened, async |text: &str| {
            let changed = with_text(entries, at, text);
            trials.show(&changed).await
        })
        .await;
        set_text(&mut entries[at], &shortened);
        return;
    };
    // The values inside a value are shrunk after it, so that most are never looked at.
    let mut pointers = vec![String::new()];
    while let Some(pointer) = pointers.pop() {
        if trials.is_exhausted() {
            break;
        }
        let Some(inner) = value.pointer(&pointer).cloned() else { continue };
        let mut show = async |smaller: Value| {
            let mut changed = value.clone();
            if let Some(place) = changed.pointer_mut(&pointer) {
                *place = smaller;
            }
            trials.show(&with_text(entries, at, &changed.to_string())).await
        };
        let smaller = shrink_value(&inner, &mut show).await;
        match &smaller {
            Value::Object(map) => pointers.extend(
                map.keys()
                    .map(|key| format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))),
            ),
            Value::Array(list) => {
                pointers.extend((0..list.len()).map(|index| format!("{pointer}/{index}")));
            }
            _ => {}
        }
        if smaller != inner
            && let Some(place) = value.pointer_mut(&pointer)
        {
            *place = smaller;
        }
    }
    let changed = value.to_string();
    // The agent may write JSON in another form, for example with spaces, which may matter.
    if trials.fault_now(&with_text(entries, at, &changed)).await.is_some() {
        set_text(&mut entries[at], &changed);
    }
}

/// Removes fields or items of a value, or shortens its text. Does not look into its items. Keeps
/// the fields that name the kind of an object, so that a reader knows what the line is.
async fn shrink_value(value: &Value, show: &mut impl AsyncFnMut(Value) -> bool) -> Value {
    match value {
        Value::Object(map) => {
            let (kinds, fields): (Vec<_>, Vec<_>) =
                map.iter().partition(|(key, value)| is_kind(key) && value.is_string());
            let choose = |keep: &[usize]| {
                let chosen = keep.iter().map(|at| fields[*at]).chain(kinds.iter().copied());
                let chosen = chosen.map(|(key, value)| (key.clone(), value.clone()));
                Value::Object(chosen.collect::<Map<String, Value>>())
            };
            choose(&ddmin(fields.len(), async |keep: &[usize]| show(choose(keep)).await).await)
        }
        Value::Array(list) => {
            let choose = |keep: &[usize]| keep.iter().map(|at| list[*at].clone()).collect();
            choose(&ddmin(list.len(), async |keep: &[usize]| show(choose(keep)).await).await)
        }
        Value::String(text) => {
            let mut text = text.clone();
            shorten(&mut text, async |text: &str| show(text.into()).await).await;
            text.into()
        }
        other => other.clone(),
    }
}

/// Shortens a long text as far as the test passes.
async fn shorten(text: &mut String, mut show: impl AsyncFnMut(&str) -> bool) {
    let mut length = text.chars().count();
    if length <= LONG {
        return;
    }
    let mut next = SHORT;
    loop {
        let shorter: String = text.chars().take(next).collect();
        if show(&shorter).await {
            (*text, length) = (shorter, next);
            next /= 2;
        } else {
            // A limit of the length is between both.
            next += length.saturating_sub(next) / 2;
        }
        if next <= SHORT / 2 || length - next <= length / 16 {
            return;
        }
    }
}

/// Returns the text of an entry that is shrunk: output of the agent, a message of the system, or the
/// options of a turn.
pub(super) fn text_of(entry: &RecordingEntry) -> Option<String> {
    let mut entry = entry.clone();
    Some(std::mem::take(text_mut(&mut entry)?))
}

/// Replaces the text that [`text_of`] returns.
pub(super) fn set_text(entry: &mut RecordingEntry, text: &str) {
    if let Some(place) = text_mut(entry) {
        text.clone_into(place);
    }
}

fn with_text(entries: &[RecordingEntry], at: usize, text: &str) -> Vec<RecordingEntry> {
    let mut changed = entries.to_vec();
    set_text(&mut changed[at], text);
    changed
}

fn text_mut(entry: &mut RecordingEntry) -> Option<&mut String> {
    let EntryKind::In(input) = &mut entry.kind else { return None };
    match input {
        Input::Line(line) => Some(&mut line.text),
        Input::HttpResponse(response) => Some(&mut response.body),
        Input::StreamEvent(event) => Some(&mut event.data),
        Input::Exited(exited) => Some(&mut exited.stderr_tail),
        Input::HttpFailed(failed) => Some(&mut failed.message),
        Input::ToolResult(result) => Some(&mut result.text),
        Input::Command(HostCommand::StartTurn(start)) => Some(&mut start.settings.options),
        _ => None,
    }
}
