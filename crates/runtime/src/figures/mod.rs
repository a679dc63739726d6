//! The metrics of the program: names, labels and meanings, and one function to record each.
//!
//! The rest of the program calls these functions and never names the `metrics` facade. Without a
//! recorder (`STATUS_ADDRESS` is empty) a call costs next to nothing. Label values come from the
//! program or the operator (names of backends), never from ids or people's text, so that their
//! number is limited. `docs/monitoring.md` lists [`FIGURES`];
//! `architecture::the_documentation_lists_every_figure` compares them, and `gateway::status` checks
//! what is recorded.

mod guests;
mod table;

use std::time::{Duration, Instant};

use metrics::{counter, gauge, histogram};

pub use self::guests::{GuestFigures, OpenGuest, render as render_guests};
use self::table::*;
pub use self::table::{FIGURES, Figure, FigureKind};
use FigureKind::{Counter, Gauge, Histogram};
use aetheel_model::event::EventKind;

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

/// Counts a finished turn. `ending` comes from `aetheel_recording::Ending::word`.
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
pub fn set_cluster(lease_left: Duration, nodes: usize, is_leader: bool) {
    gauge!(CLUSTER_LEASE).set(lease_left.as_secs_f64());
    gauge!(CLUSTER_NODES).set(nodes as f64);
    gauge!(CLUSTER_SEAT).set(f64::from(u8::from(is_leader)));
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
