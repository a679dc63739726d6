//! The OpenAI Chat Completions API, as OpenCode 1.18.33 and Qwen Code 0.24.4 use it.

use serde_json::{Value, json};

use super::intent::Call;
use super::reply::Fault;
use super::request::{Asked, Said, list, texts};
use super::wire::{Part, TOKENS_IN, TOKENS_OUT, Voice};

pub(super) fn read(body: &Value) -> Result<Asked, String> {
    for field in ["model", "messages"] {
        if body.get(field).is_none() {
            return Err(format!("body has no `{field}`"));
        }
    }
    let mut system = Vec::new();
    let mut asked = Asked {
        model: body["model"].as_str().unwrap_or_default().to_owned(),
        streaming: body["stream"].as_bool().unwrap_or_default(),
        tools: list(&body["tools"])
            .iter()
            .filter_map(|tool| tool["function"]["name"].as_str().map(str::to_owned))
            .collect(),
        ..Asked::default()
    };
    for message in list(&body["messages"]) {
        let said = texts(&message["content"]);
        match message["role"].as_str().unwrap_or_default() {
            "system" | "developer" => system.extend(said),
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap_or_default().to_owned();
                asked.results.insert(id, said.join("\n"));
            }
            role => asked.said.extend(said.into_iter().map(|text| Said::new(role, text))),
        }
    }
    asked.system = system.join("\n");
    asked.side = asked.tools.is_empty();
    Ok(asked)
}

pub(super) struct Chat {
    model: String,
    calls: usize,
}

impl Chat {
    pub(super) fn new(model: &str) -> Self {
        Self { model: model.to_owned(), calls: 0 }
    }

    fn chunk(&self, delta: Value, finish: Option<&str>) -> Value {
        json!({"id": "chatcmpl-scripted", "object": "chat.completion.chunk", "created": 0, "model": self.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    }
}

impl Voice for Chat {
    fn begin(&mut self) -> Vec<Value> {
        vec![self.chunk(json!({"role": "assistant", "content": ""}), None)]
    }

    fn text(&mut self, piece: &str) -> Value {
        self.chunk(json!({"content": piece}), None)
    }

    fn thinking(&mut self, thought: &str) -> Vec<Value> {
        vec![self.chunk(json!({"reasoning_content": thought}), None)]
    }

    fn call(&mut self, id: &str, call: &Call) -> Vec<Value> {
        let mut said = tool_call(id, call);
        said["index"] = json!(self.calls);
        self.calls += 1;
        vec![self.chunk(json!({"tool_calls": [said]}), None)]
    }

    fn end(&mut self, calls_tools: bool) -> Vec<Value> {
        let last = self.chunk(json!({}), Some(finish(calls_tools)));
        let usage = json!({"id": "chatcmpl-scripted", "object": "chat.completion.chunk", "created": 0, "model": self.model,
            "choices": [], "usage": usage()});
        vec![last, usage]
    }

    fn broken(&self, fault: &Fault) -> Value {
        self.failure(fault)
    }

    fn trailer(&self) -> &'static str {
        "data: [DONE]\n\n"
    }

    fn whole(&self, parts: &[Part], calls_tools: bool) -> Value {
        let mut message = json!({"role": "assistant", "content": ""});
        let mut calls = Vec::new();
        for part in parts {
            match part {
                Part::Text(text) => {
                    message["content"] =
                        json!(message["content"].as_str().unwrap_or_default().to_owned() + text)
                }
                Part::Thinking(thought) => message["reasoning_content"] = json!(thought),
                Part::Call(id, call) => calls.push(tool_call(id, call)),
            }
        }
        if calls_tools {
            message["tool_calls"] = json!(calls);
        }
        json!({"id": "chatcmpl-scripted", "object": "chat.completion", "created": 0, "model": self.model,
            "choices": [{"index": 0, "message": message, "finish_reason": finish(calls_tools)}], "usage": usage()})
    }

    fn failure(&self, fault: &Fault) -> Value {
        json!({"error": {"message": fault.message, "type": fault.kind, "param": null, "code": fault.status.to_string()}})
    }
}

fn tool_call(id: &str, call: &Call) -> Value {
    json!({"id": id, "type": "function", "function": {"name": call.name, "arguments": call.input.text()}})
}

fn finish(calls_tools: bool) -> &'static str {
    if calls_tools { "tool_calls" } else { "stop" }
}

fn usage() -> Value {
    json!({"prompt_tokens": TOKENS_IN, "completion_tokens": TOKENS_OUT, "total_tokens": TOKENS_IN + TOKENS_OUT,
        "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 0}})
}
