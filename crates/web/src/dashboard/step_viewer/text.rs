//! Formats agents' text for owners: makes hidden characters visible, indents JSON, and splits text
//! into parts that fit on a page. Pure.

use serde::de::IgnoredAny;

use aetheel_model::plain::escaped;

/// Larger JSON (in bytes) is not indented.
const INDENTED: usize = 64 << 10;

/// Escapes all characters that move the cursor, are invisible, or reorder text.
pub(super) fn visible(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(|line| escaped(line, false)).collect();
    lines.join("\n")
}

/// Formats a text for people: indents JSON without changing its values, and leaves other text as it
/// is.
pub(super) fn readable(text: &str) -> String {
    let trimmed = text.trim();
    let whole = trimmed.starts_with(['{', '[']) && trimmed.len() <= INDENTED;
    if whole && serde_json::from_str::<IgnoredAny>(trimmed).is_ok() {
        visible(&indented(trimmed))
    } else {
        visible(text)
    }
}

/// Indents valid JSON.
fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut quoted, mut escape) = (0_usize, false, false);
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    let mut chars = json.chars().peekable();
    while let Some(c) = chars.next() {
        if quoted {
            out.push(c);
            quoted = escape || c != '"';
            escape = !escape && c == '\\';
            continue;
        }
        match c {
            ' ' | '\t' | '\n' | '\r' => {}
            '{' | '[' => {
                while chars.next_if(|c| c.is_ascii_whitespace()).is_some() {}
                out.push(c);
                if let Some(end) = chars.next_if(|c| matches!(c, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            '"' => {
                quoted = true;
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextPart<'a> {
    pub(super) text: &'a str,
    /// The number of the part, from 1.
    pub(super) number: usize,
    pub(super) of: usize,
}

/// Returns the part with this number (from 1), or the last one. Each part takes at most `most`
/// bytes in a page.
pub(super) fn part(text: &str, number: usize, most: usize) -> TextPart<'_> {
    let (mut starts, mut size) = (vec![0], 0);
    for (at, c) in text.char_indices() {
        let more = match c {
            '&' | '<' | '>' | '"' => 6,
            c => c.len_utf8(),
        };
        if size + more > most {
            starts.push(at);
            size = 0;
        }
        size += more;
    }
    let number = number.clamp(1, starts.len());
    let end = starts.get(number).copied().unwrap_or(text.len());
    TextPart { text: &text[starts[number - 1]..end], number, of: starts.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_and_its_values_do_not_change() {
        let json = r#"{"b":1.10,"a":[1e400,"x:{,}\"\\",[],{ }],"big":12345678901234567890123}"#;
        let wanted = "{\n  \"b\": 1.10,\n  \"a\": [\n    1e400,\n    \"x:{,}\\\"\\\\\",\n    [],\n    {}\n  ],\n  \"big\": 12345678901234567890123\n}";
        assert_eq!(indented(json), wanted);
        assert_eq!(readable("{no json}"), "{no json}");
        assert_eq!(readable("  plain\ttext"), "  plain\ttext");
    }

    #[test]
    fn hidden_characters_are_escaped() {
        let shown = visible("a\u{202e}b\u{1b}[2Jc\u{200b}\r\nd\0");
        assert_eq!(shown, "a\\u202eb\\u001b[2Jc\\u200b\\r\nd\\u0000");
        assert!(readable("{\"a\":\"\u{202e}\"}").contains("\\u202e"));
    }

    #[test]
    fn the_parts_add_up_to_the_text_and_each_fits() {
        let text = "<äöü&>\"plain ".repeat(50);
        let first = part(&text, 1, 64);
        assert!(first.of > 10);
        let parts: Vec<_> = (1..=first.of).map(|number| part(&text, number, 64)).collect();
        assert_eq!(parts.iter().map(|part| part.text).collect::<String>(), text);
        for part in parts {
            let html = maud::html! { (part.text) }.into_string();
            assert!(html.len() <= 64 && !html.is_empty(), "{html}");
        }
        assert_eq!(part(&text, 0, 64), first);
        assert_eq!(part(&text, 9_999, 64).number, first.of);
        assert_eq!(part("", 1, 64), TextPart { text: "", number: 1, of: 1 });
    }
}
