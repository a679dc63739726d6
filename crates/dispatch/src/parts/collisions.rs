//! People are warned about files that two conversations use, and asked before an agent writes a file
//! of another conversation. The uses are in [`collisions`](crate::collisions).

use std::sync::Arc;

use async_trait::async_trait;

use crate::collisions::TurnFiles;
use crate::part::{PartOfTurn, TurnContext, TurnPart};
use crate::plan::TurnPlan;
use crate::turn_feed::TurnFeed;
use aetheel_model::agent::Ask;
use aetheel_model::fold::Transcript;
use aetheel_model::policy::{PolicyEffect, PolicyRuling};
use aetheel_turn::{Judgement, NewsKind, PolicyVerdict, TurnNews};

/// People are warned about files that two conversations use.
pub struct Collisions;

struct FilesOfTurn {
    turn: Arc<TurnContext>,
    /// `None` until the agent begins.
    files: Option<TurnFiles>,
}

#[async_trait]
impl TurnPart for Collisions {
    fn name(&self) -> &'static str {
        "collisions"
    }

    fn join(&self, turn: &Arc<TurnContext>) -> Option<Box<dyn PartOfTurn>> {
        Some(Box::new(FilesOfTurn { turn: Arc::clone(turn), files: None }))
    }
}

#[async_trait]
impl PartOfTurn for FilesOfTurn {
    async fn begin(&mut self, plan: &TurnPlan, _feed: &TurnFeed) {
        let TurnContext { event, shared, .. } = &*self.turn;
        let files = shared.collisions.turn_files(shared, event, &plan.lane, &plan.directory);
        self.files = Some(files.await);
    }

    fn on(&mut self, news: &TurnNews, transcript: &Transcript) {
        let (Some(files), NewsKind::Event(event)) = (&self.files, &news.kind) else { return };
        if let Some(end) = event.tool_end() {
            let start = transcript.tool(&end.id).map(|tool| &tool.start);
            files.on_tool_end(end, start, news.replayed);
        }
    }

    fn judge(&mut self, ask: &Ask, earlier: Option<Judgement>) -> Option<Judgement> {
        let Some(check) = self.files.as_ref().and_then(|files| files.check(ask)) else {
            return earlier;
        };
        let (key, redactor) = (ask.ask, self.turn.shared.deps.redactor.clone());
        Some(Box::pin(async move {
            let verdict = match earlier {
                Some(earlier) => earlier.await,
                None => None,
            };
            // The other conversation may use the files while the policies decide.
            let Some(reason) = check.await else { return verdict };
            let undecided = || PolicyVerdict { ruling: PolicyRuling::undecided(key), answer: None };
            let PolicyVerdict { ruling, answer } = verdict.unwrap_or_else(undecided);
            let ruling = ruling.with_collision(reason, &redactor);
            let is_denied = ruling.effect == PolicyEffect::Deny;
            Some(PolicyVerdict { ruling, answer: answer.filter(|_| is_denied) })
        }))
    }
}
