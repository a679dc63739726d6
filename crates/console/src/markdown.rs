//! Markdown as rows of text, with colours.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use unicode_width::UnicodeWidthStr as _;

use aetheel_model::plain::clean_text;
use aetheel_model::table::{TableLines, tables};

// Parameters of the terminal's sequence for a style.
const BOLD: &str = "1";
const DIM: &str = "2";
const ITALIC: &str = "3";
const UNDERLINED: &str = "4";
const STRUCK: &str = "9";
const CODE: &str = "36";

/// The extensions of Markdown that are read. Tables have rules of their own.
const OPTIONS: Options = Options::ENABLE_STRIKETHROUGH.union(Options::ENABLE_TASKLISTS);
/// Columns of a thematic break, and of the row above and below code.
const RULE_COLUMNS: usize = 20;
/// The smallest number of columns for text beside its margin.
const MIN_COLUMNS: usize = 10;

/// The blocks of an answer, one after the other while it is streamed: paragraphs, lists, code.
#[derive(Debug, Default)]
pub(crate) struct Paragraphs(String);

impl Paragraphs {
    /// Adds text. Returns the blocks that are complete, because another one follows them.
    pub(crate) fn add(&mut self, text: &str) -> Option<String> {
        let begins_line = self.0.ends_with('\n') || text.contains('\n');
        self.0.push_str(text);
        if !begins_line {
            return None;
        }
        let (mut depth, mut last) = (0, 0);
        for (event, range) in Parser::new_ext(&self.0, OPTIONS).into_offset_iter() {
            match event {
                Event::Start(_) => {
                    if depth == 0 {
                        last = range.start;
                    }
                    depth += 1;
                }
                Event::End(_) => depth -= 1,
                _ if depth == 0 => last = range.start,
                _ => {}
            }
        }
        // An indented block begins with its line.
        let begin = self.0[..last].rfind('\n').map_or(0, |at| at + 1);
        let rest = self.0.split_off(begin);
        let complete = std::mem::replace(&mut self.0, rest);
        (!complete.is_empty()).then_some(complete)
    }

    /// Returns the rest of the answer.
    pub(crate) fn end(&mut self) -> String {
        std::mem::take(&mut self.0)
    }
}

/// Returns Markdown as rows, each with its line break. Blank lines at its end remain.
pub(crate) fn render(text: &str, columns: usize, colour: bool) -> String {
    let mut writer = MarkdownWriter { columns, colour, ..MarkdownWriter::default() };
    let mut begin = 0;
    for table in tables(text) {
        writer.add(&text[begin..table.range.start]);
        writer.add_table(table.lines(columns));
        begin = table.range.end;
    }
    writer.add(&text[begin..]);
    let blank = text.len() - text.trim_end().len();
    let blank_lines = text[text.len() - blank..].matches('\n').count().saturating_sub(1);
    writer.out + &"\n".repeat(blank_lines)
}

/// Writes the rows of blocks.
#[derive(Default)]
struct MarkdownWriter {
    out: String,
    columns: usize,
    colour: bool,
    row: String,
    styles: Vec<&'static str>,
    /// For each open quotation and item, the text before its first row and before the others.
    margins: Vec<(Option<String>, String)>,
    /// The number of the next item of each open list.
    lists: Vec<Option<u64>>,
    /// The address and the text of each open link.
    links: Vec<(String, String)>,
    is_code: bool,
}

impl MarkdownWriter {
    fn add(&mut self, text: &str) {
        for event in Parser::new_ext(text, OPTIONS) {
            match event {
                Event::Start(tag) => self.start(tag),
                Event::End(tag) => self.end(tag),
                Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                    for piece in clean_text(&text).split_inclusive('\n') {
                        let style = if self.is_code { CODE } else { "" };
                        self.push(piece.trim_end_matches('\n'), style);
                        if piece.ends_with('\n') {
                            self.end_row();
                        }
                    }
                }
                Event::Code(text) => self.push(&format!("`{}`", clean_text(&text)), CODE),
                // Agents break lines as people do in a chat.
                Event::SoftBreak | Event::HardBreak => self.end_row(),
                Event::Rule => self.rule(),
                Event::TaskListMarker(done) => self.push(if done { "☑ " } else { "☐ " }, ""),
                Event::FootnoteReference(_) | Event::InlineMath(_) | Event::DisplayMath(_) => {}
            }
        }
    }

    fn add_table(&mut self, lines: TableLines) {
        match lines {
            TableLines::Aligned(lines) => {
                for (line, style) in
                    lines.iter().zip([BOLD, DIM].into_iter().chain([""].repeat(lines.len())))
                {
                    self.push(line, style);
                    self.out += &(std::mem::take(&mut self.row) + "\n");
                }
            }
            TableLines::List(rows) => {
                for row in rows {
                    for (name, cell) in row {
                        self.push(&format!("{name}: "), BOLD);
                        self.push(&cell, "");
                        self.end_row();
                    }
                    self.out.push('\n');
                }
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { .. } | Tag::Strong => self.styles.push(BOLD),
            Tag::Emphasis => self.styles.push(ITALIC),
            Tag::Strikethrough => self.styles.push(STRUCK),
            Tag::BlockQuote(_) => self.margins.push((None, "│ ".to_owned())),
            Tag::List(number) => {
                self.end_text();
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
            Tag::CodeBlock(_) => {
                self.rule();
                self.is_code = true;
            }
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.styles.push(UNDERLINED);
                self.links.push((clean_text(&dest_url).into_owned(), String::new()));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_text(),
            TagEnd::Heading(_) => {
                self.end_text();
                self.styles.pop();
            }
            TagEnd::Strong | TagEnd::Emphasis | TagEnd::Strikethrough => drop(self.styles.pop()),
            TagEnd::Item | TagEnd::BlockQuote(_) => {
                self.end_text();
                // An empty item.
                if self.margins.last().is_some_and(|(mark, _)| mark.is_some()) {
                    self.end_row();
                }
                self.margins.pop();
            }
            TagEnd::List(_) => drop(self.lists.pop()),
            TagEnd::CodeBlock => {
                self.is_code = false;
                self.rule();
            }
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                if let Some((address, text)) =
                    self.links.pop().filter(|(address, text)| address != text)
                {
                    self.links.iter_mut().for_each(|(_, outer)| outer.push_str(&text));
                    self.push(&format!(" ({address})"), DIM);
                }
            }
            _ => {}
        }
    }

    /// Adds text to the row. Each word has its own sequences, so that the row can be wrapped.
    fn push(&mut self, text: &str, style: &'static str) {
        if let Some((_, link)) = self.links.last_mut() {
            link.push_str(text);
        }
        let styles = self.styles.iter().copied().chain([style]).filter(|style| !style.is_empty());
        let styles = styles.collect::<Vec<_>>().join(";");
        for piece in text.split_inclusive(' ') {
            let word = piece.trim_end_matches(' ');
            if self.colour && !(word.is_empty() || styles.is_empty()) {
                self.row += &format!("\x1b[{styles}m{word}\x1b[0m{}", &piece[word.len()..]);
            } else {
                self.row += piece;
            }
        }
    }

    fn rule(&mut self) {
        self.push(&"─".repeat(RULE_COLUMNS), DIM);
        self.end_row();
    }

    fn end_text(&mut self) {
        if !self.row.is_empty() {
            self.end_row();
        }
    }

    fn end_row(&mut self) {
        let row = std::mem::take(&mut self.row);
        let margin: usize = self.margins.iter().map(|(_, rest)| rest.width()).sum();
        let columns = self.columns.saturating_sub(margin).max(MIN_COLUMNS);
        for row in if self.is_code { vec![row] } else { wrapped(&row, columns) } {
            for (mark, rest) in &mut self.margins {
                self.out += mark.take().as_deref().unwrap_or(rest);
            }
            self.out += &(row + "\n");
        }
    }
}

/// Breaks a row at blanks, so that each part is narrower than `columns` if possible.
fn wrapped(row: &str, columns: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    let mut width = 0;
    for word in row.split(' ') {
        let added = width_of(word);
        match rows.last_mut() {
            Some(row) if width + 1 + added < columns => {
                *row += &format!(" {word}");
                width += 1 + added;
            }
            _ => {
                rows.push(word.to_owned());
                width = added;
            }
        }
    }
    rows
}

/// Returns the columns of a text without its sequences.
fn width_of(text: &str) -> usize {
    let mut parts = text.split('\x1b');
    let first = parts.next().map_or(0, str::width);
    first
        + parts.filter_map(|part| part.split_once('m')).map(|(_, text)| text.width()).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str, columns: usize) -> Vec<String> {
        render(text, columns, false).lines().map(str::to_owned).collect()
    }

    #[test]
    fn marks_become_styles() {
        let shown = render("# A *b*\n`c` ~~d~~ **e** snake_case 2 * 3 * 4 \\*f\\*", 80, true);
        assert_eq!(
            shown,
            "\x1b[1mA\x1b[0m \x1b[1;3mb\x1b[0m\n\
             \x1b[36m`c`\x1b[0m \x1b[9md\x1b[0m \x1b[1me\x1b[0m snake_case 2 * 3 * 4 *f*\n"
        );
        assert_eq!(render("**one two** three", 8, true).matches("\x1b[1m").count(), 2);
    }

    #[test]
    fn links_show_their_address() {
        assert_eq!(
            plain("[here](https://a.b/c) <https://d.e> ![cat](f.png)", 80),
            ["here (https://a.b/c) https://d.e cat (f.png)"]
        );
    }

    #[test]
    fn lists_quotations_and_code_keep_their_shape() {
        assert_eq!(
            plain("3. one two three\n   - [x] done\n4. > quoted\n5.", 14),
            ["3. one two", "   three", "   • ☑ done", "4. │ quoted", "5. "]
        );
        let rule = "─".repeat(RULE_COLUMNS);
        let code = "Run:\n```sh\nls *.rs  **x** and more\n```\n\n";
        let rows = ["Run:", &rule, "ls *.rs  **x** and more", &rule, ""];
        assert_eq!(plain(code, 10), rows);
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
    fn a_table_is_aligned() {
        assert_eq!(
            render("| a | number |\n|---|--:|\n| long one | 1 |\n\nx", 80, false),
            "a         number\n────────  ──────\nlong one       1\nx\n"
        );
        assert_eq!(
            render("| a | b |\n|---|---|\n| long words | 1 |\n| 2 | |", 12, false),
            "a: long\nwords\nb: 1\n\na: 2\n\n"
        );
    }

    #[test]
    fn entities_cannot_add_control_characters() {
        assert_eq!(plain("a&#27;[2Jb [c](x&#27;y)", 80), ["a[2Jb c (x)"]);
    }

    #[test]
    fn a_paragraph_is_complete_when_the_next_one_begins() {
        let mut paragraphs = Paragraphs::default();
        assert_eq!(paragraphs.add("Once **up"), None);
        assert_eq!(paragraphs.add("on** a\ntime\n\n"), None);
        assert_eq!(paragraphs.add("then"), Some("Once **upon** a\ntime\n\n".to_owned()));
        assert_eq!(paragraphs.add("\n\n1. one\n\n   more\n\n"), Some("then\n\n".to_owned()));
        assert_eq!(paragraphs.add("~~~~\n\n~~~\n"), Some("1. one\n\n   more\n\n".to_owned()));
        assert_eq!(paragraphs.add("~~~~\n\nend"), Some("~~~~\n\n~~~\n~~~~\n\n".to_owned()));
        assert_eq!((paragraphs.end().as_str(), paragraphs.end().as_str()), ("end", ""));
    }

    proptest::proptest! {
        #[test]
        fn no_letter_is_lost(pieces in proptest::collection::vec("[a-c 1.\n|>#-]{0,12}", 0..12), columns in 3_usize..30) {
            let mut paragraphs = Paragraphs::default();
            let mut shown = String::new();
            for piece in &pieces {
                shown += &render(&paragraphs.add(piece).unwrap_or_default(), columns, false);
            }
            shown += &render(&paragraphs.end(), columns, false);
            let letters = |text: &str| text.chars().filter(|letter| ('a'..='c').contains(letter)).count();
            // A list instead of a table names the columns in each row.
            proptest::prop_assert!(letters(&shown) >= letters(&pieces.concat()), "{shown}");
        }
    }
}
