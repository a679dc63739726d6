//! Continues a link after the replay: with its processes, its requests and its turns.

use super::state::RebuildState;
use super::{RESTARTED, Rebuilt, Replayed};
use crate::SurvivingProcess;
use crate::link::task::LinkTask;
use crate::link::{FormerLink, Keepsake};
use aetheel_model::agent::{Exit, HttpFailed, Input, Spawned, StreamClosed};
use aetheel_recording::EntryKind;
use aetheel_recording::comparison::RebuildError;

impl LinkTask {
    /// Continues the link of a replayed recording with its processes and turns.
    ///
    /// # Errors
    /// [`RebuildError::Process`] if a process cannot be taken over.
    pub(in crate::link::task) async fn take_over(
        &mut self,
        replayed: Replayed,
        former: &FormerLink<'_>,
    ) -> Result<Rebuilt, RebuildError> {
        let Replayed { mut notes, last } = replayed;
        let checkpoint = former.tail.checkpoint.as_ref();
        self.checkpoints
            .resume(checkpoint.map_or(0, |checkpoint| checkpoint.inputs), notes.replayed);
        self.recording.host(EntryKind::Host(format!("{RESTARTED}: the link goes on from here")));
        for entry in std::mem::take(&mut notes.unrecorded) {
            match entry {
                EntryKind::Out(out) => self.log.action_bytes += self.recording.action(&out) as u64,
                note => self.recording.host(note),
            }
        }
        self.adopt_processes(&mut notes, &former.keepsake).await?;
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

    /// Takes over the running processes, and sends the commands that they did not receive.
    async fn adopt_processes(
        &mut self,
        notes: &mut RebuildState,
        keepsake: &Keepsake,
    ) -> Result<(), RebuildError> {
        for SurvivingProcess { proc, .. } in std::mem::take(&mut notes.surviving) {
            let lines = self.machine.processes.lines(proc);
            let process = self.deps.launcher.adopt(&self.deps.id, proc, lines).await;
            let process = process.map_err(|error| RebuildError::Process(error.into()))?;
            let is_starting = notes.take_spawn(proc);
            if !is_starting && !self.machine.processes.runs(proc) {
                // Its end is recorded, so it is kept only as long as the open turns need it.
                self.io.processes.add_ended(proc, process);
                continue;
            }
            let endpoint = keepsake.endpoints.get(&proc).cloned();
            self.io.processes.add(proc, process, endpoint);
            if is_starting {
                let agent_version = self.deps.agent_version();
                self.input(Input::Spawned(Spawned { proc, agent_version }));
            }
        }
        for (proc, command) in std::mem::take(&mut notes.pending_commands) {
            // A process that is lost gets none.
            let _ = self.io.processes.command(proc, command);
        }
        // Their exit is unknown, because they were lost together with the process that held them.
        for proc in self.machine.processes.started_processes() {
            if !self.io.processes.is_running(proc) {
                self.process_exited(proc, Exit::Unknown, String::new());
            }
        }
        Ok(())
    }

    /// Fails the open requests and streams, and continues the times of the turns and of the link.
    async fn resume_turns(&mut self, notes: &mut RebuildState, last: f64) {
        for request in self.machine.processes.requests.clone() {
            self.input(Input::HttpFailed(HttpFailed {
                request,
                message: RESTARTED.to_owned(),
                timed_out: false,
            }));
        }
        for stream in self.machine.processes.streams.clone() {
            let message = Some(RESTARTED.to_owned());
            self.input(Input::StreamClosed(StreamClosed { stream, message }));
        }
        let now = self.recording.now();
        notes.turns.catch_up(&self.replies, last, now);
        self.renew_span();
        self.ack_recorded();
        if !notes.turns.is_working() {
            // While the agent is idle or waits for people nothing new is recorded, so confirm again
            // that the gateway is alive.
            self.io.processes.repeat_acks(&self.machine.processes);
        }
        self.machine.replies.forget_queries();
        self.machine.resume(now);
        if self.machine.turns.is_empty() && self.recording.should_rotate() {
            self.machine.retire(now);
        }
        self.perform_effects().await;
    }
}
