//! The requests that reached the model, with queries for tests that are independent of the API.

use std::collections::BTreeMap;

use axum::http::HeaderMap;
use serde_json::Value;

use super::Api;

/// A request for a reply.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// Headers with names in lower case, without those that contain keys.
    pub headers: BTreeMap<String, String>,
    /// Whether the request had a key.
    pub has_key: bool,
    /// The body, unchanged.
    pub body: Value,
    /// The API of the request.
    pub api: Api,
    asked: Asked,
}

/// The content of a request, independent of the API.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) model: String,
    pub(super) streaming: bool,
    pub(super) system: String,
    pub(super) tools: Vec<String>,
    pub(super) said: Vec<Said>,
    pub(super) results: BTreeMap<String, String>,
    /// Whether the agent makes the request for its own purposes: a title, or the choice of a model.
    pub(super) side: bool,
}

/// A text of the conversation.
#[derive(Clone, Debug)]
pub(super) struct Said {
    role: String,
    pub(super) text: String,
}

/// Beginnings of texts that agents add to user messages.
const REMINDERS: &[&str] = &[
    "<system-reminder>",
    // Codex, first message of a thread.
    "<environment_context>",
    "# AGENTS.md instructions",
    "<user_instructions>",
    "<turn_aborted>",
    "<permissions instructions>",
    "<model_switch>",
    // Gemini, first message of a session.
    "<session_context>",
    "This is the Gemini CLI.",
];

/// The fields of a body that contain the conversation, for all APIs.
const CONVERSATION: &[&str] =
    &["messages", "system", "input", "instructions", "contents", "systemInstruction"];

impl ModelRequest {
    /// Parses a request and drops its key.
    ///
    /// Returns the reason if the body is malformed.
    pub(super) fn read(
        headers: &HeaderMap,
        body: &[u8],
        read: impl FnOnce(&Value) -> Result<(Api, Asked), String>,
    ) -> Result<Self, String> {
        let body: Value =
            serde_json::from_slice(body).map_err(|fault| format!("body is not JSON: {fault}"))?;
        let (api, asked) = read(&body)?;
        let mut headers: BTreeMap<String, String> = headers
            .iter()
            .map(|(name, value)| {
                (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
            })
            .collect();
        let keys =
            ["x-api-key", "authorization", "x-goog-api-key"].map(|name| headers.remove(name));
        Ok(Self { headers, has_key: keys.iter().any(Option::is_some), body, api, asked })
    }

    /// Returns the requested model.
    pub fn model(&self) -> &str {
        &self.asked.model
    }

    /// Returns whether the reply is to be streamed.
    pub fn streaming(&self) -> bool {
        self.asked.streaming
    }

    /// Returns the system prompt. Its blocks are joined by line breaks.
    pub fn system(&self) -> String {
        self.asked.system.clone()
    }

    /// Returns the names of the tools offered to the model.
    pub fn tools(&self) -> Vec<&str> {
        self.asked.tools.iter().map(String::as_str).collect()
    }

    pub(super) fn offered(&self) -> &[String] {
        &self.asked.tools
    }

    pub(super) fn is_side(&self) -> bool {
        self.asked.side
    }

    /// Returns the texts of all messages with this role (`user`, `assistant`), in order.
    pub fn said_by(&self, role: &str) -> Vec<&str> {
        self.asked
            .said
            .iter()
            .filter(|said| said.role == role)
            .map(|said| said.text.as_str())
            .collect()
    }

    /// Returns the texts of user messages, without those that agents add.
    pub fn prompts(&self) -> Vec<&str> {
        let put_in =
            |text: &&str| REMINDERS.iter().any(|reminder| text.trim_start().starts_with(reminder));
        self.said_by("user").into_iter().filter(|text| !put_in(text)).collect()
    }

    /// Returns the results of tools as text, by the id of the call.
    pub fn tool_results(&self) -> BTreeMap<&str, String> {
        self.asked.results.iter().map(|(id, text)| (id.as_str(), text.clone())).collect()
    }

    /// Returns whether any message or the system prompt contains this text.
    pub fn mentions(&self, text: &str) -> bool {
        CONVERSATION.iter().any(|part| contains(&self.body[part], text))
    }
}

impl Said {
    pub(super) fn new(role: &str, text: &str) -> Self {
        Self { role: role.to_owned(), text: text.to_owned() }
    }
}

/// Returns the texts of a content, which is a string or a list of blocks.
pub(super) fn texts(content: &Value) -> Vec<&str> {
    match content {
        Value::String(text) => vec![text],
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        _ => Vec::new(),
    }
}

/// Returns the items of a list, or nothing for other values.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the `name` of each item of a list.
pub(super) fn names(value: &Value) -> Vec<String> {
    list(value).iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect()
}

fn contains(value: &Value, text: &str) -> bool {
    match value {
        Value::String(found) => found.contains(text),
        Value::Array(items) => items.iter().any(|item| contains(item, text)),
        Value::Object(fields) => fields.values().any(|field| contains(field, text)),
        _ => false,
    }
}
