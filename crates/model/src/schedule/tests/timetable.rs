use super::super::{DueTick, MissedPolicy, MissedTicks, ScheduleEntry, Timetable};
use super::*;
use crate::event::Lane;

fn planned(name: &str, rhythm: Rhythm, missed: MissedPolicy) -> ScheduleEntry {
    let name = name.to_owned();
    let lane =
        if matches!(rhythm, Rhythm::Cron(_)) { Lane::Cron(name) } else { Lane::Heartbeat(name) };
    ScheduleEntry { lane, rhythm, zone: TimeZone::UTC, missed }
}

fn started_timetable(plan: Vec<ScheduleEntry>, now: &str) -> Timetable {
    let mut timetable = Timetable::default();
    timetable.replace(plan, |_| None, at(now));
    timetable
}

/// Returns the names and minutes of due ticks, and the names and numbers of missed ones.
fn told(timetable: &mut Timetable, now: &str) -> (Vec<String>, Vec<String>) {
    let advance = timetable.advance(at(now));
    assert_eq!(advance.restarted, []);
    let due = advance
        .due
        .into_iter()
        .map(|DueTick { lane, tick }| format!("{lane} {}", tick.strftime("%H:%M:%S")));
    (
        due.collect(),
        advance
            .missed
            .into_iter()
            .map(|MissedTicks { lane, ticks }| format!("{lane} {ticks}"))
            .collect(),
    )
}

fn nothing() -> (Vec<String>, Vec<String>) {
    (Vec::new(), Vec::new())
}

fn due(texts: &[&str]) -> (Vec<String>, Vec<String>) {
    (texts.iter().map(|text| (*text).to_owned()).collect(), Vec::new())
}

fn hourly() -> Vec<ScheduleEntry> {
    vec![
        planned("hourly", cron("0 * * * *"), MissedPolicy::RunOnce),
        planned("look", every(3_600, None), MissedPolicy::Skip),
    ]
}

#[test]
fn a_tick_is_due_when_its_time_has_come_and_once() {
    let mut timetable = started_timetable(hourly(), "2026-06-01T08:30:00Z");
    assert_eq!(timetable.next_wake(), Some(at("2026-06-01T09:00:00Z")));
    assert_eq!(told(&mut timetable, "2026-06-01T08:59:59.999Z"), nothing());
    assert_eq!(
        told(&mut timetable, "2026-06-01T09:00:00.001Z"),
        due(&["heartbeat:look 09:00:00", "cron:hourly 09:00:00"])
    );
    assert_eq!(told(&mut timetable, "2026-06-01T09:00:00.002Z"), nothing());
    assert_eq!(timetable.next_wake(), Some(at("2026-06-01T10:00:00Z")));
}

#[test]
fn a_clock_that_is_set_back_two_hours_repeats_nothing() {
    let mut timetable = started_timetable(hourly(), "2026-06-01T08:30:00Z");
    assert_eq!(
        told(&mut timetable, "2026-06-01T09:00:00Z"),
        due(&["heartbeat:look 09:00:00", "cron:hourly 09:00:00"])
    );
    for again in ["07:00:05", "08:00:00", "09:00:00", "09:59:59"] {
        assert_eq!(told(&mut timetable, &format!("2026-06-01T{again}Z")), nothing(), "{again}");
    }
    assert_eq!(
        told(&mut timetable, "2026-06-01T10:00:00Z"),
        due(&["heartbeat:look 10:00:00", "cron:hourly 10:00:00"])
    );
}

#[test]
fn a_clock_that_is_set_forward_two_hours_makes_up_for_recent_ticks_and_counts_the_rest() {
    let mut timetable = started_timetable(hourly(), "2026-06-01T08:30:00Z");
    // The last tick is one minute old: the cron job runs once, and the heartbeat waits for the next
    // tick.
    let (ran, missed) = told(&mut timetable, "2026-06-01T11:01:00Z");
    assert_eq!(ran, ["cron:hourly 11:00:00"]);
    assert_eq!(missed, ["heartbeat:look 3", "cron:hourly 2"]);
    assert_eq!(told(&mut timetable, "2026-06-01T11:02:00Z"), nothing());
    // Ticks that are older than five minutes are only counted.
    let (ran, missed) = told(&mut timetable, "2026-06-01T13:05:01Z");
    assert_eq!(
        (ran.len(), missed),
        (0, vec!["heartbeat:look 2".to_owned(), "cron:hourly 2".to_owned()])
    );
    assert_eq!(
        told(&mut timetable, "2026-06-01T14:00:00Z"),
        due(&["heartbeat:look 14:00:00", "cron:hourly 14:00:00"])
    );
}

#[test]
fn a_job_skips_missed_ticks_if_configured() {
    let mut timetable = started_timetable(
        vec![planned("strict", cron("0 * * * *"), MissedPolicy::Skip)],
        "2026-06-01T08:30:00Z",
    );
    assert_eq!(
        told(&mut timetable, "2026-06-01T09:00:20Z"),
        due(&["cron:strict 09:00:00"]),
        "a busy machine does not count as downtime"
    );
    assert_eq!(
        told(&mut timetable, "2026-06-01T10:01:00Z"),
        (vec![], vec!["cron:strict 1".to_owned()])
    );
}

#[test]
fn after_a_restart_a_cron_job_continues_and_a_heartbeat_begins_now() {
    let restarted = |through: &str, now: &str| {
        let mut timetable = Timetable::default();
        timetable.replace(hourly(), |_| Some(at(through)), at(now));
        told(&mut timetable, now)
    };
    assert_eq!(
        restarted("2026-06-01T09:00:00Z", "2026-06-01T09:00:10Z"),
        nothing(),
        "it ran before"
    );
    assert_eq!(
        restarted("2026-06-01T08:00:00Z", "2026-06-01T09:00:10Z"),
        due(&["cron:hourly 09:00:00"])
    );
    assert_eq!(
        restarted("2026-06-01T08:00:00Z", "2026-06-01T09:04:10Z"),
        due(&["cron:hourly 09:00:00"])
    );
    assert_eq!(
        restarted("2026-06-01T08:00:00Z", "2026-06-01T09:05:10Z"),
        (vec![], vec!["cron:hourly 1".to_owned()])
    );
    assert_eq!(
        restarted("2016-06-01T08:00:00Z", "2026-06-01T09:05:10Z"),
        (vec![], vec!["cron:hourly 1000".to_owned()])
    );
}

#[test]
fn a_changed_entry_begins_now_and_an_unchanged_one_continues() {
    let mut timetable = started_timetable(hourly(), "2026-06-01T08:30:00Z");
    let other = vec![
        planned("hourly", cron("59 * * * *"), MissedPolicy::RunOnce),
        planned("look", every(3_600, None), MissedPolicy::Skip),
    ];
    timetable.replace(other, |_| None, at("2026-06-01T09:00:00Z"));
    assert_eq!(told(&mut timetable, "2026-06-01T09:00:01Z"), due(&["heartbeat:look 09:00:00"]));
    timetable.replace(Vec::new(), |_| None, at("2026-06-01T09:30:00Z"));
    assert_eq!(told(&mut timetable, "2026-06-01T12:00:00Z"), nothing());
    assert_eq!(timetable.next_wake(), None);
}

#[test]
fn a_clock_that_was_wrong_by_more_than_a_day_does_not_silence_a_job() {
    let mut timetable = started_timetable(hourly(), "2036-06-01T08:30:00Z");
    let advance = timetable.advance(at("2026-06-01T08:30:00Z"));
    assert_eq!((advance.due.len(), advance.restarted.len()), (0, 2));
    assert_eq!(
        told(&mut timetable, "2026-06-01T09:00:00Z"),
        due(&["heartbeat:look 09:00:00", "cron:hourly 09:00:00"])
    );
}

#[test]
fn a_tick_that_was_not_accepted_is_retried_while_it_is_recent() {
    let mut timetable = started_timetable(
        vec![planned("hourly", cron("0 * * * *"), MissedPolicy::RunOnce)],
        "2026-06-01T08:30:00Z",
    );
    let tick = DueTick { lane: Lane::Cron("hourly".to_owned()), tick: at("2026-06-01T09:00:00Z") };
    assert_eq!(timetable.advance(at("2026-06-01T09:00:00Z")).due, std::slice::from_ref(&tick));
    timetable.put_back(&tick, at("2026-06-01T09:00:00Z"));
    assert_eq!(told(&mut timetable, "2026-06-01T09:00:14Z"), nothing());
    assert_eq!(timetable.next_wake(), Some(at("2026-06-01T09:00:15Z")));
    let (_, through) = timetable.progress().next().unwrap();
    assert!(through < tick.tick, "after a restart it is still due");
    assert_eq!(told(&mut timetable, "2026-06-01T09:00:15Z"), due(&["cron:hourly 09:00:00"]));
    timetable.put_back(&tick, at("2026-06-01T09:05:00Z"));
    assert_eq!(
        told(&mut timetable, "2026-06-01T09:05:15Z"),
        (vec![], vec!["cron:hourly 1".to_owned()])
    );
    // Setting the clock back does not make it wait longer.
    timetable.put_back(
        &DueTick { tick: at("2026-06-01T10:00:00Z"), ..tick },
        at("2026-06-01T12:00:00Z"),
    );
    assert_eq!(told(&mut timetable, "2026-06-01T10:00:01Z"), due(&["cron:hourly 10:00:00"]));
}
