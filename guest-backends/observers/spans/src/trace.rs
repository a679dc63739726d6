//! Makes spans of the events of turns.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Maximum number of open turns, and of open tool uses of a turn. Further ones get no span.
const MAX_OPEN: usize = 1_000;

/// When and where something happened.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Milliseconds since 1970.
    pub at_ms: f64,
    /// The id of the turn.
    pub turn: String,
    /// The lane of the turn.
    pub lane: String,
    /// The name of the backend.
    pub backend: String,
}

/// The part of an event that spans depend on.
#[derive(Clone, Debug)]
pub enum Happening {
    /// A turn begins.
    TurnBegun {
        /// The requested model.
        model: Option<String>,
    },
    /// The agent uses a tool.
    ToolBegun {
        /// The id of the use.
        id: String,
        /// The use in which it is nested.
        parent: Option<String>,
        /// The agent's own name of the tool.
        name: String,
    },
    /// A tool use has ended.
    ToolEnded {
        /// The id of the use.
        id: String,
        /// The word for its result.
        status: String,
    },
    /// A turn has ended.
    TurnEnded {
        /// The word for its end.
        ending: String,
        /// The reason of a failure.
        failure: Option<String>,
        /// Milliseconds from its beginning.
        took_ms: f64,
        /// The model that answered.
        model: Option<String>,
        /// Input and output tokens.
        tokens: Option<(u32, u32)>,
    },
}

#[derive(Debug, Default)]
struct OpenTurn {
    model: Option<String>,
    /// The number of spans so far.
    spans: u32,
    tools: BTreeMap<String, OpenTool>,
}

#[derive(Debug)]
struct OpenTool {
    began_ms: f64,
    name: String,
    parent: Option<String>,
    span: String,
}

/// The open turns.
#[derive(Debug, Default)]
pub struct Tracer {
    turns: BTreeMap<String, OpenTurn>,
}

impl Tracer {
    /// Adds an event, and returns the span that it ends, if it ends one.
    pub fn add(&mut self, moment: Moment, happening: Happening) -> Option<String> {
        if self.turns.len() >= MAX_OPEN && !self.turns.contains_key(&moment.turn) {
            // The ends of these turns were lost.
            self.turns.pop_first();
        }
        match happening {
            Happening::TurnBegun { model } => {
                self.turns.entry(moment.turn).or_default().model = model;
                None
            }
            Happening::ToolBegun { id, parent, name } => {
                let turn = self.turns.entry(moment.turn.clone()).or_default();
                if let Some(known) = turn.tools.get_mut(&id) {
                    known.name = name;
                } else if turn.tools.len() < MAX_OPEN {
                    turn.spans += 1;
                    let span = span_id(&moment.turn, turn.spans);
                    let tool = OpenTool { began_ms: moment.at_ms, name, parent, span };
                    turn.tools.insert(id, tool);
                }
                None
            }
            Happening::ToolEnded { id, status } => {
                let turn = self.turns.get_mut(&moment.turn)?;
                let tool = turn.tools.remove(&id)?;
                let parent = tool.parent.as_ref().and_then(|parent| turn.tools.get(parent));
                let parent =
                    parent.map_or_else(|| span_id(&moment.turn, 0), |tool| tool.span.clone());
                let mut span = span(
                    &moment,
                    &tool.span,
                    tool.began_ms,
                    &format!("execute_tool {}", tool.name),
                );
                span["parent_span_id"] = parent.into();
                span["status"] = if status == "ok" { "ok" } else { "error" }.into();
                let attributes = &mut span["attributes"];
                attributes["gen_ai.operation.name"] = "execute_tool".into();
                attributes["gen_ai.tool.name"] = tool.name.into();
                attributes["gen_ai.tool.call.id"] = id.into();
                attributes["aetheel.tool.status"] = status.into();
                Some(span.to_string())
            }
            Happening::TurnEnded { ending, failure, took_ms, model, tokens } => {
                let turn = self.turns.remove(&moment.turn).unwrap_or_default();
                let began_ms = moment.at_ms - took_ms;
                let name = format!("invoke_agent {}", moment.backend);
                let mut span = span(&moment, &span_id(&moment.turn, 0), began_ms, &name);
                span["status"] = if ending == "completed" { "ok" } else { "error" }.into();
                let attributes = &mut span["attributes"];
                attributes["gen_ai.operation.name"] = "invoke_agent".into();
                attributes["aetheel.turn.ending"] = ending.clone().into();
                if let Some(failure) = failure {
                    attributes["error.type"] = ending.into();
                    attributes["error.message"] = failure.into();
                }
                if let Some(model) = turn.model {
                    attributes["gen_ai.request.model"] = model.into();
                }
                if let Some(model) = model {
                    attributes["gen_ai.response.model"] = model.into();
                }
                if let Some((input, output)) = tokens {
                    attributes["gen_ai.usage.input_tokens"] = input.into();
                    attributes["gen_ai.usage.output_tokens"] = output.into();
                }
                Some(span.to_string())
            }
        }
    }
}

fn span(moment: &Moment, id: &str, began_ms: f64, name: &str) -> Value {
    // Float casts saturate.
    let nanoseconds = |ms: f64| format!("{}", (ms * 1e6) as u64);
    json!({
        "trace_id": format!("{:0>32}", hex_of(&moment.turn)),
        "span_id": id,
        "name": name,
        "start_time_unix_nano": nanoseconds(began_ms),
        "end_time_unix_nano": nanoseconds(moment.at_ms),
        "attributes": {
            "gen_ai.agent.name": moment.backend,
            "gen_ai.conversation.id": moment.lane,
            "aetheel.turn": moment.turn,
        },
    })
}

/// Returns the id of a span of a turn. The turn itself has the number 0.
fn span_id(turn: &str, number: u32) -> String {
    format!("{:0>8.8}{number:08x}", hex_of(turn))
}

/// Returns the hexadecimal digits of a turn's id.
fn hex_of(turn: &str) -> String {
    turn.chars().filter(char::is_ascii_hexdigit).take(32).collect::<String>().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at_ms: f64) -> Moment {
        Moment { at_ms, turn: "1f0c9a2e".into(), lane: "console".into(), backend: "demo".into() }
    }

    fn parsed(line: Option<String>) -> Value {
        serde_json::from_str(&line.expect("a span")).expect("JSON")
    }

    #[test]
    fn a_turn_and_its_tools_are_spans_of_one_trace() {
        let mut tracer = Tracer::default();
        let begun = Happening::TurnBegun { model: Some("m".into()) };
        assert_eq!(tracer.add(moment(1_000.0), begun), None);
        let tool =
            |name: &str| Happening::ToolBegun { id: "t".into(), parent: None, name: name.into() };
        assert_eq!(tracer.add(moment(1_100.0), tool("?")), None);
        assert_eq!(tracer.add(moment(1_200.0), tool("Bash")), None);
        let ended = Happening::ToolEnded { id: "t".into(), status: "failed".into() };
        let tool = parsed(tracer.add(moment(1_500.0), ended));
        assert_eq!(tool["name"], "execute_tool Bash");
        assert_eq!(tool["start_time_unix_nano"], "1100000000");
        assert_eq!(tool["status"], "error");
        let ended = Happening::TurnEnded {
            ending: "completed".into(),
            failure: None,
            took_ms: 1_000.0,
            model: Some("m-1".into()),
            tokens: Some((3, 4)),
        };
        let turn = parsed(tracer.add(moment(2_000.0), ended));
        assert_eq!(turn["name"], "invoke_agent demo");
        assert_eq!(
            (&turn["trace_id"], &turn["span_id"]),
            (&tool["trace_id"], &tool["parent_span_id"])
        );
        assert_eq!(turn["attributes"]["gen_ai.usage.output_tokens"], 4);
        assert_eq!(turn["attributes"]["gen_ai.request.model"], "m");
        assert_eq!(turn["trace_id"].as_str().map(str::len), Some(32));
        assert_eq!(turn["span_id"].as_str().map(str::len), Some(16));
        assert!(tracer.turns.is_empty());
    }

    #[test]
    fn lost_ends_do_not_fill_the_memory() {
        let mut tracer = Tracer::default();
        for number in 0..3 * MAX_OPEN {
            let moment = Moment { turn: format!("{number:08x}"), ..moment(0.0) };
            tracer.add(moment, Happening::TurnBegun { model: None });
        }
        assert!(tracer.turns.len() <= MAX_OPEN);
    }
}
