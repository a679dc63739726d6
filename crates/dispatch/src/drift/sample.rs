//! Samples of an agent's output for notices. They show the structure of the output rather than its
//! content, and no secrets. Pure.

use aetheel_model::plain::{clean_text, cut};
use aetheel_model::redact::Redactor;

/// The maximum number of bytes of an output that are examined. The contract of backends (`wit/`)
/// limits an output to 2 KiB.
const INPUT_LIMIT: usize = 4 << 10;
/// The maximum length of a sample, in characters.
const SAMPLE_LIMIT: usize = 300;
/// Longer strings are content rather than structure. Only their beginning is shown.
const TEXT_LIMIT: usize = 40;
const TEXT_BEGINNING: usize = 16;
/// Substrings that mark the name of a field as secret, so that its value is hidden.
const SECRET_FIELD_WORDS: [&str; 8] =
    ["token", "secret", "password", "authorization", "apikey", "api_key", "cookie", "credential"];

/// Returns a text from a backend as one line of at most `most` characters, which is safe inside a
/// code span.
pub(super) fn clean_line(text: &str, most: usize, redactor: &Redactor) -> String {
    let clean = clean_beginning(text, redactor);
    let line = clean.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "'");
    cut(&line, most).into_owned()
}

/// Returns a sample of an output: without secrets, on one line, with long strings shortened.
pub(super) fn sample(output: &str, redactor: &Redactor) -> String {
    let clean = clean_beginning(output, redactor);
    let line = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    let form = if line.starts_with(['{', '[']) { shorten_json(&line) } else { line };
    // The sample must not end the code block that contains it.
    cut(&form.replace('`', "'"), SAMPLE_LIMIT).into_owned()
}

/// Returns the beginning of a text without control characters and secrets. A secret that was cut at
/// the end is removed too.
fn clean_beginning(text: &str, redactor: &Redactor) -> String {
    let head = &text[..text.floor_char_boundary(INPUT_LIMIT)];
    let mut clean = redactor.redact(clean_text(head).into_owned());
    clean.truncate(clean.len() - redactor.partial_secret_bytes(&clean));
    clean
}

/// Shortens long strings in JSON, which may be truncated, and hides the values of secret fields.
fn shorten_json(json: &str) -> String {
    let (mut short, mut rest) = (String::with_capacity(json.len()), json);
    let (mut field, mut value) = (String::new(), false);
    while let Some(at) = rest.find('"') {
        let (between, quoted) = rest.split_at(at);
        // A string after a colon is the value of the field before it.
        value = if between.trim().is_empty() {
            value
        } else {
            between.trim_start().starts_with(':') && !between.contains(',')
        };
        short.push_str(between);
        let text = &quoted[1..];
        let end = closing_quote(text);
        let (text, after) = text.split_at(end.unwrap_or(text.len()));
        let name = field.to_lowercase();
        if value && SECRET_FIELD_WORDS.iter().any(|word| name.contains(word)) {
            short.push_str("\"***\"");
        } else if text.chars().count() > TEXT_LIMIT {
            short.push('"');
            short.extend(text.chars().take(TEXT_BEGINNING));
            short.push_str("…\"");
        } else {
            short.push('"');
            short.push_str(text);
            short.push_str(if end.is_some() { "\"" } else { "" });
        }
        text.clone_into(&mut field);
        rest = after.strip_prefix('"').unwrap_or(after);
    }
    short + rest
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| match c {
        _ if escaped => {
            escaped = false;
            None
        }
        '\\' => {
            escaped = true;
            None
        }
        '"' => Some(at),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "sk-canary-0123456789";

    fn redactor() -> Redactor {
        Redactor::new(&[SECRET.to_owned().into()])
    }

    #[test]
    fn a_sample_shows_structure_without_content() {
        let long = "x".repeat(200);
        for (output, shown) in [
            (
                r#"{"type":"foo","n":3,"ok":true}"#.to_owned(),
                r#"{"type":"foo","n":3,"ok":true}"#.to_owned(),
            ),
            (
                format!(r#"{{"type":"foo","text":"{long}","end":1}}"#),
                r#"{"type":"foo","text":"xxxxxxxxxxxxxxxx…","end":1}"#.to_owned(),
            ),
            (format!(r#"{{"text":"\"{long}"#), r#"{"text":"\"xxxxxxxxxxxxxx…""#.to_owned()),
            (
                r#"{"access_token": "abc", "tokens": 4, "b":"c"}"#.to_owned(),
                r#"{"access_token": "***", "tokens": 4, "b":"c"}"#.to_owned(),
            ),
            (r#"["token","abc"]"#.to_owned(), r#"["token","abc"]"#.to_owned()),
            ("Debugger `attached`.\nReally".to_owned(), "Debugger 'attached'. Really".to_owned()),
            (format!(r#"{{"a":"{SECRET}"}}"#), r#"{"a":"***"}"#.to_owned()),
            (format!(r#"{{"a":"{}"#, &SECRET[..12]), r#"{"a":""#.to_owned()),
        ] {
            assert_eq!(sample(&output, &redactor()), shown);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn samples_are_short_plain_and_without_secrets(pieces in proptest::collection::vec(prop_oneof![
            Just(SECRET.to_owned()), Just("\"".to_owned()), Just("{\"a\":".to_owned()), Just("```\n".to_owned()), Just("\\".to_owned()), ".{0,40}",
        ], 0..60)) {
            let output = pieces.concat();
            for shown in [sample(&output, &redactor()), clean_line(&output, SAMPLE_LIMIT, &redactor())] {
                prop_assert!(shown.chars().count() <= SAMPLE_LIMIT);
                prop_assert!(!shown.contains(['`', '\n']) && !shown.contains("sk-canary"), "{shown}");
            }
        }
    }
}
