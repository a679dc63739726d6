//! The messages about usage limits. Pure.

use jiff::{SignedDuration, Timestamp};

use aetheel_model::shown_time::shown_time;
use aetheel_store::workspace::LimitNote;

/// Shorter waits cause no notice.
const SHORT_WAIT: SignedDuration = SignedDuration::from_secs(20);

/// Returns the notice for the author of a prompt that waits, or `None` for a short wait. `continues`
/// states whether the prompt continues a turn that the limit interrupted. The answer of that turn
/// names the limit.
pub(crate) fn waits(
    label: &str,
    note: &LimitNote,
    continues: bool,
    now: Timestamp,
) -> Option<String> {
    if is_short(note, now) {
        return None;
    }
    let at = shown_time(note.until, now);
    let (text, answers) = match continues {
        true => (format!("I continue by myself at {at}. `/stop` cancels that."), "continues"),
        false => {
            let reached = reached(label, note);
            let waits = "Your message waits, and is answered at";
            (format!("{reached} {waits} {at}. `/stop` removes it."), "answers it")
        }
    };
    Some(format!(
        "{text} `/settings` chooses another agent or model, which then {answers}. (usage limit)"
    ))
}

/// Returns the failure of a turn that continues by itself. A notice tells the time, except of a short
/// wait.
pub(crate) fn continues(label: &str, note: &LimitNote, now: Timestamp) -> String {
    let next = match is_short(note, now) {
        true => format!("I continue by myself at {}.", shown_time(note.until, now)),
        false => "This is not finished.".to_owned(),
    };
    format!("{} {next} (usage limit)", reached(label, note))
}

fn is_short(note: &LimitNote, now: Timestamp) -> bool {
    note.until.duration_since(now) < SHORT_WAIT
}

/// Returns the message that another account of the agent serves the lane.
pub(crate) fn rotates(label: &str, next: &str, allowance: Option<&str>) -> String {
    let allowance = allowance.map(|name| format!(" ({name})")).unwrap_or_default();
    format!("{label} has reached a usage limit{allowance}. {next} continues at once. (usage limit)")
}

/// Returns the line of `/status` about a lane that waits.
pub(crate) fn status(label: &str, note: &LimitNote, now: Timestamp) -> String {
    format!("{} Prompts are answered at {}.", reached(label, note), shown_time(note.until, now))
}

/// Returns the reason for which a prompt waits, for a list of prompts.
pub(crate) fn reason(label: &str, note: &LimitNote, now: Timestamp) -> String {
    format!("waits until {}: usage limit of {label}", shown_time(note.until, now))
}

/// Returns the sentence that the agent reached a limit.
pub(crate) fn reached(label: &str, note: &LimitNote) -> String {
    match &note.allowance {
        Some(allowance) => format!("{label} has reached a usage limit ({allowance})."),
        None => format!("{label} has reached a usage limit."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::event::Lane;

    #[test]
    fn a_message_names_the_allowance_the_time_and_the_ways_out() {
        let now: Timestamp = "2026-11-26T12:00:30Z".parse().expect("a time");
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
        let waiting = waits("Mini", &note, false, now).expect("a notice");
        assert!(waiting.starts_with(
            "Mini has reached a usage limit (5 hours). Your message waits, and is answered at <t:1795701930:t>. `/stop` removes it."
        ), "{waiting}");
        assert_eq!(
            continues("Mini", &note, now),
            "Mini has reached a usage limit (5 hours). This is not finished. (usage limit)"
        );
        let later =
            LimitNote { until: until("2026-11-30T13:00:30Z"), allowance: None, ..note.clone() };
        let continued = waits("Mini", &later, true, now).expect("a notice");
        assert!(
            continued.starts_with("I continue by myself at <t:1796043630:f>. `/stop`"),
            "{continued}"
        );
        let soon = LimitNote { until: now, ..note };
        assert_eq!(waits("Mini", &soon, true, now), None);
        assert!(
            continues("Mini", &soon, now).contains("I continue by myself at <t:1795694430:t>.")
        );
        assert!(status("Mini", &soon, now).ends_with("Prompts are answered at <t:1795694430:t>."));
    }
}
