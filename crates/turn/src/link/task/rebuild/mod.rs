//! Rebuilds a link after the gateway was restarted: a fresh guest replays the recording, or loads
//! the state of a checkpoint and replays the rest, and reaches the state of the old one.
//!
//! The guest's actions are compared with the recorded ones and are not performed again (`replay`).
//! Unfinished work at the end of the recording is completed (`takeover`): commands that the holder
//! did not receive are sent, and HTTP requests without a response fail. `state` collects what is
//! open meanwhile.

mod processes;
mod recorded;
mod replay;
mod state;
mod takeover;
mod turns;

pub(crate) use self::turns::RebuiltTurn;

use self::state::RebuildState;
use super::{BATCH, LinkTask};
use crate::ToolReply;
use crate::link::{FormerLink, LinkSession};
use aetheel_model::agent::{SessionKey, TimedInput, ToolResult, TurnKey};
use aetheel_recording::EntryKind;
use aetheel_recording::comparison::RebuildError;

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
            self.files.take_over(folder).map_err(RebuildError::Folder)?;
        }
        self.body_sources.take_over(keepsake.secrets.clone());
        self.rebuilding = true;
        if let Some(checkpoint) = &tail.checkpoint {
            notes.start_from(checkpoint)?;
            self.load_checkpoint(checkpoint).await?;
        }
        let mut now = 0.0;
        for (at, entry) in tail.entries.iter().enumerate() {
            now = entry.t.max(now);
            match &entry.kind {
                EntryKind::Turn { turn, event, lane, .. } => {
                    notes.turns.name_next(turn, *event, lane)?;
                }
                EntryKind::Ending { turn, .. } => {
                    if let Some(turn) = self.turns.by_id(turn) {
                        self.turns.end(turn);
                        self.calls.turn_ends(turn);
                        self.served.turn_ends(turn);
                        self.body_sources.forget_blobs(turn);
                        self.state.set_turns(self.turns.len());
                    }
                }
                EntryKind::Called(request) => {
                    self.served.restore(request);
                    self.restore_call(&mut notes, request, entry.t);
                }
                EntryKind::Returned(result) => {
                    self.restore_result(&mut notes, result, entry.t);
                    let ToolResult { call, text, failed } = result.clone();
                    self.served.end(call, &ToolReply { text, failed });
                }
                EntryKind::In(input) => {
                    self.apply_input(&mut notes, input, entry.t).await?;
                    self.inputs.push(TimedInput { at_ms: entry.t, input: input.clone() });
                    let more = tail.entries.get(at + 1).map(|next| &next.kind);
                    if !matches!(more, Some(EntryKind::In(_))) || self.inputs.len() >= BATCH {
                        self.replay_inputs(&mut notes, entry.t).await?;
                    }
                }
                _ => {}
            }
        }
        if !notes.recorded.expected.is_empty() {
            return Err(RebuildError::Differs);
        }
        if self.closing.is_ending() && self.turns.is_empty() {
            return Err(RebuildError::Leaving);
        }
        notes.processes.check_lines()?;
        self.recording.host(EntryKind::Host(format!("{RESTARTED}: the link goes on from here")));
        for entry in std::mem::take(&mut notes.unrecorded) {
            match entry {
                EntryKind::Out(out) => self.counters.actions += self.recording.action(&out) as u64,
                note => self.recording.host(note),
            }
        }
        self.adopt_processes(std::mem::take(&mut notes.processes), &keepsake).await?;
        self.checkpoints.add_inputs(notes.replayed);
        self.rebuilding = false;
        // The recording does not show whether the agent has its tools.
        self.body_sources.forget_addressed();
        self.carry_out_all();
        self.resume_turns(&mut notes, now);
        let sessions = self.turns.sessions.iter().map(|(key, session)| (key, session.clone()));
        Ok(Rebuilt {
            sessions: sessions.collect(),
            turns: notes.turns.open,
            last_turn: self.turns.sessions.last_turn(),
            replayed: notes.replayed,
        })
    }
}
