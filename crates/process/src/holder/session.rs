//! The connection of one gateway to the holder.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::io::BufReader;
use tokio::net::unix::OwnedReadHalf;

use super::held_process::{AdoptError, HeldProcess, OutputListener};
use super::outbox::Outbox;
use super::protocol::{HolderAnswer, HolderRequest, MAX_FRAME_BYTES, read_frame};
use super::serve::Holder;
use super::wire::WireLaunchError;
use crate::Sandbox;
use aetheel_turn::{Launch, LaunchError};

/// The connection of one gateway.
pub(super) struct GatewaySession {
    pub(super) holder: Arc<Holder>,
    pub(super) number: u64,
    pub(super) outbox: Arc<Outbox>,
    /// The processes to which the gateway listens, by stream.
    pub(super) streams: HashMap<u64, Arc<HeldProcess>>,
}

impl Drop for GatewaySession {
    fn drop(&mut self) {
        self.streams.values().for_each(|held| held.detach_listener());
        let mut room = self.holder.runs.lock();
        room.release_gateway();
        let (number, agents) = (self.number, room.processes());
        tracing::info!(number, agents, "holder: the gateway disconnected");
        drop(room);
        self.holder.changed.notify_one();
    }
}

impl GatewaySession {
    pub(super) async fn read_requests(
        &mut self,
        reader: &mut BufReader<OwnedReadHalf>,
    ) -> io::Result<()> {
        let mut body = Vec::new();
        while let Some(kind) = read_frame(reader, &mut body, MAX_FRAME_BYTES).await? {
            let request = HolderRequest::decode(kind, &body)?;
            self.serve(request);
        }
        Ok(())
    }

    fn serve(&mut self, request: HolderRequest) {
        match request {
            // Without an answer, the gateway treats the holder as lost, and asks the next one.
            HolderRequest::Launch { .. } | HolderRequest::Adopt { .. }
                if self.holder.ending.load(Ordering::SeqCst) => {}
            HolderRequest::Hello(_) => {}
            HolderRequest::Launch { stream, launch, sandbox } => {
                self.launch(stream, (*launch).into(), &sandbox.into());
            }
            HolderRequest::Adopt { stream, run, proc, lines } => {
                self.adopt(stream, &run, proc, lines)
            }
            HolderRequest::Survivors => {
                let runs = self.holder.runs.lock().survivors();
                self.outbox.push(|out| HolderAnswer::Survivors(runs).encode(out));
            }
            HolderRequest::Command { stream, number, command } => {
                if let Some(held) = self.streams.get(&stream) {
                    held.forward_command(number, command);
                }
            }
            HolderRequest::Recorded { stream, lines } => self.record(stream, lines),
            HolderRequest::Abandon { stream } => {
                if let Some(held) = self.streams.remove(&stream) {
                    held.detach_listener();
                    held.abandon();
                    self.holder.runs.lock().remove(&held);
                }
            }
            HolderRequest::SetDeadline(until_ms) => {
                self.holder.lease.set(until_ms);
                self.holder.changed.notify_one();
            }
            HolderRequest::Keep { run, keepsake } => {
                self.holder.runs.lock().set_keepsake(run, keepsake)
            }
            HolderRequest::End { run } => {
                let ended = self.holder.runs.lock().remove_run(&run);
                ended.iter().for_each(|held| held.abandon());
            }
        }
    }

    fn launch(&mut self, stream: u64, launch: Launch, expected: &Sandbox) {
        let listener = OutputListener { stream, outbox: Arc::clone(&self.outbox) };
        let name = (launch.run.clone(), launch.proc);
        if !self.holder.lease.is_valid() {
            let source = io::Error::other("the gateway's lease has ended");
            return self.fail(stream, &LaunchError::Start { program: launch.program, source });
        }
        let sandbox = self.holder.custody.sandbox();
        if sandbox.setting() != expected.setting() {
            let source = io::Error::other(format!(
                "the holder confines agents with `AGENT_SANDBOX={}`, the gateway expects `{}`; restart the gateway",
                sandbox.setting(),
                expected.setting()
            ));
            return self.fail(stream, &LaunchError::Start { program: launch.program, source });
        }
        let options = &self.holder.options;
        let (held, waiting) = HeldProcess::new(name, options.limits, &options.state, listener);
        if !self.holder.runs.lock().insert(&held) {
            let source = io::Error::other("the run already has a process with this number");
            self.fail(stream, &LaunchError::Start { program: launch.program, source });
            return;
        }
        self.streams.insert(stream, Arc::clone(&held));
        let holder = Arc::clone(&self.holder);
        self.holder.agents.spawn(async move {
            holder.run_process(&held, launch, waiting).await;
        });
    }

    fn adopt(&mut self, stream: u64, run: &str, proc: u32, lines: u64) {
        let listener = OutputListener { stream, outbox: Arc::clone(&self.outbox) };
        let found = self.holder.runs.lock().find(run, proc);
        let adopted = found.ok_or(AdoptError::NoProcess).and_then(|held| {
            held.attach_listener(listener, lines)?;
            Ok(held)
        });
        match adopted {
            Ok(held) => {
                self.streams.insert(stream, held);
            }
            Err(error) => {
                let source = io::Error::other(error);
                let program = PathBuf::from(format!("process {proc} of run {run}"));
                self.fail(stream, &LaunchError::Start { program, source });
            }
        }
    }

    fn record(&mut self, stream: u64, lines: u64) {
        let Some(held) = self.streams.get(&stream) else { return };
        let over = held.record(lines);
        let mut room = self.holder.runs.lock();
        room.reset_adoptions(&held.run);
        if over {
            room.remove(held);
            self.streams.remove(&stream);
        }
    }

    fn fail(&self, stream: u64, error: &LaunchError) {
        self.outbox.push(|out| {
            HolderAnswer::Failed { stream, failure: WireLaunchError::from(error) }.encode(out)
        });
    }
}
