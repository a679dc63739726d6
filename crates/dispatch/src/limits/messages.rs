//! The messages about usage limits. Pure.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use aetheel_store::workspace::LimitNote;

/// Times within this span are shown without their day.
const SAME_DAY: SignedDuration = SignedDuration::from_hours(18);

/// The prompt with which a turn continues that a limit interrupted.
pub(crate) const CONTINUE_PROMPT: &str = "The usage limit that interrupted your last turn has ended. Continue the work on my last request where it stopped. First check what is already done, so that nothing is done twice.";

/// Returns the message for the author of a prompt that waits. `continues` states whether the prompt
/// continues a turn that the limit interrupted.
pub(crate) fn waits(
    label: &str,
    note: &LimitNote,
    continues: bool,
    (now, zone): (Timestamp, &TimeZone),
) -> String {
    let (reached, when) = (reached(label, note), when(note, now, zone));
    let text = if continues {
        format!("{reached} I continue by myself {when}. `/stop` cancels that.")
    } else {
        format!("{reached} Your message waits, and is answered {when}. `/stop` removes it.")
    };
    let answers = if continues { "continues" } else { "answers it" };
    format!(
        "{text} `/settings` chooses another agent or model, which then {answers}. (usage limit)"
    )
}

/// Returns the failure of a turn that continues by itself.
pub(crate) fn continues(
    label: &str,
    note: &LimitNote,
    (now, zone): (Timestamp, &TimeZone),
) -> String {
    let when = when(note, now, zone);
    format!("{} I continue by myself {when}. (usage limit)", reached(label, note))
}

/// Returns the message that another account of the agent serves the lane.
pub(crate) fn rotates(label: &str, next: &str, allowance: Option<&str>) -> String {
    let allowance = allowance.map(|name| format!(" ({name})")).unwrap_or_default();
    format!("{label} has reached a usage limit{allowance}. {next} continues at once. (usage limit)")
}

/// Returns the line of `/status` about a lane that waits.
pub(crate) fn status(label: &str, note: &LimitNote, (now, zone): (Timestamp, &TimeZone)) -> String {
    format!("{} Prompts are answered {}.", reached(label, note), when(note, now, zone))
}

/// Returns the sentence that the agent reached a limit.
pub(crate) fn reached(label: &str, note: &LimitNote) -> String {
    match &note.allowance {
        Some(allowance) => format!("{label} has reached a usage limit ({allowance})."),
        None => format!("{label} has reached a usage limit."),
    }
}

fn when(note: &LimitNote, now: Timestamp, zone: &TimeZone) -> String {
    let wait = note.until.duration_since(now).max(SignedDuration::ZERO);
    let format = if wait < SAME_DAY { "%H:%M" } else { "%Y-%m-%d %H:%M" };
    let until = note.until.to_zoned(zone.clone());
    format!("at {} ({}, in {})", until.strftime(format), until.strftime("%Z"), span(wait))
}

fn span(wait: SignedDuration) -> String {
    let (seconds, minutes, hours) = (wait.as_secs(), wait.as_mins(), wait.as_hours());
    match minutes {
        0 => format!("{seconds} s"),
        1..60 => format!("{minutes} min"),
        60..2_880 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} days {} h", hours / 24, hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::event::Lane;

    #[test]
    fn a_message_names_the_allowance_the_time_and_the_ways_out() {
        let berlin = TimeZone::get("Europe/Berlin").expect("a zone");
        let instant: Timestamp = "2026-11-26T12:00:30Z".parse().expect("a time");
        let now = (instant, &berlin);
        let until = |text: &str| text.parse().expect("a time");
        let note = LimitNote {
            lane: Lane::Console,
            backend: "mini".to_owned(),
            model: None,
            until: until("2026-11-26T14:05:30Z"),
            attempt: 1,
            turn: "1f0c9a2e".to_owned(),
            allowance: Some("5 hours".to_owned()),
        };
        assert!(waits("Mini", &note, false, now).starts_with(
            "Mini has reached a usage limit (5 hours). Your message waits, and is answered at 15:05 (CET, in 2 h 5 min). `/stop` removes it."
        ));
        let later =
            LimitNote { until: until("2026-11-30T13:00:30Z"), allowance: None, ..note.clone() };
        let failure = continues("Mini", &later, now);
        assert!(
            failure.ends_with("by myself at 2026-11-30 14:00 (CET, in 4 days 1 h). (usage limit)")
        );
        assert!(waits("Mini", &later, true, now).starts_with(
            "Mini has reached a usage limit. I continue by myself at 2026-11-30 14:00 (CET, in 4 days 1 h). `/stop`"
        ));
        let soon = LimitNote { until: instant, ..note };
        assert!(
            status("Mini", &soon, now).ends_with("Prompts are answered at 13:00 (CET, in 0 s).")
        );
    }
}
