//! Long texts in pieces that fit a page, however they are escaped. Pure.

/// The most bytes that a character takes in a page.
fn size(c: char) -> usize {
    match c {
        '&' | '<' | '>' | '"' => 6,
        c => c.len_utf8(),
    }
}

/// The beginning of a text, as much of it as takes at most so many bytes in a page, and the rest. It
/// ends with a line where that does not make it much shorter. Takes at least one character.
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

/// The pieces of a text, one a page; at least one.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_is_cut_at_a_line_where_one_ends_near() {
        assert_eq!(head("abc", 3), ("abc", ""));
        assert_eq!(head("abcdef", 3), ("abc", "def"));
        assert_eq!(head("one two three\nfour", 16), ("one two three\n", "four"));
        assert_eq!(head("one\ntwo three four", 12), ("one\ntwo thre", "e four"));
        assert_eq!(head("äöü", 5), ("äö", "ü"));
        assert_eq!(head("<<", 6), ("<", "<"));
        assert_eq!(pages("", 10), [""]);
    }

    proptest! {
        #[test]
        fn pages_fit_and_together_are_the_text(text in "[a-c<&\"äö\n😀]{0,300}", most in 6_usize..60) {
            let pages = pages(&text, most);
            prop_assert_eq!(pages.concat(), text.as_str());
            for page in pages {
                let shown = maud::html! { (page) }.into_string();
                prop_assert!(shown.len() <= most);
            }
        }
    }
}
