//! The Anthropic Messages API, as Claude Code 2.1.197 and Droid 0.225.2 use it.

use serde_json::{Value, json};

use super::intent::{Call, Input};
use super::reply::Fault;
use super::request::{Asked, Said, list, names, texts};
use super::wire::{Part, TOKENS_IN, TOKENS_OUT, Voice};

pub(super) fn read(body: &Value) -> Result<Asked, String> {
    for field in ["model", "messages", "max_tokens"] {
        if body.get(field).is_none() {
            return Err(format!("body has no `{field}`"));
        }
    }
    let mut asked = Asked {
        model: body["model"].as_str().unwrap_or_default().to_owned(),
        streaming: body["stream"].as_bool().unwrap_or_default(),
        system: texts(&body["system"]).join("\n"),
        tools: names(&body["tools"]),
        ..Asked::default()
    };
    for message in list(&body["messages"]) {
        let role = message["role"].as_str().unwrap_or_default();
        asked.said.extend(texts(&message["content"]).into_iter().map(|text| Said::new(role, text)));
        for block in list(&message["content"]).iter().filter(|block| block["type"] == "tool_result")
        {
            let id = block["tool_use_id"].as_str().unwrap_or_default().to_owned();
            asked.results.insert(id, texts(&block["content"]).join("\n"));
        }
    }
    // Droid 0.225.2, if it may not ask its own service for a title.
    // Claude Code 2.1.197; Claude Code below claude-agent-acp 0.101.0.
    let titles = ["generates concise session titles", "You are naming a coding session"];
    asked.side = asked.tools.is_empty() && titles.iter().any(|title| asked.system.contains(title));
    Ok(asked)
}

pub(super) struct Messages {
    model: String,
    index: usize,
}

impl Messages {
    pub(super) fn new(model: &str) -> Self {
        Self { model: model.to_owned(), index: 0 }
    }

    fn start(&self, block: Value) -> Value {
        json!({"type": "content_block_start", "index": self.index, "content_block": block})
    }

    fn delta(&self, delta: Value) -> Value {
        json!({"type": "content_block_delta", "index": self.index, "delta": delta})
    }

    fn stop(&mut self) -> Value {
        self.index += 1;
        json!({"type": "content_block_stop", "index": self.index - 1})
    }
}

impl Voice for Messages {
    fn begin(&mut self) -> Vec<Value> {
        let message = json!({"id": "msg_scripted", "type": "message", "role": "assistant", "model": self.model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": usage(1)});
        vec![json!({"type": "message_start", "message": message}), json!({"type": "ping"})]
    }

    fn open_text(&mut self) -> Vec<Value> {
        vec![self.start(json!({"type": "text", "text": ""}))]
    }

    fn text(&mut self, piece: &str) -> Value {
        self.delta(json!({"type": "text_delta", "text": piece}))
    }

    fn close_text(&mut self, _whole: &str) -> Vec<Value> {
        vec![self.stop()]
    }

    fn thinking(&mut self, thought: &str) -> Vec<Value> {
        vec![
            self.start(json!({"type": "thinking", "thinking": "", "signature": ""})),
            self.delta(json!({"type": "thinking_delta", "thinking": thought})),
            self.delta(json!({"type": "signature_delta", "signature": SIGNATURE})),
            self.stop(),
        ]
    }

    fn call(&mut self, id: &str, call: &Call) -> Vec<Value> {
        vec![
            self.start(json!({"type": "tool_use", "id": id, "name": call.name, "input": {}})),
            self.delta(json!({"type": "input_json_delta", "partial_json": call.input.text()})),
            self.stop(),
        ]
    }

    fn end(&mut self, calls_tools: bool) -> Vec<Value> {
        let delta = json!({"stop_reason": stop_reason(calls_tools), "stop_sequence": null});
        vec![
            json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": TOKENS_OUT}}),
            json!({"type": "message_stop"}),
        ]
    }

    fn broken(&self, fault: &Fault) -> Value {
        self.failure(fault)
    }

    fn whole(&self, parts: &[Part], calls_tools: bool) -> Value {
        let content: Vec<Value> = parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => json!({"type": "text", "text": text}),
                Part::Thinking(thought) => {
                    json!({"type": "thinking", "thinking": thought, "signature": SIGNATURE})
                }
                Part::Call(id, Call { name, input: Input::Json(input), .. }) => {
                    json!({"type": "tool_use", "id": id, "name": name, "input": input})
                }
                Part::Call(_, call) => {
                    panic!("`{}` takes plain text, which this API has no tools for", call.name)
                }
            })
            .collect();
        json!({"id": "msg_scripted", "type": "message", "role": "assistant", "model": self.model, "content": content,
            "stop_reason": stop_reason(calls_tools), "stop_sequence": null, "usage": usage(TOKENS_OUT)})
    }

    fn failure(&self, fault: &Fault) -> Value {
        json!({"type": "error", "error": {"type": fault.kind, "message": fault.message}})
    }
}

/// Any base64 text. The CLI keeps it and sends it back.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

fn stop_reason(calls_tools: bool) -> &'static str {
    if calls_tools { "tool_use" } else { "end_turn" }
}

fn usage(output: u32) -> Value {
    json!({"input_tokens": TOKENS_IN, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": output})
}
