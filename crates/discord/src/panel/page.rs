//! Text for messages: escaped, and cut to the size of a message. Pure.

use crate::text::markdown::with_code_and_links;
use aetheel_dispatch::StatusRow;

/// Maximum number of characters of a text. Leaves room for lines that a command adds.
const MAX_PAGE_CHARS: usize = 1_900;

pub(super) use crate::text::markdown::escape as escaped;

/// Formats rows as lines with bold names.
pub(super) fn from_rows(rows: &[StatusRow]) -> String {
    let line = |row: &StatusRow| {
        if row.name.is_empty() {
            with_code_and_links(&row.text)
        } else {
            format!("**{}:** {}", row.name, with_code_and_links(&row.text))
        }
    };
    cut_to_page(&rows.iter().map(line).collect::<Vec<_>>().join("\n"))
}

pub(super) fn cut_to_page(text: &str) -> String {
    aetheel_model::plain::cut(text, MAX_PAGE_CHARS).into_owned()
}

pub(super) fn one_line(text: &str) -> String {
    aetheel_model::plain::short_line(text, 300)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_cut_to_one_message() {
        let row = |name, text: &str| StatusRow { name, text: text.to_owned() };
        assert_eq!(
            from_rows(&[row("Running", "**x** <@1>"), row("", "- a `b`")]),
            "**Running:** \\*\\*x\\*\\* \\<@1\\>\n- a `b`"
        );
        assert_eq!(from_rows(&[row("", &"é".repeat(5_000))]).chars().count(), MAX_PAGE_CHARS);
    }
}
