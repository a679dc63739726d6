//! Times in lines of the gateway: Discord shows them in the time zone of each reader. Pure.

use jiff::Timestamp;

/// Returns a line with each time such as `2026-11-28T09:50:09Z` in Discord's form.
pub(crate) fn with_times(line: &str) -> String {
    let words = line.split(' ').map(|word| {
        let time = word.trim_end_matches(['.', ',', ';', ':', ')']);
        let end = &word[time.len()..];
        let is_time = time.starts_with(|first: char| first.is_ascii_digit()) && time.contains('T');
        match time.parse::<Timestamp>() {
            Ok(at) if is_time => format!("<t:{}:f>{end}", at.as_second()),
            _ => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_times_are_changed() {
        for (line, shown) in [
            (
                "A reminder is set for 2026-11-28T09:50:09Z.",
                "A reminder is set for <t:1795859409:f>.",
            ),
            ("at 2026-11-28T09:50:09.847Z, then", "at <t:1795859409:f>, then"),
            (
                "Read 2026-11-28 and `x-2026-11-28T09:50:09Z`",
                "Read 2026-11-28 and `x-2026-11-28T09:50:09Z`",
            ),
            ("", ""),
        ] {
            assert_eq!(with_times(line), shown);
        }
    }
}
