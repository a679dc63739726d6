//! Adds the agent's questions to a transcript, with the decisions of policies and people.

use super::TranscriptBuilder;
use crate::transcript::{AskBlock, BlockKind};
use aetheel_model::agent::{Ask, AskDecision, AskKey, AskKind, ToolRequest, TurnRef};
use aetheel_model::host_tool::{AskPeople, HostToolKind};

impl TranscriptBuilder {
    pub(super) fn ask(&mut self, ask: Ask, at_ms: u64) {
        let key = ask.ask;
        // A key may be used again. An answer belongs to its latest use.
        if let Some(at) = self.push(at_ms, AskBlock::of(ask)) {
            self.asks.insert(key, at);
        }
    }

    pub(super) fn asked(&mut self, ask: AskKey) -> Option<&mut AskBlock> {
        match &mut self.transcript.blocks[*self.asks.get(&ask)?].kind {
            BlockKind::Asked(asked) => Some(asked),
            _ => None,
        }
    }
}

/// Returns the question of a call of a host tool that asks people. The agent reports its other calls
/// by itself.
pub(super) fn ask_of(request: &ToolRequest) -> Option<Ask> {
    if request.name != HostToolKind::Ask.name() {
        return None;
    }
    let question: AskPeople = serde_json::from_str(&request.input).ok()?;
    question.check().ok()?;
    Some(question.ask(0, TurnRef { session: request.session, turn: request.turn }))
}

impl AskBlock {
    /// Makes the block of a question that has no decision yet.
    pub(super) fn of(ask: Ask) -> BlockKind {
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
