//! The agent's questions in a transcript, with the decisions of policies and people.

use std::collections::HashMap;

use super::blocks::BoundedBlocks;
use crate::transcript::{AskBlock, BlockKind};
use aetheel_model::agent::{Ask, AskDecision, AskKey, AskKind, ToolRequest, ToolResult, TurnRef};
use aetheel_model::host_tool::{AskPeople, HostToolKind};

#[derive(Default)]
pub(super) struct AskBlocks {
    asks: HashMap<AskKey, usize>,
    /// The blocks of open calls of host tools that ask people.
    calls: HashMap<u32, usize>,
}

impl AskBlocks {
    pub(super) fn ask(&mut self, ask: Ask, blocks: &mut BoundedBlocks, at_ms: u64) {
        let key = ask.ask;
        // A key may be used again. An answer belongs to its latest use.
        if let Some(at) = blocks.push(at_ms, AskBlock::of(ask)) {
            self.asks.insert(key, at);
        }
    }

    pub(super) fn asked<'b>(
        &self,
        ask: AskKey,
        blocks: &'b mut BoundedBlocks,
    ) -> Option<&'b mut AskBlock> {
        blocks.asked(*self.asks.get(&ask)?)
    }

    /// Shows a call of a host tool that asks people. The agent reports its other calls by itself.
    pub(super) fn call(&mut self, request: &ToolRequest, blocks: &mut BoundedBlocks, at_ms: u64) {
        if let Some(ask) = ask_of(request)
            && let Some(at) = blocks.push(at_ms, AskBlock::of(ask))
        {
            self.calls.insert(request.call, at);
        }
    }

    /// Adds the decision of people to the question of a call.
    pub(super) fn returned(&mut self, result: ToolResult, blocks: &mut BoundedBlocks) {
        if let Some(at) = self.calls.remove(&result.call)
            && let Some(asked) = blocks.asked(at)
        {
            asked.decision = Some(AskPeople::decision(result.text));
        }
    }
}

fn ask_of(request: &ToolRequest) -> Option<Ask> {
    if request.name != HostToolKind::Ask.name() {
        return None;
    }
    let question: AskPeople = serde_json::from_str(&request.input).ok()?;
    question.check().ok()?;
    Some(question.ask(0, TurnRef { session: request.session, turn: request.turn }))
}

impl AskBlock {
    /// Makes the block of a question that has no decision yet.
    fn of(ask: Ask) -> BlockKind {
        let (decision, withdrawn, ruling) = (None, false, None);
        BlockKind::Asked(Box::new(Self { ask, decision, withdrawn, ruling }))
    }

    /// Masks the answers to questions for secrets, however short they are.
    pub(super) fn hide_secrets(&mut self) {
        let (AskKind::Questions(questions), Some(AskDecision::Answers(answers))) =
            (&self.ask.kind, &mut self.decision)
        else {
            return;
        };
        let secret = |id: &str| questions.iter().any(|asked| asked.secret && asked.id == id);
        for (_, values) in answers.iter_mut().filter(|(id, _)| secret(id)) {
            values.iter_mut().for_each(|value| "***".clone_into(value));
        }
    }
}
