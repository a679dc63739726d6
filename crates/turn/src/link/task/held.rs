//! A link that outlives the gateway: the recording is written before each effect that depends on
//! it, and the holder (the process that keeps agents running while the gateway restarts) stores the
//! data that a recording must not contain.

use std::future::pending;

use tokio::sync::watch;

use super::LinkTask;
use crate::link::Keepsake;
use crate::link::processes::Endpoint;
use aetheel_model::agent::{Input, ProcKey, TimedInput};

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

impl LinkTask {
    pub(super) fn is_held(&self) -> bool {
        self.io.progress.is_some()
    }

    /// Waits until the inputs that cause the next effect are written. If the gateway crashes after
    /// the effect, the rebuilt link then knows it and does not repeat it.
    pub(super) async fn write_ahead(&mut self) {
        if self.is_held() {
            self.recording.wait_written().await;
        }
    }

    /// Notes that these inputs were added to the recording.
    pub(super) fn inputs_recorded(&mut self, inputs: &[TimedInput]) {
        if !self.is_held() {
            return;
        }
        let lines = self.recording.sent();
        for input in inputs {
            match &input.input {
                Input::Line(line) => {
                    let count = self.machine.processes.lines(line.proc);
                    self.io.processes.recorded(line.proc, count, lines);
                }
                Input::Exited(exited) => self.io.processes.record_end(exited.proc),
                _ => {}
            }
        }
        self.ack_recorded();
    }

    /// Confirms to processes how much of their output is recorded. Their end is confirmed only once
    /// no turn is open, because a restarted gateway needs the link until the answers of its turns
    /// are saved.
    pub(super) fn ack_recorded(&mut self) {
        let Some(progress) = &self.io.progress else { return };
        let written = *progress.borrow();
        if self.machine.turns.is_empty() {
            self.io.processes.ack_ends(&self.machine.processes, self.recording.sent());
        }
        self.io.processes.ack_recorded(written);
    }

    /// Stores with the holder the data that a restarted gateway needs. `starts` is a process that
    /// is about to start.
    pub(super) fn send_keepsake(&self, starts: Option<(ProcKey, &Endpoint)>) {
        if !self.is_held() {
            return;
        }
        let mut endpoints = self.io.processes.endpoints();
        endpoints.extend(starts.map(|(proc, endpoint)| (proc, endpoint.clone())));
        let keepsake = Keepsake {
            recording: self.recording.path().to_owned(),
            cwd: self.deps.cwd.clone(),
            folder: self.io.files.folder_path().map(ToOwned::to_owned),
            secrets: self.io.body_sources.secrets().clone(),
            tool_secret: Some(self.deps.tool_secret.clone()),
            endpoints,
        };
        if let Ok(bytes) = serde_json::to_vec(&keepsake) {
            self.deps.launcher.store_keepsake(&self.deps.id, bytes);
        }
    }

    /// Removes the data of a link that has ended.
    pub(super) async fn release(&mut self) {
        if self.is_held() {
            self.recording.wait_written().await;
            self.ack_recorded();
            self.deps.launcher.end(&self.deps.id);
        }
        self.io.files.remove();
    }
}
