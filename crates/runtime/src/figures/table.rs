//! The table of metrics.

use FigureKind::{Counter, Gauge, Histogram};

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

/// The buckets for turns in seconds, from a short answer to the longest turn.
pub(super) const TURN: FigureKind = Histogram(&[
    0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1_800.0, 3_600.0,
]);
/// The buckets for calls into a guest in seconds, from an empty call to twice the time limit of a
/// call.
pub(super) const CALL: FigureKind = Histogram(&[
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.0,
]);

pub(super) const GUEST_CALLS: &str = "aetheel_guest_calls_total";
pub(super) const GUEST_RUN_SECONDS: &str = "aetheel_guest_run_seconds_total";
pub(super) const GUEST_FAILURES: &str = "aetheel_guest_failures_total";
pub(super) const GUEST_MEMORY: &str = "aetheel_guest_memory_peak_bytes";
pub(super) const GUESTS_OPEN: &str = "aetheel_guests_open";
pub(super) const EVENTS: &str = "aetheel_events_total";
pub(super) const WAIT: &str = "aetheel_event_wait_seconds";
pub(super) const DEPTH: &str = "aetheel_queue_depth";
pub(super) const OLDEST: &str = "aetheel_queue_oldest_age_seconds";
pub(super) const RUNNING: &str = "aetheel_turns_running";
pub(super) const FIRED: &str = "aetheel_schedule_fired_total";
pub(super) const SKIPPED: &str = "aetheel_schedule_skipped_total";
pub(super) const TURNS: &str = "aetheel_turns_total";
pub(super) const TURN_SECONDS: &str = "aetheel_turn_duration_seconds";
pub(super) const FIRST_TEXT: &str = "aetheel_turn_first_text_seconds";
pub(super) const LINKS: &str = "aetheel_links";
pub(super) const KILLS: &str = "aetheel_process_kills_total";
pub(super) const ORPHANS: &str = "aetheel_orphans_killed_total";
pub(super) const TRUNCATED: &str = "aetheel_output_lines_truncated_total";
pub(super) const CALLS: &str = "aetheel_guest_call_seconds";
pub(super) const UNRECOGNISED: &str = "aetheel_unrecognised_total";
pub(super) const LOST: &str = "aetheel_lost_replies_total";
pub(super) const ROLLBACKS: &str = "aetheel_backend_rollbacks_total";
pub(super) const ROLLOUT: &str = "aetheel_backend_rollout_turns_total";
pub(super) const RELOADS: &str = "aetheel_reloads_total";
pub(super) const GENERATION: &str = "aetheel_backend_generation";
pub(super) const QUESTIONS: &str = "aetheel_questions_total";
pub(super) const COLLISIONS: &str = "aetheel_file_collisions_total";
pub(super) const QUESTIONS_OPEN: &str = "aetheel_questions_open";
pub(super) const POLICIES: &str = "aetheel_policy_decisions_total";
pub(super) const OBSERVED: &str = "aetheel_observer_events_total";
pub(super) const CONNECTED: &str = "aetheel_discord_connected";
pub(super) const SHARDS: &str = "aetheel_discord_shards";
pub(super) const LOGINS: &str = "aetheel_discord_logins_total";
pub(super) const LOGINS_LEFT: &str = "aetheel_discord_logins_left";
pub(super) const CLUSTER_LEASE: &str = "aetheel_cluster_lease_left_seconds";
pub(super) const CLUSTER_NODES: &str = "aetheel_cluster_nodes";
pub(super) const CLUSTER_SEAT: &str = "aetheel_cluster_seat";
pub(super) const CLUSTER_TAKEOVERS: &str = "aetheel_cluster_takeovers_total";
pub(super) const CLUSTER_INTERRUPTED: &str = "aetheel_cluster_interrupted_turns_total";
pub(super) const REQUESTS: &str = "aetheel_discord_requests_total";
pub(super) const INVALID: &str = "aetheel_discord_invalid_requests_10m";
pub(super) const MESSAGES: &str = "aetheel_discord_messages_total";
pub(super) const SEND_FAILURES: &str = "aetheel_discord_send_failures_total";
pub(super) const WEBHOOKS: &str = "aetheel_webhook_calls_total";
pub(super) const HEARTBEAT_AGE: &str = "aetheel_heartbeat_age_seconds";
pub(super) const RECORDING_DROPPED: &str = "aetheel_recording_dropped_bytes_total";
pub(super) const RECORDING_CUT: &str = "aetheel_recording_cut_bytes_total";
pub(super) const UNWRITTEN: &str = "aetheel_turns_unwritten_total";
pub(super) const LEFT_OUT: &str = "aetheel_log_lines_left_out_total";
pub(super) const MEMORY: &str = "process_resident_memory_bytes";
pub(super) const DESCRIPTORS: &str = "process_open_fds";
pub(super) const STARTED: &str = "process_start_time_seconds";
pub(super) const BUILD: &str = "aetheel_build_info";

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
    f(GUEST_CALLS, Counter, &["backend", "generation"], "Calls into guests of a version; this and the next four disappear ten minutes after its last guest"),
    f(GUEST_RUN_SECONDS, Counter, &["backend", "generation"], "Time in which guests ran, without waiting for a worker thread"),
    f(GUEST_FAILURES, Counter, &["backend", "generation", "kind"], "Failures of backends: `refused`, `trapped` or `cut-off`"),
    f(GUEST_MEMORY, Gauge, &["backend", "generation"], "Largest memory of a guest so far"),
    f(GUESTS_OPEN, Gauge, &["backend", "generation"], "Guests that are open, one a link"),
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
