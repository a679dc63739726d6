//! The cost of checking the clock with many heartbeats and cron jobs.

use aetheel_model::event::Lane;
use aetheel_model::schedule::{Cron, MissedPolicy, Rhythm, ScheduleEntry, Timetable};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

fn begin() -> Timestamp {
    "2026-03-01T08:00:30Z".parse().unwrap()
}

fn berlin() -> TimeZone {
    TimeZone::get("Europe/Berlin").unwrap()
}

/// Daily jobs, each at another minute of the day.
fn timetable(jobs: u32) -> Timetable {
    let plan = (0..jobs).map(|number| {
        let expression: Cron =
            format!("{} {} * * *", number % 60, number / 60 % 24).parse().unwrap();
        ScheduleEntry {
            lane: Lane::Cron(number.to_string()),
            rhythm: Rhythm::Cron(expression),
            zone: berlin(),
            missed: MissedPolicy::RunOnce,
        }
    });
    let mut timetable = Timetable::default();
    timetable.replace(plan.collect(), |_| None, begin());
    timetable
}

/// A check at which nothing is due, as every few seconds.
#[divan::bench(args = [10, 1_000])]
fn look(bencher: Bencher<'_, '_>, jobs: u32) {
    let mut timetable = timetable(jobs);
    let now = begin() + SignedDuration::from_secs(5);
    bencher
        .counter(ItemsCount::new(jobs))
        .bench_local(|| (timetable.advance(black_box(now)), timetable.next_wake()));
}

/// A whole day, minute by minute.
#[divan::bench(args = [1_000])]
fn day(bencher: Bencher<'_, '_>, jobs: u32) {
    bencher.counter(ItemsCount::new(1_440_u32)).with_inputs(|| timetable(jobs)).bench_local_values(
        |mut timetable| {
            let due = (1..=1_440).map(|minute| {
                timetable.advance(begin() + SignedDuration::from_mins(minute)).due.len()
            });
            assert_eq!(due.sum::<usize>(), jobs as usize);
        },
    );
}

/// The search for the next time.
#[divan::bench(args = ["* * * * *", "30 9 * * 1-5", "0 0 29 2 *", "0 0 30 2 *"])]
fn next(bencher: Bencher<'_, '_>, expression: &str) {
    let (cron, zone, now) = (expression.parse::<Cron>().unwrap(), berlin(), begin());
    bencher.bench(|| cron.next(black_box(now), &zone));
}
