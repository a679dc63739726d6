//! The comparable items of a turn: the actions of a guest, without the keys that it chooses.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::shortened;
use super::value::{body, in_words, without_common, without_version};
use crate::RecordingEntry;
use crate::replay::{ReplayResult, ReplayedTurn};
use aetheel_model::agent::{Action, AgentEventKind, Spawn, StartTurn, TurnKey};

/// Whether an item may have more content in a newer version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemClass {
    /// It has an effect on the agent or on people, so it must be the same.
    Effect,
    /// It reports something about the agent.
    Report,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct TurnItem {
    /// The index of the entry that caused it.
    pub(super) entry: usize,
    pub(super) class: ItemClass,
    pub(super) kind: &'static str,
    pub(super) value: Value,
}

impl TurnItem {
    /// Returns the content of two items for people. If both exist, only what differs.
    pub(super) fn texts(
        before: Option<&Self>,
        now: Option<&Self>,
    ) -> (Option<String>, Option<String>) {
        let (mut first, mut second) =
            (before.map(|item| item.value.clone()), now.map(|item| item.value.clone()));
        if let (Some(first), Some(second)) = (&mut first, &mut second) {
            without_common(first, second);
        }
        let text = |value: Option<Value>| value.map(|value| shortened(&in_words(&value)));
        (text(first), text(second))
    }

    /// Returns whether the new version (the second list) reports this more often than the serving
    /// one, which reports it too. Ids do not count, because a guest may make them up.
    pub(super) fn is_repeated(&self, before: &[Self], now: &[Self]) -> bool {
        let content = without_id(&self.value);
        let count =
            |items: &[Self]| items.iter().filter(|item| without_id(&item.value) == content).count();
        self.class == ItemClass::Report && count(before) > 0 && count(now) > count(before)
    }
}

fn without_id(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(event) = value.as_object_mut().and_then(|map| map.values_mut().next())
        && let Some(fields) = event.as_object_mut()
    {
        fields.remove("id");
    }
    value
}

/// Collects the items of a turn. Actions that belong to no turn count from its beginning on.
pub(super) fn of_turn(
    entries: &[RecordingEntry],
    turn: TurnKey,
    replayed: &ReplayResult,
    version: &str,
) -> Vec<TurnItem> {
    let mut starts = entries.iter().enumerate().filter_map(|(at, entry)| {
        Some((at, entry.turn_start()?)).filter(|(_, start)| start.turn == turn)
    });
    let start = starts.next();
    let mut collected = Collected {
        turn,
        start: start.map(|(_, start)| start),
        items: Vec::new(),
        pieces: HashMap::new(),
    };
    // Actions before the first turn prepare it.
    let from = start.map_or(0, |(at, _)| at);
    let is_first = !entries[..from].iter().any(|entry| entry.turn_start().is_some());
    for step in replayed.steps.iter().filter(|step| is_first || step.entry >= from) {
        for action in &step.actions {
            collected.action(step.entry, action);
        }
    }
    collected.usage(replayed.turns.get(&turn));
    let mut items = collected.items;
    for item in &mut items {
        without_version(&mut item.value, version);
    }
    items
}

/// The turn, the part and the parent of a piece of text, or the id of a tool.
type PieceKey = (u32, Option<String>);

struct Collected<'a> {
    turn: TurnKey,
    start: Option<&'a StartTurn>,
    items: Vec<TurnItem>,
    /// The items to which further pieces are added.
    pieces: HashMap<PieceKey, usize>,
}

impl Collected<'_> {
    fn push(&mut self, entry: usize, class: ItemClass, kind: &'static str, value: Value) {
        self.items.push(TurnItem { entry, class, kind, value });
    }

    fn action(&mut self, entry: usize, action: &Action) {
        if let Action::Event(event) = action {
            if event.turn == self.turn {
                self.event(entry, &event.kind);
            }
        } else if let Some((class, kind, value)) = self.item(action) {
            self.push(entry, class, kind, value);
        }
    }

    /// Returns the item of an action other than an event, or `None` if it does not count or belongs
    /// to another turn.
    fn item(&self, action: &Action) -> Option<(ItemClass, &'static str, Value)> {
        use ItemClass::{Effect, Report};
        Some(match action {
            Action::Spawn(spawn) => (Effect, "command", command(spawn)),
            Action::Write(write) => (Effect, "message to the agent", body(&write.body)),
            Action::CloseStdin(_) => (Effect, "end of the agent's input", Value::Null),
            Action::Stop(stop) => (Effect, "stop of the agent", json!(stop.signal)),
            Action::PutFile(file) => {
                (Effect, "file for the agent", json!([file.name, body(&file.body)]))
            }
            Action::Http(request) => {
                let sent = request.body.as_deref().map(body);
                (Effect, "request", json!([request.method, request.path, sent]))
            }
            Action::OpenStream(stream) => (Effect, "stream", json!(stream.path)),
            Action::SetTimer(timer) => (Report, "timer", json!(timer.after_ms)),
            Action::SessionReady(ready) => {
                let is_ours = self.start.is_none_or(|start| start.session == ready.session);
                return is_ours.then(|| (Report, "session", without_keys(json!(ready))));
            }
            Action::TurnBegun(_) => (Effect, "beginning of a turn", Value::Null),
            Action::Ask(ask) if ask.turn == self.turn => {
                (Effect, "question", without_keys(json!(ask)))
            }
            Action::AskWithdrawn(_) => (Report, "withdrawn question", Value::Null),
            Action::Steered(steered) => (Effect, "steering", json!(steered.outcome)),
            Action::ToolRequest(call) if call.turn == self.turn => {
                let input = serde_json::from_str(&call.input).unwrap_or_else(|_| json!(call.input));
                (Effect, "tool call", json!([call.name, input]))
            }
            Action::TurnDone(done) if done.turn == self.turn => {
                (Effect, "end", json!(done.outcome))
            }
            Action::QueryAnswer(answer) => (Report, "answer to the host", json!(answer.answer)),
            Action::Event(_)
            | Action::Ask(_)
            | Action::ToolRequest(_)
            | Action::TurnDone(_)
            | Action::CloseStream(_)
            | Action::CancelTimer(_)
            | Action::Diagnostic(_) => return None,
        })
    }

    fn event(&mut self, entry: usize, event: &AgentEventKind) {
        let kind = match event {
            // The caller compares the texts of the agent, the unknown output and the last usage.
            AgentEventKind::Text(text) | AgentEventKind::Thinking(text) => {
                if text.parent.is_some() {
                    let key = (text.part, text.parent.clone());
                    self.piece(entry, "text of a sub-agent", key, &text.text, text.replace);
                }
                return;
            }
            AgentEventKind::ToolOutput(output) => {
                let key = (u32::MAX, Some(output.id.clone()));
                return self.piece(entry, "output of a tool", key, &output.text, output.replace);
            }
            AgentEventKind::Usage(_) | AgentEventKind::Unrecognised(_) => return,
            AgentEventKind::ToolStart(_) => "tool",
            AgentEventKind::ToolEnd(_) => "end of a tool",
            AgentEventKind::Plan(_) => "plan",
            AgentEventKind::Artifact(_) => "file",
            AgentEventKind::Task(_) => "task",
            AgentEventKind::Quota(_) => "quota",
            AgentEventKind::Retry(_) => "retry",
            AgentEventKind::Notice(_) => "notice",
            AgentEventKind::Compaction(_) => "compaction",
            AgentEventKind::Mode(_) => "mode",
            AgentEventKind::Title(_) => "title",
            AgentEventKind::Raw(_) => "raw output",
        };
        self.push(entry, ItemClass::Report, kind, json!(event));
    }

    fn piece(&mut self, entry: usize, kind: &'static str, key: PieceKey, text: &str, reset: bool) {
        let known = self.pieces.get(&key).and_then(|at| self.items.get_mut(*at));
        match known.map(|item| &mut item.value) {
            Some(Value::String(so_far)) => {
                if reset {
                    so_far.clear();
                }
                so_far.push_str(text);
            }
            _ => {
                self.pieces.insert(key, self.items.len());
                self.push(entry, ItemClass::Report, kind, text.into());
            }
        }
    }

    fn usage(&mut self, turn: Option<&ReplayedTurn>) {
        let Some(turn) = turn else { return };
        let last = self.items.iter().map(|item| item.entry).max().unwrap_or(0);
        let usage = turn.done.as_ref().and_then(|done| done.usage.clone());
        if let Some(usage) = usage.or_else(|| turn.transcript.usage()) {
            self.push(last, ItemClass::Report, "usage", json!(usage));
        }
    }
}

fn command(spawn: &Spawn) -> Value {
    let mut value = without_keys(json!(spawn));
    value["stdin"] = body(&spawn.stdin);
    value
}

/// Removes the keys that guests choose.
fn without_keys(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        for key in ["proc", "ask", "session", "turn"] {
            fields.remove(key);
        }
    }
    value
}
