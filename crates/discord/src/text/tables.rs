//! Markdown tables in Discord, which does not show them: as aligned text in a code block, or as a
//! list if that would be too wide. Pure.

use std::borrow::Cow;

use super::markdown::{address_length, escape};
use aetheel_model::table::{Table, TableLines, tables};

/// Maximum number of columns of a code block. Discord breaks longer lines on a narrow screen.
const MAX_COLUMNS: usize = 60;

/// Returns a text of an agent with its tables as people see them.
pub(crate) fn with_tables(text: &str) -> Cow<'_, str> {
    let (quotation, below) = text.split_at(quotation_length(text));
    let tables = tables(below);
    if tables.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut shown, mut begin) = (quotation.to_owned(), 0);
    for table in tables {
        shown.push_str(&below[begin..table.range.start]);
        shown.push_str(&shown_table(&table));
        begin = table.range.end;
    }
    Cow::Owned(shown + &below[begin..])
}

/// Returns a text that still grows without a table at its end, because each further row can change
/// the width of all columns.
pub(crate) fn without_growing_table(text: &str) -> &str {
    let quotation = quotation_length(text);
    let begin = |text: &str| {
        let last = tables(&text[quotation..]).pop()?;
        (quotation + last.range.end == text.len()).then_some(quotation + last.range.start)
    };
    if let Some(begin) = begin(text) {
        return &text[..begin];
    }
    // A header, and a part of the line below it.
    let lines = text.strip_suffix('\n').unwrap_or(text);
    let last = |lines: &str| lines.len() - lines.rsplit('\n').next().unwrap_or_default().len();
    let is_rule = |line: &str| !line.is_empty() && line.bytes().all(|it| b"|-: ".contains(&it));
    let mut header = last(lines)..lines.len();
    if is_rule(&lines[header.clone()]) && header.start > 0 {
        let above = &lines[..header.start - 1];
        if above[last(above)..].contains('|') {
            header = last(above)..above.len();
        }
    }
    let (header, to_header) = (&lines[header.clone()], &lines[..header.end]);
    if header.trim() == "|" {
        return &to_header[..to_header.len() - header.len()];
    }
    if !header.contains('|') {
        return text;
    }
    let cells = header.trim().trim_matches('|').replace("\\|", "").split('|').count();
    let completed = format!("{to_header}\n{}|\n", "|-".repeat(cells));
    begin(&completed).map_or(text, |begin| &text[..begin])
}

/// Returns the length of the quoted lines at the beginning of a text, such as the prompt above an
/// answer. In Discord, unlike in Markdown, the next line does not continue them.
fn quotation_length(text: &str) -> usize {
    text.split_inclusive('\n').take_while(|line| line.starts_with('>')).map(str::len).sum()
}

fn shown_table(table: &Table) -> String {
    match table.lines(MAX_COLUMNS) {
        // A fence in a cell would end the code block.
        TableLines::Aligned(lines) => {
            format!("```\n{}\n```\n", lines.join("\n").replace("```", "'''"))
        }
        TableLines::List(rows) => {
            let cell = |(name, cell): (String, String)| {
                format!("**{}:** {}\n", escape(&name), with_addresses(&cell))
            };
            let rows = rows.into_iter().map(|row| row.into_iter().map(cell).collect::<String>());
            rows.collect::<Vec<_>>().join("\n")
        }
    }
}

/// Escapes formatting, except in web addresses.
fn with_addresses(cell: &str) -> String {
    let word = |word: &str| match address_length(word) {
        Some(length) => format!("{}{}", &word[..length], escape(&word[length..])),
        None => escape(word),
    };
    cell.split_inclusive([' ', '(']).map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| name | n |\n|---|--:|\n| **a** | 1 |\n";
    const SHOWN: &str = "```\nname  n\n────  ─\na     1\n```\n";

    #[test]
    fn a_narrow_table_becomes_aligned_code() {
        assert_eq!(
            with_tables(&format!("Look:\n\n{TABLE}\nDone.")),
            format!("Look:\n\n{SHOWN}\nDone.")
        );
        assert_eq!(with_tables(&format!("> prompt\n{TABLE}")), format!("> prompt\n{SHOWN}"));
        assert_eq!(with_tables("a | b"), "a | b");
        let code = format!("```\n{TABLE}```");
        assert_eq!(with_tables(&code), code);
        assert_eq!(with_tables("| a |\n|---|\n| ~~~ ``` |"), "```\na\n───────\n~~~ '''\n```\n");
    }

    #[test]
    fn a_wide_table_becomes_a_list() {
        let long = "long ".repeat(12);
        let table =
            format!("| a\\*b | c |\n|---|---|\n| {long}| https://e.org/a_b <@1> |\n| 2 | |");
        assert_eq!(
            with_tables(&table),
            format!(
                "**a\\*b:** {}\n**c:** https://e.org/a_b \\<@1\\>\n\n**a\\*b:** 2\n",
                long.trim()
            )
        );
    }

    #[test]
    fn a_growing_table_is_shown_when_it_is_complete() {
        let text = format!("Look:\n\n{TABLE}\nDone.");
        for end in 0..=text.len() {
            let grown = without_growing_table(&text[..end]);
            let shown = match end {
                0..7 => &text[..end],
                _ if end <= "Look:\n\n".len() + TABLE.len() => "Look:\n\n",
                _ => &text[..end],
            };
            assert_eq!(grown, shown, "{end}");
        }
        assert_eq!(without_growing_table("```\na | b\n"), "```\na | b\n");
        assert_eq!(without_growing_table("true || false\nand"), "true || false\nand");
    }
}
