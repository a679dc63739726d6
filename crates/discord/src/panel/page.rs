//! Text for messages: escaped, and cut to the size of a message. Pure.

use crate::asks::escape;
use aetheel_dispatch::Row;

/// Maximum number of characters. Leaves room for additions of a command.
const MOST: usize = 1_900;

pub(super) use crate::asks::escape as escaped;

/// Formats rows as lines with bold names.
pub(super) fn of(rows: &[Row]) -> String {
    let line = |row: &Row| {
        if row.name.is_empty() {
            escape(&row.text)
        } else {
            format!("**{}:** {}", row.name, escape(&row.text))
        }
    };
    within(&rows.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// Cuts a text to the size of a message.
pub(super) fn within(text: &str) -> String {
    aetheel_model::plain::cut(text, MOST).into_owned()
}

/// Returns the text as one line.
pub(super) fn one_line(text: &str) -> String {
    aetheel_model::plain::short_line(text, 300)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_cut_to_one_message() {
        let row = |name, text: &str| Row { name, text: text.to_owned() };
        assert_eq!(
            of(&[row("Running", "**x** <@1>"), row("", "- a `b`")]),
            "**Running:** \\*\\*x\\*\\* \\<@1\\>\n- a \\`b\\`"
        );
        assert_eq!(of(&[row("", &"é".repeat(5_000))]).chars().count(), MOST);
    }
}
