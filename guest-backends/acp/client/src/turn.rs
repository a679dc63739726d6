//! One prompt until the agent is done with it, and what the agent says meanwhile
//! (`session/update`).

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

/// Updates that say nothing a turn needs: they change what is known of the session, repeat people's
/// words, or are for editors.
const IGNORED: [&str; 3] =
    ["available_commands_update", "config_option_update", "user_message_chunk"];

/// A turn from its prompt to its end, with the answer so far.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) key: TurnRef,
    mode: Mode,
    safety: Safety,
    /// A person agreed to the plan: what it needs is asked for from then on.
    pub(crate) agreed: bool,
    /// Something was refused because it only plans.
    pub(crate) held_back: bool,
    /// Settings that were applied, or tried in vain.
    pub(crate) applied: Vec<What>,
    /// Prompts the agent has not answered; the turn ends with the last.
    pub(crate) prompts: u32,
    /// The agent was asked to stop.
    pub(crate) stopping: bool,
    answer: Answer,
    tools: BTreeMap<String, Tool>,
    spent: Option<Spent>,
    /// codex-acp 2.6.0 tells an error of the model as text of the answer, and the end as a good
    /// one.
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
            spent: None,
            broken: false,
        }
    }

    /// Whether the agent works on it, and is to.
    pub(crate) fn runs(&self) -> bool {
        self.prompts > 0 && !self.stopping
    }

    /// Whether nobody need be asked about anything.
    pub(crate) fn may_everything(&self) -> bool {
        self.mode == Mode::Build && self.safety == Safety::Danger
    }

    /// Whether nobody need be asked about edits in its folder.
    pub(crate) fn may_edit(&self) -> bool {
        self.mode == Mode::Build && self.safety != Safety::Default
    }

    /// Whether what changes something is to be refused, whoever would allow it.
    pub(crate) fn only_looks(&self) -> bool {
        self.mode == Mode::Plan && !self.agreed
    }

    /// Takes in what the agent says in its session.
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

    /// Takes in what is said of a tool's use, also where that is only a request to be permitted
    /// (Gemini CLI 0.61.0), and returns it.
    pub(crate) fn learn(&mut self, id: &str, told: &Value, emit: &mut Emit) -> &Tool {
        let fresh = !self.tools.contains_key(id);
        let tool = self.tools.entry(id.to_owned()).or_insert_with(|| Tool::new(id));
        if !tool.ended && (tool.learn(told) || fresh) {
            emit.tool_start(tool.start.clone());
        }
        if fresh {
            self.answer.tool();
        }
        tool
    }

    /// Whether it was stopped in a command that the agent told no end of.
    pub(crate) fn leaves_a_command(&self) -> bool {
        self.stopping
            && self
                .tools
                .values()
                .any(|tool| tool.start.kind == "bash" && tool.runs && !tool.ended && !tool.denied)
    }

    /// A person refused a tool's use. Whether the agent says so, too, depends on the agent.
    pub(crate) fn used(&self, id: &str) -> Option<&Tool> {
        self.tools.get(id)
    }

    pub(crate) fn denied(&mut self, id: &str) {
        if let Some(tool) = self.tools.get_mut(id) {
            tool.denied = true;
        }
    }

    /// A prompt was answered; returns how the turn ends if it was the last.
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

    /// Ends the turn: how, the whole answer where it is told, and tokens.
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
            // What an agent that was to stop calls a failure is what was asked of it.
            Outcome::Failed(_) | Outcome::Lost(_) if self.stopping => Outcome::Interrupted,
            // Some end their turn when something is refused (codex-acp 2.6.0): nobody stopped it.
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

/// An image, a sound, a resource or the address of one, as part of the answer.
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
    fn what_is_no_text_of_an_answer_is_handed_on_where_there_is_something_of_it() {
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
            "a place on this machine is no address"
        );
    }
}
