//! The requests that reached the model, with the questions tests ask about them, whatever the API.

use std::collections::BTreeMap;

use axum::http::HeaderMap;
use serde_json::Value;

use super::Api;

/// One request for an answer.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// Headers, names in lower case, without the ones that carry keys.
    pub headers: BTreeMap<String, String>,
    /// Whether a key came with it.
    pub has_key: bool,
    /// The body as it came.
    pub body: Value,
    /// The API it came through.
    pub api: Api,
    asked: Asked,
}

/// The content of a request that all APIs can say.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) model: String,
    pub(super) streaming: bool,
    pub(super) system: String,
    pub(super) tools: Vec<String>,
    pub(super) said: Vec<Said>,
    pub(super) results: BTreeMap<String, String>,
    /// Asked by the agent for itself: a title, which model to take.
    pub(super) side: bool,
}

/// A text of the conversation.
#[derive(Clone, Debug)]
pub(super) struct Said {
    role: String,
    pub(super) text: String,
}

/// How texts begin that agents put among what people wrote.
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

/// The parts of a body that hold the conversation, over all APIs.
const CONVERSATION: &[&str] =
    &["messages", "system", "input", "instructions", "contents", "systemInstruction"];

impl ModelRequest {
    /// Reads a request and leaves its key behind.
    ///
    /// # Errors
    /// What is wrong with the body.
    pub(super) fn read(
        headers: &HeaderMap,
        body: &[u8],
        read: impl FnOnce(&Value) -> Result<(Api, Asked), String>,
    ) -> Result<Self, String> {
        let body: Value =
            serde_json::from_slice(body).map_err(|fault| format!("body is no JSON: {fault}"))?;
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

    /// Returns the model that was asked for.
    pub fn model(&self) -> &str {
        &self.asked.model
    }

    /// Returns whether the answer is to be streamed.
    pub fn streaming(&self) -> bool {
        self.asked.streaming
    }

    /// Returns the system prompt, its blocks joined by line breaks.
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

    /// Returns what people wrote: the texts of user messages, without what agents put among them.
    pub fn prompts(&self) -> Vec<&str> {
        let put_in =
            |text: &&str| REMINDERS.iter().any(|reminder| text.trim_start().starts_with(reminder));
        self.said_by("user").into_iter().filter(|text| !put_in(text)).collect()
    }

    /// Returns the results of tools, as text, by the id of their call.
    pub fn tool_results(&self) -> BTreeMap<&str, String> {
        self.asked.results.iter().map(|(id, text)| (id.as_str(), text.clone())).collect()
    }

    /// Returns whether this text stands in any message or in the system prompt.
    pub fn mentions(&self, text: &str) -> bool {
        CONVERSATION.iter().any(|part| contains(&self.body[part], text))
    }
}

impl Said {
    pub(super) fn new(role: &str, text: &str) -> Self {
        Self { role: role.to_owned(), text: text.to_owned() }
    }
}

/// A content is a string or a list of blocks.
pub(super) fn texts(content: &Value) -> Vec<&str> {
    match content {
        Value::String(text) => vec![text],
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        _ => Vec::new(),
    }
}

/// The items of a list, none where there is no list.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The `name` of each item of a list.
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
