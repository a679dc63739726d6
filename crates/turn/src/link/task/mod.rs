//! The task of a link, which handles one event at a time.
//!
//! This module waits for events. `guest` calls the guest and applies its actions, `effects` performs
//! the effects that the machine returns, `requests` serves requests, `tools` serves calls of the
//! host's tools, and `renewal` moves the link to a newer generation.
//!
//! `io` has the connections to the world: `launch` starts processes, `output` collects their output,
//! and `held` lets them outlive the gateway. `checkpoint` records the state of a link between turns,
//! `rebuild` restores a link, and `log` writes its log lines.

mod checkpoint;
mod effects;
mod guest;
mod held;
mod io;
mod launch;
mod log;
mod output;
mod rebuild;
mod renewal;
mod requests;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tracing::Instrument as _;

use self::checkpoint::Checkpoints;
use self::guest::GuestUsage;
use self::held::next_progress;
use self::io::LinkIo;
use self::log::LinkLog;
use self::rebuild::Replay;
pub(crate) use self::rebuild::{Rebuilt, RebuiltTurn};
use super::machine::{LinkMachine, MachineSettings};
use super::senders::ReplySenders;
use super::{FormerLink, LinkDeps, LinkReport, LinkRequest, LinkState};
use crate::ProcessEvent;
use aetheel_model::agent::{Exit, Input};
use aetheel_recording::comparison::RebuildError;
use aetheel_recording::{EntryKind, Guest, GuestFailure, Recording};

/// Maximum number of inputs in one call into the guest.
const BATCH: usize = 1024;
/// Maximum time between two looks at the deadlines of a link for which nothing is due.
const MAX_SLEEP: Duration = Duration::from_secs(10);

struct LinkTask {
    deps: LinkDeps,
    state: Arc<LinkState>,
    recording: Recording,
    /// The guest, or its failure.
    guest: Result<Box<dyn Guest>, GuestFailure>,
    usage: GuestUsage,
    machine: LinkMachine,
    io: LinkIo,
    replies: ReplySenders,
    checkpoints: Checkpoints,
    log: LinkLog,
}

/// Runs a link to its end.
pub(super) async fn run(
    mut deps: LinkDeps,
    recording: Recording,
    mut requests: mpsc::UnboundedReceiver<LinkRequest>,
    state: Arc<LinkState>,
) {
    if let Some(bound) = deps.launcher.bind().await {
        deps.launcher = bound;
    }
    let guest = deps.backend.open().await;
    let mut task = LinkTask::new(deps, recording, guest, state);
    // A link is opened for a request, which arrives now.
    if let Some(first) = requests.recv().await {
        let span = task.log.span.clone();
        async {
            task.serve(first).await;
            task.perform_effects().await;
        }
        .instrument(span)
        .await;
        task.run_loop(requests).await;
    } else {
        task.finish(&mut requests).await;
    }
}

/// A link that could not be rebuilt.
pub(crate) struct FailedRebuild {
    pub(crate) error: RebuildError,
    /// The recording, for another attempt.
    pub(crate) recording: Recording,
}

/// Rebuilds a link that outlived the gateway from a part of its recording. Returns its turns and
/// sessions, and the future that drives it.
pub(super) async fn resume(
    mut deps: LinkDeps,
    recording: Recording,
    former: FormerLink<'_>,
    requests: mpsc::UnboundedReceiver<LinkRequest>,
    state: Arc<LinkState>,
) -> Result<(Rebuilt, impl Future<Output = ()> + Send + 'static + use<>), Box<FailedRebuild>> {
    if let Some(bound) = deps.launcher.bind().await {
        deps.launcher = bound;
    }
    let failed = |error, recording| Box::new(FailedRebuild { error, recording });
    let guest = match deps.backend.open().await {
        Ok(guest) => guest,
        Err(failure) => return Err(failed(failure.into(), recording)),
    };
    let mut replay = Replay::new(LinkTask::new(deps, recording, Ok(guest), state));
    match replay.run(&former).await {
        Ok(rebuilt) => Ok((rebuilt, replay.task.run_loop(requests))),
        Err(error) => Err(failed(error, replay.task.recording)),
    }
}

impl LinkTask {
    fn new(
        deps: LinkDeps,
        mut recording: Recording,
        guest: Result<Box<dyn Guest>, GuestFailure>,
        state: Arc<LinkState>,
    ) -> Self {
        // The agent may print the address that it was given.
        recording.hide([&deps.tool_secret]);
        let mut task = Self {
            machine: LinkMachine::new(MachineSettings::new(deps.backend.descriptor(), &deps.host)),
            io: LinkIo::new(&deps, &recording),
            deps,
            state,
            recording,
            guest,
            usage: GuestUsage::default(),
            replies: ReplySenders::default(),
            checkpoints: Checkpoints::default(),
            log: LinkLog::default(),
        };
        task.log.renew_span(&task.deps, &task.machine.turns);
        task
    }

    /// Runs the task to its end.
    async fn run_loop(mut self, mut requests: mpsc::UnboundedReceiver<LinkRequest>) {
        let mut reachable = true;
        loop {
            let span = self.log.span.clone();
            if !self.step(&mut reachable, &mut requests).instrument(span).await {
                break;
            }
        }
        let span = self.log.span.clone();
        self.finish(&mut requests).instrument(span).await;
        // The link counts as ended only after this.
        drop(self);
        refuse_requests(&mut requests);
    }

    /// Waits for one event and handles it. Returns false when nothing can happen any more.
    async fn step(
        &mut self,
        reachable: &mut bool,
        requests: &mut mpsc::UnboundedReceiver<LinkRequest>,
    ) -> bool {
        if !self.io.inputs.is_empty() {
            self.call_guest().await;
            return true;
        }
        self.record_due_checkpoint().await;
        if self.is_over() {
            return false;
        }
        let deadline = self.deadline();
        self.usage.calls = 0;
        tokio::select! {
            (proc, event) = self.io.processes.next_event() => {
                let lost = ProcessEvent::Exited { how: Exit::Unknown, stderr_tail: String::new() };
                let (now, event) = (self.recording.now(), event.unwrap_or(lost));
                self.io.process_event(now, proc, event, &mut self.machine);
            }
            request = requests.recv(), if *reachable => match request {
                Some(request) => self.serve(request).await,
                // No handle is left, so the link ends in an orderly way.
                None => {
                    *reachable = false;
                    self.machine.retire(self.recording.now());
                }
            },
            input = self.io.net.next() => self.io.net_input(self.recording.now(), input),
            Some(request) = self.io.endpoint.recv() => self.serve_agent(request),
            read = self.io.reads.next() => {
                let note = self.machine.file_read(self.recording.now(), read);
                note.into_iter().for_each(|note| self.recording.host(note));
            }
            lines = next_progress(&mut self.io.progress) => self.io.processes.ack_recorded(lines),
            () = sleep_until(deadline) => self.machine.on_deadline(self.recording.now()),
        }
        self.perform_effects().await;
        true
    }

    /// Returns when something is due. If nothing is, only other events can wake the link, and waking
    /// up now and then is harmless.
    fn deadline(&self) -> Instant {
        let now = self.recording.now();
        let left = self.machine.deadline().map(|at| {
            // Rounded up, so that it is due when the task wakes up.
            Duration::from_micros(((at - now).max(0.0) * 1000.0).ceil() as u64)
        });
        Instant::now() + left.unwrap_or(MAX_SLEEP)
    }

    /// Returns whether nothing can happen any more.
    fn is_over(&self) -> bool {
        if !self.machine.processes.is_empty() || self.guest.is_err() {
            return self.machine.processes.is_empty();
        }
        let wanted = !self.machine.turns.running().is_empty() || self.machine.replies.has_queries();
        let awaited = !self.machine.timers.is_empty()
            || !self.machine.turns.asks.is_empty()
            || self.io.net.is_busy()
            || !self.io.reads.is_empty();
        !wanted || !awaited || self.machine.closing.is_interrupted()
    }

    fn input(&mut self, input: Input) {
        self.io.input(self.recording.now(), input);
    }

    /// Adds a note of the host to the recording and applies it.
    fn record(&mut self, entry: EntryKind) {
        self.machine.apply_entry(self.recording.now(), &entry);
        self.recording.host(entry);
    }

    /// Reports the end to all turns, waits for their drivers to finish, and removes the link's
    /// data.
    async fn finish(&mut self, requests: &mut mpsc::UnboundedReceiver<LinkRequest>) {
        self.machine.kill();
        self.perform_effects().await;
        self.machine.turns.running().into_iter().for_each(|turn| self.machine.examine(turn, None));
        self.perform_effects().await;
        self.replies.report_all(|| LinkReport::Over(self.guest.as_ref().err().cloned()));
        while !self.machine.turns.is_empty() {
            match requests.recv().await {
                Some(LinkRequest::Begin(begin)) => drop(begin.reports.send(LinkReport::Refused)),
                Some(LinkRequest::End(turn, ending)) => self.end(turn, ending),
                Some(_) => {}
                None => break,
            }
        }
        if self.io.is_held() {
            self.recording.wait_written().await;
            self.io.ack_recorded(&self.machine, &self.recording);
            self.deps.launcher.end(&self.deps.id);
        }
        self.io.files.remove();
    }
}

/// Refuses the remaining requests of a link that has ended.
fn refuse_requests(requests: &mut mpsc::UnboundedReceiver<LinkRequest>) {
    requests.close();
    while let Ok(request) = requests.try_recv() {
        if let LinkRequest::Begin(begin) = request {
            let _ = begin.reports.send(LinkReport::Refused);
        }
    }
}
