//! Cuts long texts to the size that they may have in a page, where they are escaped. Pure.

/// Returns the largest number of bytes that a character takes in a page, where it may be escaped.
fn size(c: char) -> usize {
    match c {
        '&' | '<' | '>' | '"' => 6,
        c => c.len_utf8(),
    }
}

/// Splits a text after at most `most` bytes, as counted in a page. Prefers the end of a line unless
/// that makes the first part much shorter. The first part has at least one character, unless the
/// text is empty.
pub(super) fn head(text: &str, most: usize) -> (&str, &str) {
    let (mut left, mut line) = (most, None);
    for (at, c) in text.char_indices() {
        let size = size(c);
        if size > left && at > 0 {
            let end = line.filter(|_| left < most).filter(|(_, over)| *over < most / 4);
            return text.split_at(end.map_or(at, |(end, _)| end));
        }
        left = left.saturating_sub(size);
        line = match (c, line) {
            ('\n', _) => Some((at + 1, 0)),
            (_, Some((end, over))) => Some((end, over + size)),
            (_, None) => None,
        };
    }
    (text, "")
}

/// Splits a text into pages; returns at least one.
pub(super) fn pages(text: &str, most: usize) -> Vec<&str> {
    let (first, mut rest) = head(text, most);
    let mut pages = vec![first];
    while !rest.is_empty() {
        let (page, after) = head(rest, most);
        pages.push(page);
        rest = after;
    }
    pages
}

/// A part of a text that is too long for a page.
pub(super) struct TextPart<'a> {
    pub(super) text: &'a str,
    /// The number of the part, from 1.
    pub(super) number: usize,
    pub(super) of: usize,
}

/// Returns the part with this number, or the last one.
pub(super) fn part(text: &str, number: usize, most: usize) -> TextPart<'_> {
    let parts = pages(text, most);
    let number = number.clamp(1, parts.len());
    TextPart { text: parts[number - 1], number, of: parts.len() }
}

/// Returns the end of a text that takes at most `most` bytes in a page, and whether something was
/// left out.
pub(super) fn tail(text: &str, most: usize) -> (&str, bool) {
    let mut left = most;
    for (at, c) in text.char_indices().rev() {
        if size(c) > left {
            return (&text[at + c.len_utf8()..], true);
        }
        left -= size(c);
    }
    (text, false)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_is_split_at_the_end_of_a_line_if_one_is_near() {
        assert_eq!(head("abc", 3), ("abc", ""));
        assert_eq!(head("abcdef", 3), ("abc", "def"));
        assert_eq!(head("one two three\nfour", 16), ("one two three\n", "four"));
        assert_eq!(head("one\ntwo three four", 12), ("one\ntwo thre", "e four"));
        assert_eq!(head("äöü", 5), ("äö", "ü"));
        assert_eq!(head("<<", 6), ("<", "<"));
        assert_eq!(pages("", 10), [""]);
    }

    #[test]
    fn the_end_of_a_text_fits_after_escaping() {
        assert_eq!(tail("abc", 3), ("abc", false));
        assert_eq!(tail("abc", 2), ("bc", true));
        assert_eq!(tail("äöü", 5), ("öü", true));
        let (end, cut) = tail("<<<<<<", 20);
        assert!(cut && maud::html! { (end) }.into_string().len() <= 20);
    }

    #[test]
    fn an_unknown_number_is_the_nearest_part() {
        let shown = |number| {
            let part = part("one\ntwo\n", number, 4);
            (part.text, part.number, part.of)
        };
        assert_eq!(shown(0), ("one\n", 1, 2));
        assert_eq!(shown(9), ("two\n", 2, 2));
    }

    proptest! {
        #[test]
        fn pages_fit_and_add_up_to_the_text(text in "[a-c<&\"äö\n😀]{0,300}", most in 6_usize..60) {
            let pages = pages(&text, most);
            prop_assert_eq!(pages.concat(), text.as_str());
            for page in pages {
                let shown = maud::html! { (page) }.into_string();
                prop_assert!(shown.len() <= most);
            }
        }
    }
}
