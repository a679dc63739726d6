//! Text of programs and people as plain text, in which nothing moves a cursor, is hidden, or
//! reorders other text.
//!
//! Pure. Tested by `nothing_below_a_space_is_left_but_line_breaks_and_tabs`.

use std::borrow::Cow;
use std::fmt::Display;

/// Returns the text without control characters, terminal sequences and invisible or reordering
/// format characters.
///
/// Removes C0 and C1 controls except `\n` and `\t`, CSI, OSC, DCS and the other sequences of
/// ECMA-48, bidirectional marks, overrides and isolates, and zero-width characters. A carriage
/// return becomes a line break, so that the steps of a progress bar stay separate, and `\r\n`
/// becomes a single one. An incomplete string sequence ends with its line, so that it cannot hide
/// later text. The joiners U+200C and U+200D stay, because emoji and several scripts need them.
/// Borrows if there is nothing to remove.
#[must_use]
pub fn clean_text(text: &str) -> Cow<'_, str> {
    Cleaner::default().clean(text)
}

/// Returns the text as [`clean_text`] does, on one line, with single blanks as white space.
#[must_use]
pub fn one_line(text: &str) -> String {
    clean_text(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the text as [`one_line`] does, cut to `max_chars` characters as by [`cut`].
#[must_use]
pub fn short_line(text: &str, max_chars: usize) -> String {
    // The rest is cut off anyway and needs no cleaning.
    let head =
        text.char_indices().nth(max_chars.saturating_mul(8)).map_or(text, |(end, _)| &text[..end]);
    let line = one_line(head);
    if head.len() < text.len() && line.chars().count() <= max_chars {
        return cut(&format!("{line} …"), max_chars).into_owned();
    }
    cut(&line, max_chars).into_owned()
}

/// Returns the beginning of a text on one line, in which `⏎` stands for a line break, cut to
/// `max_chars` characters as by [`cut`].
#[must_use]
pub fn shortened(text: &str, max_chars: usize) -> String {
    let text = clean_text(text).replace('\n', "⏎").replace('\t', " ");
    cut(&text, max_chars).into_owned()
}

/// Returns the first `max_chars` characters of a text. The last of them is `…` if something is left
/// out.
#[must_use]
pub fn cut(text: &str, max_chars: usize) -> Cow<'_, str> {
    if text.char_indices().nth(max_chars).is_none() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().take(max_chars.saturating_sub(1)).chain(['…']).collect())
}

/// Returns bytes as lowercase hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Does the same as [`clean_text`] for a text that arrives in pieces, even if a sequence is split.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cleaner {
    state: EscapeState,
    after_return: bool,
}

impl Cleaner {
    /// Cleans the next piece.
    pub fn clean<'a>(&mut self, piece: &'a str) -> Cow<'a, str> {
        let within = !matches!(self.state, EscapeState::Text) || self.after_return;
        let first = if within { Some(0) } else { piece.find(|c| !is_plain(c)) };
        let Some(first) = first else { return Cow::Borrowed(piece) };
        let mut clean = String::with_capacity(piece.len());
        clean.push_str(&piece[..first]);
        for c in piece[first..].chars() {
            let line_feed_of_pair = self.after_return && c == '\n';
            self.after_return = c == '\r';
            if line_feed_of_pair {
                continue;
            }
            self.state = self.state.next(c);
            if matches!(self.state, EscapeState::Text) {
                match c {
                    '\r' => clean.push('\n'),
                    c if is_plain(c) => clean.push(c),
                    _ => {}
                }
            }
            if matches!(self.state, EscapeState::Done) {
                self.state = EscapeState::Text;
            }
        }
        Cow::Owned(clean)
    }
}

#[derive(Clone, Copy, Debug, Default)]
enum EscapeState {
    /// Outside of a sequence: the character is text, or a control character to remove.
    #[default]
    Text,
    /// At the last character of a sequence.
    Done,
    /// After ESC: the next character selects the kind of sequence.
    Escape,
    /// In a control sequence: parameters until a final byte.
    Control,
    /// In an operating system command or another string: until BEL or ST.
    Quoted,
    /// Within a string, after ESC.
    QuotedEscape,
}

impl EscapeState {
    fn next(self, c: char) -> Self {
        // A line break or a new ESC ends an incomplete sequence.
        match (self, c) {
            (Self::Quoted, '\u{1b}') => Self::QuotedEscape,
            (Self::QuotedEscape, '\\') => Self::Done,
            (_, '\u{1b}') => Self::Escape,
            (_, '\n' | '\r') => Self::Text,
            (Self::Quoted | Self::QuotedEscape, '\u{7}' | '\u{9c}') => Self::Done,
            (Self::Quoted, _) => Self::Quoted,
            // ESC inside a string begins the next sequence.
            (Self::Escape | Self::QuotedEscape, '[') => Self::Control,
            (Self::Escape | Self::QuotedEscape, ']' | 'P' | 'X' | '^' | '_') => Self::Quoted,
            (Self::Escape | Self::QuotedEscape, ' '..='/') => Self::Escape,
            (Self::Escape | Self::QuotedEscape, '0'..='~') => Self::Done,
            (Self::Control, ' '..='?') => Self::Control,
            (Self::Control, '@'..='~') => Self::Done,
            (_, '\u{9b}') => Self::Control,
            (_, '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}') => Self::Quoted,
            _ => Self::Text,
        }
    }
}

/// Returns whether a character stays unchanged. Format characters are those of Unicode 16, section
/// 23.2.
fn is_plain(c: char) -> bool {
    match c {
        '\n' | '\t' => true,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => false,
        // Marks, overrides and isolates that reorder; zero-width space, word joiner and invisible
        // operators; byte order mark.
        '\u{61c}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}' => false,
        _ => true,
    }
}

/// Returns the text as one line of a log: line breaks and everything that [`clean_text`] removes
/// are escaped as in JSON. If `coloured`, colour sequences stay, as the log itself writes them to a
/// terminal.
#[must_use]
pub fn escaped(text: &str, coloured: bool) -> Cow<'_, str> {
    let passes = |c: char| is_plain(c) && c != '\n';
    let Some(first) = text.find(|c| !passes(c)) else { return Cow::Borrowed(text) };
    let (mut line, mut rest) = (text[..first].to_owned(), &text[first..]);
    while let Some(c) = rest.chars().next() {
        let colour = if coloured && c == '\u{1b}' { colour(rest) } else { 0 };
        let (unit, after) = rest.split_at(colour.max(c.len_utf8()));
        rest = after;
        match c {
            c if passes(c) || colour > 0 => line.push_str(unit),
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            _ => line.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    Cow::Owned(line)
}

/// Returns the length of a sequence at the beginning of a text that only sets a colour or weight,
/// or 0 if there is no such sequence.
fn colour(text: &str) -> usize {
    let code = text
        .strip_prefix("\u{1b}[")
        .and_then(|rest| rest.split_once('m'))
        .map_or("", |(code, _)| code);
    match code.parse::<u8>() {
        Ok(0..=4 | 22..=24 | 30..=37 | 39 | 90..=97) => code.len() + 3,
        _ => 0,
    }
}

/// Returns a number and its noun, which gets an `s` unless the number is one: `2 lines`.
#[must_use]
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    format!("{number} {noun}{}", if number == N::from(1) { "" } else { "s" })
}

/// Returns lines in which equal ones are one line with their number.
#[must_use]
pub fn folded(lines: Vec<String>) -> Vec<String> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for line in lines {
        match counts.iter_mut().find(|(known, _)| *known == line) {
            Some((_, count)) => *count += 1,
            None => counts.push((line, 1)),
        }
    }
    let line = |(line, count): (String, usize)| match count {
        1 => line,
        count => format!("{line} ({count} times)"),
    };
    counts.into_iter().map(line).collect()
}

/// Returns an error and its causes as one text, separated by `: `.
#[must_use]
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_log_line_escapes_control_characters_and_keeps_only_colours() {
        let said = "a\u{1b}[31mred\u{1b}[8mgone\u{1b}]0;t\u{7} \u{202e}x\u{9b}2J\r\nb\t";
        let rest = "\\u001b]0;t\\u0007 \\u202ex\\u009b2J\\r\\nb\t";
        assert_eq!(escaped(said, false), format!("a\\u001b[31mred\\u001b[8mgone{rest}"));
        assert_eq!(escaped(said, true), format!("a\u{1b}[31mred\\u001b[8mgone{rest}"));
        assert!(matches!(escaped("plain", false), Cow::Borrowed(_)));
    }

    #[test]
    fn a_noun_is_plural_unless_there_is_one() {
        assert_eq!(counted(0_u8, "line"), "0 lines");
        assert_eq!(counted(1_usize, "line"), "1 line");
        assert_eq!(counted(2_u64, "line"), "2 lines");
        let lines = ["a", "b", "a"].map(str::to_owned).into();
        assert_eq!(folded(lines), ["a (2 times)", "b"]);
    }

    #[test]
    fn bytes_are_two_lowercase_digits_each() {
        assert_eq!(hex(&[]), "");
        assert_eq!(hex(&[0x00, 0x0f, 0xa5, 0xff]), "000fa5ff");
    }

    #[test]
    fn sequences_are_removed_and_the_text_between_them_stays() {
        for (given, wanted) in [
            ("plain text\twith\nbreaks", "plain text\twith\nbreaks"),
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}]8;;https://example.org\u{1b}\\link\u{1b}]8;;\u{7}", "link"),
            ("\u{1b}]52;c;c2VjcmV0\u{7}after", "after"),
            ("\u{9b}2Kgone\u{9d}0;title\u{9c}x", "gonex"),
            ("\u{1b}Pq#0;1\u{1b}\\sixel", "sixel"),
            ("\u{1b}(B\u{1b}=\u{1b}7kept", "kept"),
            ("10%\r50%\r100%\r\ndone\r\n", "10%\n50%\n100%\ndone\n"),
            ("never ended \u{1b}]0;title\nnext line", "never ended \nnext line"),
            ("\u{1b}[31\nnext", "\nnext"),
            ("\u{1b}[31é", "é"),
            ("\u{1b}]0;x\u{1b}[31mred", "red"),
            ("user\u{202e}gpj.exe \u{2066}x\u{2069}", "usergpj.exe x"),
            ("zero\u{200b}width\u{feff}", "zerowidth"),
            ("👩\u{200d}💻", "👩\u{200d}💻"),
            ("bell\u{7}\u{8}\u{0}\u{7f}\u{85}", "bell"),
            ("\u{1b}", ""),
        ] {
            assert_eq!(clean_text(given), wanted, "{given:?}");
        }
    }

    #[test]
    fn clean_text_is_not_copied() {
        assert!(matches!(clean_text("nothing to do\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_short_line_is_clean_and_marked_as_cut() {
        assert_eq!(short_line("fix\nthe \u{1b}[31mbuild\u{202e}", 60), "fix the build");
        assert_eq!(short_line("abcdef", 4), "abc…");
        assert_eq!(short_line("abcd", 4), "abcd");
        assert_eq!(short_line(&"x ".repeat(100_000), 5), "x x …");
        assert_eq!(short_line(&format!("a{}b", " ".repeat(1_000)), 5), "a …");
        assert!(matches!(cut("äöü", 3), Cow::Borrowed("äöü")));
        assert_eq!(cut("äöü\nx", 3), "äö…");
    }

    proptest! {
        #[test]
        fn nothing_below_a_space_is_left_but_line_breaks_and_tabs(text in "(\\PC|[\\x00-\\x1f\u{7f}-\u{9f}\u{202a}-\u{202e}]|\u{1b}[\\[\\]P(;0-9a-zA-Z])*") {
            let clean = clean_text(&text);
            prop_assert!(clean.chars().all(is_plain), "{clean:?}");
            prop_assert!(clean.bytes().all(|b| b >= 0x20 || b == b'\n' || b == b'\t'));
            prop_assert_eq!(clean_text(&clean).into_owned(), clean.clone().into_owned());
        }

        #[test]
        fn no_cut_makes_a_difference(text in "(\\PC|[\\x00-\\x1f\u{7f}-\u{9f}\u{202a}-\u{202e}]|\u{1b}[\\[\\]P(;0-9a-zA-Z]){0,30}", cuts in prop::collection::vec(0usize..40, 0..4)) {
            let (mut cleaner, mut clean, mut from) = (Cleaner::default(), String::new(), 0);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| text.floor_char_boundary(*cut)).collect();
            cuts.push(text.len());
            cuts.sort_unstable();
            for cut in cuts {
                clean.push_str(&cleaner.clean(&text[from..cut]));
                from = cut;
            }
            prop_assert_eq!(clean, clean_text(&text).into_owned());
        }

        #[test]
        fn a_line_is_one_line(text in "(\\PC|[\\x00-\\x1f\u{7f}-\u{9f}]){0,30}") {
            prop_assert!(one_line(&text).chars().all(|c| is_plain(c) && c != '\n' && c != '\t'));
        }

        #[test]
        fn text_without_controls_is_unchanged(text in "[a-zA-Z0-9 äöü漢字\n\t.,;:\\[\\]]*") {
            prop_assert_eq!(clean_text(&text).into_owned(), text);
        }
    }
}
