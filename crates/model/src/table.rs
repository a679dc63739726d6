//! The tables in Markdown, laid out with characters of equal width. Pure.

use std::ops::Range;

use pulldown_cmark::{Alignment, Event, Options, Parser, Tag, TagEnd};
use unicode_width::UnicodeWidthStr as _;

use crate::plain::one_line;

/// Columns between two cells.
const GAP: usize = 2;

/// A table whose cells are plain text: without marks, and with the addresses of links.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The bytes of the table in its text, including the line break at its end, if there is one.
    pub range: Range<usize>,
    alignments: Vec<Alignment>,
    /// The header is the first row. All rows have the same number of cells.
    rows: Vec<Vec<String>>,
}

/// Returns the tables of a text that are not part of a list, a quotation or code.
#[must_use]
pub fn tables(text: &str) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    // Most texts have no table, and this is called for each draft of an answer.
    if !text.contains('|') {
        return tables;
    }
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let (mut depth, mut within) = (0_usize, false);
    let mut addresses = Vec::new();
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match &event {
            Event::Start(Tag::Table(alignments)) if depth == 0 => {
                within = true;
                tables.push(Table { range, alignments: alignments.clone(), rows: Vec::new() });
            }
            Event::End(TagEnd::Table) => within = false,
            _ => {}
        }
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            _ => {}
        }
        if let Some(table) = tables.last_mut().filter(|_| within) {
            table.add(event, &mut addresses);
        }
    }
    for Table { range, .. } in &mut tables {
        range.end = range.start + text[range.clone()].trim_end().len();
        range.end += usize::from(text[range.end..].starts_with('\n'));
    }
    tables
}

impl Table {
    fn add(&mut self, event: Event<'_>, addresses: &mut Vec<String>) {
        match event {
            Event::Start(Tag::TableHead | Tag::TableRow) => self.rows.push(Vec::new()),
            Event::Start(Tag::TableCell) => {
                if let Some(row) = self.rows.last_mut() {
                    row.push(String::new());
                }
            }
            Event::End(TagEnd::TableCell) => {
                if let Some(cell) = self.cell() {
                    *cell = one_line(cell);
                }
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                addresses.push(dest_url.into_string());
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                if let (Some(address), Some(cell)) = (addresses.pop(), self.cell())
                    && !cell.ends_with(&address)
                {
                    cell.push_str(&format!(" ({address})"));
                }
            }
            Event::Text(text) | Event::Code(text) | Event::Html(text) | Event::InlineHtml(text) => {
                if let Some(cell) = self.cell() {
                    cell.push_str(&text);
                }
            }
            _ => {}
        }
    }

    fn cell(&mut self) -> Option<&mut String> {
        self.rows.last_mut()?.last_mut()
    }

    /// Returns the table as rows of aligned columns, with a line below the header, or as a list if
    /// it would be wider than `columns`.
    #[must_use]
    pub fn lines(&self, columns: usize) -> TableLines {
        let width = |column: usize| {
            self.rows
                .iter()
                .map(|row| row.get(column).map_or(0, |it| it.width()))
                .max()
                .unwrap_or_default()
                .max(1)
        };
        let widths: Vec<usize> = (0..self.alignments.len()).map(width).collect();
        let width = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        if width > columns && self.rows.len() > 1 {
            return TableLines::List(self.list());
        }
        let rule = widths.iter().map(|width| "─".repeat(*width)).collect::<Vec<_>>();
        let mut lines: Vec<String> =
            self.rows.iter().map(|row| self.aligned(row, &widths)).collect();
        lines.insert(1, self.aligned(&rule, &widths));
        TableLines::Aligned(lines)
    }

    fn aligned(&self, row: &[String], widths: &[usize]) -> String {
        let cells =
            row.iter().zip(widths).zip(&self.alignments).map(|((cell, width), alignment)| {
                let free = width.saturating_sub(cell.width());
                let before = match alignment {
                    Alignment::None | Alignment::Left => 0,
                    Alignment::Center => free / 2,
                    Alignment::Right => free,
                };
                format!("{}{cell}{}", " ".repeat(before), " ".repeat(free - before))
            });
        cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
    }

    /// Returns the header and the text of each cell that is not empty, row by row.
    fn list(&self) -> Vec<Vec<(String, String)>> {
        let Some((header, rows)) = self.rows.split_first() else { return Vec::new() };
        let cells = |row: &Vec<String>| {
            let named = header.iter().cloned().zip(row.iter().cloned());
            named.filter(|(_, cell)| !cell.is_empty()).collect::<Vec<_>>()
        };
        rows.iter().map(cells).filter(|row| !row.is_empty()).collect()
    }
}

/// A table as lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableLines {
    /// Rows of aligned columns. The second is the line below the header.
    Aligned(Vec<String>),
    /// The table is too wide: the header and the text of each cell, row by row.
    List(Vec<Vec<(String, String)>>),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, columns: usize) -> TableLines {
        let tables = tables(text);
        assert_eq!(tables.len(), 1, "{tables:?}");
        tables[0].lines(columns)
    }

    #[test]
    fn columns_are_aligned_by_the_width_of_their_letters() {
        let text =
            "| name | **n** |\n|---|--:|\n| `a\\|b` | 1 |\n| 漢字 | [x](https://e.org) |\n| c |\n";
        let TableLines::Aligned(lines) = lines(text, 60) else { panic!("it fits") };
        assert_eq!(
            lines,
            [
                "name                  n",
                "────  ─────────────────",
                "a|b                   1",
                "漢字  x (https://e.org)",
                "c",
            ]
        );
    }

    #[test]
    fn a_wide_table_becomes_a_list_without_empty_cells() {
        let wide = format!(
            "| a | b |\n|:-:|---|\n| x | {} |\n| | |\n| | y |",
            "long ".repeat(9).trim_end()
        );
        let pair = |name: &str, cell: &str| (name.to_owned(), cell.to_owned());
        let long = pair("b", "long long long long long long long long long");
        assert_eq!(
            lines(&wide, 20),
            TableLines::List(vec![vec![pair("a", "x"), long], vec![pair("b", "y")]])
        );
    }

    #[test]
    fn only_tables_outside_of_code_lists_and_quotations_are_found() {
        let table = "| a |\n|---|\n| 1 |\n";
        let text = format!(
            "```\n{table}```\n\n> | a |\n> |---|\n\n- | a |\n  |---|\n\nAbout:\n{table}\nx"
        );
        let found: Vec<&str> = tables(&text).into_iter().map(|it| &text[it.range]).collect();
        assert_eq!(found, [table]);
        assert_eq!(tables("a | b, and no more"), []);
    }

    #[test]
    fn a_cell_cannot_contain_control_characters_or_line_breaks() {
        let TableLines::Aligned(lines) = lines("| a&#27;[2J&#10;b |\n|---|\n| c |\n", 60) else {
            panic!("it fits")
        };
        assert_eq!(lines, ["a b", "───", "c"]);
    }
}
