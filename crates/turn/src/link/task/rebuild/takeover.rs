//! Continues a link after the replay: with its processes, its requests and its turns.

use super::RESTARTED;
use super::processes::RebuiltProcesses;
use super::state::RebuildState;
use crate::SurvivingProcess;
use crate::link::Keepsake;
use crate::link::task::LinkTask;
use aetheel_model::agent::{Exit, HttpFailed, Input, Spawned, StreamClosed};
use aetheel_recording::comparison::RebuildError;

impl LinkTask {
    /// Takes over the running processes, starts those that were about to start, and sends the
    /// commands that they did not receive.
    pub(super) async fn adopt_processes(
        &mut self,
        mut processes: RebuiltProcesses,
        keepsake: &Keepsake,
    ) -> Result<(), RebuildError> {
        for SurvivingProcess { proc, .. } in std::mem::take(&mut processes.surviving) {
            let lines = processes.lines(proc);
            let is_starting = processes.take_spawn(proc);
            let process = self.deps.launcher.adopt(&self.deps.id, proc, lines).await;
            let process = process.map_err(|error| RebuildError::Process(error.into()))?;
            if !is_starting && !processes.running.remove(&proc) {
                // Its end is recorded, so it is kept only as long as the open turns need it.
                self.io.processes.add_ended(proc, process, lines);
                continue;
            }
            let endpoint = keepsake.endpoints.get(&proc).cloned();
            self.io.processes.take_over(proc, process, endpoint, lines);
            if is_starting {
                let agent_version = self.deps.host.agent_version(self.name());
                self.input(Input::Spawned(Spawned { proc, agent_version }));
            }
        }
        for (proc, command) in processes.pending_commands {
            self.io.processes.command(proc, command);
        }
        // Their exit is unknown, because they were lost together with the process that held them.
        for proc in processes.running {
            self.process_exited(proc, Exit::Unknown, String::new());
        }
        for spawn in processes.pending_spawns {
            self.write_ahead().await;
            self.spawn(spawn).await;
        }
        self.io.processes.set_command_counts(processes.commands);
        Ok(())
    }

    /// Fails the open requests and streams, and continues the times of the turns and of the link.
    pub(super) async fn resume_turns(&mut self, notes: &mut RebuildState, last: f64) {
        for request in &notes.requests {
            self.input(Input::HttpFailed(HttpFailed {
                request: *request,
                message: RESTARTED.to_owned(),
                timed_out: false,
            }));
        }
        for stream in &notes.streams {
            let message = Some(RESTARTED.to_owned());
            self.input(Input::StreamClosed(StreamClosed { stream: *stream, message }));
        }
        let now = self.recording.now();
        notes.turns.catch_up(&self.replies, last, now);
        self.renew_span();
        self.ack_recorded();
        if !notes.turns.is_working() {
            // While the agent is idle or waits for people nothing new is recorded, so confirm again
            // that the gateway is alive.
            self.io.processes.repeat_acks();
        }
        self.machine.replies.forget_queries();
        self.machine.resume(now);
        if self.machine.turns.is_empty() && self.recording.should_rotate() {
            self.machine.retire(now);
        }
        self.perform_effects().await;
    }
}
