//! The texts about claims. Pure.

use jiff::Timestamp;

use aetheel_model::claim::{Claim, DEFAULT_CLAIM_MINUTES};
use aetheel_model::event::Lane;
use aetheel_model::plain::{counted, short_line};

/// The maximum number of claims in a list.
const MAX_LISTED: usize = 12;
/// The maximum length of the paths of a claim, in characters.
const MAX_PATHS_CHARS: usize = 120;

/// Returns a line about a claim, as seen from a lane.
pub(super) fn line(claim: &Claim, lane: &Lane, now: Timestamp) -> String {
    let paths: Vec<&str> = claim.paths.iter().map(|path| path.as_str()).collect();
    let paths = short_line(&paths.join(", "), MAX_PATHS_CHARS);
    let place = if claim.lane == *lane { "here" } else { "in another conversation" };
    let reason = claim.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{} ({}, {place}, {} left){reason}", paths, claim.by(), claim.left(now))
}

/// Returns the list of the claims in a working directory, each with its id.
pub(super) fn list(claims: &[Claim], lane: &Lane, now: Timestamp) -> String {
    if claims.is_empty() {
        return "No files are reserved here.".to_owned();
    }
    let listed = claims.iter().take(MAX_LISTED);
    let listed = listed.map(|claim| format!("{}: {}", claim.id, line(claim, lane, now)));
    let mut lines: Vec<String> = listed.collect();
    if claims.len() > MAX_LISTED {
        lines.push(format!("and {} more", claims.len() - MAX_LISTED));
    }
    lines.join("\n")
}

/// Returns the confirmation of a claim.
pub(super) fn taken(claim: &Claim, now: Timestamp) -> String {
    let paths: Vec<&str> = claim.paths.iter().map(|path| path.as_str()).collect();
    let paths = short_line(&paths.join(", "), MAX_PATHS_CHARS);
    format!("Reserved for {}: {paths}.\nThe claim is {}.", claim.left(now), claim.id)
}

/// Returns the confirmation of a release.
pub(super) fn released(claims: &[Claim]) -> String {
    let paths = claims.iter().flat_map(|claim| &claim.paths).map(|path| path.as_str());
    let paths = short_line(&paths.collect::<Vec<_>>().join(", "), MAX_PATHS_CHARS);
    format!("Released {}: {paths}.", counted(claims.len(), "claim"))
}

/// Returns the message that other machines have not released their claims yet.
pub(super) fn asked(machines: &str) -> String {
    format!(
        "Machine {machines} was asked to release that, and has not answered yet. Look again in a moment."
    )
}

/// Parses the time of a claim in minutes: `90`, `30m`, `2h` or `1d`. Without a text, it is the
/// default.
pub(super) fn minutes(text: Option<&str>) -> Option<u32> {
    let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) else {
        return Some(DEFAULT_CLAIM_MINUTES);
    };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u32 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim().to_lowercase().as_str() {
        "" | "m" | "min" | "minute" | "minutes" => 1,
        "h" | "hour" | "hours" => 60,
        "d" | "day" | "days" => 24 * 60,
        _ => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use aetheel_model::claim::{ClaimHolder, ClaimPattern};

    use super::*;

    #[test]
    fn a_line_names_paths_holder_place_time_and_reason() {
        let paths = ["src", "a.rs"];
        let parsed = paths.map(|path| ClaimPattern::parse(path, Path::new("/srv")).expect("valid"));
        let claim = Claim {
            id: "c1a2".to_owned(),
            directory: PathBuf::from("/srv"),
            paths: parsed.to_vec(),
            lane: Lane::Console,
            holder: ClaimHolder::Lane,
            name: Some("Ann".to_owned()),
            until: Timestamp::from_second(90 * 60).expect("a time"),
            reason: Some("a release".to_owned()),
        };
        let now = Timestamp::UNIX_EPOCH;
        let here = line(&claim, &Lane::Console, now);
        assert_eq!(here, "src, a.rs (by an agent for Ann, here, 90 minutes left): a release");
        let there = list(&vec![claim; 20], &Lane::Cron("x".to_owned()), now);
        assert!(there.starts_with("c1a2: src, a.rs (by an agent for Ann, in another conversation"));
        assert!(there.ends_with("and 8 more"), "{there}");
    }

    #[test]
    fn a_time_is_given_in_minutes_hours_or_days() {
        let of = |text| minutes(Some(text));
        assert_eq!([of("90"), of("30 m"), of("2h"), of("1 day")], [90, 30, 120, 1_440].map(Some));
        assert_eq!([minutes(None), of(" ")], [Some(60); 2]);
        assert_eq!([of("h"), of("-1"), of("2w"), of("99999999999"), of("4294967295h")], [None; 5]);
    }
}
