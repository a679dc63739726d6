//! Handles Droid's notifications (`droid.session_notification`).

use aetheel_backend_sdk::json::Value as Json;
use aetheel_backend_sdk::live::LinkContext;
use aetheel_backend_sdk::wit::{EventKind, Level, SteerOutcome};

use super::Droid;
use crate::answer::Holds;
use crate::{failure, tool};

impl Droid {
    pub(super) fn notified(&mut self, params: &Json, raw: &str, context: &mut LinkContext) {
        let note = &params["notification"];
        let text = |key| note.text(key).unwrap_or_default();
        // Sub-agents have their own sessions. Their results are reported by the tool.
        if let (Some(of), Some(native)) = (params.text("sessionId"), self.native.as_deref())
            && of != native
        {
            return;
        }
        match text("type") {
            "settings_updated" => return self.settings_updated(&note["settings"], context),
            "permission_resolved" => return self.resolved(text("requestId"), context),
            _ => {}
        }
        // Notifications without a turn belong to Droid's own activity or to an earlier turn.
        let Some(turn) = &mut self.turn else { return };
        let mut emit = context.emit(turn.key);
        match text("type") {
            "assistant_text_delta" | "thinking_text_delta" => {
                turn.reacted = true;
                let holds = if text("type") == "assistant_text_delta" {
                    Holds::Text
                } else {
                    Holds::Thinking
                };
                let index = note.count("blockIndex").unwrap_or_default();
                let message = emit.required_id(note, "params.notification.messageId", raw);
                let said = emit.required_text(note, "params.notification.textDelta", raw);
                turn.answer.more(message, index, holds, said, &mut emit);
            }
            "create_message" => self.message(note, raw, context),
            "assistant_message_retracted" => {
                turn.answer.retract(text("messageId"), &mut emit);
                for id in std::mem::take(&mut turn.announced) {
                    turn.tool_end(
                        &id,
                        true,
                        "Tool execution cancelled: asked again".to_owned(),
                        &mut emit,
                    );
                }
            }
            "tool_call" => {
                turn.reacted = true;
                let used = &note["toolUse"];
                let id = emit.required_id(used, "params.notification.toolUse.id", raw);
                emit.required_id(used, "params.notification.toolUse.name", raw);
                turn.announced.push(id.to_owned());
                turn.tool_start(used, &mut emit);
            }
            "tool_result" => {
                let id = emit.required_id(note, "params.notification.toolUseId", raw);
                let output = tool::text(&note["content"]);
                turn.tool_end(id, note.is_true("isError"), output, &mut emit);
            }
            "tool_progress_update" => turn.progress(text("toolUseId"), &note["update"], &mut emit),
            "llm_retry" => {
                turn.reacted = true;
                let reason = text("reason");
                let attempt = note.count("attempt").unwrap_or_default();
                emit.retry(
                    failure::of_retry(reason),
                    format!("{} (attempt {attempt})", reason.replace('_', " ")),
                    None,
                );
            }
            "error" => {
                turn.reacted = true;
                let said = emit.required_text(note, "params.notification.message", raw);
                turn.error = Some(said.to_owned());
            }
            "session_title_updated" => emit.event(EventKind::Title(text("title").to_owned())),
            "session_compacted" => emit.compaction(true, None, None),
            // Sent again with another address after a while.
            "mcp_auth_required" => {
                let server = text("serverName");
                let words = format!("the MCP server {server} wants a sign-in: {}", text("authUrl"));
                emit.notice_with(Level::Warn, Some(&format!("mcp {server}")), words);
            }
            "queued_messages_discarded" => {
                if !turn.steers.is_empty() {
                    let message = turn.steers.remove(0);
                    context.steered(message, SteerOutcome::Dropped);
                    if turn.is_over() {
                        self.complete(context);
                    }
                }
            }
            "agent_turn_completed" => self.completed(note, raw, context),
            // These states are visible in other notifications, and token counts are reported at the
            // end of the turn.
            "droid_working_state_changed"
            | "assistant_text_complete"
            | "thinking_text_complete"
            | "tool_execution_phase_changed"
            | "tool_execution_heartbeat"
            | "session_token_usage_changed"
            | "session_working_directory_changed"
            | "structured_output"
            | "child_session_available"
            | "hook_execution_started"
            | "hook_execution_completed"
            | "loop_state_changed"
            | "mcp_status_changed"
            | "mcp_auth_completed" => {}
            kind => emit.unrecognised(
                format!("notification {kind:?}"),
                Some("params.notification.type".to_owned()),
                raw,
            ),
        }
    }

    /// Handles changed settings. Droid leaves its planning mode itself after a plan was approved.
    fn settings_updated(&mut self, settings: &Json, context: &mut LinkContext) {
        let (Some(put), Some(mode)) = (&mut self.put, settings.text("interactionMode")) else {
            return;
        };
        if put.mode == mode {
            return;
        }
        mode.clone_into(&mut put.mode);
        if let Some(turn) = &self.turn {
            let mode = if mode == "spec" { "plan" } else { "build" };
            context.emit(turn.key).event(EventKind::Mode(mode.to_owned()));
        }
    }

    /// Handles a complete message of the model, of the user (an echo), or of Droid itself.
    fn message(&mut self, note: &Json, raw: &str, context: &mut LinkContext) {
        let Some(turn) = &mut self.turn else { return };
        let mut emit = context.emit(turn.key);
        let message = &note["message"];
        match (message.text("role"), message.text("visibility")) {
            (Some("user"), None) if note.text("requestId").is_some() => {
                turn.reacted = true;
                if std::mem::replace(&mut turn.echoed, true) && !turn.steers.is_empty() {
                    let message = turn.steers.remove(0);
                    turn.over = None;
                    context.steered(message, SteerOutcome::Injected);
                }
            }
            // Messages for the model only, and error texts that the notification `error` also
            // contains.
            (Some("user" | "system" | "tool"), _) => {}
            (Some("assistant"), _) => {
                turn.reacted = true;
                turn.announced.clear();
                let id = message.text("id").unwrap_or_default();
                let (mut said, mut asks_more) = (String::new(), false);
                let path = "params.notification.message.content";
                for (at, block) in emit.required_list(message, path, raw).iter().enumerate() {
                    let index = u32::try_from(at).unwrap_or(u32::MAX);
                    match block.text("type") {
                        Some("text") => {
                            let path = "params.notification.message.content[].text";
                            let text = emit.required_text(block, path, raw);
                            said.push_str(text);
                            turn.answer.whole(id, index, Holds::Text, text, &mut emit);
                        }
                        Some("thinking") => {
                            let path = "params.notification.message.content[].thinking";
                            let text = emit.required_text(block, path, raw);
                            turn.answer.whole(id, index, Holds::Thinking, text, &mut emit);
                        }
                        Some("redacted_thinking" | "image") => {}
                        Some("tool_use") => {
                            turn.tool_start(block, &mut emit);
                            asks_more = true;
                        }
                        kind => {
                            let path = format!("params.notification.message.content[{at}].type");
                            emit.unrecognised(
                                format!("content block {:?}", kind.unwrap_or_default()),
                                Some(path),
                                raw,
                            );
                        }
                    }
                }
                turn.answer.message(id, if asks_more { None } else { Some(said) }, &mut emit);
            }
            (role, _) => {
                let path = "params.notification.message.role".to_owned();
                emit.unrecognised(
                    format!("message of {:?}", role.unwrap_or_default()),
                    Some(path),
                    raw,
                );
            }
        }
    }
}
