//! The metrics of the program: names, labels and meanings, and one function to record each.
//!
//! The rest of the program calls these functions and never names the `metrics` facade. Without a
//! recorder (`STATUS_ADDRESS` is empty) a call costs next to nothing. Label values come from the
//! program or the operator (names of backends), never from ids or people's text, so that their
//! number is limited. `docs/monitoring.md` lists [`FIGURES`];
//! `architecture::the_documentation_lists_every_figure` compares them, and `gateway::status` checks
//! what is recorded.

mod guests;

use std::time::{Duration, Instant};

use metrics::{counter, gauge, histogram};

pub use self::guests::{GuestFigures, OpenGuest, render as render_guests};
use aetheel_model::event::EventKind;

/// The type of a metric in Prometheus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FigureKind {
    /// A value that only grows while the program runs.
    Counter,
    /// A present value.
    Gauge,
    /// Seconds, counted in these buckets.
    Histogram(&'static [f64]),
}

impl FigureKind {
    /// Returns the name of the type in Prometheus' text format.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// A metric of the status page.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its name, which ends with the unit.
    pub name: &'static str,
    /// The type with which it is exported.
    pub kind: FigureKind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// A description for the operator, on one line.
    pub meaning: &'static str,
}

const fn f(
    name: &'static str,
    kind: FigureKind,
    labels: &'static [&'static str],
    meaning: &'static str,
) -> Figure {
    Figure { name, kind, labels, meaning }
}

use FigureKind::{Counter, Gauge, Histogram};

/// The buckets for turns in seconds, from a short answer to the longest turn.
const TURN: FigureKind = Histogram(&[
    0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1_800.0, 3_600.0,
]);
/// The buckets for calls into a guest in seconds, from an empty call to twice the time limit of a
/// call.
const CALL: FigureKind = Histogram(&[
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.0,
]);

const EVENTS: &str = "aetheel_events_total";
const WAIT: &str = "aetheel_event_wait_seconds";
const DEPTH: &str = "aetheel_queue_depth";
const OLDEST: &str = "aetheel_queue_oldest_age_seconds";
const RUNNING: &str = "aetheel_turns_running";
const FIRED: &str = "aetheel_schedule_fired_total";
const SKIPPED: &str = "aetheel_schedule_skipped_total";
const TURNS: &str = "aetheel_turns_total";
const TURN_SECONDS: &str = "aetheel_turn_duration_seconds";
const FIRST_TEXT: &str = "aetheel_turn_first_text_seconds";
const LINKS: &str = "aetheel_links";
const KILLS: &str = "aetheel_process_kills_total";
const ORPHANS: &str = "aetheel_orphans_killed_total";
const TRUNCATED: &str = "aetheel_output_lines_truncated_total";
const CALLS: &str = "aetheel_guest_call_seconds";
const UNRECOGNISED: &str = "aetheel_unrecognised_total";
const LOST: &str = "aetheel_lost_replies_total";
const ROLLBACKS: &str = "aetheel_backend_rollbacks_total";
const ROLLOUT: &str = "aetheel_backend_rollout_turns_total";
const RELOADS: &str = "aetheel_reloads_total";
const GENERATION: &str = "aetheel_backend_generation";
const QUESTIONS: &str = "aetheel_questions_total";
const COLLISIONS: &str = "aetheel_file_collisions_total";
const QUESTIONS_OPEN: &str = "aetheel_questions_open";
const POLICIES: &str = "aetheel_policy_decisions_total";
const OBSERVED: &str = "aetheel_observer_events_total";
const CONNECTED: &str = "aetheel_discord_connected";
const SHARDS: &str = "aetheel_discord_shards";
const LOGINS: &str = "aetheel_discord_logins_total";
const LOGINS_LEFT: &str = "aetheel_discord_logins_left";
const CLUSTER_LEASE: &str = "aetheel_cluster_lease_left_seconds";
const CLUSTER_NODES: &str = "aetheel_cluster_nodes";
const CLUSTER_SEAT: &str = "aetheel_cluster_seat";
const CLUSTER_TAKEOVERS: &str = "aetheel_cluster_takeovers_total";
const CLUSTER_INTERRUPTED: &str = "aetheel_cluster_interrupted_turns_total";
const REQUESTS: &str = "aetheel_discord_requests_total";
const INVALID: &str = "aetheel_discord_invalid_requests_10m";
const MESSAGES: &str = "aetheel_discord_messages_total";
const SEND_FAILURES: &str = "aetheel_discord_send_failures_total";
const WEBHOOKS: &str = "aetheel_webhook_calls_total";
const HEARTBEAT_AGE: &str = "aetheel_heartbeat_age_seconds";
const RECORDING_DROPPED: &str = "aetheel_recording_dropped_bytes_total";
const RECORDING_CUT: &str = "aetheel_recording_cut_bytes_total";
const UNWRITTEN: &str = "aetheel_turns_unwritten_total";
const LEFT_OUT: &str = "aetheel_log_lines_left_out_total";
const MEMORY: &str = "process_resident_memory_bytes";
const DESCRIPTORS: &str = "process_open_fds";
const STARTED: &str = "process_start_time_seconds";
const BUILD: &str = "aetheel_build_info";

/// All metrics, in the order of the documentation.
#[rustfmt::skip] // One line for each, as in the documentation.
pub const FIGURES: &[Figure] = &[
    f(EVENTS, Counter, &["type", "outcome"], "Events: `accepted`, `refused`, then `delivered`, `undelivered` or `withdrawn` (no turn was begun)"),
    f(WAIT, TURN, &["type"], "Time from the acceptance of an event to the beginning of its turn"),
    f(DEPTH, Gauge, &[], "Number of waiting events"),
    f(OLDEST, Gauge, &[], "Age of the event that has waited longest; 0 if no event waits"),
    f(RUNNING, Gauge, &[], "Number of events whose turns run"),
    f(FIRED, Counter, &["type"], "Ticks of heartbeats and cron jobs that became events"),
    f(SKIPPED, Counter, &["type", "reason"], "Ticks that did not become events: `busy` (the previous one still ran), `missed` or `refused`"),
    f(TURNS, Counter, &["backend", "ending"], "Turns by how they ended"),
    f(TURN_SECONDS, TURN, &["backend"], "Time from the beginning of a turn to its end"),
    f(FIRST_TEXT, TURN, &["backend"], "Time from the beginning of a turn to the agent's first text"),
    f(LINKS, Gauge, &[], "Open links: working agents, and those kept warm"),
    f(KILLS, Counter, &[], "Agents that were killed (SIGKILL), because they did not end by themselves"),
    f(ORPHANS, Counter, &[], "Processes of an earlier gateway that were killed at the start"),
    f(TRUNCATED, Counter, &["backend"], "Lines of agents cut at `LINE_LIMIT_BYTES`"),
    f(CALLS, CALL, &["backend"], "Run time of one call into a backend"),
    f(guests::CALLS, Counter, &["backend", "generation"], "Calls into guests of a version; this and the next four disappear ten minutes after its last guest"),
    f(guests::RUN_SECONDS, Counter, &["backend", "generation"], "Time in which guests ran, without waiting for a worker thread"),
    f(guests::FAILURES, Counter, &["backend", "generation", "kind"], "Failures of backends: `refused`, `trapped` or `cut-off`"),
    f(guests::MEMORY, Gauge, &["backend", "generation"], "Largest memory of a guest so far"),
    f(guests::OPEN, Gauge, &["backend", "generation"], "Guests that are open, one a link"),
    f(UNRECOGNISED, Counter, &["backend", "agent_version", "generation"], "Output of agents that their backend does not know; `docs/drift.md`"),
    f(LOST, Counter, &["backend", "outcome"], "Replies that no backend could read: `lost`, then `delivered` or `given-up`; `docs/recovery.md`"),
    f(ROLLBACKS, Counter, &["backend", "result"], "Backends found to parse worse than before: `done`, `failed` or `off` (not rolled back)"),
    f(ROLLOUT, Counter, &["backend", "result"], "Turns that a new version of a backend read beside the serving one: `same`, `different`, `harmful` (stops it) or `skipped`"),
    f(RELOADS, Counter, &["result"], "Loads of backend files: `loaded`, `refused`, `unchanged`, `stands-by`, `on-rollout` or `vanished`"),
    f(GENERATION, Gauge, &["backend"], "Generation of a backend that serves"),
    f(QUESTIONS, Counter, &["outcome"], "Questions of agents: `opened`, then `answered`, `expired`, `withdrawn`, `turn-ended` or `unseen`"),
    f(COLLISIONS, Counter, &[], "Files that the agents of two conversations used at the same time"),
    f(QUESTIONS_OPEN, Gauge, &[], "Open questions to people"),
    f(POLICIES, Counter, &["policy", "result"], "Decisions of policies: `allow`, `ask`, `deny`, `pass` or `failed` (people are asked)"),
    f(OBSERVED, Counter, &["observer", "result"], "Events for observers: `seen`, `dropped` (the observer is too slow, or paused after failures) or `failed` (it failed while it read them)"),
    f(CONNECTED, Gauge, &[], "Shards that are connected to Discord's gateway"),
    f(SHARDS, Gauge, &[], "Shards that this node should have connected; 0 if another node has them"),
    f(LOGINS, Counter, &[], "Logins to Discord's gateway; 1,000 a day are allowed"),
    f(LOGINS_LEFT, Gauge, &[], "Logins left today, as of the last one"),
    f(CLUSTER_LEASE, Gauge, &[], "How long this node may still write to Discord without reaching the cluster's database"),
    f(CLUSTER_NODES, Gauge, &[], "Nodes of the cluster that are alive"),
    f(CLUSTER_SEAT, Gauge, &[], "1 on the node of the cluster that is logged in to Discord"),
    f(CLUSTER_TAKEOVERS, Counter, &[], "How often this node took over from another one"),
    f(CLUSTER_INTERRUPTED, Counter, &[], "Turns that another node had begun when this one took over; they were fenced there"),
    f(REQUESTS, Counter, &["status"], "Responses of Discord by HTTP status; `none` if there was no response"),
    f(INVALID, Gauge, &[], "Responses with 401, 403 and 429 in the last ten minutes; Discord bans at 10,000"),
    f(MESSAGES, Counter, &["stage", "how"], "Messages of answers: `draft` or `final`, a `post` or an `edit`"),
    f(SEND_FAILURES, Counter, &[], "Answers that could not be sent to Discord"),
    f(WEBHOOKS, Counter, &["webhook", "status"], "Calls of webhooks by HTTP status; `-` for an unknown webhook"),
    f(HEARTBEAT_AGE, Gauge, &[], "Seconds since a test event last passed intake, queue and reply; above 60, prompts may not pass either"),
    f(RECORDING_DROPPED, Counter, &[], "Bytes of recordings lost because the disk was too slow"),
    f(RECORDING_CUT, Counter, &[], "Bytes not recorded because there was no space for them"),
    f(UNWRITTEN, Counter, &[], "Turns that are missing in `state/turns`, because the disk was full or too slow"),
    f(LEFT_OUT, Counter, &[], "Repeated warnings left out of the log"),
    f(MEMORY, Gauge, &[], "Resident memory of the gateway, without its agents"),
    f(DESCRIPTORS, Gauge, &[], "Open file descriptors of the gateway"),
    f(STARTED, Gauge, &[], "When the gateway was started, seconds since 1970"),
    f(BUILD, Gauge, &["version"], "1, with the version that runs"),
];

/// Describes all metrics to the recorder, and sets counters without labels to zero. Call it once
/// there is a recorder.
pub fn describe() {
    for figure in FIGURES {
        let Figure { name, meaning, .. } = *figure;
        match figure.kind {
            Counter => metrics::describe_counter!(name, meaning),
            Gauge => metrics::describe_gauge!(name, meaning),
            Histogram(_) => metrics::describe_histogram!(name, metrics::Unit::Seconds, meaning),
        }
        if figure.kind == Counter && figure.labels.is_empty() {
            counter!(name).increment(0);
        }
    }
    gauge!(BUILD, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    gauge!(STARTED).set(jiff::Timestamp::now().as_second() as f64);
    gauge!(CONNECTED).set(0.0);
}

/// The outcome of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventOutcome {
    /// It was accepted into the queue.
    Accepted,
    /// It was not accepted.
    Refused,
    /// Its answer reached people.
    Delivered,
    /// Its answer could not be delivered.
    Undelivered,
    /// It was accepted, but ended without a turn.
    Withdrawn,
}

/// Counts the outcome of an event.
pub fn count_event(kind: EventKind, outcome: EventOutcome) {
    let outcome = match outcome {
        EventOutcome::Accepted => "accepted",
        EventOutcome::Refused => "refused",
        EventOutcome::Delivered => "delivered",
        EventOutcome::Undelivered => "undelivered",
        EventOutcome::Withdrawn => "withdrawn",
    };
    counter!(EVENTS, "type" => type_of(kind), "outcome" => outcome).increment(1);
}

/// Records how long an event waited for its turn.
pub fn record_wait(kind: EventKind, accepted_ms: i64) {
    let waited = jiff::Timestamp::now().as_millisecond().saturating_sub(accepted_ms).max(0);
    histogram!(WAIT, "type" => type_of(kind)).record(waited as f64 / 1_000.0);
}

/// Sets the state of the queue. The age is in milliseconds.
pub fn set_queue(waiting: usize, oldest_ms: Option<i64>, running: usize) {
    gauge!(DEPTH).set(waiting as f64);
    gauge!(OLDEST).set(oldest_ms.unwrap_or(0).max(0) as f64 / 1_000.0);
    gauge!(RUNNING).set(running as f64);
}

/// The result of passing events to an observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservedResult {
    /// The observer read them.
    Seen,
    /// The observer was too slow, or did not get events after failures.
    Dropped,
    /// The observer failed while it read them.
    Failed,
}

/// Counts events for an observer.
pub fn observed(observer: &str, result: ObservedResult, events: u64) {
    let result = match result {
        ObservedResult::Seen => "seen",
        ObservedResult::Dropped => "dropped",
        ObservedResult::Failed => "failed",
    };
    counter!(OBSERVED, "observer" => observer.to_owned(), "result" => result).increment(events);
}

/// Counts a decision of a policy.
pub fn policy_decided(policy: &str, result: &'static str) {
    counter!(POLICIES, "policy" => policy.to_owned(), "result" => result).increment(1);
}

/// Counts a tick of a heartbeat or cron job that became an event.
pub fn schedule_fired(kind: EventKind) {
    counter!(FIRED, "type" => type_of(kind)).increment(1);
}

/// Counts ticks of a heartbeat or cron job that became no event.
pub fn schedule_skipped(kind: EventKind, reason: &'static str, ticks: u32) {
    counter!(SKIPPED, "type" => type_of(kind), "reason" => reason).increment(ticks.into());
}

/// Sets the number of open links and questions.
pub fn set_open(links: usize, questions: usize) {
    gauge!(LINKS).set(links as f64);
    gauge!(QUESTIONS_OPEN).set(questions as f64);
}

/// Counts a finished turn. `ending` comes from `aetheel_turn::Ending::word`.
pub fn turn_ended(backend: &str, ending: &'static str, took: Duration) {
    counter!(TURNS, "backend" => backend.to_owned(), "ending" => ending).increment(1);
    histogram!(TURN_SECONDS, "backend" => backend.to_owned()).record(took);
}

/// Records the time until the first text of a turn.
pub fn first_text(backend: &str, after: Duration) {
    histogram!(FIRST_TEXT, "backend" => backend.to_owned()).record(after);
}

/// Counts output that this generation of a backend does not know, for this version of the agent.
pub fn unrecognised(backend: &str, agent_version: &str, generation: &str) {
    let (backend, agent_version, generation) =
        (backend.to_owned(), agent_version.to_owned(), generation.to_owned());
    counter!(UNRECOGNISED, "backend" => backend, "agent_version" => agent_version, "generation" => generation).increment(1);
}

/// Counts a reply that could not be read, or a change of its state. `outcome` is the word of the
/// state.
pub fn lost_reply(backend: &str, outcome: &'static str) {
    counter!(LOST, "backend" => backend.to_owned(), "outcome" => outcome).increment(1);
}

/// Counts the result of rolling back a backend that parsed worse than the previous one.
pub fn rolled_back(backend: &str, result: &'static str) {
    counter!(ROLLBACKS, "backend" => backend.to_owned(), "result" => result).increment(1);
}

/// The result of reading a turn with a new version of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutResult {
    /// Both versions read the same.
    Same,
    /// The new version reads more.
    Different,
    /// The new version reads worse, or acts differently.
    Harmful,
    /// The turn was not read.
    Skipped,
}

/// Counts a turn that a new version of a backend read, or that was skipped.
pub fn rollout_turn(backend: &str, result: RolloutResult) {
    let result = match result {
        RolloutResult::Same => "same",
        RolloutResult::Different => "different",
        RolloutResult::Harmful => "harmful",
        RolloutResult::Skipped => "skipped",
    };
    counter!(ROLLOUT, "backend" => backend.to_owned(), "result" => result).increment(1);
}

/// Counts lines of an agent that were cut.
pub fn lines_truncated(backend: &str, count: u64) {
    if count > 0 {
        counter!(TRUNCATED, "backend" => backend.to_owned()).increment(count);
    }
}

/// Counts an agent that was killed because it did not exit by itself.
pub fn process_killed() {
    counter!(KILLS).increment(1);
}

/// Counts processes of an earlier gateway that were killed.
pub fn orphans_killed(count: usize) {
    counter!(ORPHANS).increment(count as u64);
}

/// Measures the calls into one guest. Created once for each guest, because a call may be shorter
/// than looking up the metric.
pub struct CallTimer(metrics::Histogram);

impl CallTimer {
    /// Creates a timer for the guests of a backend.
    #[must_use]
    pub fn of(backend: &str) -> Self {
        Self(histogram!(CALLS, "backend" => backend.to_owned()))
    }

    /// Records a call that began at this time and has ended.
    pub fn ended(&self, began: Instant) {
        self.0.record(began.elapsed());
    }
}

/// Counts the result of loading a file of the backends folder.
pub fn reloaded(result: &'static str) {
    counter!(RELOADS, "result" => result).increment(1);
}

/// Sets the generation of a backend that serves.
pub fn set_generation(backend: &str, number: u32) {
    gauge!(GENERATION, "backend" => backend.to_owned()).set(number);
}

/// Counts the outcome of a question.
pub fn count_question(outcome: &'static str) {
    counter!(QUESTIONS, "outcome" => outcome).increment(1);
}

/// Counts a file that the agents of two conversations used at the same time.
pub fn count_collision() {
    counter!(COLLISIONS).increment(1);
}

/// Sets the number of shards that are connected to Discord's gateway, and the number of all shards.
pub fn discord_connected((connected, shards): (usize, usize)) {
    gauge!(CONNECTED).set(connected as f64);
    gauge!(SHARDS).set(shards as f64);
}

/// Counts a login to Discord's gateway.
pub fn discord_login() {
    counter!(LOGINS).increment(1);
}

/// Sets how many logins are left today.
pub fn discord_logins_left(left: u64) {
    gauge!(LOGINS_LEFT).set(left as f64);
}

/// Sets the state of the node in its cluster: how long its lease lasts, how many nodes are alive,
/// and whether this one is the leader.
pub fn set_cluster(lease_left: Duration, nodes: usize, seat: bool) {
    gauge!(CLUSTER_LEASE).set(lease_left.as_secs_f64());
    gauge!(CLUSTER_NODES).set(nodes as f64);
    gauge!(CLUSTER_SEAT).set(f64::from(u8::from(seat)));
}

/// Counts a takeover from another node, with the number of turns that it had begun.
pub fn cluster_takeover(interrupted: usize) {
    counter!(CLUSTER_TAKEOVERS).increment(1);
    counter!(CLUSTER_INTERRUPTED).increment(interrupted as u64);
}

/// Counts a response of Discord, or `None` if there was no response.
pub fn discord_answered(status: Option<u16>) {
    counter!(REQUESTS, "status" => status.map_or_else(|| "none".to_owned(), |status| status.to_string())).increment(1);
}

/// Sets the number of requests that Discord recently rejected as invalid.
pub fn discord_invalid(lately: usize) {
    gauge!(INVALID).set(lately as f64);
}

/// Counts a message of an answer that was posted or edited.
pub fn discord_message(last: bool, posted: bool) {
    let (stage, how) = (if last { "final" } else { "draft" }, if posted { "post" } else { "edit" });
    counter!(MESSAGES, "stage" => stage, "how" => how).increment(1);
}

/// Counts an answer that was not sent.
pub fn discord_send_failed() {
    counter!(SEND_FAILURES).increment(1);
}

/// Counts a call of a webhook, or `None` if there is no such webhook.
pub fn webhook_called(webhook: Option<&str>, status: u16) {
    counter!(WEBHOOKS, "webhook" => webhook.unwrap_or("-").to_owned(), "status" => status.to_string()).increment(1);
}

/// Sets the time since a test event last passed intake, queue and reply.
pub fn set_heartbeat_age(silence: Duration) {
    metrics::gauge!(HEARTBEAT_AGE).set(silence.as_secs_f64());
}

/// Counts bytes of a recording that were not written because there was no space for them.
pub fn recording_cut(bytes: u64) {
    metrics::counter!(RECORDING_CUT).increment(bytes);
}

/// Counts bytes of a recording that were lost.
pub fn recording_dropped(bytes: u64) {
    counter!(RECORDING_DROPPED).increment(bytes);
}

/// Counts a turn that was not saved.
pub fn turn_unwritten() {
    counter!(UNWRITTEN).increment(1);
}

/// Counts a line that was left out of the log.
pub fn log_line_left_out() {
    counter!(LEFT_OUT).increment(1);
}

/// Sets the metrics of this process that the system reports. A value is `None` without `/proc`.
pub fn set_process(resident_bytes: Option<u64>, descriptors: Option<usize>) {
    if let Some(bytes) = resident_bytes {
        gauge!(MEMORY).set(bytes as f64);
    }
    if let Some(count) = descriptors {
        gauge!(DESCRIPTORS).set(count as f64);
    }
}

fn type_of(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Message => "message",
        EventKind::Heartbeat => "heartbeat",
        EventKind::Cron => "cron",
        EventKind::Hook => "hook",
        EventKind::Webhook => "webhook",
        EventKind::Agent => "agent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_in_their_unit_and_are_unique() {
        for (at, figure) in FIGURES.iter().enumerate() {
            assert!(
                FIGURES[..at].iter().all(|other| other.name != figure.name),
                "{} occurs twice",
                figure.name
            );
            match figure.kind {
                Counter => assert!(figure.name.ends_with("_total"), "{}", figure.name),
                Histogram(buckets) => {
                    assert!(figure.name.ends_with("_seconds"), "{}", figure.name);
                    assert!(buckets.windows(2).all(|pair| pair[0] < pair[1]), "{}", figure.name);
                }
                Gauge => assert!(!figure.name.ends_with("_total"), "{}", figure.name),
            }
        }
    }
}
