//! Converts between the host's types and those of contract version 0.1.
//!
//! Components of that version cannot send newer values. Newer values for such a component are
//! replaced by the closest older one, which never permits more than was decided.

use super::same::{same_before_0_3, same_in_all_versions};
use super::{
    Carry, Excess, bounded, checked_actions, expressible_before_0_3, record, shorten_answer,
    unbounded, variant,
};
use crate::bindings::v0_1::aetheel::backend::types as wit;
use aetheel_model::agent::{self, Action, TimedInput};

checked_actions!();
same_in_all_versions!();
same_before_0_3!();

variant!(wit::EventKind => agent::AgentEventKind {
    Text, Thinking, ToolStart, ToolOutput, ToolEnd, Plan, Usage, Retry, Notice, Mode, Title, Unrecognised, Raw;
});

impl Carry<wit::Decision> for agent::AskDecision {
    fn carry(self, cap: usize) -> Result<wit::Decision, Excess> {
        Ok(match self {
            Self::AllowOnce => wit::Decision::AllowOnce,
            Self::AllowAlways => wit::Decision::AllowAlways,
            Self::Deny(words) => wit::Decision::Deny(words.carry(cap)?),
            Self::DenyAndStop => wit::Decision::DenyAndStop,
            Self::Answers(answers) => wit::Decision::Answers(answers.carry(cap)?),
            Self::Declined => wit::Decision::Deny(None),
            // Questions of contract 0.1 do not offer these decisions.
            Self::AllowChanged(_) | Self::Chosen(_) | Self::Dismissed => wit::Decision::Dismissed,
        })
    }
}

impl Carry<agent::TextEvent> for wit::Text {
    fn carry(self, cap: usize) -> Result<agent::TextEvent, Excess> {
        Ok(agent::TextEvent {
            part: self.part,
            text: self.text.carry(cap)?,
            replace: self.replace,
            parent: None,
        })
    }
}

impl Carry<agent::FileDiff> for wit::FileDiff {
    fn carry(self, cap: usize) -> Result<agent::FileDiff, Excess> {
        Ok(agent::FileDiff {
            path: self.path.carry(cap)?,
            old_text: self.old_text.carry(cap)?,
            new_text: self.new_text.carry(cap)?,
            unified: self.unified.carry(cap)?,
            ..agent::FileDiff::default()
        })
    }
}

impl Carry<agent::Usage> for wit::Usage {
    fn carry(self, _cap: usize) -> Result<agent::Usage, Excess> {
        let Self { input, output, cached, reasoning, cost_usd, context_used, context_size } = self;
        Ok(agent::Usage {
            input,
            output,
            cached,
            reasoning,
            cost_usd,
            context_used,
            context_size,
            ..agent::Usage::default()
        })
    }
}

impl Carry<agent::Question> for wit::Question {
    fn carry(self, cap: usize) -> Result<agent::Question, Excess> {
        let plain = |option: String| {
            let label: String = option.carry(cap)?;
            Ok(agent::QuestionChoice::plain(label))
        };
        let options = self.options.into_iter().map(plain);
        Ok(agent::Question {
            id: self.id.carry(cap)?,
            text: self.text.carry(cap)?,
            options: options.collect::<Result<_, Excess>>()?,
            many: self.many,
            free_text: self.free_text,
            ..agent::Question::default()
        })
    }
}

impl Carry<agent::Ask> for wit::Ask {
    fn carry(self, cap: usize) -> Result<agent::Ask, Excess> {
        Ok(agent::Ask {
            ask: self.ask,
            session: self.session,
            turn: self.turn,
            title: self.title.carry(cap)?,
            kind: self.kind.carry(cap)?,
            always_label: self.always_label.carry(cap)?,
            options: Vec::new(),
            diffs: Vec::new(),
            changeable: false,
            parent: None,
            deadline_ms: None,
        })
    }
}
