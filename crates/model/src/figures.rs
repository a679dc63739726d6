//! Every figure the program keeps of itself: names, labels, meanings, and the one way to count
//! each.
//!
//! The rest of the program calls the functions here where things happen; nobody else names the
//! `metrics` facade. Without a recorder (`STATUS_ADDRESS` is empty) each call costs next to
//! nothing. Label values are ours or the operator's (names of backends), never ids and never
//! people's text, so that there are only so many. `docs/operating.md` lists [`FIGURES`];
//! `architecture::the_documentation_lists_every_figure` compares them, `gateway::status` what is
//! really counted.

use std::time::{Duration, Instant};

use metrics::{counter, gauge, histogram};

use crate::event::EventKind;

/// The type of a figure, as Prometheus has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Only grows while the program runs.
    Counter,
    /// As it is now.
    Gauge,
    /// Seconds, counted in these buckets.
    Histogram(&'static [f64]),
}

impl Kind {
    /// Its name in Prometheus' text.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// One figure of the status page, as documented and exported.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its name; the unit is its end.
    pub name: &'static str,
    /// The type it is exported with.
    pub kind: Kind,
    /// By what it is told apart.
    pub labels: &'static [&'static str],
    /// One line for the operator.
    pub meaning: &'static str,
}

const fn f(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    meaning: &'static str,
) -> Figure {
    Figure { name, kind, labels, meaning }
}

use Kind::{Counter, Gauge, Histogram};

/// From a syllable to the longest turn.
const TURN: Kind = Histogram(&[
    0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1_800.0, 3_600.0,
]);
/// From a call of nothing to twice the limit of one.
const CALL: Kind = Histogram(&[
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
const GUEST_FAILURES: &str = "aetheel_guest_failures_total";
const UNRECOGNISED: &str = "aetheel_unrecognised_total";
const LOST: &str = "aetheel_lost_replies_total";
const ROLLBACKS: &str = "aetheel_backend_rollbacks_total";
const RELOADS: &str = "aetheel_reloads_total";
const GENERATION: &str = "aetheel_backend_generation";
const QUESTIONS: &str = "aetheel_questions_total";
const QUESTIONS_OPEN: &str = "aetheel_questions_open";
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

/// Every figure, in the order of the documentation.
#[rustfmt::skip] // A line each, as in the documentation.
pub const FIGURES: &[Figure] = &[
    f(EVENTS, Counter, &["type", "outcome"], "Events: `accepted`, `refused`, then `delivered`, `undelivered` or `withdrawn` (no turn was begun)"),
    f(WAIT, TURN, &["type"], "Time from the acceptance of an event to the beginning of its turn"),
    f(DEPTH, Gauge, &[], "Events that wait"),
    f(OLDEST, Gauge, &[], "Age of the event that waits longest; 0: none waits"),
    f(RUNNING, Gauge, &[], "Events whose turns run"),
    f(FIRED, Counter, &["type"], "Ticks of heartbeats and cron jobs that became events"),
    f(SKIPPED, Counter, &["type", "reason"], "Ticks that became no event: `busy` (the one before still ran), `missed` or `refused`"),
    f(TURNS, Counter, &["backend", "ending"], "Turns by how they ended"),
    f(TURN_SECONDS, TURN, &["backend"], "Time from the beginning of a turn to its end"),
    f(FIRST_TEXT, TURN, &["backend"], "Time from the beginning of a turn to the agent's first text"),
    f(LINKS, Gauge, &[], "Links that are open: agents at work, and those kept warm"),
    f(KILLS, Counter, &[], "Agents that were killed (SIGKILL), because they did not end by themselves"),
    f(ORPHANS, Counter, &[], "Processes an earlier gateway had left behind, killed at the start"),
    f(TRUNCATED, Counter, &["backend"], "Lines of agents cut at `LINE_LIMIT_BYTES`"),
    f(CALLS, CALL, &["backend"], "Run time of one call into a backend"),
    f(GUEST_FAILURES, Counter, &["backend", "kind"], "Failures of backends: `refused`, `trapped` or `cut-off`"),
    f(UNRECOGNISED, Counter, &["backend", "agent_version", "generation"], "Output of agents that their backend does not know; `docs/drift.md`"),
    f(LOST, Counter, &["backend", "outcome"], "Replies no backend could read: `lost`, then `delivered` or `given-up`; `docs/recovery.md`"),
    f(ROLLBACKS, Counter, &["backend", "result"], "Backends found to parse worse than before: `done`, `failed` or `off` (not rolled back)"),
    f(RELOADS, Counter, &["result"], "Loads of backend files: `loaded`, `refused`, `unchanged`, `stands-by` or `vanished`"),
    f(GENERATION, Gauge, &["backend"], "Which load of a backend serves"),
    f(QUESTIONS, Counter, &["outcome"], "Questions of agents: `opened`, then `answered`, `expired`, `withdrawn`, `turn-ended` or `unseen`"),
    f(QUESTIONS_OPEN, Gauge, &[], "Questions that wait for people"),
    f(CONNECTED, Gauge, &[], "Shards that are connected to Discord's gateway"),
    f(SHARDS, Gauge, &[], "Shards that this node is to have connected; 0: another node has them"),
    f(LOGINS, Counter, &[], "Logins to Discord's gateway; 1,000 a day are allowed"),
    f(LOGINS_LEFT, Gauge, &[], "Logins left today, as of the last one"),
    f(CLUSTER_LEASE, Gauge, &[], "For how long this node may still speak without reaching the database of its cluster"),
    f(CLUSTER_NODES, Gauge, &[], "Nodes of the cluster that live"),
    f(CLUSTER_SEAT, Gauge, &[], "1 on the node of the cluster that is logged in to Discord"),
    f(CLUSTER_TAKEOVERS, Counter, &[], "How often this node took over what another one had left"),
    f(CLUSTER_INTERRUPTED, Counter, &[], "Turns that another node had begun when this one took over; they were fenced there"),
    f(REQUESTS, Counter, &["status"], "Answers of Discord by HTTP status; `none`: no answer came"),
    f(INVALID, Gauge, &[], "Answers of 401, 403 and 429 in the last ten minutes; Discord bans at 10,000"),
    f(MESSAGES, Counter, &["stage", "how"], "Messages of answers: `draft` or `final`, a `post` or an `edit`"),
    f(SEND_FAILURES, Counter, &[], "Answers that could not be sent to Discord"),
    f(WEBHOOKS, Counter, &["webhook", "status"], "Calls of webhooks by HTTP status; `-`: no such webhook"),
    f(HEARTBEAT_AGE, Gauge, &[], "Seconds since the last heartbeat came through intake, queue and reply; above 60, prompts may not come through either"),
    f(RECORDING_DROPPED, Counter, &[], "Bytes of recordings lost because the disk was too slow"),
    f(RECORDING_CUT, Counter, &[], "Bytes not recorded because there was no room for them"),
    f(UNWRITTEN, Counter, &[], "Turns that are missing in `state/turns`, because the disk was full or too slow"),
    f(LEFT_OUT, Counter, &[], "Repeated warnings left out of the log"),
    f(MEMORY, Gauge, &[], "Resident memory of the gateway, without its agents"),
    f(DESCRIPTORS, Gauge, &[], "Open file descriptors of the gateway"),
    f(STARTED, Gauge, &[], "When the gateway was started, seconds since 1970"),
    f(BUILD, Gauge, &["version"], "1, with the version that runs"),
];

/// Tells the recorder what there is, and counters without labels that they are at zero. Call it
/// once there is one.
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

/// The fate of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was taken into the queue.
    Accepted,
    /// It was not taken.
    Refused,
    /// Its answer reached people.
    Delivered,
    /// Its answer reached nobody.
    Undelivered,
    /// It was taken, and is over without a turn.
    Withdrawn,
}

/// Something became of an event.
pub fn event(kind: EventKind, outcome: Outcome) {
    let outcome = match outcome {
        Outcome::Accepted => "accepted",
        Outcome::Refused => "refused",
        Outcome::Delivered => "delivered",
        Outcome::Undelivered => "undelivered",
        Outcome::Withdrawn => "withdrawn",
    };
    counter!(EVENTS, "type" => type_of(kind), "outcome" => outcome).increment(1);
}

/// An event waited so long for its turn.
pub fn waited(kind: EventKind, accepted_ms: i64) {
    let waited = jiff::Timestamp::now().as_millisecond().saturating_sub(accepted_ms).max(0);
    histogram!(WAIT, "type" => type_of(kind)).record(waited as f64 / 1_000.0);
}

/// The queue as it is; the age in milliseconds.
pub fn queue(waiting: usize, oldest_ms: Option<i64>, running: usize) {
    gauge!(DEPTH).set(waiting as f64);
    gauge!(OLDEST).set(oldest_ms.unwrap_or(0).max(0) as f64 / 1_000.0);
    gauge!(RUNNING).set(running as f64);
}

/// A tick of a heartbeat or cron job became an event.
pub fn schedule_fired(kind: EventKind) {
    counter!(FIRED, "type" => type_of(kind)).increment(1);
}

/// Ticks of a heartbeat or cron job became nothing.
pub fn schedule_skipped(kind: EventKind, reason: &'static str, ticks: u32) {
    counter!(SKIPPED, "type" => type_of(kind), "reason" => reason).increment(ticks.into());
}

/// Links and questions that are open.
pub fn open(links: usize, questions: usize) {
    gauge!(LINKS).set(links as f64);
    gauge!(QUESTIONS_OPEN).set(questions as f64);
}

/// Counts a finished turn. `ending` comes from `aetheel_turn::Ending::word`.
pub fn turn_ended(backend: &str, ending: &'static str, took: Duration) {
    counter!(TURNS, "backend" => backend.to_owned(), "ending" => ending).increment(1);
    histogram!(TURN_SECONDS, "backend" => backend.to_owned()).record(took);
}

/// The first text of a turn came.
pub fn first_text(backend: &str, after: Duration) {
    histogram!(FIRST_TEXT, "backend" => backend.to_owned()).record(after);
}

/// An agent of this version said what this load of its backend does not know.
pub fn unrecognised(backend: &str, agent_version: &str, generation: &str) {
    let (backend, agent_version, generation) =
        (backend.to_owned(), agent_version.to_owned(), generation.to_owned());
    counter!(UNRECOGNISED, "backend" => backend, "agent_version" => agent_version, "generation" => generation).increment(1);
}

/// A reply could not be read, or something became of one that could not; `outcome` is the word of
/// its state.
pub fn lost_reply(backend: &str, outcome: &'static str) {
    counter!(LOST, "backend" => backend.to_owned(), "outcome" => outcome).increment(1);
}

/// A backend read worse than the one before it; what became of it.
pub fn rolled_back(backend: &str, result: &'static str) {
    counter!(ROLLBACKS, "backend" => backend.to_owned(), "result" => result).increment(1);
}

/// Lines of an agent were cut.
pub fn lines_truncated(backend: &str, count: u64) {
    if count > 0 {
        counter!(TRUNCATED, "backend" => backend.to_owned()).increment(count);
    }
}

/// An agent that still lived was killed.
pub fn process_killed() {
    counter!(KILLS).increment(1);
}

/// Processes of an earlier gateway were killed.
pub fn orphans_killed(count: usize) {
    counter!(ORPHANS).increment(count as u64);
}

/// Measures the calls into one guest; made once a guest, because a call may be shorter than finding
/// the figure.
pub struct Calls(metrics::Histogram);

impl Calls {
    /// For the guests of a backend.
    #[must_use]
    pub fn of(backend: &str) -> Self {
        Self(histogram!(CALLS, "backend" => backend.to_owned()))
    }

    /// A call that began then has ended.
    pub fn ended(&self, began: Instant) {
        self.0.record(began.elapsed());
    }
}

/// A backend failed; `kind` is a word of its failure.
pub fn guest_failed(backend: &str, kind: &'static str) {
    counter!(GUEST_FAILURES, "backend" => backend.to_owned(), "kind" => kind).increment(1);
}

/// A file of the backends folder was looked at.
pub fn reloaded(result: &'static str) {
    counter!(RELOADS, "result" => result).increment(1);
}

/// A generation begins to serve.
pub fn generation(backend: &str, number: u32) {
    gauge!(GENERATION, "backend" => backend.to_owned()).set(number);
}

/// Something became of a question.
pub fn question(outcome: &'static str) {
    counter!(QUESTIONS, "outcome" => outcome).increment(1);
}

/// So many of so many shards are connected to Discord's gateway.
pub fn discord_connected((connected, shards): (usize, usize)) {
    gauge!(CONNECTED).set(connected as f64);
    gauge!(SHARDS).set(shards as f64);
}

/// A login to Discord's gateway begins.
pub fn discord_login() {
    counter!(LOGINS).increment(1);
}

/// So many logins are left today.
pub fn discord_logins_left(left: u64) {
    gauge!(LOGINS_LEFT).set(left as f64);
}

/// The node's place in its cluster: how long its lease lasts, how many nodes live, whether this one
/// has the seat.
pub fn cluster(lease_left: Duration, nodes: usize, seat: bool) {
    gauge!(CLUSTER_LEASE).set(lease_left.as_secs_f64());
    gauge!(CLUSTER_NODES).set(nodes as f64);
    gauge!(CLUSTER_SEAT).set(f64::from(u8::from(seat)));
}

/// This node took over what another one had left, with so many turns that had begun.
pub fn cluster_takeover(interrupted: usize) {
    counter!(CLUSTER_TAKEOVERS).increment(1);
    counter!(CLUSTER_INTERRUPTED).increment(interrupted as u64);
}

/// Discord answered; none: it did not.
pub fn discord_answered(status: Option<u16>) {
    counter!(REQUESTS, "status" => status.map_or_else(|| "none".to_owned(), |status| status.to_string())).increment(1);
}

/// Requests Discord held against us lately.
pub fn discord_invalid(lately: usize) {
    gauge!(INVALID).set(lately as f64);
}

/// A message of an answer was posted or edited.
pub fn discord_message(last: bool, posted: bool) {
    let (stage, how) = (if last { "final" } else { "draft" }, if posted { "post" } else { "edit" });
    counter!(MESSAGES, "stage" => stage, "how" => how).increment(1);
}

/// An answer was not sent.
pub fn discord_send_failed() {
    counter!(SEND_FAILURES).increment(1);
}

/// A webhook was called; none: there is no such one.
pub fn webhook_called(webhook: Option<&str>, status: u16) {
    counter!(WEBHOOKS, "webhook" => webhook.unwrap_or("-").to_owned(), "status" => status.to_string()).increment(1);
}

/// Nothing came through intake, queue and reply for so long.
pub fn heartbeat(silence: Duration) {
    metrics::gauge!(HEARTBEAT_AGE).set(silence.as_secs_f64());
}

/// Bytes of a recording were not written, because there was no room for them.
pub fn recording_cut(bytes: u64) {
    metrics::counter!(RECORDING_CUT).increment(bytes);
}

/// Bytes of a recording were lost.
pub fn recording_dropped(bytes: u64) {
    counter!(RECORDING_DROPPED).increment(bytes);
}

/// A turn was not written down.
pub fn turn_unwritten() {
    counter!(UNWRITTEN).increment(1);
}

/// A line was left out of the log.
pub fn log_line_left_out() {
    counter!(LEFT_OUT).increment(1);
}

/// Sets the figures the system tells of this process; none where there is no `/proc`.
pub fn process(resident_bytes: Option<u64>, descriptors: Option<usize>) {
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_in_their_unit_and_stand_there_once() {
        for (at, figure) in FIGURES.iter().enumerate() {
            assert!(
                FIGURES[..at].iter().all(|other| other.name != figure.name),
                "{} stands there twice",
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
