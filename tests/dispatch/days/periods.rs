//! Tests of the periods of caps: midnight, Monday, the first day of a month, and days on which the
//! clocks are changed.

use super::{MovedGateway, just_before};

/// The zone, the cap, when the cap is reached, and the first instant of the next period.
const BOUNDARIES: [(&str, &str, &str, &str); 10] = [
    ("UTC", "day", "2027-03-03T09:00:00Z", "2027-03-04T00:00:00Z"),
    ("UTC", "week", "2027-03-03T09:00:00Z", "2027-03-08T00:00:00Z"),
    ("UTC", "month", "2027-02-03T09:00:00Z", "2027-03-01T00:00:00Z"),
    // A day of 23 hours, and a week and a month that contain it.
    ("Europe/Berlin", "day", "2027-03-28T00:00:00+01:00", "2027-03-29T00:00:00+02:00"),
    ("Europe/Berlin", "week", "2027-03-28T01:59:59+01:00", "2027-03-29T00:00:00+02:00"),
    ("Europe/Berlin", "month", "2027-03-28T01:59:59+01:00", "2027-04-01T00:00:00+02:00"),
    // A day of 25 hours, at the end of a week and of a month.
    ("Europe/Berlin", "day", "2027-10-31T02:30:00+02:00", "2027-11-01T00:00:00+01:00"),
    ("Europe/Berlin", "month", "2027-10-31T02:30:00+01:00", "2027-11-01T00:00:00+01:00"),
    // A day without its first hour, and one whose first hour comes twice.
    ("America/Havana", "day", "2027-03-13T23:59:59-05:00", "2027-03-14T01:00:00-04:00"),
    ("America/Havana", "day", "2027-11-07T00:30:00-05:00", "2027-11-08T00:00:00-05:00"),
];

/// Which amount of the first turn reaches the cap, and what it printed.
const CAPS: [(&str, &[&str]); 2] =
    [("1 turns", &["text one", "done"]), ("$1", &["text one", "usage 1", "done"])];

#[test]
fn a_cap_holds_until_its_period_ends_and_the_lane_continues_once_by_itself() {
    for (number, (zone, period, start, end)) in BOUNDARIES.into_iter().enumerate() {
        let (amount, turn) = CAPS[number % 2];
        let rules = format!("## all\n- cap: {amount} a {period}\n");
        let mut gateway = MovedGateway::begin(zone, start, &[turn], &rules);
        gateway.answered(7, "one");
        gateway.ask(7, "two");
        gateway.ask(8, "three");
        gateway.settle(2);
        gateway.still_waits_at(&just_before(end), 2);
        let waits = gateway.waits();
        assert!(waits.iter().all(|wait| wait.until == super::time(end)), "{end}: {waits:?}");
        // In some cases, no gateway runs when the period ends.
        if number % 3 == 0 {
            gateway.kill();
            gateway.control.advance(super::LOOK);
            gateway.start();
        } else {
            gateway.pass_until(end, 2);
        }
        if amount == "1 turns" {
            // The cap of the new period lets one of the two begin.
            gateway.until("one continues", || gateway.launcher.prompts().len() == 2);
            gateway.settle(1);
            assert_eq!((gateway.waits().len(), gateway.launcher.prompts().len()), (1, 2), "{end}");
            continue;
        }
        let mut prompts = gateway.prompts_at_the_end();
        prompts.sort();
        assert_eq!(prompts, ["one", "three", "two"], "{zone} {end}");
    }
}

#[test]
fn a_stopped_turn_continues_once_when_its_period_ends_also_if_no_gateway_ran_then() {
    for is_down in [false, true] {
        let turns: [&[&str]; 1] = [&["text half", "tool t1", "usage 1.5", "wait"]];
        let (start, end) = ("2027-03-26T12:00:00+01:00", "2027-03-29T00:00:00+02:00");
        let rules = "## all\n- cap: $1 a week\n";
        let mut gateway = MovedGateway::begin("Europe/Berlin", start, &turns, rules);
        gateway.ask(7, "build it");
        gateway.settle(1);
        gateway.ask(7, "next");
        gateway.still_waits_at(&just_before(end), 1);
        if is_down {
            gateway.kill();
            gateway.control.advance(super::LOOK);
            gateway.start();
        } else {
            gateway.restart();
            gateway.pass_until(end, 1);
        }
        let prompts = gateway.prompts_at_the_end();
        assert_eq!(prompts.len(), 3, "{prompts:?}");
        assert!(prompts[1].contains("Continue the work on this request"), "{prompts:?}");
        assert_eq!((prompts[0].as_str(), prompts[2].as_str()), ("build it", "next"));
        let answers = gateway.answers();
        let failure = answers[0].1.failure.as_deref().unwrap_or_default();
        assert!(failure.contains("This is not finished."), "{failure}");
        let until = format!("<t:{}:f>", super::time(end).as_second());
        assert!(!gateway.notices_with(&until).is_empty(), "{:?}", gateway.notices());
        assert_eq!(answers.len(), 3);
    }
}
