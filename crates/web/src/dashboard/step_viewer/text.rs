//! Formats agents' text for owners: makes hidden characters visible, and indents JSON. Pure.

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
}
