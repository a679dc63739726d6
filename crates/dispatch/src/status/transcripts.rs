//! Turns that ended, for people who look back: found by words, told from their recordings.

use std::path::Path;

use crate::Dispatcher;
use crate::questions::Person;
use aetheel_model::event::{Lane, Sequence};
use aetheel_model::plain::clean_text;
use aetheel_store::workspace::{Search, Shares, TurnLine};
use aetheel_turn::told::{self, Told, Untold};

impl Dispatcher {
    /// The turns that somebody looks for, the newest first, without secrets. Whoever shows them
    /// asks first who may see their lanes.
    pub async fn ended_turns(&self, search: Search) -> Vec<TurnLine> {
        let found = self.inner.parts.workspace.turns().search(search).await;
        found.into_iter().map(|line| self.cleaned(line)).collect()
    }

    /// The line of a turn that ended, without secrets, by its correlation id.
    pub async fn ended_turn(&self, turn: &str) -> Option<TurnLine> {
        let found = self.inner.parts.workspace.turns().find(turn).await;
        found.map(|line| self.cleaned(line))
    }

    /// A turn that ended as its recording tells it, without secrets. Dropping the future does not
    /// end a reading that began.
    ///
    /// # Errors
    /// [`Untold`]: why only its line is known.
    pub async fn told(&self, line: &TurnLine) -> Result<Told, Untold> {
        let parts = &self.inner.parts;
        let recording = line.recording.as_deref().and_then(Path::to_str).ok_or(Untold::Gone)?;
        told::read(parts.recorder.folder(), recording, &line.turn, &parts.redactor).await
    }

    /// Where a turn runs, by its correlation id; none: it does not.
    #[must_use]
    pub fn running_turn(&self, turn: &str) -> Option<(Lane, Sequence)> {
        let running = self.inner.lanes.running.lock();
        let mut found = running.iter().filter(|(_, running)| running.turn.as_deref() == Some(turn));
        found.next().map(|(lane, running)| (lane.clone(), running.event))
    }

    /// Whether a person may decide about what somebody asked for in a lane: whoever asked, owners
    /// and approvers may.
    #[must_use]
    pub fn may_decide(&self, asker: Option<u64>, lane: &Lane, person: &Person) -> bool {
        self.inner.questions.may_act(asker, lane, person)
    }

    /// The read-only links to turns.
    #[must_use]
    pub fn shares(&self) -> &Shares {
        self.inner.parts.workspace.shares()
    }

    /// A line as it may be shown today: there may be secrets that were none when it was written.
    fn cleaned(&self, mut line: TurnLine) -> TurnLine {
        let TurnLine { asked, answered, name, agent_version, model, .. } = &mut line;
        let texts = asked.iter_mut().chain(answered).chain(name);
        for text in texts.chain(agent_version).chain(model) {
            *text = self.inner.parts.redactor.clean(clean_text(text).into_owned());
        }
        line
    }
}
