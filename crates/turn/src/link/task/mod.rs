//! The task of a link, which handles one event at a time.
//!
//! This module waits for events. `requests` serves requests, `actions` calls the guest and performs
//! its actions, `launch` starts its processes, `output` processes the agent's output, `closing` ends
//! the link, `renewal` moves it to a newer generation, and `log` sets the span of its log lines.
//! `tools` carries out calls of the host's tools. `held` handles links that outlive the gateway,
//! `checkpoint` records their state between turns, and `rebuild` restores one.

mod actions;
mod checkpoint;
mod closing;
mod held;
mod launch;
mod log;
mod output;
mod rebuild;
mod renewal;
mod requests;
mod tools;
mod unsolicited;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tracing::{Instrument as _, Span};

use self::checkpoint::Checkpoints;
use self::closing::ClosingState;
use self::held::next_progress;
use self::rebuild::Rebuilt;
pub(crate) use self::rebuild::RebuiltTurn;
use self::unsolicited::UnsolicitedTurns;
use super::calls::ToolCalls;
use super::files::{BodySources, LinkFiles};
use super::net::Net;
use super::processes::LinkProcesses;
use super::replies::Replies;
use super::served::ServedCalls;
use super::turns::LinkTurns;
use super::{FormerLink, LinkDeps, LinkReport, LinkRequest, LinkState};
use crate::tool_endpoints::EndpointRequest;
use aetheel_model::agent::descriptor::LinkSharing;
use aetheel_model::agent::{Exit, Input, TimedInput};
use aetheel_model::baseline::Baseline;
use aetheel_recording::comparison::RebuildError;
use aetheel_recording::conservation::OutputLedger;
use aetheel_recording::{Guest, GuestFailure, Recording};

/// Maximum number of inputs in one call into the guest.
const BATCH: usize = 1024;

struct LinkTask {
    deps: LinkDeps,
    state: Arc<LinkState>,
    recording: Recording,
    /// The guest, or its failure.
    guest: Result<Box<dyn Guest>, GuestFailure>,
    /// The inputs for the next call into the guest.
    inputs: Vec<TimedInput>,
    counters: TurnCounters,
    unsolicited: UnsolicitedTurns,
    ledger: OutputLedger,
    checkpoints: Checkpoints,
    turns: LinkTurns,
    replies: Replies,
    processes: LinkProcesses,
    net: Net,
    files: LinkFiles,
    body_sources: BodySources,
    calls: ToolCalls,
    served: ServedCalls,
    /// Requests that arrive at the MCP server.
    endpoint: mpsc::UnboundedReceiver<EndpointRequest>,
    timers: BTreeMap<u32, Instant>,
    closing: ClosingState,
    /// The agent's version when the last turn began.
    agent_version: Option<String>,
    /// The span of the link's log lines.
    span: Span,
    /// The number of written lines of the recording, if the link outlives the gateway.
    progress: Option<watch::Receiver<u64>>,
    /// Whether the link is being rebuilt, so that its current inputs are from before a restart.
    rebuilding: bool,
}

/// Counters since the last turn began.
#[derive(Default)]
struct TurnCounters {
    /// The number of log lines of the guest.
    remarks: u32,
    /// The number of dropped actions.
    dropped: u32,
    /// The size of the guest's actions, in bytes.
    actions: u64,
    /// The size of the agent's output, in bytes.
    output: u64,
    /// Calls into the guest since the task last waited for an event.
    calls: u32,
}

/// Runs a link to its end.
pub(super) async fn run(
    mut parts: LinkDeps,
    recording: Recording,
    mut requests: mpsc::UnboundedReceiver<LinkRequest>,
    state: Arc<LinkState>,
) {
    if let Some(bound) = parts.launcher.bind().await {
        parts.launcher = bound;
    }
    let guest = parts.backend.open().await;
    let mut task = LinkTask::new(parts, recording, guest, state);
    // A link is opened for a request, which arrives now.
    if let Some(first) = requests.recv().await {
        let span = task.span.clone();
        task.serve(first).instrument(span).await;
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
    mut parts: LinkDeps,
    recording: Recording,
    former: FormerLink<'_>,
    requests: mpsc::UnboundedReceiver<LinkRequest>,
    state: Arc<LinkState>,
) -> Result<(Rebuilt, impl Future<Output = ()> + Send + 'static + use<>), Box<FailedRebuild>> {
    if let Some(bound) = parts.launcher.bind().await {
        parts.launcher = bound;
    }
    let guest = parts.backend.open().await;
    let mut task = LinkTask::new(parts, recording, guest, state);
    match task.rebuild(former).await {
        Ok(rebuilt) => Ok((rebuilt, task.run_loop(requests))),
        Err(error) => Err(Box::new(FailedRebuild { error, recording: task.recording })),
    }
}

impl LinkTask {
    fn new(
        parts: LinkDeps,
        mut recording: Recording,
        guest: Result<Box<dyn Guest>, GuestFailure>,
        state: Arc<LinkState>,
    ) -> Self {
        let held = parts.launcher.holds();
        let (requests, endpoint) = mpsc::unbounded_channel();
        parts.tool_endpoints.add(&parts.tool_secret, requests);
        // The agent may print the address that it was given.
        recording.hide([&parts.tool_secret]);
        let mut task = Self {
            progress: recording.progress().filter(|_| held),
            recording,
            state,
            guest,
            inputs: Vec::new(),
            counters: TurnCounters::default(),
            unsolicited: UnsolicitedTurns::default(),
            ledger: OutputLedger::default(),
            checkpoints: Checkpoints::default(),
            turns: LinkTurns::default(),
            replies: Replies::default(),
            processes: LinkProcesses::default(),
            net: Net::new(),
            files: LinkFiles::new(&parts.launcher.scratch_prefix(), held),
            body_sources: BodySources::new(parts.tool_endpoints.address_of(&parts.tool_secret)),
            calls: ToolCalls::default(),
            served: ServedCalls::default(),
            endpoint,
            timers: BTreeMap::new(),
            closing: ClosingState::default(),
            agent_version: None,
            span: Span::none(),
            rebuilding: false,
            deps: parts,
        };
        task.renew_span();
        task
    }

    /// Runs the task to its end.
    async fn run_loop(mut self, mut requests: mpsc::UnboundedReceiver<LinkRequest>) {
        let mut reachable = true;
        loop {
            let span = self.span.clone();
            if !self.step(&mut reachable, &mut requests).instrument(span).await {
                break;
            }
        }
        let span = self.span.clone();
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
        if !self.inputs.is_empty() {
            self.call_guest().await;
            return true;
        }
        self.record_due_checkpoint().await;
        if self.is_over() {
            return false;
        }
        let deadline = self.deadline();
        self.counters.calls = 0;
        tokio::select! {
            (proc, event) = self.processes.next_event() => match event {
                Some(event) => self.process_event(proc, event),
                None => self.process_exited(proc, Exit::Unknown, String::new()),
            },
            request = requests.recv(), if *reachable => match request {
                Some(request) => self.serve(request).await,
                // No handle is left, so the link ends in an orderly way.
                None => {
                    *reachable = false;
                    self.retire();
                }
            },
            input = self.net.next() => {
                self.net_input(input);
                while self.inputs.len() < BATCH
                    && let Some(more) = self.net.try_next()
                {
                    self.net_input(more);
                }
            }
            Some(request) = self.endpoint.recv() => self.serve_agent(request),
            read = self.calls.next_read() => self.file_read(read),
            lines = next_progress(&mut self.progress) => self.processes.ack_recorded(lines),
            () = sleep_until(deadline) => self.on_deadline(),
        }
        true
    }

    /// Returns whether nothing can happen any more.
    fn is_over(&self) -> bool {
        if !self.processes.is_empty() || self.guest.is_err() {
            return self.processes.is_empty();
        }
        let wanted = self.turns.any_running() || self.replies.has_queries();
        let awaited = !self.timers.is_empty()
            || self.turns.has_asks()
            || self.net.is_busy()
            || self.calls.is_reading();
        !wanted || !awaited || self.closing.is_interrupted()
    }

    fn input(&mut self, input: Input) {
        let at_ms = self.recording.now();
        self.inputs.push(TimedInput { at_ms, input });
    }

    fn name(&self) -> &str {
        &self.deps.backend.descriptor().name
    }

    fn baseline(&self) -> Option<Baseline> {
        self.deps.host.agents.baselines().get(self.name(), self.agent_version.as_deref())
    }

    /// Returns whether the agent serves one turn and exits.
    fn is_one_shot(&self) -> bool {
        self.deps.backend.descriptor().sharing == LinkSharing::Turn
    }

    /// Returns the maximum length of a line and of a response body, in bytes.
    fn line_limit(&self) -> usize {
        let host = self.deps.host.resources.line;
        self.deps.backend.descriptor().line_limit.map_or(host, |limit| host.min(limit as usize))
    }

    /// Reports the end to all turns, waits for their drivers to finish, and removes the link's
    /// data.
    async fn finish(&mut self, requests: &mut mpsc::UnboundedReceiver<LinkRequest>) {
        self.processes.kill();
        self.state.close();
        let baseline = self.baseline();
        self.turns.report_examined(|turn| self.ledger.examine(turn, None, baseline.as_ref()));
        self.turns.report_all(|| LinkReport::Over(self.guest.as_ref().err().cloned()));
        while !self.turns.is_empty() {
            match requests.recv().await {
                Some(LinkRequest::Begin(begin)) => drop(begin.reports.send(LinkReport::Refused)),
                Some(LinkRequest::End(turn, ending)) => self.end(turn, ending),
                Some(_) => {}
                None => break,
            }
        }
        self.release().await;
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
