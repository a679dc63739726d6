//! The content of messages: in pieces while the model writes (`stream_event`), and whole
//! (`assistant`, `user`).

use aetheel_backend_sdk::Emit;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::ToolStatus;

use super::Claude;
use crate::answer::Holds;
use crate::tool;

/// Tools that use additional tokens.
const ASKS_A_MODEL: [&str; 5] = ["Agent", "Task", "Skill", "WebFetch", "WebSearch"];
/// Printed by Claude Code in place of an answer without text.
const NO_CONTENT: &str = "(no content)";

impl Claude {
    pub(super) fn stream(&mut self, event: &Value, raw: &str, emit: &mut Emit) {
        let index = || event.count("index").unwrap_or_default();
        match event.text("type") {
            Some("message_start") => {
                let message = &event["message"];
                self.answer.begin(message.text("id"), emit);
                self.spent.begin(message.get("usage"));
            }
            Some("content_block_start") => {
                self.block_start(index(), &event["content_block"], raw, emit)
            }
            Some("content_block_delta") => self.delta(index(), &event["delta"], raw, emit),
            Some("message_delta") => {
                if event["delta"].text("stop_reason").is_some() {
                    self.answer.complete();
                }
                if let Some(usage) = event.get("usage") {
                    emit.usage(self.spent.end(usage));
                }
            }
            Some("message_stop") => self.answer.complete(),
            Some("content_block_stop" | "ping") => {}
            Some(kind) => emit.unrecognised(
                format!("stream event {kind:?}"),
                Some("event.type".to_owned()),
                raw,
            ),
            None => {
                emit.unrecognised("stream event without a type", Some("event.type".to_owned()), raw)
            }
        }
    }

    fn block_start(&mut self, index: u32, block: &Value, raw: &str, emit: &mut Emit) {
        match block.text("type") {
            Some("text") => {
                self.answer.open(index, Holds::Text, block.text("text").unwrap_or_default(), emit)
            }
            Some("thinking") => self.answer.open(
                index,
                Holds::Thinking,
                block.text("thinking").unwrap_or_default(),
                emit,
            ),
            Some("redacted_thinking") => {}
            Some("tool_use") => {
                let id = emit.required_id(block, "event.content_block.id", raw);
                let name = emit.required_id(block, "event.content_block.name", raw);
                self.answer.open(index, Holds::Tool(id.to_owned()), "", emit);
                // The model is still writing the input, which takes long for large files.
                emit.tool_start(tool::start(id, name, None, &Value::Null));
            }
            kind => emit.unrecognised(
                format!("content block {:?}", kind.unwrap_or_default()),
                Some("event.content_block.type".to_owned()),
                raw,
            ),
        }
    }

    fn delta(&mut self, index: u32, delta: &Value, raw: &str, emit: &mut Emit) {
        let known = match delta.text("type") {
            Some("text_delta") => {
                let text = emit.required_text(delta, "event.delta.text", raw);
                self.answer.more(index, text, emit)
            }
            Some("thinking_delta") => {
                let text = emit.required_text(delta, "event.delta.thinking", raw);
                self.answer.more(index, text, emit)
            }
            Some("citations_delta" | "input_json_delta" | "signature_delta") => true,
            kind => {
                let what = format!("content block delta {:?}", kind.unwrap_or_default());
                emit.unrecognised(what, Some("event.delta.type".to_owned()), raw);
                true
            }
        };
        if !known {
            emit.unrecognised(
                "content block delta without a block",
                Some("event.index".to_owned()),
                raw,
            );
        }
    }

    pub(super) fn assistant(
        &mut self,
        line: &Value,
        parent: Option<&str>,
        raw: &str,
        emit: &mut Emit,
    ) {
        let message = &line["message"];
        let synthetic = message.text("model") == Some("<synthetic>");
        if let Some(error) = line.text("error") {
            self.error = Some(error.to_owned());
            if synthetic {
                // Claude Code's own text about the error, which the `result` repeats.
                return;
            }
        }
        let id = message.text("id");
        let content = emit.required_list(message, "message.content", raw);
        for (at, block) in content.iter().enumerate() {
            let text = match block.text("type") {
                Some("text") => emit.required_text(block, "message.content[].text", raw),
                Some("thinking") => emit.required_text(block, "message.content[].thinking", raw),
                _ => "",
            };
            match (block.text("type"), parent) {
                (Some("text"), None) if synthetic => match text {
                    NO_CONTENT | "" => {}
                    text => self.answer.aside(text, emit),
                },
                (Some("text"), None) => self.answer.whole(id, Holds::Text, text, emit),
                (Some("text"), Some(parent)) => emit.text_of(parent, 0, text),
                (Some("thinking"), None) => self.answer.whole(id, Holds::Thinking, text, emit),
                (Some("thinking"), Some(_)) | (Some("redacted_thinking"), _) => {}
                (Some("tool_use"), _) => {
                    let tool = emit.required_id(block, "message.content[].id", raw);
                    let name = emit.required_id(block, "message.content[].name", raw);
                    let input = &block["input"];
                    self.aside |= parent.is_some() || ASKS_A_MODEL.contains(&name);
                    if parent.is_none() {
                        self.answer.whole(id, Holds::Tool(tool.to_owned()), "", emit);
                    }
                    emit.tool_start(tool::start(tool, name, parent, input));
                    if parent.is_none()
                        && let Some(plan) = self.todo.used(tool, name, input)
                    {
                        emit.plan(plan);
                    }
                }
                (kind, _) => unknown_block(kind, format!("message.content[{at}].type"), raw, emit),
            }
        }
    }

    pub(super) fn user(&mut self, line: &Value, raw: &str, emit: &mut Emit) {
        let content = &line["message"]["content"];
        // Prompts of users are plain text.
        if content.as_str().is_none() {
            emit.required_list(&line["message"], "message.content", raw);
        }
        let blocks = content.as_array().unwrap_or_default();
        // This field has details of a single result. With several results, it is unknown which one
        // it describes.
        let results =
            blocks.iter().filter(|block| block.text("type") == Some("tool_result")).count();
        let details = if results == 1 { &line["tool_use_result"] } else { &Value::Null };
        for (at, block) in blocks.iter().enumerate() {
            match block.text("type") {
                // Prompts, and texts of Claude Code for the model.
                Some("text" | "image" | "document") => {}
                Some("tool_result") => {
                    let id = emit.required_id(block, "message.content[].tool_use_id", raw);
                    let output = tool_output(
                        &block["content"],
                        &format!("message.content[{at}].content"),
                        raw,
                        emit,
                    );
                    let mut end = tool::end(id, block, output, details);
                    if end.status != ToolStatus::Ok
                        && self.refused.iter().any(|refused| refused == id)
                    {
                        end.status = ToolStatus::Denied;
                    }
                    if matches!(end.status, ToolStatus::Denied | ToolStatus::Cancelled) {
                        self.stopped.push(id.to_owned());
                    }
                    let ok = end.status == ToolStatus::Ok;
                    emit.tool_end(end);
                    if let Some(plan) = self.todo.ended(id, ok, details) {
                        emit.plan(plan);
                    }
                }
                kind => unknown_block(kind, format!("message.content[{at}].type"), raw, emit),
            }
        }
    }
}

fn unknown_block(kind: Option<&str>, path: String, raw: &str, emit: &mut Emit) {
    emit.unrecognised(format!("content block {:?}", kind.unwrap_or_default()), Some(path), raw);
}

/// Returns the text of a tool's result; other content is named in its place.
fn tool_output(content: &Value, path: &str, raw: &str, emit: &mut Emit) -> String {
    let Some(blocks) = content.as_array() else {
        return content.as_str().unwrap_or_default().to_owned();
    };
    let mut texts = Vec::new();
    for (at, block) in blocks.iter().enumerate() {
        match block.text("type") {
            Some("text") => texts.push(
                emit.required_text(block, "message.content[].content[].text", raw).to_owned(),
            ),
            Some(kind @ ("document" | "image" | "tool_reference")) => {
                texts.push(format!("[{kind}]"))
            }
            kind => unknown_block(kind, format!("{path}[{at}].type"), raw, emit),
        }
    }
    texts.join("\n")
}
