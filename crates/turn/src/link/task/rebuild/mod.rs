//! Rebuilds a link after the gateway was restarted: a fresh guest replays the recording, or loads
//! the state of a checkpoint and replays the rest, and reaches the state of the old one. The entries
//! go through a new machine.
//!
//! The guest's actions are compared with the recorded ones. The effects of the entries are not
//! performed again if the recording shows that they were (`replay`). Unfinished work at the end of
//! the recording is completed (`takeover`): commands that the holder did not receive are sent, and
//! HTTP requests without a response fail. `state` collects what is open meanwhile.

mod processes;
mod recorded;
mod replay;
mod state;
mod takeover;
mod turns;

pub(crate) use self::turns::RebuiltTurn;

use self::state::RebuildState;
use super::{BATCH, LinkTask};
use crate::link::{FormerLink, LinkSession};
use aetheel_model::agent::{SessionKey, TimedInput, TurnKey};
use aetheel_recording::comparison::RebuildError;
use aetheel_recording::{EntryKind, RecordingEntry};

/// The reason that a guest gets for requests and streams that were open when the gateway ended.
const RESTARTED: &str = "the gateway was restarted";

/// The open turns and sessions of a rebuilt link.
pub(crate) struct Rebuilt {
    pub(crate) turns: Vec<RebuiltTurn>,
    /// The open sessions, in the order of their keys.
    pub(crate) sessions: Vec<(SessionKey, LinkSession)>,
    /// The highest key of a turn so far.
    pub(crate) last_turn: TurnKey,
    /// The number of inputs that the guest got.
    pub(crate) replayed: u64,
}

impl LinkTask {
    /// Replays a part of the recording to the guest and takes over the link's processes.
    ///
    /// # Errors
    /// [`RebuildError`]. If it [allows another attempt](RebuildError::allows_another_attempt),
    /// nothing was changed.
    pub(super) async fn rebuild(
        &mut self,
        former: FormerLink<'_>,
    ) -> Result<Rebuilt, RebuildError> {
        let mut notes = RebuildState::of(&former)?;
        let FormerLink { tail, keepsake, .. } = former;
        if let Some(folder) = &keepsake.folder {
            self.io.files.take_over(folder).map_err(RebuildError::Folder)?;
        }
        self.io.body_sources.take_over(keepsake.secrets.clone());
        if let Some(checkpoint) = &tail.checkpoint {
            notes.start_from(checkpoint)?;
            self.load_checkpoint(checkpoint, &keepsake.endpoints).await?;
        }
        let last = self.replay(&mut notes, &tail.entries).await?;
        if !notes.recorded.expected.is_empty() {
            return Err(RebuildError::Differs);
        }
        if self.machine.closing.is_ending() && self.machine.turns.is_empty() {
            return Err(RebuildError::Leaving);
        }
        notes.processes.check_lines()?;
        self.recording.host(EntryKind::Host(format!("{RESTARTED}: the link goes on from here")));
        for entry in std::mem::take(&mut notes.unrecorded) {
            match entry {
                EntryKind::Out(out) => self.log.action_bytes += self.recording.action(&out) as u64,
                note => self.recording.host(note),
            }
        }
        self.adopt_processes(std::mem::take(&mut notes.processes), &keepsake).await?;
        self.checkpoints.add_inputs(notes.replayed);
        // The recording does not show whether the agent has its tools.
        self.io.body_sources.forget_addressed();
        for effect in notes.take_pending(|_| true) {
            self.perform(effect).await;
        }
        self.perform_effects().await;
        self.resume_turns(&mut notes, last).await;
        let turns = &self.machine.turns;
        let sessions = turns.sessions.iter().map(|(key, session)| (key, session.clone()));
        Ok(Rebuilt {
            sessions: sessions.collect(),
            turns: notes.turns.open,
            last_turn: turns.sessions.last_turn(),
            replayed: notes.replayed,
        })
    }

    /// Replays entries. Returns the time of the last one.
    async fn replay(
        &mut self,
        notes: &mut RebuildState,
        entries: &[RecordingEntry],
    ) -> Result<f64, RebuildError> {
        let mut now = 0.0;
        for (at, entry) in entries.iter().enumerate() {
            now = entry.t.max(now);
            match &entry.kind {
                EntryKind::In(input) => {
                    self.inputs.push(TimedInput { at_ms: entry.t, input: input.clone() });
                    let more = entries.get(at + 1).map(|next| &next.kind);
                    if !matches!(more, Some(EntryKind::In(_))) || self.inputs.len() >= BATCH {
                        self.replay_inputs(notes, entry.t).await?;
                    }
                }
                // The files are attached when they are to be read.
                EntryKind::Attached { .. } => {}
                note => self.replay_note(notes, note, entry.t)?,
            }
        }
        Ok(now)
    }
}
