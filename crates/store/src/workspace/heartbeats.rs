//! `heartbeat.md`: checks that an agent makes regularly, without being asked. The operator's file;
//! only read.
//!
//! Pure. `docs/schedules.md` has the format.

use std::collections::HashSet;

use jiff::tz::TimeZone;

use super::fields::{FieldError, clean_name, parse_channel, parse_time_zone};
use super::unread_entries::{entry_faults, ignored_entries, unread_entries};
use aetheel_model::id::ChannelId;
use aetheel_model::markdown::layout::{HiddenHeadings, LayoutFault, block_faults};
use aetheel_model::markdown::outline::{
    OutlineSection, SettingsBlock, TextLine, outline, parse_block, parse_entry,
};
use aetheel_model::schedule::{ActiveHours, ActiveHoursError, Heartbeat, HeartbeatError};

const KEYS: [&str; 8] =
    ["interval", "every", "channel", "active-hours", "active", "time-zone", "timezone", "zone"];
/// Keys with the same meaning as another key, each with that key.
const ALIASES: [(&str, &str); 4] = [
    ("every", "interval"),
    ("active", "active-hours"),
    ("timezone", "time-zone"),
    ("zone", "time-zone"),
];

/// A check that runs at an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatCheck {
    /// Its unique name, on one line.
    pub name: String,
    /// The line at which it begins in the file, from 1.
    pub line: usize,
    /// The interval, and the hours in which it runs.
    pub heartbeat: Heartbeat,
    /// The prompt for the agent.
    pub instruction: String,
    /// The channel for its answers, or `None` for the operator's output channel.
    pub channel: Option<ChannelId>,
    /// The time zone of its active hours, or `None` for the operator's.
    pub zone: Option<TimeZone>,
}

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeats {
    /// The checks in the order of the file, with different names.
    pub checks: Vec<HeartbeatCheck>,
    /// A line for each part that could not be read.
    pub warnings: Vec<String>,
}

impl Heartbeats {
    /// Parses the text of a file. A heading with an interval is a check. An invalid one is left out
    /// with a warning.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (mut heartbeats, mut names) = (Self::default(), HashSet::new());
        let mut layout = block_faults(text, &is_known, HiddenHeadings::AreFaults);
        let parts = outline(text);
        for (index, part) in parts.iter().enumerate() {
            let block = parse_block(&part.body, &KEYS);
            layout.extend(layout_faults(part, &block));
            let has_instruction = |line: &TextLine| {
                parse_entry(&line.text).is_some_and(|(key, ..)| key == "instruction")
            };
            if block.entries.is_empty() && !part.body.iter().any(has_instruction) {
                continue;
            }
            heartbeats.warnings.extend(ignored_entries("heartbeat.md", &block, &KEYS));
            // A fault may hide when or where the check runs.
            let end = parts.get(index + 1).map_or(usize::MAX, |next| next.line);
            let has_faults = layout.iter().any(|(line, _)| (part.line..=end).contains(line));
            let name = clean_name(&part.title);
            let check = check(part, &name, block).and_then(|check| {
                if !names.insert(name.to_lowercase()) {
                    return Err(CheckError::DuplicateName);
                }
                if has_faults { Err(CheckError::HasFaults) } else { Ok(check) }
            });
            match check {
                Ok(check) => heartbeats.checks.push(check),
                Err(fault) => {
                    let warning = format!(
                        "heartbeat.md line {}: heartbeat {name:?} is left out: {fault}",
                        part.line
                    );
                    heartbeats.warnings.push(warning);
                }
            }
        }
        let layout = layout.into_iter();
        let lines = layout.map(|(line, fault)| format!("heartbeat.md line {line}: {fault}"));
        heartbeats.warnings.extend(lines);
        heartbeats
    }
}

fn is_known(key: &str) -> bool {
    KEYS.contains(&key)
}

fn layout_faults(part: &OutlineSection, block: &SettingsBlock) -> Vec<LayoutFault> {
    let read = block.entries.iter().map(|entry| entry.line).collect();
    let mut faults = unread_entries(part, &read, &KEYS);
    faults.extend(entry_faults(block, &KEYS, &ALIASES));
    faults
}

#[derive(Debug, thiserror::Error)]
enum CheckError {
    #[error("it has no heading that names it")]
    NameMissing,
    #[error("it has a line that is not read")]
    HasFaults,
    #[error("there is an earlier one of this name")]
    DuplicateName,
    #[error("it has no `interval`")]
    IntervalMissing,
    #[error("it has no instruction")]
    InstructionMissing,
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error(transparent)]
    ActiveHours(#[from] ActiveHoursError),
    #[error(transparent)]
    Heartbeat(#[from] HeartbeatError),
}

fn check(
    part: &OutlineSection,
    name: &str,
    block: SettingsBlock,
) -> Result<HeartbeatCheck, CheckError> {
    if name.is_empty() {
        return Err(CheckError::NameMissing);
    }
    let (mut interval, mut active, mut to, mut zone) = (None, None, None, None);
    for entry in &block.entries {
        let value = entry.text();
        match entry.key.as_str() {
            "interval" | "every" => interval = Some(parse_interval(value)?),
            "active-hours" | "active" => active = Some(value.parse::<ActiveHours>()?),
            "channel" => to = Some(parse_channel(value)?),
            _ => zone = Some(parse_time_zone(value)?),
        }
    }
    let interval = interval.ok_or(CheckError::IntervalMissing)?;
    let heartbeat = Heartbeat::new(interval, active)?;
    if block.text.is_empty() {
        return Err(CheckError::InstructionMissing);
    }
    Ok(HeartbeatCheck {
        name: name.to_owned(),
        line: part.line,
        heartbeat,
        instruction: block.text,
        channel: to,
        zone,
    })
}

/// Parses seconds, or numbers with units: `1800`, `30m`, `1 h 30 min`.
pub(super) fn parse_interval(text: &str) -> Result<u32, FieldError> {
    let fault = || FieldError::Interval(text.to_owned());
    let (mut rest, mut sum) = (text.trim(), 0_u64);
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().map_err(|_| fault())?;
        rest = rest[digits..].trim_start();
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = match rest[..letters].to_lowercase().as_str() {
            "" if letters == rest.len() && sum == 0 => 1,
            "s" | "sec" | "secs" | "second" | "seconds" => 1,
            "m" | "min" | "mins" | "minute" | "minutes" => 60,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600,
            "d" | "day" | "days" => 86_400,
            "w" | "week" | "weeks" => 604_800,
            _ => return Err(fault()),
        };
        sum = number
            .checked_mul(unit)
            .and_then(|seconds| sum.checked_add(seconds))
            .ok_or_else(fault)?;
        rest = rest[letters..].trim_start();
        if rest.is_empty() {
            return u32::try_from(sum).map_err(|_| fault());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intervals(heartbeats: &Heartbeats) -> Vec<(&str, String)> {
        heartbeats
            .checks
            .iter()
            .map(|check| (check.name.as_str(), check.heartbeat.to_string()))
            .collect()
    }

    #[test]
    fn a_heading_with_an_interval_is_a_check() {
        let text = "\
# Heartbeats

Prose, with a colon: nothing.

## **Inbox**
- interval: 1800
- instruction: Look for new mail.
  If there is none: `HEARTBEAT_OK`.

### Disk
Every: 2h
Active hours: 08:00 – 22:00
Channel: <#42>
time_zone: `Europe/Berlin`

Is the disk full?

Say how full.

## Notes
Nothing to see here.
";
        let heartbeats = Heartbeats::parse(text);
        assert_eq!(heartbeats.warnings, Vec::<String>::new());
        assert_eq!(
            intervals(&heartbeats),
            [("Inbox", "every 1800 s".into()), ("Disk", "every 7200 s 08:00-22:00".into())]
        );
        let [inbox, disk] = &heartbeats.checks[..] else { panic!("two") };
        assert_eq!(inbox.instruction, "Look for new mail.\nIf there is none: `HEARTBEAT_OK`.");
        assert_eq!((inbox.channel, inbox.zone.is_some(), inbox.line), (None, false, 5));
        assert_eq!(disk.instruction, "Is the disk full?\n\nSay how full.");
        assert_eq!(
            (disk.channel, disk.zone.as_ref().and_then(|zone| zone.iana_name())),
            (Some(ChannelId::discord(42)), Some("Europe/Berlin"))
        );
    }

    #[test]
    fn a_check_more_often_than_every_60_seconds_is_refused_with_a_warning_that_names_the_minimum() {
        let heartbeats = Heartbeats::parse(
            "## Hasty\n- interval: 59\n- instruction: x\n## Calm\n- interval: 60\n- instruction: x\n",
        );
        assert_eq!(intervals(&heartbeats), [("Calm", "every 60 s".into())]);
        let [warning] = &heartbeats.warnings[..] else { panic!("{:?}", heartbeats.warnings) };
        assert!(
            warning.starts_with("heartbeat.md line 1: heartbeat \"Hasty\" is left out"),
            "{warning}"
        );
        assert!(warning.contains("the minimum is 60 seconds"), "{warning}");
    }

    #[test]
    fn invalid_checks_are_reported_and_the_others_are_read() {
        let bad = [
            ("- interval: soon\n- instruction: x", "\"soon\" is not an interval"),
            ("- interval: 90\n", "no instruction"),
            ("- channel: 5\n- instruction: x", "no `interval`"),
            ("Look.\ninterval: 2h", "begin the line with `- interval:`"),
            (
                "- interval: 2h\n- channel: general\n- instruction: x",
                "\"general\" is not a channel",
            ),
            ("- interval: 2h\n- time zone: Mars\n- instruction: x", "\"Mars\" is not a time zone"),
            (
                "- interval: 2h\n- active hours: always\n- instruction: x",
                "\"always\" is not a range of active hours",
            ),
            (
                "- interval: 2h\n- active hours: 08:00-08:00\n- instruction: x",
                "end when they begin",
            ),
            ("- interval: 400d\n- instruction: x", "longer than a year"),
        ];
        let mut text = String::from("## Good\n- interval: 1m\n- colour: blue\n- instruction: x\n");
        bad.iter()
            .enumerate()
            .for_each(|(number, (body, _))| text.push_str(&format!("## Bad {number}\n{body}\n")));
        text.push_str("## good\n- interval: 1m\n- instruction: x\n");
        let heartbeats = Heartbeats::parse(&text);
        assert_eq!(intervals(&heartbeats), [("Good", "every 60 s".into())]);
        let faults = ["`colour` is unknown here"]
            .into_iter()
            .chain(bad.map(|(_, fault)| fault))
            .chain(["earlier one of this name"]);
        assert_eq!(heartbeats.warnings.len(), bad.len() + 2, "{:#?}", heartbeats.warnings);
        for fault in faults {
            let is_there = heartbeats.warnings.iter().any(|warning| warning.contains(fault));
            assert!(is_there, "{fault:?}: {:#?}", heartbeats.warnings);
        }
    }

    #[test]
    fn intervals_are_read_in_several_forms() {
        for (text, wanted) in [
            ("90", 90),
            ("90s", 90),
            ("30m", 1_800),
            ("2 hours", 7_200),
            ("1h30min", 5_400),
            ("1 d", 86_400),
        ] {
            assert_eq!(parse_interval(text), Ok(wanted), "{text}");
        }
        for text in
            ["", "m", "1 fortnight", "-5", "1.5h", "1h 30", "99999999999999999999", "4294967296"]
        {
            parse_interval(text).expect_err(text);
        }
    }
}
