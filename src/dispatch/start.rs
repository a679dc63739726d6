//! What a guest is told of a turn that begins.

use std::path::PathBuf;

use super::Inner;
use crate::agent::descriptor::Feature;
use crate::agent::{Part, Settings, StartTurn, allowed_for};
use crate::event::Event;
use crate::prompt::{self, Noting};
use crate::turn::Backend;
use crate::workspace::{LaneSettings, Place, SessionId};

impl Inner {
    /// What the guest is told, from files read at this moment, and whether nothing is to be
    /// changed.
    pub(super) async fn start(
        &self,
        event: &Event,
        backend: &dyn Backend,
        lane: &LaneSettings,
        directory: PathBuf,
        session: Option<SessionId>,
    ) -> (StartTurn, bool) {
        let (choices, descriptor) = (&self.parts.choices, backend.descriptor());
        let in_force = self.in_force(&event.lane, lane, descriptor).await;
        let allowed_tools = allowed_for(&choices.allowed_tools, descriptor);
        let place = self.memory_of(&event.lane, lane);
        let documents = self.parts.workspace.read_in(&place).await;
        let noting = match &place {
            Place::Operators => Noting::Operators,
            Place::Here { called, .. } => Noting::Here(called),
            Place::Nowhere => Noting::Nowhere,
        };
        let assembled = prompt::assemble(&documents, noting);
        self.warn_once(assembled.warnings);
        let supported = |feature| descriptor.has(feature);
        let quotation =
            event.quoted.as_ref().map(|quoted| prompt::quotation(quoted, &descriptor.expands));
        let words = prompt::neutralise(words(event), &descriptor.expands, event.author.as_deref());
        let start = StartTurn {
            session: 1,
            turn: 1,
            cwd: directory.to_string_lossy().into_owned(),
            native_id: session
                .filter(|_| supported(Feature::Resume))
                .map(|id| id.as_str().to_owned()),
            fork: false,
            fresh_id: uuid::Uuid::new_v4().to_string(),
            one_shot: true,
            settings: Settings {
                model: in_force.model,
                safety: in_force.safety,
                mode: in_force.mode,
                effort: in_force.effort,
                system_prompt: Some(assembled.text).filter(|_| supported(Feature::SystemPrompt)),
                allowed_tools: if supported(Feature::AllowedTools) {
                    allowed_tools
                } else {
                    Vec::new()
                },
                max_turns: supported(Feature::MaxTurns).then_some(choices.max_turns),
                options: backend.options().to_owned(),
            },
            parts: quotation.into_iter().chain([words]).map(Part::Text).collect(),
        };
        (start, in_force.planning)
    }

    /// Logs warnings about the files that were not there the time before: they are read for every
    /// event.
    fn warn_once(&self, warnings: Vec<String>) {
        let mut known = self.warned.lock();
        for warning in warnings.iter().filter(|warning| !known.contains(warning)) {
            tracing::warn!("{warning}");
        }
        *known = warnings;
    }
}

/// What a person wrote; files, or what is replied to or forwarded, are a prompt too.
fn words(event: &Event) -> &str {
    match &event.prompt {
        prompt if !prompt.trim().is_empty() => prompt,
        _ if event.quoted.is_some() => "(no words of my own)",
        _ if !event.attached.is_empty() => "(no words, only files)",
        prompt => prompt,
    }
}
