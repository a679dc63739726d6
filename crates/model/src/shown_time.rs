//! Times and ids in texts for people. Pure.
//!
//! The texts have the form that Discord shows as a local time or as a name: `<t:1795762857:t>`,
//! `<@157>` and `<#204>`. Other places, such as the console, call [`readable`].

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Times within this span are shown without their day.
const SAME_DAY: SignedDuration = SignedDuration::from_hours(18);

/// Returns a later time, with its day if it is not near.
#[must_use]
pub fn shown_time(time: Timestamp, now: Timestamp) -> String {
    let style = if time.duration_since(now) < SAME_DAY { 't' } else { 'f' };
    format!("<t:{}:{style}>", time.as_second())
}

/// Returns a time with its day.
#[must_use]
pub fn shown_date(time: Timestamp) -> String {
    format!("<t:{}:f>", time.as_second())
}

/// Returns a text with times and ids in a form for places that do not know those of Discord.
#[must_use]
pub fn readable(text: &str, zone: &TimeZone) -> String {
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('<') {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        let found = mark_at_start(rest, zone);
        let (length, words) = found.unwrap_or_else(|| (1, "<".to_owned()));
        shown.push_str(&words);
        rest = &rest[length..];
    }
    shown + rest
}

/// Returns the length of the mark with which a text begins.
#[must_use]
pub fn mark_length(text: &str) -> Option<usize> {
    mark_at_start(text, &TimeZone::UTC).map(|(length, _)| length)
}

/// Returns the length and the readable form of the mark with which a text begins.
fn mark_at_start(text: &str, zone: &TimeZone) -> Option<(usize, String)> {
    let (mark, _) = text.strip_prefix('<')?.split_once('>')?;
    let words = if let Some(time) = mark.strip_prefix("t:") {
        let (seconds, style) = time.split_once(':').unwrap_or((time, "f"));
        ["t", "T", "d", "D", "f", "F", "R"].contains(&style).then_some(())?;
        let time = Timestamp::from_second(seconds.parse().ok()?).ok()?.to_zoned(zone.clone());
        let format = if style == "t" { "%H:%M %Z" } else { "%Y-%m-%d %H:%M %Z" };
        time.strftime(format).to_string()
    } else {
        let (kind, id) = match mark.strip_prefix('@') {
            Some(id) => ("person", id),
            None => ("channel", mark.strip_prefix('#')?),
        };
        id.parse::<u64>().ok().map(|id| format!("{kind} {id}"))?
    };
    Some((mark.len() + 2, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_ids_are_readable_and_other_text_stays() {
        let now: Timestamp = "2026-11-26T12:00:00Z".parse().expect("a time");
        let (soon, later) =
            (now + SignedDuration::from_hours(2), now + SignedDuration::from_hours(72));
        let text = format!(
            "at {}, {} by <@4> in <#5>; a < b, <@x>, <t:x>, <",
            shown_time(soon, now),
            shown_time(later, now)
        );
        assert!(text.starts_with("at <t:1795701600:t>, <t:"), "{text}");
        let berlin = TimeZone::get("Europe/Berlin").expect("a zone");
        assert_eq!(
            readable(&text, &berlin),
            "at 15:00 CET, 2026-11-29 13:00 CET by person 4 in channel 5; a < b, <@x>, <t:x>, <"
        );
        assert_eq!(mark_length("<@4> x"), Some(4));
        assert_eq!(mark_length("x"), None);
    }
}
