use super::*;

#[test]
fn when_the_clock_is_set_forward_a_fixed_time_runs_once_after_and_an_hourly_one_is_skipped() {
    for (name, day, gap, first) in [
        ("Europe/Berlin", "2026-03-29", "02:30", "03:00+02:00"),
        ("America/New_York", "2026-03-08", "02:30", "03:00-04:00"),
        // Only half an hour is skipped there.
        ("Australia/Lord_Howe", "2026-10-04", "02:15", "02:30+11:00"),
    ] {
        let (hour, minute) = gap.split_once(':').unwrap();
        let (hour, minute): (u8, u8) = (hour.parse().unwrap(), minute.parse().unwrap());
        let midnight = |day: &str| format!("{day}T00:00[{name}]").parse::<jiff::Zoned>().unwrap();
        let (from, to) = (midnight(day), midnight(day).tomorrow().unwrap());
        let (from, to) = (from.timestamp().to_string(), to.timestamp().to_string());
        let told = |rhythm: &str| ticks(&cron(rhythm), name, &from, &to);
        let month = &day[5..];
        assert_eq!(told(&format!("{minute} {hour} * * *")), [format!("{month} {first}")], "{name}");
        assert_eq!(
            told(&format!("{minute},{} {hour} * * *", minute + 1)),
            [format!("{month} {first}")],
            "{name}: once, not twice"
        );
        let hourly = told(&format!("{minute} * * * *"));
        assert_eq!(hourly.len(), 23, "{name}: {hourly:?}");
        assert!(!hourly.iter().any(|tick| tick.contains(gap)), "{name}: {hourly:?}");
        // The nights before and after are ordinary.
        let three = ticks(
            &cron(&format!("{minute} {hour} * * *")),
            name,
            &midnight(day).yesterday().unwrap().timestamp().to_string(),
            &midnight(day).tomorrow().unwrap().tomorrow().unwrap().timestamp().to_string(),
        );
        assert_eq!(three.len(), 3, "{name}: {three:?}");
        assert!(three[0].contains(gap) && three[2].contains(gap), "{name}: {three:?}");
    }
}

#[test]
fn when_the_clock_is_set_back_a_fixed_time_runs_the_first_time_and_an_hourly_one_both() {
    for (name, from, to, time, offsets) in [
        (
            "Europe/Berlin",
            "2026-10-24T22:00:00Z",
            "2026-10-25T23:00:00Z",
            "02:30",
            ["+02:00", "+01:00"],
        ),
        (
            "America/New_York",
            "2026-11-01T04:00:00Z",
            "2026-11-02T05:00:00Z",
            "01:30",
            ["-04:00", "-05:00"],
        ),
        (
            "Australia/Lord_Howe",
            "2026-04-04T13:00:00Z",
            "2026-04-05T13:30:00Z",
            "01:45",
            ["+11:00", "+10:30"],
        ),
    ] {
        let (hour, minute) = time.split_once(':').unwrap();
        let (hour, minute): (u8, u8) = (hour.parse().unwrap(), minute.parse().unwrap());
        let told = |rhythm: &str| ticks(&cron(rhythm), name, from, to);
        let fixed = told(&format!("{minute} {hour} * * *"));
        assert_eq!(fixed.len(), 1, "{name}: {fixed:?}");
        assert!(fixed[0].ends_with(&format!("{time}{}", offsets[0])), "{name}: {fixed:?}");
        let hourly = told(&format!("{minute} * * * *"));
        let twice: Vec<_> =
            hourly.iter().filter(|tick| tick.contains(&format!(" {time}"))).collect();
        assert_eq!((hourly.len(), twice.len()), (25, 2), "{name}: {hourly:?}");
        for (tick, offset) in twice.iter().zip(offsets) {
            assert!(tick.ends_with(offset), "{name}: {hourly:?}");
        }
    }
}

#[test]
fn every_repeated_quarter_of_an_hour_runs_in_order() {
    // The expressions and days for which the cron crate itself runs backwards or skips times.
    let (from, to) = ("2026-11-01T04:59:00Z", "2026-11-01T07:30:00Z");
    let quarters = ticks(&cron("*/15 1 * * *"), "America/New_York", from, to);
    assert_eq!(
        quarters,
        ["11-01 01:00-04:00", "11-01 01:15-04:00", "11-01 01:30-04:00", "11-01 01:45-04:00"]
    );
    let all = ticks(
        &cron("*/15 * * * *"),
        "America/New_York",
        "2026-11-01T05:29:00Z",
        "2026-11-01T06:31:00Z",
    );
    let wanted = ["01:30-04:00", "01:45-04:00", "01:00-05:00", "01:15-05:00", "01:30-05:00"];
    assert_eq!(all, wanted.map(|tick| format!("11-01 {tick}")));
    // In the middle of a repeated hour, and of a second.
    let next = cron("30 1 * * *").next(at("2026-11-01T06:29:00.5Z"), &zone("America/New_York"));
    assert_eq!(next, Some(at("2026-11-02T06:30:00Z")));
}

#[test]
fn a_leap_day_and_the_end_of_a_year_are_found() {
    let leap = cron("0 12 29 2 *");
    assert_eq!(
        leap.next(at("2026-01-01T00:00:00Z"), &TimeZone::UTC),
        Some(at("2028-02-29T12:00:00Z"))
    );
    assert_eq!(
        leap.next(at("2096-03-01T00:00:00Z"), &TimeZone::UTC),
        None,
        "2100 has none, and there ends what the crate knows"
    );
    let last = ticks(
        &cron("59 23 31 12 *"),
        "Europe/Berlin",
        "2026-06-01T00:00:00Z",
        "2028-06-01T00:00:00Z",
    );
    assert_eq!(last, ["12-31 23:59+01:00", "12-31 23:59+01:00"]);
    let turn = ticks(&cron("*/30 * * * *"), "UTC", "2026-12-31T23:15:00Z", "2027-01-01T00:30:00Z");
    assert_eq!(turn, ["12-31 23:30+00:00", "01-01 00:00+00:00", "01-01 00:30+00:00"]);
}

#[test]
fn a_heartbeat_ticks_at_the_same_times_every_day() {
    let half_hours = ticks(
        &every(1_800, Some("08:00-09:30")),
        "Europe/Berlin",
        "2026-06-01T00:00:00Z",
        "2026-06-02T22:00:00Z",
    );
    let wanted =
        ["06-01 08:00", "06-01 08:30", "06-01 09:00", "06-02 08:00", "06-02 08:30", "06-02 09:00"];
    assert_eq!(half_hours, wanted.map(|tick| format!("{tick}+02:00")));
    let night = ticks(
        &every(3_600, Some("22:00-01:00")),
        "UTC",
        "2026-06-01T12:00:00Z",
        "2026-06-02T12:00:00Z",
    );
    assert_eq!(night, ["06-01 22:00+00:00", "06-01 23:00+00:00", "06-02 00:00+00:00"]);
    // A day begins with the active hours, not at a midnight outside them.
    let daily = ticks(
        &every(86_400, Some("08:00-22:00")),
        "Europe/Berlin",
        "2026-03-28T00:00:00Z",
        "2026-03-30T12:00:00Z",
    );
    assert_eq!(daily, ["03-28 08:00+01:00", "03-29 08:00+02:00", "03-30 08:00+02:00"]);
    // An interval that does not divide a day moves, and is within the active hours on some day.
    assert!(
        every(86_399, Some("08:00-08:01"))
            .next(at("2026-06-01T00:00:00Z"), &TimeZone::UTC)
            .is_some()
    );
}

#[test]
fn heartbeats_continue_through_changes_of_the_clock() {
    let minutes =
        ticks(&every(60, None), "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T03:00:00Z");
    assert_eq!(minutes.len(), 180);
    let minutes =
        ticks(&every(60, None), "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T03:00:00Z");
    assert_eq!(minutes.len(), 180);
    let hours =
        ticks(&every(7_200, None), "Europe/Berlin", "2026-10-24T22:30:00Z", "2026-10-25T03:00:00Z");
    assert_eq!(hours, ["10-25 02:00+02:00", "10-25 04:00+01:00"]);
    let hours =
        ticks(&every(7_200, None), "Europe/Berlin", "2026-03-28T23:30:00Z", "2026-03-29T02:30:00Z");
    assert_eq!(hours, ["03-29 03:00+02:00", "03-29 04:00+02:00"]);
}
