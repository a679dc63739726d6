//! The OpenAI Responses API, as Codex 0.169.0 uses it.

use serde_json::{Value, json};

use super::intent::{Call, Input};
use super::reply::Fault;
use super::request::{Asked, Said, list, names, texts};
use super::wire::{Part, TOKENS_IN, TOKENS_OUT, Voice};

pub(super) fn read(body: &Value) -> Result<Asked, String> {
    for field in ["model", "input"] {
        if body.get(field).is_none() {
            return Err(format!("body has no `{field}`"));
        }
    }
    let mut system: Vec<&str> = texts(&body["instructions"]);
    let mut asked = Asked {
        model: body["model"].as_str().unwrap_or_default().to_owned(),
        streaming: body["stream"].as_bool().unwrap_or_default(),
        tools: names(&body["tools"]),
        ..Asked::default()
    };
    for item in list(&body["input"]) {
        match (item["type"].as_str(), item["role"].as_str()) {
            (_, Some("developer" | "system")) => system.extend(texts(&item["content"])),
            (_, Some(role)) => asked
                .said
                .extend(texts(&item["content"]).into_iter().map(|text| Said::new(role, text))),
            (Some("function_call_output" | "custom_tool_call_output"), None) => {
                let id = item["call_id"].as_str().unwrap_or_default().to_owned();
                asked.results.insert(id, texts(&item["output"]).join("\n"));
            }
            _ => {}
        }
    }
    asked.system = system.join("\n");
    // Codex 0.166.0 compacts the history when the model changes to one of another generation. It
    // also generates titles of conversations.
    let own = [
        "You are performing a CONTEXT CHECKPOINT COMPACTION",
        "Your task is to generate a very short title",
    ];
    let first_words =
        asked.said.last().map(|said| said.text.as_str()).into_iter().chain([asked.system.as_str()]);
    asked.side =
        first_words.into_iter().any(|text| own.iter().any(|words| text.starts_with(words)));
    Ok(asked)
}

#[derive(Default)]
pub(super) struct Responses {
    items: Vec<Value>,
}

impl Responses {
    fn added(&self, item: &Value) -> Value {
        json!({"type": "response.output_item.added", "output_index": self.items.len(), "item": item})
    }

    fn done(&mut self, item: Value) -> Value {
        self.items.push(item.clone());
        json!({"type": "response.output_item.done", "output_index": self.items.len() - 1, "item": item})
    }

    fn id(&self, kind: &str) -> String {
        format!("{kind}_{}", self.items.len())
    }
}

impl Voice for Responses {
    fn begin(&mut self) -> Vec<Value> {
        vec![
            json!({"type": "response.created", "response": {"id": "resp_scripted", "object": "response", "status": "in_progress"}}),
        ]
    }

    fn open_text(&mut self) -> Vec<Value> {
        let id = self.id("msg");
        vec![self.added(&json!({"type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": []}))]
    }

    fn text(&mut self, piece: &str) -> Value {
        json!({"type": "response.output_text.delta", "item_id": self.id("msg"), "output_index": self.items.len(), "content_index": 0,
            "delta": piece})
    }

    fn close_text(&mut self, whole: &str) -> Vec<Value> {
        let item = message(&self.id("msg"), whole);
        vec![self.done(item)]
    }

    fn thinking(&mut self, thought: &str) -> Vec<Value> {
        let (id, index) = (self.id("rs"), self.items.len());
        let place = |kind: &str, more: Value| {
            let mut event = json!({"type": format!("response.{kind}"), "item_id": id, "output_index": index, "summary_index": 0});
            event
                .as_object_mut()
                .expect("an object")
                .extend(more.as_object().expect("an object").clone());
            event
        };
        vec![
            self.added(&json!({"type": "reasoning", "id": id, "summary": []})),
            place(
                "reasoning_summary_part.added",
                json!({"part": {"type": "summary_text", "text": ""}}),
            ),
            place("reasoning_summary_text.delta", json!({"delta": thought})),
            place("reasoning_summary_text.done", json!({"text": thought})),
            self.done(reasoning(&id, thought)),
        ]
    }

    fn call(&mut self, id: &str, call: &Call) -> Vec<Value> {
        let item = tool_call(&self.id("fc"), id, call);
        vec![self.added(&item), self.done(item)]
    }

    fn end(&mut self, _calls_tools: bool) -> Vec<Value> {
        vec![json!({"type": "response.completed", "response": response(&self.items)})]
    }

    fn broken(&self, fault: &Fault) -> Value {
        let error = json!({"code": fault.kind, "message": fault.message});
        json!({"type": "response.failed", "response": {"id": "resp_scripted", "object": "response", "status": "failed", "error": error}})
    }

    fn whole(&self, parts: &[Part], _calls_tools: bool) -> Value {
        let items: Vec<Value> = parts
            .iter()
            .enumerate()
            .map(|(index, part)| match part {
                Part::Text(text) => message(&format!("msg_{index}"), text),
                Part::Thinking(thought) => reasoning(&format!("rs_{index}"), thought),
                Part::Call(id, call) => tool_call(&format!("fc_{index}"), id, call),
            })
            .collect();
        response(&items)
    }

    fn failure(&self, fault: &Fault) -> Value {
        json!({"error": {"message": fault.message, "type": fault.kind, "param": null, "code": null}})
    }
}

fn message(id: &str, text: &str) -> Value {
    let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
    json!({"type": "message", "id": id, "role": "assistant", "status": "completed", "content": content})
}

fn reasoning(id: &str, thought: &str) -> Value {
    json!({"type": "reasoning", "id": id, "summary": [{"type": "summary_text", "text": thought}], "encrypted_content": "c2NyaXB0ZWQ="})
}

fn tool_call(item: &str, id: &str, call: &Call) -> Value {
    match &call.input {
        Input::Json(input) => {
            let mut made = json!({"type": "function_call", "id": item, "call_id": id, "name": call.name, "arguments": input.to_string()});
            if let Some(namespace) = call.namespace {
                made["namespace"] = json!(namespace);
            }
            made
        }
        Input::Plain(text) => {
            json!({"type": "custom_tool_call", "id": item, "call_id": id, "name": call.name, "input": text})
        }
    }
}

fn response(items: &[Value]) -> Value {
    let usage = json!({"input_tokens": TOKENS_IN, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": TOKENS_OUT,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": TOKENS_IN + TOKENS_OUT});
    json!({"id": "resp_scripted", "object": "response", "status": "completed", "output": items, "usage": usage})
}
