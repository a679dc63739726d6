//! Saves the state of a link between two turns in a checkpoint, and restores it.

use std::collections::BTreeMap;

use super::LinkMachine;
use crate::link::processes::Endpoint;
use crate::link::sessions::LinkSession;
use aetheel_model::agent::ProcKey;
use aetheel_recording::comparison::RebuildError;
use aetheel_recording::{Checkpoint, CheckpointSession, CheckpointTimer, SavedGuest};

impl LinkMachine {
    /// Returns a checkpoint with the state of the guest and the names of its files.
    pub(in crate::link) fn save(
        &self,
        now: f64,
        guest: SavedGuest,
        files: Vec<String>,
    ) -> Checkpoint {
        let timers = self.timers.iter();
        let timers =
            timers.map(|(timer, at)| CheckpointTimer { timer: *timer, at_ms: at.max(now) as i64 });
        let sessions = self.turns.sessions.iter().map(|(key, session)| CheckpointSession {
            key,
            lane: session.lane.to_string(),
            cwd: session.cwd.clone(),
            safety: session.safety,
            native: session.native.clone(),
        });
        let checkpoint = Checkpoint {
            guest,
            inputs: self.inputs,
            last_turn: self.turns.sessions.last_turn(),
            last_reply: self.replies.last(),
            sessions: sessions.collect(),
            processes: self.processes.checkpoint(),
            requests: self.processes.requests.iter().copied().collect(),
            streams: self.processes.streams.iter().copied().collect(),
            timers: timers.collect(),
            files,
            sha256: String::new(),
        };
        checkpoint.sealed()
    }

    /// Restores the state of a checkpoint. `endpoints` are those of the processes that listen.
    ///
    /// # Errors
    /// [`RebuildError::Incomplete`] if a lane is invalid.
    pub(in crate::link) fn load(
        &mut self,
        checkpoint: &Checkpoint,
        endpoints: &BTreeMap<ProcKey, Endpoint>,
    ) -> Result<(), RebuildError> {
        let mut sessions = BTreeMap::new();
        for session in &checkpoint.sessions {
            let lane = session.lane.parse();
            let lane = lane.map_err(|_| RebuildError::Incomplete("a lane is invalid"))?;
            let (cwd, native) = (session.cwd.clone(), session.native.clone());
            let safety = session.safety;
            sessions.insert(session.key, LinkSession { lane, cwd, safety, native });
        }
        self.turns.sessions.restore(sessions, checkpoint.last_turn);
        self.inputs = checkpoint.inputs;
        self.replies.skip_to(checkpoint.last_reply);
        let timers = checkpoint.timers.iter().map(|timer| (timer.timer, timer.at_ms as f64));
        self.timers.extend(timers);
        for process in &checkpoint.processes {
            self.processes.restore(process, endpoints.contains_key(&process.proc));
        }
        self.processes.requests.extend(&checkpoint.requests);
        self.processes.streams.extend(&checkpoint.streams);
        Ok(())
    }
}
