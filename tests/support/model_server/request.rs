//! What reached the model, with the questions tests ask about it.

use std::collections::BTreeMap;

use axum::http::HeaderMap;
use serde_json::Value;

/// One request for a message.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// Headers, names in lower case, without the ones that carry keys.
    pub headers: BTreeMap<String, String>,
    /// Whether a key came with it.
    pub has_key: bool,
    /// The body as it came.
    pub body: Value,
}

impl ModelRequest {
    /// Reads a request and leaves its key behind.
    ///
    /// # Errors
    /// What is wrong with the body.
    pub fn read(headers: &HeaderMap, body: &[u8]) -> Result<Self, String> {
        let body: Value = serde_json::from_slice(body).map_err(|fault| format!("body is no JSON: {fault}"))?;
        for field in ["model", "messages", "max_tokens"] {
            if body.get(field).is_none() {
                return Err(format!("body has no `{field}`"));
            }
        }
        let mut headers: BTreeMap<String, String> =
            headers.iter().map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())).collect();
        let key = headers.remove("x-api-key");
        let bearer = headers.remove("authorization");
        Ok(Self { headers, has_key: key.or(bearer).is_some(), body })
    }

    /// Returns the model that was asked for.
    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// Returns whether the answer is to be streamed.
    pub fn streaming(&self) -> bool {
        self.body["stream"].as_bool().unwrap_or_default()
    }

    /// Returns the system prompt, its blocks joined by line breaks.
    pub fn system(&self) -> String {
        texts(&self.body["system"]).join("\n")
    }

    /// Returns the names of the tools offered to the model.
    pub fn tools(&self) -> Vec<&str> {
        let tools = self.body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
    }

    /// Returns the text blocks of all messages with this role, in order.
    pub fn said_by(&self, role: &str) -> Vec<&str> {
        self.messages().iter().filter(|message| message["role"] == role).flat_map(|message| texts(&message["content"])).collect()
    }

    /// Returns what people wrote: the text blocks of user messages, without the reminders the CLI puts among them.
    pub fn prompts(&self) -> Vec<&str> {
        self.said_by("user").into_iter().filter(|text| !text.trim_start().starts_with("<system-reminder>")).collect()
    }

    /// Returns the results of tools, as text, by the id of their call.
    pub fn tool_results(&self) -> BTreeMap<&str, String> {
        let blocks = self.messages().iter().filter_map(|message| message["content"].as_array()).flatten();
        blocks
            .filter(|block| block["type"] == "tool_result")
            .filter_map(|block| Some((block["tool_use_id"].as_str()?, texts(&block["content"]).join("\n"))))
            .collect()
    }

    /// Returns whether this text stands in any message or in the system prompt.
    pub fn mentions(&self, text: &str) -> bool {
        contains(&self.body["messages"], text) || contains(&self.body["system"], text)
    }

    fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default()
    }
}

/// A content is a string or a list of blocks.
fn texts(content: &Value) -> Vec<&str> {
    match content {
        Value::String(text) => vec![text],
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        _ => Vec::new(),
    }
}

fn contains(value: &Value, text: &str) -> bool {
    match value {
        Value::String(found) => found.contains(text),
        Value::Array(items) => items.iter().any(|item| contains(item, text)),
        Value::Object(fields) => fields.values().any(|field| contains(field, text)),
        _ => false,
    }
}
