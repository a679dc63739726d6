//! Visits the texts of reports and questions, so that code which cleans or hides texts misses none.

use super::ask::{Ask, AskKind};
use super::events::{AgentEventKind, AgentTask, Artifact, ArtifactBody, TextEvent, Unrecognised};
use super::input::AskDecision;
use super::notice::AgentNotice;
use super::report::{SessionReady, TurnOutcome};
use super::tool_use::{FileDiff, ToolEnd, ToolOutput, ToolStart};
use super::usage::Usage;

/// The form of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextForm {
    /// People see it, and it may have several lines.
    Block,
    /// People see it as a part of one line: a title or a name.
    Line,
    /// People do not see it as a part of the report: an id, the input of a tool, a changed file, or
    /// a sample of unknown output.
    Data,
}

use TextForm::{Block, Data, Line};

impl AgentEventKind {
    /// Calls `change` for each text, except for the content of a binary file.
    pub fn for_each_text(&mut self, change: &mut impl FnMut(TextForm, &mut String)) {
        match self {
            Self::Text(TextEvent { text, parent, .. })
            | Self::Thinking(TextEvent { text, parent, .. }) => {
                change(Block, text);
                each(Data, parent, change);
            }
            Self::ToolStart(start) => start.for_each_text(change),
            Self::ToolOutput(ToolOutput { id, text, .. }) => {
                change(Data, id);
                change(Block, text);
            }
            Self::ToolEnd(ToolEnd { id, output, diffs, .. }) => {
                change(Data, id);
                each(Block, output, change);
                diffs.iter_mut().for_each(|diff| diff.for_each_text(change));
            }
            Self::Plan(plan) => plan.iter_mut().for_each(|entry| change(Line, &mut entry.text)),
            Self::Usage(usage) => usage.for_each_text(change),
            Self::Artifact(Artifact { name, media_type, body, tool }) => {
                each(Line, name, change);
                change(Line, media_type);
                match body {
                    ArtifactBody::Text(text) => change(Block, text),
                    ArtifactBody::Link(address) => change(Line, address),
                    ArtifactBody::Base64(_) => {}
                }
                each(Data, tool, change);
            }
            Self::Task(task) => task.for_each_text(change),
            Self::Quota(quotas) => {
                for quota in quotas {
                    change(Line, &mut quota.label);
                    each(Data, [&mut quota.id].into_iter().chain(&mut quota.resets), change);
                }
            }
            Self::Retry(failure) => change(Line, &mut failure.message),
            Self::Notice(AgentNotice { text, key, .. }) => {
                change(Line, text);
                each(Data, key, change);
            }
            Self::Mode(text) | Self::Title(text) => change(Line, text),
            Self::Unrecognised(Unrecognised { what, path, sample, .. }) => {
                each(Data, [what, sample].into_iter().chain(path), change);
            }
            Self::Raw(json) => change(Data, json),
            Self::Compaction(_) => {}
        }
    }
}

impl ToolStart {
    /// Calls `change` for each text.
    pub fn for_each_text(&mut self, change: &mut impl FnMut(TextForm, &mut String)) {
        let Self { id, parent, kind, native_name, title, target, input } = self;
        each(Line, [native_name, title], change);
        each(Block, target, change);
        each(Data, [id, kind, input].into_iter().chain(parent), change);
    }
}

impl FileDiff {
    /// Calls `change` for each text.
    pub fn for_each_text(&mut self, change: &mut impl FnMut(TextForm, &mut String)) {
        let Self { path, old_path, old_text, new_text, unified, .. } = self;
        let texts = old_text.iter_mut().chain(new_text).chain(unified);
        each(Data, [path].into_iter().chain(old_path).chain(texts), change);
    }
}

impl AgentTask {
    /// Calls `change` for each text.
    pub fn for_each_text(&mut self, change: &mut impl FnMut(TextForm, &mut String)) {
        let Self { id, title, tool, summary, .. } = self;
        each(Line, [title].into_iter().chain(summary), change);
        each(Data, [id].into_iter().chain(tool), change);
    }
}

impl Usage {
    /// Calls `change` for each text.
    pub fn for_each_text(&mut self, change: &mut impl FnMut(TextForm, &mut String)) {
        self.models.iter_mut().for_each(|model| change(Data, &mut model.model));
    }
}

impl SessionReady {
    /// Calls `change` for each text.
    pub fn for_each_text(&mut self, change: &mut impl FnMut(TextForm, &mut String)) {
        let Self { session: _, native_id, model, title, tools } = self;
        each(Line, model.iter_mut().chain(title), change);
        each(Data, [native_id].into_iter().chain(tools), change);
    }
}

impl TurnOutcome {
    /// Calls `change` for each text.
    pub fn for_each_text(&mut self, change: &mut impl FnMut(TextForm, &mut String)) {
        match self {
            Self::Failed(failure) | Self::Lost(failure) => change(Block, &mut failure.message),
            Self::Limit(limit) => change(Line, limit),
            Self::Completed | Self::Interrupted => {}
        }
    }
}

impl Ask {
    /// Calls `change` for each text, except for the ids of questions and options.
    pub fn for_each_text(&mut self, change: &mut impl FnMut(TextForm, &mut String)) {
        let Self { title, kind, always_label, options, diffs, parent, .. } = self;
        each(Line, [title].into_iter().chain(always_label), change);
        each(Line, options.iter_mut().map(|option| &mut option.label), change);
        each(Data, parent, change);
        diffs.iter_mut().for_each(|diff| diff.for_each_text(change));
        match kind {
            AskKind::Permission(tool) => tool.for_each_text(change),
            AskKind::PlanApproval(plan) => change(Block, plan),
            AskKind::SignIn(address) => change(Line, address),
            AskKind::Questions(questions) => {
                for question in questions {
                    let texts = [&mut question.text].into_iter().chain(&mut question.description);
                    let texts = texts.chain(&mut question.preset).chain(&mut question.placeholder);
                    each(Block, texts, change);
                    for option in &mut question.options {
                        let texts = [&mut option.label].into_iter().chain(&mut option.description);
                        each(Line, texts, change);
                    }
                }
            }
        }
    }
}

impl AskDecision {
    /// Calls `change` for each text that a person wrote or chose.
    pub fn for_each_text(&mut self, change: &mut impl FnMut(TextForm, &mut String)) {
        match self {
            Self::AllowChanged(text) | Self::Chosen(text) => change(Block, text),
            Self::Deny(words) => each(Block, words, change),
            Self::Answers(answers) => {
                each(Block, answers.iter_mut().flat_map(|(_, values)| values), change);
            }
            Self::AllowOnce
            | Self::AllowAlways
            | Self::DenyAndStop
            | Self::Declined
            | Self::Dismissed => {}
        }
    }
}

fn each<'a>(
    form: TextForm,
    texts: impl IntoIterator<Item = &'a mut String>,
    change: &mut impl FnMut(TextForm, &mut String),
) {
    texts.into_iter().for_each(|text| change(form, text));
}
