//! A link that outlives the gateway: the recording is written before each effect that depends on
//! it, and the holder (the process that keeps agents running while the gateway restarts) stores the
//! data that a recording must not contain.

use std::future::pending;

use tokio::sync::watch;

use super::io::LinkIo;
use crate::link::machine::LinkMachine;
use crate::link::processes::Endpoint;
use crate::link::{Keepsake, LinkDeps};
use aetheel_model::agent::{AgentLine, Input, ProcKey, TimedInput};
use aetheel_recording::Recording;

/// Waits until more of the recording is written, and returns the number of lines written. Never
/// completes if the link does not outlive the gateway.
pub(super) async fn next_progress(progress: &mut Option<watch::Receiver<u64>>) -> u64 {
    if let Some(progress) = progress
        && progress.changed().await.is_ok()
    {
        return *progress.borrow_and_update();
    }
    pending().await
}

impl LinkIo {
    pub(super) fn is_held(&self) -> bool {
        self.progress.is_some()
    }

    /// Waits until the inputs that cause the next effect are written. If the gateway crashes after
    /// the effect, the rebuilt link then knows it and does not repeat it.
    pub(super) async fn write_ahead(&self, recording: &Recording) {
        if self.is_held() {
            recording.wait_written().await;
        }
    }

    /// Notes that these inputs were added to the recording, after the machine has applied them.
    pub(super) fn inputs_recorded(
        &mut self,
        inputs: &[TimedInput],
        machine: &LinkMachine,
        recording: &Recording,
    ) {
        if !self.is_held() {
            return;
        }
        for input in inputs {
            match &input.input {
                Input::Line(AgentLine { proc, .. }) => {
                    let count = machine.processes.lines(*proc);
                    self.processes.recorded(*proc, count, recording.sent());
                }
                Input::Exited(exited) => self.processes.record_end(exited.proc),
                _ => {}
            }
        }
        self.ack_recorded(machine, recording);
    }

    /// Confirms to processes how much of their output is recorded. Their end is confirmed only once
    /// no turn is open, because a restarted gateway needs the link until the answers of its turns
    /// are saved.
    pub(super) fn ack_recorded(&mut self, machine: &LinkMachine, recording: &Recording) {
        let Some(progress) = &self.progress else { return };
        let written = *progress.borrow();
        if machine.turns.is_empty() {
            self.processes.ack_ends(&machine.processes, recording.sent());
        }
        self.processes.ack_recorded(written);
    }

    /// Stores with the holder the data that a restarted gateway needs. `starts` is a process that
    /// is about to start.
    pub(super) fn store_keepsake(
        &self,
        deps: &LinkDeps,
        recording: &Recording,
        starts: Option<(ProcKey, &Endpoint)>,
    ) {
        if !self.is_held() {
            return;
        }
        let mut endpoints = self.processes.endpoints();
        endpoints.extend(starts.map(|(proc, endpoint)| (proc, endpoint.clone())));
        let keepsake = Keepsake {
            recording: recording.path().to_owned(),
            cwd: deps.cwd.clone(),
            folder: self.files.folder_path().map(ToOwned::to_owned),
            secrets: self.body_sources.secrets().clone(),
            tool_secret: Some(deps.tool_secret.clone()),
            endpoints,
        };
        if let Ok(bytes) = serde_json::to_vec(&keepsake) {
            deps.launcher.store_keepsake(&deps.id, bytes);
        }
    }
}
