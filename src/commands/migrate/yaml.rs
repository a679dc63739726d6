//! The part of YAML that settings of a program use: mappings of mappings, texts in a line, lists of
//! texts. Pure.
//!
//! What goes beyond it (blocks of text, anchors, mappings in braces) has no value here, and takes
//! nothing else along.

/// A line that says something.
struct Line<'a> {
    indent: usize,
    text: &'a str,
}

/// The values of a path such as `["discord", "allowed_channels"]`: one for a text, all for a list;
/// none where it is not there, or something else.
pub(super) fn values(text: &str, path: &[&str]) -> Vec<String> {
    let lines: Vec<Line<'_>> = text.lines().filter_map(line).collect();
    let (mut from, mut to) = (0, lines.len());
    let mut own = "";
    for key in path {
        let Some(indent) = lines[from..to].first().map(|line| line.indent) else {
            return Vec::new();
        };
        let named = (from..to).find_map(|at| {
            let (name, value) = split(lines[at].text)?;
            (lines[at].indent == indent && name == *key).then_some((at, value))
        });
        let Some((at, value)) = named else {
            return Vec::new();
        };
        own = value;
        let inner = |line: &Line<'_>| {
            // A list may stand as far left as its key.
            line.indent > indent || line.indent == indent && line.text.starts_with("- ")
        };
        from = at + 1;
        to = from + lines[from..to].iter().take_while(|line| inner(line)).count();
    }
    if let Some(list) = own.strip_prefix('[').and_then(|own| own.strip_suffix(']')) {
        return list.split(',').filter_map(plain).collect();
    }
    if !own.is_empty() {
        return plain(own).into_iter().collect();
    }
    let first = lines[from..to].first().filter(|line| line.text.starts_with("- "));
    let Some(first) = first.map(|line| line.indent) else {
        return Vec::new();
    };
    let items = lines[from..to].iter().filter(|line| line.indent == first);
    items.filter_map(|line| plain(line.text.strip_prefix("- ")?)).collect()
}

fn line(line: &str) -> Option<Line<'_>> {
    let text = line.trim_start_matches(' ');
    let indent = line.len() - text.len();
    let text = uncommented(text).trim_end();
    (!text.is_empty() && text != "---").then_some(Line { indent, text })
}

/// Without the comment behind it, which begins behind a blank and in no quotes.
fn uncommented(text: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '#') if before.is_whitespace() => return &text[..at],
            (None, '"' | '\'') if before.is_whitespace() || "[,".contains(before) => {
                quote = Some(c);
            }
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
        before = c;
    }
    text
}

/// Key and value of a line.
fn split(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.split_once(": ").or_else(|| Some((text.strip_suffix(':')?, "")))?;
    Some((key.trim().trim_matches(['"', '\'']), value.trim()))
}

/// A text in a line; none where it is more than that.
fn plain(text: &str) -> Option<String> {
    let text = text.trim();
    let quoted = ['"', '\'']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote).and_then(|text| text.strip_suffix(*quote)));
    match quoted {
        Some(text) => Some(text.to_owned()).filter(|text| !text.is_empty() && !text.contains('\\')),
        None => Some(text.to_owned()).filter(|text| {
            !text.is_empty() && !text.starts_with(['&', '*', '!', '|', '>', '{', '['])
        }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "---\n# head\ntimezone: Asia/Kolkata  # here\nmodel:\n  default: x\n  discord:\n    free: \"no\"\ndiscord:\n  require_mention: true\n  free: \"1,2\" # two\n  list:\n    - 3  # three\n    - \"4\"\n  flat: [5, '6',]\n  prompts:\n    \"7\": |\n      text: deep\n      free: 9\n  left:\n  - 8\nlast: 'a # b'\nanchor: &x y\nempty: \"\"\n";

    #[test]
    fn texts_and_lists_are_found_by_their_path() {
        for (path, wanted) in [
            (&["timezone"][..], &["Asia/Kolkata"][..]),
            (&["discord", "free"], &["1,2"]),
            (&["discord", "list"], &["3", "4"]),
            (&["discord", "flat"], &["5", "6"]),
            (&["discord", "left"], &["8"]),
            (&["last"], &["a # b"]),
            (&["model", "discord", "free"], &["no"]),
            (&["discord", "prompts", "7"], &[]),
            (&["discord", "none"], &[]),
            (&["discord"], &[]),
            (&["anchor"], &[]),
            (&["empty"], &[]),
        ] {
            assert_eq!(values(TEXT, path), wanted, "{path:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_breaks_it(text in r"(\PC|[\n\t #'\[\],:-]){0,80}") {
            drop((values(&text, &["a"]), values(&text, &["a", "b"]), values(&text, &[])));
        }
    }
}
