//! Google's generateContent and streamGenerateContent, as Gemini CLI 0.61.0 uses them.

use serde_json::{Value, json};

use super::intent::{Call, Input};
use super::reply::Fault;
use super::request::{Asked, Said, list};
use super::wire::{Part, TOKENS_IN, TOKENS_OUT, Voice};

/// Parses a request. `call` is the last segment of its path, such as
/// `gemini-2.5-flash:streamGenerateContent`.
pub(super) fn read(body: &Value, call: &str) -> Result<Asked, String> {
    let (model, method) = call.split_once(':').ok_or_else(|| format!("`{call}` has no method"))?;
    if body.get("contents").is_none() {
        return Err("body has no `contents`".to_owned());
    }
    let declared = list(&body["tools"]).iter().flat_map(|tool| list(&tool["functionDeclarations"]));
    let mut asked = Asked {
        model: model.to_owned(),
        streaming: method == "streamGenerateContent",
        system: parts(&body["systemInstruction"]).join("\n"),
        tools: declared.filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect(),
        ..Asked::default()
    };
    for content in list(&body["contents"]) {
        let role = if content["role"] == "model" { "assistant" } else { "user" };
        asked.said.extend(parts(content).into_iter().map(|text| Said::new(role, text)));
        for response in list(&content["parts"])
            .iter()
            .map(|part| &part["functionResponse"])
            .filter(|response| response.is_object())
        {
            let id = response["id"]
                .as_str()
                .or(response["name"].as_str())
                .unwrap_or_default()
                .to_owned();
            let output =
                response["response"]["output"].as_str().or(response["response"]["error"].as_str());
            asked
                .results
                .insert(id, output.map_or_else(|| response["response"].to_string(), str::to_owned));
        }
    }
    asked.side = asked.tools.is_empty();
    Ok(asked)
}

/// Returns the texts of a content, without thoughts.
fn parts(content: &Value) -> Vec<&str> {
    list(&content["parts"])
        .iter()
        .filter(|part| part["thought"] != true)
        .filter_map(|part| part["text"].as_str())
        .collect()
}

pub(super) struct Gemini {
    model: String,
}

impl Gemini {
    pub(super) fn new(model: &str) -> Self {
        Self { model: model.to_owned() }
    }

    fn content(&self, parts: &[Value], finish: Option<&str>) -> Value {
        let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
        if let Some(finish) = finish {
            candidate["finishReason"] = json!(finish);
        }
        json!({"candidates": [candidate], "modelVersion": self.model, "responseId": "scripted", "usageMetadata": {
            "promptTokenCount": TOKENS_IN, "candidatesTokenCount": TOKENS_OUT, "totalTokenCount": TOKENS_IN + TOKENS_OUT}})
    }
}

impl Voice for Gemini {
    fn begin(&mut self) -> Vec<Value> {
        vec![]
    }

    fn text(&mut self, piece: &str) -> Value {
        self.content(&[json!({"text": piece})], None)
    }

    fn thinking(&mut self, thought: &str) -> Vec<Value> {
        vec![self.content(&[thought_part(thought)], None)]
    }

    fn call(&mut self, id: &str, call: &Call) -> Vec<Value> {
        vec![self.content(&[call_part(id, call)], None)]
    }

    fn end(&mut self, _calls_tools: bool) -> Vec<Value> {
        vec![self.content(&[json!({"text": ""})], Some("STOP"))]
    }

    fn broken(&self, fault: &Fault) -> Value {
        self.failure(fault)
    }

    fn whole(&self, whole: &[Part], _calls_tools: bool) -> Value {
        let parts: Vec<Value> = whole
            .iter()
            .map(|part| match part {
                Part::Text(text) => json!({"text": text}),
                Part::Thinking(thought) => thought_part(thought),
                Part::Call(id, call) => call_part(id, call),
            })
            .collect();
        self.content(&parts, Some("STOP"))
    }

    fn failure(&self, fault: &Fault) -> Value {
        let status = match fault.status {
            400 => "INVALID_ARGUMENT",
            401 => "UNAUTHENTICATED",
            404 => "NOT_FOUND",
            429 => "RESOURCE_EXHAUSTED",
            503 => "UNAVAILABLE",
            _ => "INTERNAL",
        };
        json!({"error": {"code": fault.status, "message": fault.message, "status": status}})
    }
}

/// The CLI shows a thought's first line, if it is bold, as its subject.
fn thought_part(thought: &str) -> Value {
    json!({"text": thought, "thought": true})
}

fn call_part(id: &str, call: &Call) -> Value {
    match &call.input {
        Input::Json(input) => json!({"functionCall": {"id": id, "name": call.name, "args": input}}),
        Input::Plain(_) => {
            panic!("`{}` takes plain text, which this API has no tools for", call.name)
        }
    }
}
