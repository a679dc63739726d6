//! Converts between the host's types and those of contract version 0.2.
//!
//! Components of that version have no tools of the host, and learn the version of the agent only when
//! it was started.

use super::same::{same_before_0_3, same_in_all_versions, same_since_0_2};
use super::{
    Carry, Excess, bounded, checked_actions, expressible_before_0_3, record, shorten_answer,
    unbounded, variant,
};
use crate::bindings::v0_2::aetheel::backend::types as wit;
use aetheel_model::agent::{self, Action, TimedInput};

checked_actions!();
same_in_all_versions!();
same_since_0_2!();
same_before_0_3!();

variant!(wit::EventKind => agent::AgentEventKind {
    Text, Thinking, ToolStart, ToolOutput, ToolEnd, Plan, Usage, Artifact, Task, Quota, Retry, Notice, Mode, Title, Unrecognised,
    Raw;
});

impl Carry<agent::Question> for wit::Question {
    fn carry(self, cap: usize) -> Result<agent::Question, Excess> {
        Ok(agent::Question {
            id: self.id.carry(cap)?,
            text: self.text.carry(cap)?,
            description: self.description.carry(cap)?,
            form: self.form.carry(cap)?,
            options: self.options.carry(cap)?,
            many: self.many,
            free_text: self.free_text,
            optional: self.optional,
            preset: self.preset.carry(cap)?,
            placeholder: None,
            single_line: false,
            secret: self.secret,
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
            options: self.options.carry(cap)?,
            diffs: self.diffs.carry(cap)?,
            changeable: self.changeable,
            parent: None,
            deadline_ms: None,
        })
    }
}
