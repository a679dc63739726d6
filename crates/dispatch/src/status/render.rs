//! Formats the status of a lane as lines of text, for the terminal and for Discord. Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::{LaneBackend, LaneStatus, QueueView};
use crate::channel::options::Setting;
use crate::channel::sessions::{Conversation, ConversationList, short_id};
use crate::lanes::EventSummary;
use aetheel_model::permission::READS_ONLY_IN_CHAT;
use aetheel_model::plain::one_line;
use aetheel_store::workspace::SettingInForce;

/// The maximum number of lines of a list, so that it fits into one message.
const LINE_LIMIT: usize = 15;

/// The maximum number of waiting prompts in a status.
const STATUS_LINE_LIMIT: usize = 5;

/// The maximum number of limits in a status.
const MAX_STATUS_LIMITS: usize = 10;

/// A line about a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusRow {
    /// The heading; empty for a line without one.
    pub name: &'static str,
    /// A line of plain text, without escapes for any output format.
    pub text: String,
}

impl StatusRow {
    pub(crate) fn new(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, text: text.into() }
    }
}

/// Returns the lines of `/status`. Only owners see directories and warnings about the operator's
/// own configuration.
#[must_use]
pub fn status_rows(view: &LaneStatus, owner: bool, now: Timestamp) -> Vec<StatusRow> {
    let mut rows = Vec::new();
    let LaneBackend { name, label, generation, agent_version, .. } = &view.backend;
    let name = if label == name { name.clone() } else { format!("{label} ({name})") };
    let version = match agent_version {
        Some(version) => format!("agent {version}"),
        None => "agent version unknown".to_owned(),
    };
    let generation = match generation {
        Some(number) => format!("version {number}"),
        None => "not loaded".to_owned(),
    };
    rows.push(StatusRow::new("Backend", format!("{name}, {version}, {generation}")));
    for option in view.options.iter().filter(|option| option.setting != Setting::Backend) {
        let chosen = if option.chosen { ", chosen here" } else { "" };
        rows.push(StatusRow::new(option.setting.title(), format!("{}{chosen}", option.shown())));
    }
    if let Some(directory) = view.directory.as_ref().filter(|_| owner) {
        rows.push(StatusRow::new("Directory", directory.display().to_string()));
    }
    if owner && !view.sandbox.is_empty() {
        rows.push(StatusRow::new("Sandbox", view.sandbox.clone()));
    }
    rows.push(StatusRow::new(
        "Conversation",
        view.session.as_ref().map_or_else(|| "none yet".to_owned(), short_id),
    ));
    let queue = &view.queue;
    rows.push(StatusRow::new(
        "Running here",
        queue
            .running
            .as_ref()
            .map_or_else(|| "nothing".to_owned(), |running| summary(running, now)),
    ));
    rows.push(StatusRow::new("Waiting here", queue.waiting.len().to_string()));
    rows.extend(waiting_rows(queue, STATUS_LINE_LIMIT, now));
    rows.push(overall(queue));
    rows.push(StatusRow::new(
        "Up",
        format!("{}, Aetheel {}", span(view.up), env!("CARGO_PKG_VERSION")),
    ));
    rows.extend(view.claims.iter().map(|claim| StatusRow::new("Reserved", claim.clone())));
    rows.extend(view.muted.iter().map(|muted| StatusRow::new("Muted", muted.clone())));
    if view.reads_only {
        rows.push(StatusRow::new("", format!("⚠️ {READS_ONLY_IN_CHAT}")));
    }
    let (for_all, for_owners) = &view.warnings;
    let warnings = for_all.iter().chain(for_owners.iter().filter(|_| owner));
    rows.extend(warnings.map(|warning| StatusRow::new("", format!("⚠️ {warning}"))));
    rows.extend(limit_rows(view, owner));
    rows
}

/// Returns the operator's limits. Only owners see the files and lines that say so.
fn limit_rows(view: &LaneStatus, owner: bool) -> Vec<StatusRow> {
    let row = |limit: &SettingInForce| {
        let source = if owner { format!(" ({})", limit.source) } else { String::new() };
        StatusRow::new("Limit", format!("{}: {}{source}", limit.name, one_line(&limit.value)))
    };
    let mut rows: Vec<StatusRow> = view.limits.iter().take(MAX_STATUS_LIMITS).map(row).collect();
    if view.limits.len() > MAX_STATUS_LIMITS {
        let more = view.limits.len() - MAX_STATUS_LIMITS;
        rows.push(StatusRow::new("", format!("and {more} more; `aetheel config` lists all")));
    }
    rows
}

/// Returns the lines of `/queue`.
#[must_use]
pub fn queue_rows(queue: &QueueView, now: Timestamp) -> Vec<StatusRow> {
    let mut rows = Vec::new();
    rows.push(StatusRow::new(
        "Running",
        queue
            .running
            .as_ref()
            .map_or_else(|| "nothing".to_owned(), |running| summary(running, now)),
    ));
    rows.extend(waiting_rows(queue, LINE_LIMIT, now));
    rows.push(overall(queue));
    rows
}

fn waiting_rows(queue: &QueueView, most: usize, now: Timestamp) -> Vec<StatusRow> {
    let mut rows: Vec<StatusRow> = (1..)
        .zip(queue.waiting.iter().take(most))
        .map(|(number, waiting)| StatusRow::new("", format!("{number}. {}", summary(waiting, now))))
        .collect();
    if queue.waiting.len() > most {
        rows.push(StatusRow::new("", format!("and {} more", queue.waiting.len() - most)));
    }
    rows
}

/// Returns the lines of `/sessions`.
#[must_use]
pub fn session_rows(found: &ConversationList, now: Timestamp) -> Vec<StatusRow> {
    if !found.resumable {
        return vec![StatusRow::new("", format!("{} cannot resume a conversation.", found.label))];
    }
    if found.all.is_empty() {
        return vec![StatusRow::new(
            "",
            format!("There is no conversation with {} here yet.", found.label),
        )];
    }
    let mut rows = vec![StatusRow::new("Conversations with", found.label.clone())];
    rows.extend(
        found
            .all
            .iter()
            .take(LINE_LIMIT)
            .map(|known| StatusRow::new("", format!("- {}", conversation_line(known, now)))),
    );
    if found.all.len() > LINE_LIMIT {
        rows.push(StatusRow::new("", format!("and {} more", found.all.len() - LINE_LIMIT)));
    }
    rows
}

/// Formats a conversation on one line: its title, its time and its id.
#[must_use]
pub fn conversation_line(known: &Conversation, now: Timestamp) -> String {
    let mut line = one_line(&known.title);
    if line.is_empty() {
        "without a title".clone_into(&mut line);
    }
    if let Some(since) = known.since {
        line.push_str(&format!(" · {}", ago(since, now)));
    }
    line.push_str(&format!(" · {}", short_id(&known.id)));
    if !known.ours {
        line.push_str(" · from the agent");
    }
    if known.current {
        line.push_str(" · now");
    }
    line
}

/// Formats the time since `then` in one unit.
#[must_use]
pub(crate) fn ago(then: Timestamp, now: Timestamp) -> String {
    let seconds = u64::try_from(now.as_second() - then.as_second()).unwrap_or(0);
    if seconds < 60 {
        "just now".to_owned()
    } else {
        format!("{} ago", span(Duration::from_secs(seconds)))
    }
}

fn overall(queue: &QueueView) -> StatusRow {
    StatusRow::new(
        "Overall",
        format!(
            "{} of {} slots taken, {} waiting",
            queue.all_running, queue.slots, queue.all_waiting
        ),
    )
}

fn summary(event: &EventSummary, now: Timestamp) -> String {
    let seconds = u64::try_from(now.as_second() - event.since.as_second()).unwrap_or(0);
    let wait = event.wait.as_ref().map(|reason| format!(" · {reason}")).unwrap_or_default();
    format!("{} · {} · {}{wait}", event.words, event.who, span(Duration::from_secs(seconds)))
}

/// Formats a duration in its largest unit.
fn span(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::agent::SessionId;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn seen(words: &str) -> EventSummary {
        EventSummary { who: "ann".to_owned(), words: words.to_owned(), since: at(0), wait: None }
    }

    #[test]
    fn a_queue_list_is_numbered_and_bounded() {
        let waiting =
            (0..40).map(|number| seen(&format!("prompt {number} {}", "x".repeat(50)))).collect();
        let queue = QueueView {
            running: Some(seen("first")),
            waiting,
            all_running: 3,
            all_waiting: 41,
            slots: 5,
        };
        let rows = queue_rows(&queue, at(125));
        assert_eq!(rows[0], StatusRow { name: "Running", text: "first · ann · 2 min".to_owned() });
        assert!(rows[1].text.starts_with("1. prompt 0 "), "{rows:?}");
        assert_eq!(rows[LINE_LIMIT + 1].text, "and 25 more");
        assert_eq!(
            rows.last().map(|row| row.text.as_str()),
            Some("3 of 5 slots taken, 41 waiting")
        );
        assert!(rows.iter().map(|row| row.text.chars().count() + 20).sum::<usize>() < 2_000);
    }

    #[test]
    fn reserved_files_are_part_of_the_status() {
        let claims = vec!["src (by Ann, here, 25 minutes left)".to_owned()];
        let rows = status_rows(&LaneStatus { claims, ..LaneStatus::default() }, false, at(0));
        let row = rows.iter().find(|row| row.name == "Reserved").expect("a row");
        assert_eq!(row.text, "src (by Ann, here, 25 minutes left)");
    }

    #[test]
    fn a_conversation_line_has_title_age_and_id() {
        let id = SessionId::new("0199a213-81c0-7800-8aa1-bbab2a035a53").expect("an id");
        let known = Conversation {
            id,
            title: "fix it".to_owned(),
            since: Some(at(0)),
            current: true,
            ours: false,
        };
        assert_eq!(
            conversation_line(&known, at(7_300)),
            "fix it · 2 h ago · 0199a213… · from the agent · now"
        );
        let none = ConversationList {
            label: "Demo".to_owned(),
            resumable: true,
            forkable: true,
            all: vec![],
        };
        assert_eq!(
            session_rows(&none, at(0))[0].text,
            "There is no conversation with Demo here yet."
        );
    }

    #[test]
    fn a_title_cannot_move_the_cursor_or_reorder_text() {
        let title = "\u{1b}[2Jgood\u{202e}lab \u{200b}\n\u{9b}1mconv".to_owned();
        let known = Conversation {
            id: SessionId::new("a").expect("an id"),
            title,
            since: None,
            current: false,
            ours: true,
        };
        assert_eq!(conversation_line(&known, at(0)), "goodlab conv · a");
    }

    #[test]
    fn times_are_shown_in_one_unit() {
        assert_eq!([at(0), at(59)].map(|now| ago(at(0), now)), ["just now", "just now"]);
        assert_eq!(ago(at(0), at(86_400 * 3)), "3 days ago");
        assert_eq!(ago(at(100), at(0)), "just now", "clocks step");
    }
}
