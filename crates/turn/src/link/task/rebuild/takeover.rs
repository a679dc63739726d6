//! Continues a link after the replay: with its processes, its requests and its turns.

use super::replay::Replay;
use super::{RESTARTED, Rebuilt, RebuiltTurn};
use crate::SurvivingProcess;
use crate::link::{FormerLink, Keepsake};
use aetheel_model::agent::{Exit, Exited, HttpFailed, Input, Spawned, StreamClosed};
use aetheel_recording::EntryKind;
use aetheel_recording::comparison::RebuildError;

impl Replay {
    /// Continues the link with its processes and turns. `last` is the time of the last entry.
    ///
    /// # Errors
    /// [`RebuildError::Process`] if a process cannot be taken over.
    pub(super) async fn take_over(
        &mut self,
        former: &FormerLink<'_>,
        last: f64,
    ) -> Result<Rebuilt, RebuildError> {
        let recorded = former.tail.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.inputs);
        let task = &mut self.task;
        let replayed = task.machine.inputs;
        task.checkpoints.recorded_inputs = recorded;
        task.recording.host(EntryKind::Host(format!("{RESTARTED}: the link goes on from here")));
        for entry in std::mem::take(&mut self.unrecorded) {
            match entry {
                EntryKind::Out(out) => {
                    task.usage.action_bytes += task.recording.action(&out) as u64;
                }
                note => task.recording.host(note),
            }
        }
        self.adopt_processes(&former.keepsake).await?;
        // The recording does not show whether the agent has its tools.
        self.task.io.body_sources.forget_addressed();
        for effect in self.pending.take(|_| true) {
            self.task.perform(effect).await;
        }
        self.task.perform_effects().await;
        let turns = self.resume_turns(last).await;
        let sessions = &self.task.machine.turns.sessions;
        Ok(Rebuilt {
            sessions: sessions.iter().map(|(key, session)| (key, session.clone())).collect(),
            turns,
            last_turn: sessions.last_turn(),
            replayed: replayed - recorded,
        })
    }

    /// Takes over the running processes, and sends the commands that they did not receive.
    async fn adopt_processes(&mut self, keepsake: &Keepsake) -> Result<(), RebuildError> {
        let task = &mut self.task;
        for SurvivingProcess { proc, .. } in std::mem::take(&mut self.surviving) {
            let lines = task.machine.processes.lines(proc);
            let process = task.deps.launcher.adopt(&task.deps.id, proc, lines).await;
            let process = process.map_err(|error| RebuildError::Process(error.into()))?;
            let is_starting = self.pending.take_spawn(proc);
            if !is_starting && !task.machine.processes.runs(proc) {
                // Its end is recorded, so it is kept only as long as the open turns need it.
                task.io.processes.add_ended(proc, process);
                continue;
            }
            let endpoint = keepsake.endpoints.get(&proc).cloned();
            task.io.processes.add(proc, process, endpoint);
            if is_starting {
                let agent_version = task.deps.agent_version();
                task.input(Input::Spawned(Spawned { proc, agent_version }));
            }
        }
        for (proc, command) in std::mem::take(&mut self.pending_commands) {
            // A process that is lost gets none.
            let _ = task.io.processes.command(proc, command);
        }
        // Their exit is unknown, because they were lost together with the process that held them.
        for proc in task.machine.processes.started_processes() {
            if !task.io.processes.is_running(proc) {
                let exited = Exited { proc, how: Exit::Unknown, stderr_tail: String::new() };
                task.io.process_exited(task.recording.now(), exited, &task.machine);
            }
        }
        Ok(())
    }

    /// Fails the open requests and streams, and continues the times of the turns and of the link.
    async fn resume_turns(&mut self, last: f64) -> Vec<RebuiltTurn> {
        let task = &mut self.task;
        for request in task.machine.processes.requests.clone() {
            task.input(Input::HttpFailed(HttpFailed {
                request,
                message: RESTARTED.to_owned(),
                timed_out: false,
            }));
        }
        for stream in task.machine.processes.streams.clone() {
            let message = Some(RESTARTED.to_owned());
            task.input(Input::StreamClosed(StreamClosed { stream, message }));
        }
        let now = task.recording.now();
        let turns = self.turns.catch_up(&task.replies, last, now);
        task.log.renew_span(&task.deps, &task.machine.turns);
        task.io.ack_recorded(&task.machine, &task.recording);
        if turns.is_empty() || turns.iter().any(|turn| !turn.asks.is_empty()) {
            // While the agent is idle or waits for people nothing new is recorded, so confirm again
            // that the gateway is alive.
            task.io.processes.repeat_acks(&task.machine.processes);
        }
        task.machine.replies.forget_queries();
        task.machine.resume(now);
        if task.machine.turns.is_empty() && task.recording.should_rotate() {
            task.machine.retire(now);
        }
        task.perform_effects().await;
        turns
    }
}
