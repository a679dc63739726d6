//! The turns of other agents in a lane, for the agent that continues the conversation.
//!
//! When people choose another backend, its agent does not know what was asked and done before. The
//! turns since its own last turn are quoted above the next prompt: the prompts, the answers, the
//! changed files, and of the last turn the tools and the plan. They come from `state/turns` and from the recordings. Turns
//! before the start of the other agent's conversation are left out, so that nothing returns that
//! people ended with `/reset`. `docs/discord.md` describes it.

use std::collections::BTreeSet;
use std::path::Path;

use crate::deps::DispatcherDeps;
use aetheel_model::agent::{PlanEntry, PlanStatus, ToolStatus};
use aetheel_model::event::{Event, Lane};
use aetheel_model::plain::{cut, short_line};
use aetheel_model::prompt::{self, Expansion};
use aetheel_recording::transcript::{self, BlockKind, TurnTranscript};
use aetheel_store::workspace::{TurnLine, TurnSearch};

/// The maximum number of turns that are quoted.
const MAX_TURNS: usize = 12;
/// The maximum number of changed files that are named for a turn.
const MAX_FILES: usize = 20;
/// The maximum number of tools that are named for the last turn, and of characters of a target.
const MAX_TOOLS: usize = 12;
const MAX_TARGET: usize = 80;
/// The maximum number of characters of a prompt, so that an answer fits beside it.
const MAX_PROMPT: usize = 600;

/// The turns of other agents, as they are quoted.
pub(crate) struct OtherAgents {
    /// The quotation, without secrets.
    pub(crate) text: String,
    /// The notice for people.
    pub(crate) notice: String,
}

impl OtherAgents {
    /// Returns the turns of other agents in the lane since the last turn of this backend.
    /// `is_new` states whether its agent begins a new conversation.
    pub(crate) async fn find(
        deps: &DispatcherDeps,
        event: &Event,
        backend: &str,
        is_new: bool,
        expansion: &Expansion,
    ) -> Option<Self> {
        if !deps.choices.recap_on_switch || !matches!(event.lane, Lane::Channel(_) | Lane::Console)
        {
            return None;
        }
        let lane = Some(event.lane.clone());
        let search = TurnSearch { lane, most: MAX_TURNS, ..TurnSearch::default() };
        let turns = deps.workspace.turns().search(search).await;
        let mut quoted = Vec::new();
        for line in turns {
            // The prompt of this turn, which another agent began before, follows anyway.
            if line.event == event.sequence {
                continue;
            }
            if line.backend == backend {
                // Its agent knows this turn and those before, unless it begins a new conversation.
                if is_new { continue } else { break }
            }
            if belongs_to_conversation(deps, &line).await {
                quoted.push(line);
            }
        }
        quoted.reverse();
        if !quoted.is_empty() {
            // The recording of an agent that still runs is written with a delay.
            let recorder = deps.recorder.clone();
            let _ = tokio::task::spawn_blocking(move || recorder.flush()).await;
        }
        let mut said = Vec::new();
        for (index, line) in quoted.iter().enumerate() {
            let author = line.name.clone().unwrap_or_else(|| "somebody".to_owned());
            let asked = cut(line.asked.as_deref()?, MAX_PROMPT).into_owned();
            said.push((Some(author), deps.redactor.redact(asked)));
            let answered = answer_of(deps, line, index + 1 == quoted.len()).await;
            said.push((Some(label_of(deps, &line.backend)), deps.redactor.redact(answered)));
        }
        let text = prompt::recap(&said, event.continues.is_some(), expansion)?;
        tracing::info!(turns = quoted.len(), "the agent is given the turns of other agents");
        let notice = format!(
            "{} has read what was asked and done here before with another agent.",
            label_of(deps, backend)
        );
        Some(Self { text, notice })
    }
}

/// Returns whether a turn belongs to the current conversation of its backend in the lane.
async fn belongs_to_conversation(deps: &DispatcherDeps, line: &TurnLine) -> bool {
    let workspace = &deps.workspace;
    let Some(session) = workspace.state.bindings.get(&line.lane, &line.backend).await.session
    else {
        return false;
    };
    let past = workspace.state.history.of(&line.lane, &line.backend).await;
    let began = past.into_iter().find(|past| past.session == session).map(|past| past.since);
    began.is_some_and(|began| line.ended >= began)
}

fn label_of(deps: &DispatcherDeps, backend: &str) -> String {
    let loaded = deps.backends.get(backend);
    loaded.map_or_else(|| backend.to_owned(), |found| found.descriptor().label().to_owned())
}

/// Returns the answer of a turn with the files that its agent changed and, for the last turn,
/// its plan.
async fn answer_of(deps: &DispatcherDeps, line: &TurnLine, is_last: bool) -> String {
    let mut text = line.answered.clone().unwrap_or_default();
    let Some(recording) = line.recording.as_deref().and_then(Path::to_str) else { return text };
    let folder = deps.recorder.folder();
    match transcript::read(folder, recording, &line.turn, &deps.redactor).await {
        Ok(turn) => {
            // Files come first, because long answers are cut.
            let mut facts = Vec::from_iter(tools(&turn).filter(|_| is_last));
            facts.extend(changed_files(&turn));
            facts.extend(plan(&turn).filter(|_| is_last));
            if !facts.is_empty() {
                text = format!("{}\n{text}", facts.join("\n"));
            }
        }
        Err(error) => {
            tracing::warn!(turn = line.turn, %error, "the changes of an earlier turn are not part of the recap");
        }
    }
    text
}

/// Returns the tools that ran, with their targets.
fn tools(turn: &TurnTranscript) -> Option<String> {
    let tools = turn.blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::Tool(tool) if tool.status != Some(ToolStatus::Denied) => Some(tool),
        _ => None,
    });
    let named = tools.map(|tool| {
        let what = tool.target.as_deref().unwrap_or(&tool.title);
        let end = match tool.status {
            Some(ToolStatus::Ok) => "",
            Some(_) => " [failed]",
            None => " [did not end]",
        };
        format!("{} `{}`{end}", tool.name, short_line(what, MAX_TARGET))
    });
    let mut named: Vec<String> = named.collect();
    let earlier = named.len().saturating_sub(MAX_TOOLS);
    if earlier > 0 {
        drop(named.drain(..earlier));
        named.insert(0, format!("{earlier} earlier"));
    }
    (!named.is_empty()).then(|| format!("(tools that ran: {})", named.join(", ")))
}

fn changed_files(turn: &TurnTranscript) -> Option<String> {
    let tools = turn.blocks.iter().filter_map(|block| match &block.kind {
        // Some agents name the changes of a tool that was declined.
        BlockKind::Tool(tool) if tool.status != Some(ToolStatus::Denied) => Some(tool),
        _ => None,
    });
    let paths: BTreeSet<&str> = tools
        .flat_map(|tool| {
            // Some agents report the file of a tool, but not its changes.
            let writes = matches!(tool.kind.as_str(), "file_write" | "file_edit");
            let is_done = writes && tool.status == Some(ToolStatus::Ok) && tool.diffs.is_empty();
            let target = tool.target.as_deref().filter(|_| is_done);
            tool.diffs.iter().map(|diff| diff.path.as_str()).chain(target)
        })
        .collect();
    let more = paths.len().saturating_sub(MAX_FILES);
    let mut names: Vec<String> =
        paths.into_iter().take(MAX_FILES).map(|path| format!("`{path}`")).collect();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    (!names.is_empty()).then(|| format!("(changed files: {})", names.join(", ")))
}

fn plan(turn: &TurnTranscript) -> Option<String> {
    let plan = turn.blocks.iter().rev().find_map(|block| match &block.kind {
        BlockKind::Plan(plan) => Some(plan),
        _ => None,
    })?;
    let entries = plan.iter().map(|PlanEntry { text, status }| {
        let word = match status {
            PlanStatus::Pending => "open",
            PlanStatus::Active => "in progress",
            PlanStatus::Done => "done",
        };
        format!("{text} [{word}]")
    });
    Some(format!("(plan: {})", entries.collect::<Vec<_>>().join("; ")))
}
