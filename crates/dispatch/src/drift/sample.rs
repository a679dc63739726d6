//! A sample of an agent's output that people may see: its form rather than its content, and no
//! secrets. Pure.

use aetheel_model::plain::{clean_text, cut};
use aetheel_model::redact::Redactor;

/// Bytes of a sample that are looked at; the contract promises 2 KiB.
const INPUT_LIMIT: usize = 4 << 10;
/// Characters of a sample that people are shown.
const SAMPLE_LIMIT: usize = 300;
/// Longer texts within are content rather than form: only their beginning is shown.
const TEXT_LIMIT: usize = 40;
const TEXT_BEGINNING: usize = 16;
/// Parts of the names of fields whose values stay secret.
const SECRETIVE: [&str; 8] =
    ["token", "secret", "password", "authorization", "apikey", "api_key", "cookie", "credential"];

/// Words of a guest as one plain line of so many characters at most, which may stand in a code
/// span.
pub(super) fn words(text: &str, most: usize, redactor: &Redactor) -> String {
    let clean = plain(text, redactor);
    let line = clean.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "'");
    cut(&line, most).into_owned()
}

/// A sample of output: without secrets, one line, long texts shortened.
pub(super) fn sample(output: &str, redactor: &Redactor) -> String {
    let clean = plain(output, redactor);
    let line = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    let form = if line.starts_with(['{', '[']) { shortened(&line) } else { line };
    // Nothing in it ends the code block it stands in.
    cut(&form.replace('`', "'"), SAMPLE_LIMIT).into_owned()
}

/// The beginning of a text without control characters and secrets, also where a cut went through
/// one.
fn plain(text: &str, redactor: &Redactor) -> String {
    let head = &text[..text.floor_char_boundary(INPUT_LIMIT)];
    let mut clean = redactor.clean(clean_text(head).into_owned());
    clean.truncate(clean.len() - redactor.unfinished(&clean));
    clean
}

/// JSON, whole or cut off, with long texts and secretive fields shortened.
fn shortened(json: &str) -> String {
    let (mut short, mut rest) = (String::with_capacity(json.len()), json);
    let (mut field, mut value) = (String::new(), false);
    while let Some(at) = rest.find('"') {
        let (between, quoted) = rest.split_at(at);
        // What follows a colon belongs to the text before it.
        value = if between.trim().is_empty() {
            value
        } else {
            between.trim_start().starts_with(':') && !between.contains(',')
        };
        short.push_str(between);
        let text = &quoted[1..];
        let end = end_of(text);
        let (text, after) = text.split_at(end.unwrap_or(text.len()));
        let name = field.to_lowercase();
        if value && SECRETIVE.iter().any(|word| name.contains(word)) {
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

/// Where a text in quotes ends.
fn end_of(text: &str) -> Option<usize> {
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
    fn the_form_is_shown_and_not_the_content() {
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
        fn whatever_comes_is_short_plain_and_without_secrets(pieces in proptest::collection::vec(prop_oneof![
            Just(SECRET.to_owned()), Just("\"".to_owned()), Just("{\"a\":".to_owned()), Just("```\n".to_owned()), Just("\\".to_owned()), ".{0,40}",
        ], 0..60)) {
            let output = pieces.concat();
            for shown in [sample(&output, &redactor()), words(&output, SAMPLE_LIMIT, &redactor())] {
                prop_assert!(shown.chars().count() <= SAMPLE_LIMIT);
                prop_assert!(!shown.contains(['`', '\n']) && !shown.contains("sk-canary"), "{shown}");
            }
        }
    }
}
