//! JSON5 (json5.org) as far as files of settings use it. Pure.

use std::iter::Peekable;
use std::str::Chars;

use serde_json::Value;

/// Reads a text: comments, keys without quotes, single quotes and commas too many are taken as
/// JSON5 has them. Strict JSON is taken as well.
///
/// # Errors
/// What is wrong, and where in the text as strict JSON.
pub(super) fn read(text: &str) -> Result<Value, String> {
    serde_json::from_str(&strict(text)).map_err(|error| format!("it is not JSON5: {error}"))
}

/// The same as strict JSON, as far as it can be; what cannot is left for its reader to refuse.
fn strict(text: &str) -> String {
    let (mut out, mut chars) = (String::with_capacity(text.len()), text.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '"' | '\'' => string(c, &mut chars, &mut out),
            '/' if chars.peek() == Some(&'/') => while chars.next_if(|c| *c != '\n').is_some() {},
            '/' if chars.peek() == Some(&'*') => {
                let mut last = ' ';
                chars.next();
                for c in chars.by_ref() {
                    if (last, c) == ('*', '/') {
                        break;
                    }
                    last = c;
                }
                out.push(' ');
            }
            // A comma before the end of a list or an object is one too many.
            '}' | ']' => {
                let end = out.trim_end().len();
                if out[..end].ends_with(',') {
                    out.truncate(end - 1);
                }
                out.push(c);
            }
            c if c.is_alphanumeric() || "_$+-.".contains(c) => word(c, &mut chars, &mut out),
            c if c.is_whitespace() => out.push(if c == '\n' { '\n' } else { ' ' }),
            c => out.push(c),
        }
    }
    out
}

fn string(quote: char, chars: &mut Peekable<Chars<'_>>, out: &mut String) {
    out.push('"');
    while let Some(c) = chars.next() {
        match c {
            c if c == quote => break,
            '\\' => match chars.next() {
                // A line that goes on.
                Some('\n') => {}
                Some('\r') => drop(chars.next_if_eq(&'\n')),
                Some(c @ ('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' | 'u')) => {
                    out.extend(['\\', c]);
                }
                Some('v') => out.push_str("\\u000b"),
                Some('0') => out.push_str("\\u0000"),
                Some('x') => {
                    out.push_str("\\u00");
                    out.extend(chars.by_ref().take(2));
                }
                Some(c) => out.push(c),
                None => {}
            },
            '"' => out.push_str("\\\""),
            // Those of two bytes may stand in a string of JSON5.
            c if c.is_ascii_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A name of a field, a number or a literal.
fn word(first: char, chars: &mut Peekable<Chars<'_>>, out: &mut String) {
    let mut word = String::from(first);
    let part = |c: &char| c.is_alphanumeric() || "_$+-.".contains(*c);
    while let Some(c) = chars.next_if(part) {
        word.push(c);
    }
    let literal = ["true", "false", "null"].contains(&word.as_str());
    if is_key(chars) {
        out.push_str(&Value::from(word).to_string());
    } else if literal || word.parse::<f64>().is_err() {
        out.push_str(&word);
    } else {
        // `+1`, `.5` and `5.` are numbers of JSON5 alone.
        let (sign, digits) = match word.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => ("", word.trim_start_matches('+')),
        };
        let zero = if digits.starts_with('.') { "0" } else { "" };
        out.push_str(&format!("{sign}{zero}{}", digits.trim_end_matches('.')));
    }
}

/// Whether a colon follows, behind blanks.
fn is_key(chars: &Peekable<Chars<'_>>) -> bool {
    chars.clone().find(|c| !c.is_whitespace()) == Some(':')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_people_write_is_read() {
        let text = "// head\n{ a: 1, 'b': [1, +2, .5, 5.,], /* x */ \"c\": 'it\\'s \"q\" // no',\n $d_1: {true: true,},\n e: 'one\\\n two', 123456789012345678: null, }\n";
        assert_eq!(
            read(text),
            Ok(json!({
                "a": 1, "b": [1, 2, 0.5, 5], "c": "it's \"q\" // no", "$d_1": {"true": true},
                "e": "one two", "123456789012345678": null,
            }))
        );
    }

    #[test]
    fn what_is_broken_is_told() {
        for text in ["", "{", "{a:}", "{a: NaN}", "[1 2]", "{\"a\": 0x}", &"[".repeat(100_000)] {
            assert!(read(text).unwrap_err().starts_with("it is not JSON5"), "{text:.20}");
        }
    }

    proptest! {
        #[test]
        fn json_means_what_it_means(text in r"\PC{0,12}", number in any::<i64>(), deep in 0..5_u8) {
            let mut value = json!({text.clone(): [number, text, true, null, {}], "x": []});
            for _ in 0..deep {
                value = json!([value, {"y": value}]);
            }
            prop_assert_eq!(read(&value.to_string()), Ok(value.clone()));
            prop_assert_eq!(read(&serde_json::to_string_pretty(&value).unwrap()), Ok(value));
        }

        #[test]
        fn nothing_breaks_it(text in r"(\PC|[\n\r'/*\\,{}:]){0,60}") {
            drop(read(&text));
        }
    }
}
