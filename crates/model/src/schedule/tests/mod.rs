//! Changes of the clock, and the ticks that are due then.

mod clocks;
mod expressions;
mod timetable;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{Cron, Heartbeat, Rhythm};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap()
}

fn cron(text: &str) -> Rhythm {
    Rhythm::Cron(text.parse::<Cron>().unwrap_or_else(|fault| panic!("{text}: {fault}")))
}

fn every(seconds: u32, active: Option<&str>) -> Rhythm {
    Rhythm::Heartbeat(Heartbeat::new(seconds, active.map(|hours| hours.parse().unwrap())).unwrap())
}

/// Returns the ticks after `from`, up to and including `to`, in the local time of the zone.
fn ticks(rhythm: &Rhythm, name: &str, from: &str, to: &str) -> Vec<String> {
    let (zone, mut now, to) = (zone(name), at(from), at(to));
    let mut found = Vec::new();
    while let Some(next) = rhythm.next(now, &zone).filter(|next| *next <= to) {
        assert!(next > now, "{next} does not come after {now}");
        found.push(next.to_zoned(zone.clone()).strftime("%m-%d %H:%M%:z").to_string());
        now = next;
    }
    found
}

#[test]
fn an_answer_that_reports_nothing_is_recognised() {
    for nothing in
        ["", " \n", "HEARTBEAT_OK", "`HEARTBEAT_OK`\n", "**heartbeat_ok**.", "HEARTBEAT OK"]
    {
        assert!(super::is_silent(nothing), "{nothing:?}");
    }
    for something in ["HEARTBEAT_OK, but the disk is full", "OK", "Nothing."] {
        assert!(!super::is_silent(something), "{something:?}");
    }
}
