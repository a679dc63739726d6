//! A turn from its prompt to its end, with the updates of its session (`session/update`).

use std::collections::BTreeMap;

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{
    Artifact, ArtifactBody, EventKind, Failure, FailureKind, Mode, Outcome, PlanEntry, PlanStatus,
    Safety, StartTurn, ToolEnd, ToolStatus, TurnRef,
};
use aetheel_backend_sdk::{Emit, TurnResult};

use crate::agent::Agent;
use crate::answer::{Answer, Holds};
use crate::config::What;
use crate::failure;
use crate::spent::{Meter, Spent};
use crate::tool::Tool;

/// Updates that are not relevant for a turn: changes of the session's state, repeated user
/// messages, and information for editors.
const IGNORED: [&str; 3] =
    ["available_commands_update", "config_option_update", "user_message_chunk"];

/// A turn and its partial answer.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) key: TurnRef,
    mode: Mode,
    safety: Safety,
    /// Whether a user approved the plan. From then on its actions need permissions as usual.
    pub(crate) agreed: bool,
    /// Whether something was refused because the turn must only plan.
    pub(crate) held_back: bool,
    /// Settings that were applied, or that the agent refused.
    pub(crate) applied: Vec<What>,
    /// The number of unanswered prompts. The turn ends with the answer to the last one.
    pub(crate) prompts: u32,
    /// Whether the agent was asked to stop.
    pub(crate) stopping: bool,
    answer: Answer,
    tools: BTreeMap<String, Tool>,
    /// Names of the tools of the host that the agent may call.
    pub(crate) host_tools: Vec<String>,
    spent: Option<Spent>,
    /// Whether the thread failed. codex-acp 2.6.0 reports an error of the model as text of the
    /// answer, and a normal end.
    broken: bool,
}

impl Turn {
    pub(crate) fn new(start: &StartTurn) -> Self {
        Self {
            key: TurnRef { session: start.session, turn: start.turn },
            mode: start.settings.mode,
            safety: start.settings.safety,
            agreed: false,
            held_back: false,
            applied: Vec::new(),
            prompts: 0,
            stopping: false,
            answer: Answer::default(),
            tools: BTreeMap::new(),
            host_tools: start.tools.iter().map(|tool| tool.name.clone()).collect(),
            spent: None,
            broken: false,
        }
    }

    /// Returns whether the agent works on the turn and was not asked to stop.
    pub(crate) fn runs(&self) -> bool {
        self.prompts > 0 && !self.stopping
    }

    /// Returns whether all actions are allowed without asking.
    pub(crate) fn may_everything(&self) -> bool {
        self.mode == Mode::Build && self.safety == Safety::Danger
    }

    /// Returns whether edits in the working directory are allowed without asking.
    pub(crate) fn may_edit(&self) -> bool {
        self.mode == Mode::Build && self.safety != Safety::Default
    }

    /// Returns whether all changes are refused without asking.
    pub(crate) fn only_looks(&self) -> bool {
        self.mode == Mode::Plan && !self.agreed
    }

    /// Handles an update of the turn's session.
    pub(crate) fn update(
        &mut self,
        at_ms: f64,
        update: &Value,
        agent: &impl Agent,
        emit: &mut Emit,
    ) {
        match update.text("sessionUpdate") {
            Some("agent_message_chunk") => self.chunk(at_ms, Holds::Text, update, agent, emit),
            Some("agent_thought_chunk") => self.chunk(at_ms, Holds::Thinking, update, agent, emit),
            Some("tool_call" | "tool_call_update") => match update.text("toolCallId") {
                Some(id) => self.tool(id, update, emit),
                None => emit.unrecognised(
                    "tool use without an id",
                    Some("update.toolCallId".to_owned()),
                    &update.to_string(),
                ),
            },
            Some("plan") => {
                let entries = emit.required_list(update, "update.entries", update);
                for entry in entries {
                    emit.required_text(entry, "update.entries[].content", update);
                }
                emit.plan(entries.iter().map(plan_entry).collect());
            }
            Some("current_mode_update") => {
                if let Some(mode) = update.text("currentModeId") {
                    emit.event(EventKind::Mode(mode.to_owned()));
                }
            }
            Some("session_info_update") => {
                if let Some(title) = update.text("title") {
                    emit.event(EventKind::Title(title.to_owned()));
                }
                self.broken |=
                    update["_meta"]["codex"]["threadStatus"].text("type") == Some("systemError");
            }
            Some("usage_update") => {}
            Some(kind) if IGNORED.contains(&kind) => {}
            Some(kind) => emit.unrecognised(
                format!("session update {kind:?}"),
                Some("update.sessionUpdate".to_owned()),
                &update.to_string(),
            ),
            None => emit.unrecognised(
                "session update without a kind",
                Some("update.sessionUpdate".to_owned()),
                &update.to_string(),
            ),
        }
    }

    fn chunk(
        &mut self,
        at_ms: f64,
        holds: Holds,
        update: &Value,
        agent: &impl Agent,
        emit: &mut Emit,
    ) {
        let content = &update["content"];
        match content.text("type") {
            Some("text") => {
                let text = emit.required_text(content, "update.content.text", update);
                match agent.aside(text) {
                    Some(event) => emit.event(event),
                    None => {
                        if let Some(pause) = agent.retry_pause_ms().filter(|_| holds == Holds::Text)
                        {
                            self.answer.again(at_ms, pause, text, emit);
                        }
                        self.answer.more(holds, update.text("messageId"), text, emit);
                    }
                }
            }
            Some("image" | "audio" | "resource" | "resource_link")
                if holds == Holds::Text && artifact(content).is_some() =>
            {
                artifact(content)
                    .into_iter()
                    .for_each(|artifact| emit.event(EventKind::Artifact(artifact)));
            }
            Some(kind @ ("image" | "audio" | "resource" | "resource_link")) => {
                let name = content
                    .text("name")
                    .or_else(|| content.text("uri"))
                    .or_else(|| content["resource"].text("uri"));
                emit.notice(format!("the agent sent {kind} {}", name.unwrap_or("without a name")));
            }
            kind => {
                let what = format!("content block {:?}", kind.unwrap_or_default());
                emit.unrecognised(
                    what,
                    Some("update.content.type".to_owned()),
                    &update.to_string(),
                );
            }
        }
    }

    fn tool(&mut self, id: &str, update: &Value, emit: &mut Emit) {
        self.learn(id, update, emit);
        let stopping = self.stopping;
        let Some(tool) = self.tools.get_mut(id).filter(|tool| !tool.ended) else { return };
        tool.run(update, emit);
        if let Some(end) = tool.end(update, stopping) {
            emit.tool_end(end);
        }
    }

    /// Updates a tool use from an update or a permission request, and returns it. Gemini CLI 0.61.0
    /// announces some uses only with the request.
    pub(crate) fn learn(&mut self, id: &str, update: &Value, emit: &mut Emit) -> &Tool {
        let fresh = !self.tools.contains_key(id);
        let tool = self.tools.entry(id.to_owned()).or_insert_with(|| Tool::new(id));
        if !tool.ended && (tool.learn(update) || fresh) {
            emit.tool_start(tool.start.clone());
        }
        if fresh {
            self.answer.tool();
        }
        tool
    }

    /// Returns whether the turn was interrupted during a command whose end the agent did not
    /// report.
    pub(crate) fn leaves_a_command(&self) -> bool {
        self.stopping
            && self
                .tools
                .values()
                .any(|tool| tool.start.kind == "bash" && tool.runs && !tool.ended && !tool.denied)
    }

    pub(crate) fn used(&self, id: &str) -> Option<&Tool> {
        self.tools.get(id)
    }

    /// Marks a tool use as refused by the user. Not every agent reports its end.
    pub(crate) fn denied(&mut self, id: &str) {
        if let Some(tool) = self.tools.get_mut(id) {
            tool.denied = true;
        }
    }

    /// Handles the answer to a prompt. Returns the outcome of the turn if it was the last prompt.
    pub(crate) fn answered(
        &mut self,
        answer: Result<&Value, &Value>,
        emit: &mut Emit,
    ) -> Option<Outcome> {
        self.prompts = self.prompts.saturating_sub(1);
        let outcome = match answer {
            Ok(result) => {
                if let Some(spent) = Spent::of(result) {
                    self.spent = Some(self.spent.map_or(spent, |before| before.plus(spent)));
                }
                stopped(result, emit)
            }
            Err(error) => Outcome::Failed(failure::failure(error)),
        };
        (self.prompts == 0).then_some(outcome)
    }

    /// Ends the turn and returns its result, including the final answer and the usage.
    pub(crate) fn end(mut self, outcome: Outcome, meter: Meter, emit: &mut Emit) -> TurnResult {
        for (id, _) in self.tools.iter().filter(|(_, tool)| tool.denied && !tool.ended) {
            emit.tool_end(ToolEnd {
                id: id.clone(),
                status: ToolStatus::Denied,
                output: None,
                exit_code: None,
                diffs: Vec::new(),
            });
        }
        let text = self.answer.finish();
        let outcome = match outcome {
            // An agent that was asked to stop may report the interruption as a failure.
            Outcome::Failed(_) | Outcome::Lost(_) if self.stopping => Outcome::Interrupted,
            // Some agents end their turn when a permission is refused (codex-acp 2.6.0). Such a
            // turn was not interrupted.
            Outcome::Interrupted if self.held_back && !self.stopping => Outcome::Completed,
            Outcome::Completed if self.broken => {
                let message = failure::words(
                    text.as_deref().unwrap_or("the agent's connection to the model failed"),
                );
                Outcome::Failed(Failure {
                    kind: failure::kind_of(text.as_deref().unwrap_or_default()),
                    message,
                    retry_after_ms: None,
                })
            }
            outcome => outcome,
        };
        let text = text.filter(|_| outcome == Outcome::Completed);
        TurnResult { outcome, text, usage: meter.usage(self.spent) }
    }
}

fn stopped(result: &Value, emit: &mut Emit) -> Outcome {
    match result.text("stopReason") {
        Some("end_turn") => Outcome::Completed,
        Some("cancelled") => Outcome::Interrupted,
        Some("max_tokens") => {
            Outcome::Limit("the answer reached the model's limit of tokens".to_owned())
        }
        Some("max_turn_requests") => {
            Outcome::Limit("the turn reached the agent's limit of model requests".to_owned())
        }
        Some("refusal") => {
            let message = "the model declined to answer".to_owned();
            Outcome::Failed(Failure { kind: FailureKind::Refused, message, retry_after_ms: None })
        }
        reason => {
            let what = format!("stop reason {:?}", reason.unwrap_or_default());
            emit.unrecognised(what, Some("result.stopReason".to_owned()), &result.to_string());
            Outcome::Completed
        }
    }
}

fn plan_entry(entry: &Value) -> PlanEntry {
    let status = match entry.text("status") {
        Some("in_progress") => PlanStatus::Active,
        Some("completed") => PlanStatus::Done,
        _ => PlanStatus::Pending,
    };
    PlanEntry { text: entry.text("content").unwrap_or_default().to_owned(), status }
}

/// Converts an image, an audio, a resource or a link to one into an artifact.
fn artifact(content: &Value) -> Option<Artifact> {
    let inner =
        if content.text("type") == Some("resource") { &content["resource"] } else { content };
    let address =
        inner.text("uri").filter(|uri| uri.starts_with("https://") || uri.starts_with("http://"));
    let body = match (inner.text("data").or_else(|| inner.text("blob")), inner.text("text")) {
        (Some(bytes), _) => ArtifactBody::Base64(bytes.to_owned()),
        (None, Some(text)) => ArtifactBody::Text(text.to_owned()),
        (None, None) => ArtifactBody::Link(address?.to_owned()),
    };
    let name = inner
        .text("title")
        .or_else(|| inner.text("name"))
        .or_else(|| inner.text("uri")?.rsplit('/').next());
    Some(Artifact {
        name: name.filter(|name| !name.is_empty()).map(str::to_owned),
        media_type: inner.string("mimeType"),
        body,
        tool: None,
    })
}

#[cfg(test)]
mod tests {
    use aetheel_backend_sdk::json;

    use super::*;

    #[test]
    fn images_resources_and_links_become_artifacts() {
        let of = |text: &str| {
            artifact(&json::parse(text).expect("JSON"))
                .map(|artifact| (artifact.name, artifact.media_type, artifact.body))
        };
        assert_eq!(
            of(r#"{"type":"image","mimeType":"image/png","data":"aGk="}"#),
            Some((None, "image/png".to_owned(), ArtifactBody::Base64("aGk=".to_owned())))
        );
        assert_eq!(
            of(
                r#"{"type":"resource","resource":{"uri":"file:///a/b.txt","mimeType":"text/plain","text":"hi"}}"#
            ),
            Some((
                Some("b.txt".to_owned()),
                "text/plain".to_owned(),
                ArtifactBody::Text("hi".to_owned())
            ))
        );
        let link = of(r#"{"type":"resource_link","uri":"https://example.com/x","name":"X"}"#);
        assert_eq!(
            link,
            Some((
                Some("X".to_owned()),
                String::new(),
                ArtifactBody::Link("https://example.com/x".to_owned())
            ))
        );
        assert_eq!(
            of(r#"{"type":"resource_link","uri":"file:///etc/passwd","name":"X"}"#),
            None,
            "a path on this machine is not a public address"
        );
    }
}
