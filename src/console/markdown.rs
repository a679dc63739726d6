//! Markdown as rows of styled text. Pure.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use unicode_width::UnicodeWidthStr as _;

use crate::plain::clean_text;
use crate::table::{TableLines, tables};

/// Styles of a text, which can be combined.
const BOLD: u8 = 1;
const ITALIC: u8 = 2;
const UNDERLINED: u8 = 4;
const STRUCK: u8 = 8;
pub(super) const CODE: u8 = 16;
pub(super) const DIM: u8 = 32;

/// The parameter of the terminal's sequence for each style.
const PARAMETERS: [(u8, &str); 6] =
    [(BOLD, "1"), (DIM, "2"), (ITALIC, "3"), (UNDERLINED, "4"), (STRUCK, "9"), (CODE, "36")];

/// Columns of a thematic break.
const BREAK_COLUMNS: usize = 20;
/// The smallest number of columns for text beside its margin.
const MIN_COLUMNS: usize = 10;

/// Adds the terminal's sequences for a style.
pub(super) fn paint(text: &str, style: u8, colour: bool) -> String {
    if !colour || style == 0 || text.is_empty() {
        return text.to_owned();
    }
    let parameters: Vec<&str> =
        PARAMETERS.iter().filter(|(bit, _)| style & bit != 0).map(|(_, code)| *code).collect();
    format!("\x1b[{}m{text}\x1b[0m", parameters.join(";"))
}

/// A row of the screen: texts with their styles.
#[derive(Clone, Debug, Default)]
pub(super) struct Row(Vec<(String, u8)>);

impl Row {
    fn of(text: &str, style: u8) -> Self {
        let mut row = Self::default();
        row.push(text, style);
        row
    }

    fn push(&mut self, text: &str, style: u8) {
        match self.0.last_mut() {
            Some((before, same)) if *same == style => before.push_str(text),
            _ if text.is_empty() => {}
            _ => self.0.push((text.to_owned(), style)),
        }
    }

    fn append(&mut self, other: &Self) {
        other.0.iter().for_each(|(text, style)| self.push(text, *style));
    }

    /// Returns the text of the row.
    pub(super) fn plain(&self) -> String {
        self.0.iter().map(|(text, _)| text.as_str()).collect()
    }

    /// Returns the row with its styles and a line break.
    pub(super) fn print(&self, colour: bool) -> String {
        let row: String = self.0.iter().map(|(text, style)| paint(text, *style, colour)).collect();
        row + "\n"
    }

    /// Breaks the row at blanks, so that each part is narrower than `columns` if possible.
    fn wrapped(&self, columns: usize) -> Vec<Self> {
        let mut rows = vec![Self::default()];
        let (mut word, mut blanks) = (Self::default(), Self::default());
        let letters =
            self.0.iter().flat_map(|(text, style)| text.chars().map(move |it| (it, *style)));
        for (letter, style) in letters.chain([(' ', 0)]) {
            if letter != ' ' {
                word.push(letter.encode_utf8(&mut [0; 4]), style);
                continue;
            }
            if let Some(row) = rows.last_mut()
                && !word.0.is_empty()
            {
                let wide: usize = [&*row, &blanks, &word].iter().map(|it| it.plain().width()).sum();
                if wide >= columns && !row.0.is_empty() {
                    rows.push(std::mem::take(&mut word));
                } else {
                    row.append(&std::mem::take(&mut blanks));
                    row.append(&std::mem::take(&mut word));
                }
                blanks = Self::default();
            }
            blanks.push(" ", style);
        }
        rows
    }
}

/// Returns a block of Markdown as rows. Keeps its indentation, because it may be in a list that
/// began before it.
pub(super) fn rows(text: &str, columns: usize) -> Vec<Row> {
    let first = text.lines().next().unwrap_or_default();
    let indent = first.len() - first.trim_start_matches(' ').len();
    let is_item = first[indent..].starts_with(['-', '*', '+', '>'])
        || first[indent..].starts_with(|c: char| c.is_ascii_digit());
    if indent >= 4 && !is_item {
        return text.lines().map(|line| Row::of(line, 0)).collect();
    }
    let outdented = |line: &str| {
        let blanks = line.len() - line.trim_start_matches(' ').len();
        format!("{}\n", &line[blanks.min(indent)..])
    };
    let text: String = text.lines().map(outdented).collect();
    let columns = columns.saturating_sub(indent).max(MIN_COLUMNS);
    let (mut rows, mut begin) = (Vec::new(), 0);
    for table in tables(&text) {
        rows.extend(Blocks::of(&text[begin..table.range.start], columns).rows);
        rows.extend(table_rows(table.lines(columns)));
        begin = table.range.end;
    }
    rows.extend(Blocks::of(&text[begin..], columns).rows);
    for row in rows.iter_mut().filter(|row| indent > 0 && !row.0.is_empty()) {
        row.0.insert(0, (" ".repeat(indent), 0));
    }
    rows
}

fn table_rows(lines: TableLines) -> Vec<Row> {
    match lines {
        TableLines::Aligned(lines) => {
            let styles = [BOLD, DIM].into_iter().chain(std::iter::repeat(0));
            lines.iter().zip(styles).map(|(line, style)| Row::of(line, style)).collect()
        }
        TableLines::List(rows) => {
            let cell = |(name, cell): (String, String)| {
                let mut row = Row::of(&format!("{name}: "), BOLD);
                row.push(&cell, 0);
                row
            };
            rows.into_iter()
                .flat_map(|row| row.into_iter().map(cell).chain([Row::default()]))
                .collect()
        }
    }
}

/// Collects the rows of blocks.
struct Blocks {
    rows: Vec<Row>,
    columns: usize,
    row: Row,
    styles: Vec<u8>,
    /// For each open quotation and item, the text before its first row and before the others.
    margins: Vec<(Option<String>, String)>,
    /// The number of the next item of each open list.
    lists: Vec<Option<u64>>,
    /// For each open link, its address and the text of its row before it.
    links: Vec<(String, String)>,
    is_code: bool,
}

impl Blocks {
    fn of(text: &str, columns: usize) -> Self {
        let mut blocks = Self {
            rows: Vec::new(),
            columns,
            row: Row::default(),
            styles: Vec::new(),
            margins: Vec::new(),
            lists: Vec::new(),
            links: Vec::new(),
            is_code: false,
        };
        let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        for event in Parser::new_ext(text, options) {
            match event {
                Event::Start(tag) => blocks.start(tag),
                Event::End(tag) => blocks.end(tag),
                Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                    blocks.text(&clean_text(&text));
                }
                Event::Code(text) => blocks.push(&format!("`{}`", clean_text(&text)), CODE),
                // Agents break lines as people do in a chat.
                Event::SoftBreak | Event::HardBreak => blocks.end_row(),
                Event::Rule => blocks.text(&("─".repeat(BREAK_COLUMNS) + "\n")),
                Event::TaskListMarker(done) => blocks.push(if done { "☑ " } else { "☐ " }, 0),
                Event::FootnoteReference(_) | Event::InlineMath(_) | Event::DisplayMath(_) => {}
            }
        }
        blocks
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { .. } | Tag::Strong => self.styles.push(BOLD),
            Tag::Emphasis => self.styles.push(ITALIC),
            Tag::Strikethrough => self.styles.push(STRUCK),
            Tag::BlockQuote(_) => self.margins.push((None, "│ ".to_owned())),
            Tag::List(number) => {
                self.end_row();
                self.lists.push(number);
            }
            Tag::Item => {
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "• ".to_owned(),
                };
                let rest = " ".repeat(mark.width());
                self.margins.push((Some(mark), rest));
            }
            Tag::CodeBlock(_) => self.is_code = true,
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.styles.push(UNDERLINED);
                self.links.push((clean_text(&dest_url).into_owned(), self.row.plain()));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_row(),
            TagEnd::Heading(_) => {
                self.end_row();
                self.styles.pop();
            }
            TagEnd::Strong | TagEnd::Emphasis | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Item | TagEnd::BlockQuote(_) => {
                self.end_row();
                // An empty item.
                if self.margins.last().is_some_and(|(mark, _)| mark.is_some()) {
                    self.add_row();
                }
                self.margins.pop();
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::CodeBlock => self.is_code = false,
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                let Some((address, before)) = self.links.pop() else { return };
                if self.row.plain().strip_prefix(&before) != Some(&address) {
                    self.push(&format!(" ({address})"), DIM);
                }
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        for piece in text.split_inclusive('\n') {
            self.push(piece.trim_end_matches('\n'), if self.is_code { CODE } else { 0 });
            if piece.ends_with('\n') {
                self.add_row();
            }
        }
    }

    fn push(&mut self, text: &str, style: u8) {
        self.row.push(text, self.styles.iter().fold(style, |all, style| all | style));
    }

    fn end_row(&mut self) {
        if !self.row.0.is_empty() {
            self.add_row();
        }
    }

    fn add_row(&mut self) {
        let row = std::mem::take(&mut self.row);
        let margin: usize = self.margins.iter().map(|(_, rest)| rest.width()).sum();
        let columns = self.columns.saturating_sub(margin).max(MIN_COLUMNS);
        for row in if self.is_code { vec![row] } else { row.wrapped(columns) } {
            let mut whole = Row::default();
            for (mark, rest) in &mut self.margins {
                whole.push(mark.take().as_deref().unwrap_or(rest), DIM);
            }
            whole.append(&row);
            self.rows.push(whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str, columns: usize) -> Vec<String> {
        rows(text, columns).iter().map(Row::plain).collect()
    }

    #[test]
    fn marks_become_styles() {
        let shown: String = rows("# A *b*\n`c` ~~d~~ **e** snake_case 2 * 3 * 4 \\*f\\*", 80)
            .iter()
            .map(|row| row.print(true))
            .collect();
        assert_eq!(
            shown,
            "\x1b[1mA \x1b[0m\x1b[1;3mb\x1b[0m\n\
             \x1b[36m`c`\x1b[0m \x1b[9md\x1b[0m \x1b[1me\x1b[0m snake_case 2 * 3 * 4 *f*\n"
        );
    }

    #[test]
    fn links_show_their_address() {
        assert_eq!(
            plain("[here](https://a.b/c) <https://d.e> ![cat](f.png)", 80),
            ["here (https://a.b/c) https://d.e cat (f.png)"]
        );
    }

    #[test]
    fn lists_and_quotations_keep_their_shape() {
        assert_eq!(
            plain("3. one two three\n   - [x] done\n4. > quoted\n5.", 14),
            ["3. one two", "   three", "   • ☑ done", "4. │ quoted", "5. "]
        );
        assert_eq!(plain("    - nested deep", 80), ["    • nested deep"]);
    }

    #[test]
    fn a_long_row_is_wrapped_at_blanks_by_the_width_of_its_letters() {
        assert_eq!(plain("one two three  four", 12), ["one two", "three  four"]);
        assert_eq!(
            plain("漢漢 漢漢漢 averylongword x", 10),
            ["漢漢", "漢漢漢", "averylongword", "x"]
        );
    }

    #[test]
    fn entities_cannot_add_control_characters() {
        assert_eq!(plain("a&#27;[2Jb [c](x&#27;y)", 80), ["a[2Jb c (x)"]);
    }
}
