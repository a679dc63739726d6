//! Values that several of the operator's files have: names, channels, time zones.

use aetheel_model::id::ChannelId;

/// Cleans a name for logs, lanes and state files: one line without markup, at most 80 characters.
pub(super) fn clean_name(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let plain: String = words.chars().filter(|c| !c.is_control() && *c != '`').collect();
    plain
        .trim_matches(|c: char| c.is_whitespace() || "*_:–—-".contains(c))
        .chars()
        .take(80)
        .collect::<String>()
        .trim_end()
        .to_owned()
}

/// The reason why a value of an operator's file is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FieldError {
    #[error("{0:?} is not a channel; copy its id from Discord")]
    Channel(String),
    #[error("{0:?} is not a time zone of the IANA database, such as `Europe/Berlin`")]
    TimeZone(String),
    #[error(
        "{0:?} is not an interval; write seconds, or a number with a unit, such as `30m` or `2h`"
    )]
    Interval(String),
}

/// Parses a channel: its id alone, as `<#id>`, or after its name.
///
/// # Errors
/// [`FieldError::Channel`] if the text is not a channel.
pub(super) fn parse_channel(text: &str) -> Result<ChannelId, FieldError> {
    let word = text.split_whitespace().last().unwrap_or_default();
    let id = word.trim_start_matches("<#").trim_end_matches('>').trim_matches(['(', ')']);
    ChannelId::parse_nonzero(id).map_err(|_| FieldError::Channel(text.to_owned()))
}

/// Parses a time zone of the IANA database.
///
/// # Errors
/// [`FieldError::TimeZone`] if the text is not a time zone.
pub(super) fn parse_time_zone(text: &str) -> Result<jiff::tz::TimeZone, FieldError> {
    jiff::tz::TimeZone::get(text).map_err(|_| FieldError::TimeZone(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_read_in_several_forms() {
        for text in
            ["123", "<#123>", "#site 123", "#site (123)", "discord:123", "#site (discord:123)"]
        {
            assert_eq!(parse_channel(text), Ok(ChannelId::discord(123)), "{text}");
        }
        for text in ["", "0", "#site", "-1", "slack:1"] {
            parse_channel(text).expect_err(text);
        }
    }
}
