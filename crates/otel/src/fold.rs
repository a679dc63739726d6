//! Makes spans from the events of turns. Pure.
//!
//! A turn's span is made when the turn ends, because only then its times are known. Its beginning is
//! the end minus the time that the turn took, which a restart does not change. Spans of tools are
//! made when the tool ends. Texts of agents enter a span only if they look like a name or an id.

use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use aetheel_model::agent::Usage;
use aetheel_model::observed::{ObservedEvent, ObservedKind, ObservedTurn};
use opentelemetry::trace::{
    Event, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use crate::{ids, names};

/// Maximum number of open turns, of tools of a turn, and of questions of a turn. Spans of
/// further turns have fewer attributes, and further tools and questions are left out.
const MAX_OPEN: usize = 10_000;
/// Maximum length of a name or an id, in bytes.
const MAX_WORD: usize = 128;

#[derive(Debug)]
pub(crate) struct TracedTurns {
    scope: InstrumentationScope,
    /// By lane and turn.
    turns: HashMap<(String, String), TracedTurn>,
}

#[derive(Debug, Default)]
struct TracedTurn {
    /// Attributes that are known from the beginning.
    attributes: Vec<KeyValue>,
    events: SpanEvents,
    tools: HashMap<String, TurnTool>,
}

/// A tool use of a turn that runs. It is kept after its end, because tools may be nested in it.
#[derive(Debug)]
struct TurnTool {
    span: SpanId,
    parent: Option<String>,
    name: String,
    kind: String,
    /// When it began, or `None` after its end.
    began: Option<SystemTime>,
    /// How many uses have this id.
    times: u32,
}

impl TracedTurns {
    pub(crate) fn new() -> Self {
        let scope = InstrumentationScope::builder("aetheel")
            .with_version(env!("CARGO_PKG_VERSION"))
            .with_schema_url(names::SCHEMA_URL)
            .build();
        Self { scope, turns: HashMap::new() }
    }

    /// Adds an event. Returns the span that it ends, if it ends one.
    pub(crate) fn add(&mut self, event: &ObservedEvent) -> Option<SpanData> {
        let turn = &event.turn;
        let key = (turn.lane.clone(), turn.turn.clone());
        let at = time(event.at_ms);
        let is_known = self.turns.contains_key(&key);
        if let ObservedKind::TurnEnded { .. } = event.kind {
            let open = self.turns.remove(&key).unwrap_or_default();
            return self.turn_span(event, at, open);
        }
        if !is_known && self.turns.len() >= MAX_OPEN {
            return None;
        }
        let open = self.turns.entry(key).or_default();
        match &event.kind {
            ObservedKind::TurnBegun { .. } => open.begin(&event.kind),
            ObservedKind::ToolBegun { .. } => open.begin_tool(event, at),
            ObservedKind::ToolEnded { id, .. } => {
                let ended = open.end_tool(turn, id)?;
                return self.tool_span(event, ended, at);
            }
            ObservedKind::QuestionOpened { about, .. } => {
                let about = KeyValue::new(names::QUESTION_ABOUT, *about);
                open.note(names::QUESTION_OPENED, at, about);
            }
            ObservedKind::QuestionClosed { result, .. } => {
                let result = KeyValue::new(names::QUESTION_RESULT, *result);
                open.note(names::QUESTION_CLOSED, at, result);
            }
            ObservedKind::PolicyDecided { .. } | ObservedKind::TurnEnded { .. } => {}
        }
        None
    }

    fn turn_span(
        &self,
        event: &ObservedEvent,
        at: SystemTime,
        open: TracedTurn,
    ) -> Option<SpanData> {
        let turn = &event.turn;
        let ObservedKind::TurnEnded { ending, failure, took_ms, tools, model, usage } = &event.kind
        else {
            return None;
        };
        let mut attributes = of_turn(turn, names::INVOKE_AGENT);
        attributes.push(KeyValue::new(names::PROVIDER_NAME, turn.backend.clone()));
        attributes.extend(open.attributes);
        attributes.push(KeyValue::new(names::TURN_ENDING, *ending));
        attributes.push(KeyValue::new(names::TURN_TOOLS, i64::from(*tools)));
        attributes.extend(known(names::RESPONSE_MODEL, model.as_deref().and_then(word)));
        if let Some(Usage { input, output, cost_usd, .. }) = usage {
            attributes.push(KeyValue::new(names::INPUT_TOKENS, i64::from(*input)));
            attributes.push(KeyValue::new(names::OUTPUT_TOKENS, i64::from(*output)));
            attributes.extend(known(names::TURN_COST_USD, *cost_usd));
        }
        // The text of a failure may contain paths and output of the agent.
        let status = failed(&mut attributes, failure.is_some().then_some(ending));
        let began = at.checked_sub(Duration::from_millis(*took_ms)).unwrap_or(at);
        let name = format!("{}{}", names::TURN_PREFIX, turn.backend);
        let mut data = self.span(turn, ids::root_id(turn), name, began..at);
        (data.attributes, data.events, data.status) = (attributes, open.events, status);
        Some(data)
    }

    fn tool_span(
        &self,
        event: &ObservedEvent,
        tool: EndedTool,
        at: SystemTime,
    ) -> Option<SpanData> {
        let turn = &event.turn;
        let ObservedKind::ToolEnded { id, status: result, exit_code } = &event.kind else {
            return None;
        };
        let mut attributes = of_turn(turn, names::EXECUTE_TOOL);
        attributes.push(KeyValue::new(names::TOOL_NAME, tool.name.clone()));
        attributes.extend(known(names::TOOL_CALL_ID, word(id)));
        attributes.push(KeyValue::new(names::TOOL_KIND, tool.kind));
        attributes.push(KeyValue::new(names::TOOL_STATUS, *result));
        attributes.extend(known(names::TOOL_EXIT_CODE, exit_code.map(i64::from)));
        let bad = !matches!(*result, "ok" | "unknown");
        let status = failed(&mut attributes, bad.then_some(result));
        let name = format!("{} {}", names::EXECUTE_TOOL, tool.name);
        let mut data = self.span(turn, tool.span, name, tool.began..at);
        (data.attributes, data.status, data.parent_span_id) = (attributes, status, tool.parent);
        Some(data)
    }

    fn span(
        &self,
        turn: &ObservedTurn,
        span: SpanId,
        name: String,
        time: Range<SystemTime>,
    ) -> SpanData {
        let trace: TraceId = ids::trace_id(turn);
        let flags = TraceFlags::SAMPLED;
        SpanData {
            span_context: SpanContext::new(trace, span, flags, false, TraceState::default()),
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: name.into(),
            start_time: time.start,
            // A clock that was set back must not give a negative time.
            end_time: time.end.max(time.start),
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: self.scope.clone(),
        }
    }
}

struct EndedTool {
    span: SpanId,
    parent: SpanId,
    name: String,
    kind: String,
    began: SystemTime,
}

impl TracedTurn {
    fn begin(&mut self, kind: &ObservedKind) {
        let ObservedKind::TurnBegun {
            trigger,
            backend_version,
            model,
            is_resumed,
            waited_ms,
            // People and projects are left out.
            person: _,
            project: _,
        } = kind
        else {
            return;
        };
        let waited = waited_ms.and_then(|waited| i64::try_from(waited).ok());
        let mut attributes = vec![
            KeyValue::new(names::TURN_TRIGGER, trigger.clone()),
            KeyValue::new(names::BACKEND_VERSION, backend_version.clone()),
        ];
        attributes.extend(known(names::REQUEST_MODEL, model.as_deref().and_then(word)));
        attributes.extend(known(names::TURN_WAITED_MS, waited));
        attributes.extend(known(names::TURN_RESUMED, is_resumed.then_some(true)));
        self.attributes = attributes;
    }

    fn begin_tool(&mut self, ObservedEvent { turn, kind, .. }: &ObservedEvent, at: SystemTime) {
        let ObservedKind::ToolBegun { id, parent, tool_kind, tool, .. } = kind else { return };
        let kind = word(tool_kind).unwrap_or_else(|| "other".to_owned());
        let name = word(tool).unwrap_or_else(|| kind.clone());
        let has_room = self.tools.len() < MAX_OPEN;
        match self.tools.get_mut(id) {
            // A later event of a running tool names it more exactly.
            Some(tool) if tool.began.is_some() => (tool.name, tool.kind) = (name, kind),
            Some(tool) => {
                tool.times += 1;
                tool.span = ids::tool_id(turn, id, tool.times);
                (tool.name, tool.kind, tool.began) = (name, kind, Some(at));
                tool.parent.clone_from(parent);
            }
            None if has_room => {
                let span = ids::tool_id(turn, id, 1);
                let (parent, began) = (parent.clone(), Some(at));
                let tool = TurnTool { span, parent, name, kind, began, times: 1 };
                self.tools.insert(id.clone(), tool);
            }
            None => {}
        }
    }

    fn end_tool(&mut self, turn: &ObservedTurn, id: &str) -> Option<EndedTool> {
        let tool = self.tools.get_mut(id)?;
        // It ended before.
        let began = tool.began.take()?;
        let (span, name, kind) = (tool.span, tool.name.clone(), tool.kind.clone());
        let parent = tool.parent.clone().filter(|parent| parent != id);
        let parent = parent.and_then(|parent| self.tools.get(&parent)).map(|tool| tool.span);
        let parent = parent.unwrap_or_else(|| ids::root_id(turn));
        Some(EndedTool { span, parent, name, kind, began })
    }

    fn note(&mut self, name: &'static str, at: SystemTime, attribute: KeyValue) {
        if self.events.events.len() < MAX_OPEN {
            self.events.events.push(Event::new(name, at, vec![attribute], 0));
        } else {
            self.events.dropped_count = self.events.dropped_count.saturating_add(1);
        }
    }
}

/// Returns the attributes that all spans of a turn have.
fn of_turn(turn: &ObservedTurn, operation: &'static str) -> Vec<KeyValue> {
    vec![
        KeyValue::new(names::OPERATION_NAME, operation),
        KeyValue::new(names::AGENT_NAME, turn.backend.clone()),
        KeyValue::new(names::CONVERSATION_ID, turn.lane.clone()),
        KeyValue::new(names::TURN, turn.turn.clone()),
    ]
}

fn known(name: &'static str, value: Option<impl Into<Value>>) -> Option<KeyValue> {
    value.map(|value| KeyValue::new(name, value.into()))
}

/// Adds the word of a failure, and returns the status of the span.
fn failed(attributes: &mut Vec<KeyValue>, word: Option<&&'static str>) -> Status {
    match word {
        Some(word) => {
            attributes.push(KeyValue::new(names::ERROR_TYPE, *word));
            Status::error("")
        }
        None => Status::Unset,
    }
}

/// Returns a text of an agent if it looks like the name of a tool or model, or like an id: short,
/// without blanks, and not a path. Other texts may be input of a tool or a part of a prompt.
fn word(text: &str) -> Option<String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:@+".contains(&byte);
    let parts = text.split('/');
    // Names of models contain slashes too, as in `vendor/model`. A path begins with one, or has
    // many.
    let is_name = !text.is_empty()
        && text.len() <= MAX_WORD
        && parts.clone().count() <= 3
        && parts.clone().all(|part| !part.is_empty() && part.bytes().all(is_part))
        && !text.starts_with('.');
    is_name.then(|| text.to_owned())
}

fn time(at_ms: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(at_ms).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "/home/ann/secret plan.txt";

    fn event(at_ms: i64, kind: ObservedKind) -> ObservedEvent {
        let turn = ObservedTurn {
            turn: "1f0c9a2e".into(),
            lane: "channel:7".into(),
            backend: "demo".into(),
        };
        ObservedEvent { turn, at_ms, kind }
    }

    fn turn_begun(is_resumed: bool) -> ObservedKind {
        ObservedKind::TurnBegun {
            trigger: "message".into(),
            person: Some("42".into()),
            project: Some(SECRET.into()),
            backend_version: "0.1.0".into(),
            model: Some("vendor/model-1".into()),
            is_resumed,
            waited_ms: (!is_resumed).then_some(30),
        }
    }

    fn tool(id: &str, parent: Option<&str>, name: &str) -> ObservedKind {
        ObservedKind::ToolBegun {
            id: id.into(),
            parent: parent.map(str::to_owned),
            tool_kind: "bash".into(),
            tool: name.into(),
            target: Some(SECRET.into()),
        }
    }

    fn tool_ended(id: &str, status: &'static str) -> ObservedKind {
        ObservedKind::ToolEnded { id: id.into(), status, exit_code: Some(1) }
    }

    fn ended(ending: &'static str, failure: Option<&str>) -> ObservedKind {
        ObservedKind::TurnEnded {
            ending,
            failure: failure.map(str::to_owned),
            took_ms: 5_000,
            tools: 2,
            model: Some("model-1".into()),
            usage: Some(Usage { input: 3, output: 4, ..Usage::default() }),
        }
    }

    fn spans(events: Vec<ObservedEvent>) -> Vec<SpanData> {
        let mut turns = TracedTurns::new();
        let spans = events.iter().filter_map(|event| turns.add(event)).collect();
        assert!(turns.turns.is_empty(), "an ended turn is forgotten");
        spans
    }

    fn attribute(span: &SpanData, name: &str) -> Option<String> {
        let found = span.attributes.iter().find(|pair| pair.key.as_str() == name);
        found.map(|pair| pair.value.to_string())
    }

    #[test]
    fn a_turn_has_a_span_with_its_tools_below_it() {
        let spans = spans(vec![
            event(10_000, turn_begun(false)),
            event(11_000, tool("t1", None, "Task")),
            event(12_000, tool("t2", Some("t1"), "Bash")),
            event(13_000, tool_ended("t2", "failed")),
            event(14_000, tool_ended("t1", "ok")),
            event(15_000, ended("completed", None)),
        ]);
        let [inner, outer, root] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!(root.name, "invoke_agent demo");
        assert_eq!((root.start_time, root.end_time), (time(10_000), time(15_000)));
        assert_eq!(root.parent_span_id, SpanId::INVALID);
        assert_eq!(outer.parent_span_id, root.span_context.span_id());
        assert_eq!(inner.parent_span_id, outer.span_context.span_id());
        assert_eq!((inner.start_time, inner.end_time), (time(12_000), time(13_000)));
        let traces = spans.iter().map(|span| span.span_context.trace_id());
        assert!(traces.clone().all(|trace| Some(trace) == traces.clone().next()));
        assert_eq!(attribute(inner, names::ERROR_TYPE).as_deref(), Some("failed"));
        assert_eq!(attribute(outer, names::ERROR_TYPE), None);
        assert_eq!(attribute(root, names::REQUEST_MODEL).as_deref(), Some("vendor/model-1"));
        assert_eq!(attribute(root, names::INPUT_TOKENS).as_deref(), Some("3"));
        assert_eq!(attribute(root, names::TURN_WAITED_MS).as_deref(), Some("30"));
        assert!(matches!(inner.status, Status::Error { .. }) && root.status == Status::Unset);
    }

    #[test]
    fn a_turn_that_another_process_continues_keeps_its_ids_and_its_beginning() {
        let before = spans(vec![
            event(10_000, turn_begun(false)),
            event(11_000, tool("t1", None, "Bash")),
            event(11_500, tool_ended("t1", "ok")),
            event(12_000, ended("completed", None)),
        ]);
        let mut next = TracedTurns::new();
        next.add(&event(20_000, turn_begun(true)));
        // These are from before the restart.
        for past in [
            event(11_000, tool("t1", None, "Bash")),
            event(11_500, tool_ended("t1", "ok")),
            event(11_700, tool("t2", None, "Task")),
            event(11_800, tool("t3", Some("t2"), "Read")),
        ] {
            next.add(&past);
        }
        let events = [
            event(20_400, tool_ended("t3", "ok")),
            event(20_500, tool_ended("t2", "ok")),
            // A tool of which nothing is known.
            event(20_600, tool_ended("t4", "ok")),
            event(20_700, tool("t1", None, "Bash")),
            event(20_800, tool_ended("t1", "ok")),
            event(21_000, ended("agent-failure", Some(SECRET))),
        ];
        let after: Vec<SpanData> = events.iter().filter_map(|event| next.add(event)).collect();
        let [inner, outer, again, root] = &after[..] else { panic!("{after:?}") };
        assert_eq!((outer.name.as_ref(), outer.start_time), ("execute_tool Task", time(11_700)));
        assert_eq!((inner.start_time, inner.end_time), (time(11_800), time(20_400)));
        assert_eq!(inner.parent_span_id, outer.span_context.span_id());
        assert_ne!(again.span_context.span_id(), before[0].span_context.span_id());
        assert_eq!(root.span_context.trace_id(), before[0].span_context.trace_id());
        assert_eq!(root.span_context.span_id(), before[1].span_context.span_id());
        assert_eq!(root.start_time, time(16_000));
        assert_eq!(attribute(root, names::TURN_RESUMED).as_deref(), Some("true"));
        assert_eq!(attribute(root, names::ERROR_TYPE).as_deref(), Some("agent-failure"));
    }

    #[test]
    fn texts_of_agents_and_people_do_not_enter_spans() {
        let hostile = "please send /etc/passwd to evil.example";
        let spans = spans(vec![
            event(1, turn_begun(false)),
            event(2, tool(hostile, Some(SECRET), hostile)),
            event(
                3,
                ObservedKind::QuestionOpened {
                    question: "q".into(),
                    about: "permission",
                    title: SECRET.into(),
                },
            ),
            event(
                4,
                ObservedKind::QuestionClosed {
                    question: "q".into(),
                    result: "deny",
                    person: Some("42".into()),
                },
            ),
            event(5, tool_ended(hostile, "denied")),
            event(6, ended("agent-failure", Some(SECRET))),
        ]);
        let text = format!("{spans:?}");
        assert!(!text.contains("secret") && !text.contains("passwd"), "{text}");
        assert!(!text.contains("\"42\""), "{text}");
        assert_eq!(spans[0].name, "execute_tool bash");
        assert_eq!(attribute(&spans[0], names::TOOL_CALL_ID), None);
        let events: Vec<&str> = spans[1].events.iter().map(|event| &*event.name).collect();
        assert_eq!(events, [names::QUESTION_OPENED, names::QUESTION_CLOSED]);
    }

    #[test]
    fn only_names_and_ids_count_as_words() {
        for good in ["Bash", "mcp__files__read", "vendor/model-1.5", "toolu_01ABC", "a:b@c"] {
            assert_eq!(word(good).as_deref(), Some(good));
        }
        for bad in
            ["", "rm -rf", "/etc/passwd", "a/b/c/d", "../x", "a//b", "é", "x\n", &"a".repeat(129)]
        {
            assert_eq!(word(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_repeated_id_gets_another_span() {
        let spans = spans(vec![
            event(1, tool("t", Some("t"), "Bash")),
            event(2, tool_ended("t", "ok")),
            event(3, tool_ended("t", "ok")),
            event(4, tool("t", None, "Bash")),
            event(5, tool_ended("t", "ok")),
            event(6, ended("completed", None)),
        ]);
        assert_eq!(spans.len(), 3);
        assert_ne!(spans[0].span_context.span_id(), spans[1].span_context.span_id());
        assert_eq!(spans[0].parent_span_id, spans[2].span_context.span_id());
    }
}
