//! The meaning of expressions, also compared with another library.

use croner::errors::CronError;
use croner::parser::{CronParser, Seconds};
use croner::{CivilDateTime, CronDateTime, Resolution};
use jiff::tz::AmbiguousOffset;
use jiff::{SignedDuration, Zoned};
use proptest::prelude::*;

use super::*;

const ZONES: [&str; 12] = [
    "UTC",
    "Europe/Berlin",
    "Europe/Dublin",
    "America/New_York",
    "America/Havana",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
    "Asia/Kathmandu",
    "Asia/Beirut",
    "Africa/Casablanca",
    "Pacific/Apia",
];

#[test]
fn both_forms_have_their_usual_meaning() {
    let week = |expression: &str| {
        ticks(&cron(expression), "UTC", "2026-06-07T00:00:00Z", "2026-06-14T00:00:00Z")
    };
    // 2026-06-07 is a Sunday.
    assert_eq!(week("0 9 * * 1"), ["06-08 09:00+00:00"], "crontab: Monday");
    assert_eq!(week("0 0 9 * * 2"), ["06-08 09:00+00:00"], "the crate: Monday");
    assert_eq!(week("0 9 * * 7"), ["06-07 09:00+00:00"], "crontab: Sunday");
    assert_eq!(week("0 0 9 * * 7"), ["06-13 09:00+00:00"], "the crate: Saturday");
    assert_eq!(week("0 9 * * fri-sun").len(), 3);
    assert_eq!(week("@Daily").len(), 7);
    // With a day of the month and of the week, one is enough; in the crate's form or with a `*`,
    // both must match.
    assert_eq!(week("0 9 10 * mon"), ["06-08 09:00+00:00", "06-10 09:00+00:00"]);
    assert_eq!(week("0 0 9 10 * mon"), [""; 0]);
    assert_eq!(week("0 9 */2 * mon"), [""; 0]);
    assert_eq!(week("0 9 */2 * tue"), ["06-09 09:00+00:00"]);
    assert_eq!(week("0 0 9 * * * 2027"), [""; 0]);
    assert_eq!(week("  30   4 8-9  jun  *  "), ["06-08 04:30+00:00", "06-09 04:30+00:00"]);
}

#[test]
fn a_fault_of_an_expression_is_described_on_one_line() {
    for (text, told) in [
        ("", "it has 0 fields"),
        ("* * * *", "it has 4 fields"),
        ("* * * * * * * *", "it has 8 fields"),
        ("60 * * * *", "minute `60`"),
        ("0 24 * * *", "hour `24`"),
        ("0 0 0 * *", "day of the month `0`"),
        ("0 0 * 13 *", "month `13`"),
        ("0 0 * * 8", "weekday: `8`"),
        ("0 0 * * 5-2", "weekday: `5-2` ends before it begins"),
        ("0 0 0 * * 0", "weekday `0`"),
        ("0 22-6 * * *", "hour `22-6`"),
        ("*/0 * * * *", "minute `*/0`"),
        ("0 0 L * *", "day of the month `L`"),
        ("0 0 0 1 1 * 3000", "year `3000`"),
        ("@reboot", "startup hook"),
        ("@often", "it has 1 field"),
    ] {
        let fault = text.parse::<Cron>().expect_err(text).to_string();
        assert!(fault.contains(told) && !fault.contains('\n'), "{text:?}: {fault}");
    }
}

#[test]
fn a_date_that_never_comes_is_detected_at_once() {
    for never in ["0 0 30 2 *", "0 0 31 4,6 *", "0 0 0 29 2 * 2027", "0 0 0 1 1 * 2020"] {
        assert_eq!(
            cron(never).next(at("2026-01-01T00:00:00Z"), &zone("Europe/Berlin")),
            None,
            "{never}"
        );
    }
}

/// The time of jiff, as croner needs it.
#[derive(Clone)]
struct Local(Zoned);

impl CronDateTime for Local {
    fn to_civil(&self) -> CivilDateTime {
        let part = |part: i8| u32::from(part.unsigned_abs());
        let shown = &self.0;
        CivilDateTime::from_ymd_hms_opt(
            shown.year().into(),
            part(shown.month()),
            part(shown.day()),
            part(shown.hour()),
            part(shown.minute()),
            part(shown.second()),
        )
        .unwrap()
    }

    fn civil_weekday(&self) -> croner::Weekday {
        croner::Weekday::from_days_from_sunday(
            self.0.weekday().to_sunday_zero_offset().unsigned_abs().into(),
        )
    }

    fn resolve_civil(&self, civil: CivilDateTime) -> Result<Resolution<Self>, CronError> {
        let part = |part: u32| i8::try_from(part).unwrap();
        let year = i16::try_from(civil.year()).map_err(|_| CronError::InvalidDate)?;
        let shown = jiff::civil::date(year, part(civil.month()), part(civil.day())).at(
            part(civil.hour()),
            part(civil.minute()),
            part(civil.second()),
            0,
        );
        let ambiguous = self.0.time_zone().to_ambiguous_zoned(shown);
        Ok(match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { .. } => {
                Resolution::Single(Self(ambiguous.unambiguous().unwrap()))
            }
            AmbiguousOffset::Fold { .. } => Resolution::Ambiguous(
                Self(ambiguous.clone().earlier().unwrap()),
                Self(ambiguous.later().unwrap()),
            ),
            AmbiguousOffset::Gap { .. } => Resolution::Gap,
        })
    }

    fn checked_add_seconds(&self, seconds: i64) -> Option<Self> {
        self.0.checked_add(SignedDuration::from_secs(seconds)).ok().map(Self)
    }

    fn cmp_instant(&self, other: &Self) -> std::cmp::Ordering {
        self.0.timestamp().cmp(&other.0.timestamp())
    }
}

fn field(least: u8, most: u8) -> impl Strategy<Value = String> {
    let number = least..=most;
    let range =
        (number.clone(), number.clone()).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b)));
    let step = 1..=(most - least).min(30);
    let part = prop_oneof![
        3 => number.prop_map(|number| number.to_string()),
        2 => range.clone(),
        1 => (range, step.clone()).prop_map(|(range, step)| format!("{range}/{step}")),
    ];
    prop_oneof![
        4 => Just("*".to_owned()),
        1 => step.prop_map(|step| format!("*/{step}")),
        4 => prop::collection::vec(part, 1..3).prop_map(|parts| parts.join(",")),
    ]
}

fn crontab_line() -> impl Strategy<Value = String> {
    (field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 7)).prop_map(
        |(minute, hour, day, month, weekday)| format!("{minute} {hour} {day} {month} {weekday}"),
    )
}

fn instant() -> impl Strategy<Value = Timestamp> {
    // 2026 to 2046.
    (1_767_225_600_i64..2_398_377_600, 0..1_000_000_000)
        .prop_map(|(second, nanosecond)| Timestamp::new(second, nanosecond).unwrap())
}

/// Returns an instant shortly before a change of the clock, if there is one.
fn before_a_change(zone: &TimeZone, from: Timestamp, hours: u8) -> Timestamp {
    zone.following(from)
        .next()
        .map_or(from, |change| change.timestamp() - SignedDuration::from_hours(hours.into()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn ticks_only_ever_come_later(line in crontab_line(), seconds in any::<bool>(), from in instant(), name in prop::sample::select(ZONES.to_vec()), near in prop::option::of(0_u8..30)) {
        let text = if seconds { format!("*/20 {}", line.replace(" 0", " 1").replace(",0", ",1")) } else { line };
        let Ok(expression) = text.parse::<Cron>() else { return Ok(()) };
        let zone = zone(name);
        let mut now = near.map_or(from, |hours| before_a_change(&zone, from, hours));
        for _ in 0..40 {
            let Some(next) = expression.next(now, &zone) else { break };
            prop_assert!(next > now, "{text} in {name}: {next} after {now}");
            // No tick was skipped between them.
            let between = Timestamp::from_second((now.as_second() + next.as_second()) / 2).unwrap().max(now);
            prop_assert_eq!(expression.next(between.min(next - SignedDuration::from_nanos(1)), &zone), Some(next), "{} in {}", text, name);
            now = next;
        }
    }

    #[test]
    fn heartbeats_only_ever_come_later(interval in 60_u32..200_000, hours in prop::option::of((0_u8..24, 0_u8..24)), from in instant(), name in prop::sample::select(ZONES.to_vec()), near in prop::option::of(0_u8..30)) {
        let active = hours.filter(|(begin, end)| begin != end).map(|(begin, end)| format!("{begin}:00-{end}:00"));
        let rhythm = every(interval, active.as_deref());
        let zone = zone(name);
        let mut now = near.map_or(from, |hours| before_a_change(&zone, from, hours));
        for _ in 0..40 {
            let next = rhythm.next(now, &zone);
            prop_assert!(next.is_some_and(|next| next > now), "{rhythm} in {name}: {next:?} after {now}");
            now = next.unwrap();
        }
    }

    #[test]
    fn another_library_finds_the_same_ticks(line in crontab_line(), from in instant(), name in prop::sample::select(ZONES.to_vec())) {
        // For croner only a bare `*` means any day, but for crontab(5) every field that begins with
        // one.
        let mut fields: Vec<String> = line.split(' ').map(str::to_owned).collect();
        fields[2] = fields[2].replace("*/", "1-31/");
        fields[4] = fields[4].replace("*/", "0-6/");
        let line = fields.join(" ");
        let Ok(ours) = line.parse::<Cron>() else { return Ok(()) };
        let theirs = CronParser::builder().seconds(Seconds::Disallowed).build().parse(&line).unwrap();
        let zone = zone(name);
        let mut now = from;
        for _ in 0..10 {
            // The rules for changes of the clock differ on purpose.
            if zone.following(now - SignedDuration::from_hours(30)).next().is_some_and(|change| change.timestamp() < now + SignedDuration::from_hours(30)) {
                break;
            }
            let next = ours.next(now, &zone);
            let Some(next) = next.filter(|next| *next < now + SignedDuration::from_hours(24 * 365 * 3)) else { break };
            if zone.following(next - SignedDuration::from_hours(30)).next().is_some_and(|change| change.timestamp() < next + SignedDuration::from_hours(30)) {
                break;
            }
            let other = theirs.find_next_occurrence(&Local(now.to_zoned(zone.clone())), false).unwrap().0.timestamp();
            prop_assert_eq!(next, other, "{} in {} after {}", line, name, now);
            now = next;
        }
    }
}
