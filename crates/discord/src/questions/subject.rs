//! The command, plan or diff that a question is about, as part of a message. Pure.

use aetheel_dispatch::Excerpt;

/// Maximum number of characters shown of a command or plan.
pub(super) const MAX_SUBJECT_CHARS: usize = 8_000;
pub(super) const MAX_DIFF_CHARS: usize = 1_400;

/// Returns a code block that its content cannot end.
pub(super) fn block(about: &Excerpt) -> String {
    let (shown, note) =
        cut(&about.text, if about.language == "diff" { MAX_DIFF_CHARS } else { MAX_SUBJECT_CHARS });
    format!("```{}\n{}\n```{note}", about.language, shown.replace("```", "``\u{200b}`"))
}

/// Cuts a text, and returns a note about the rest.
pub(super) fn cut(text: &str, max_chars: usize) -> (&str, String) {
    match text.char_indices().nth(max_chars) {
        None => (text, String::new()),
        Some((at, _)) => (
            &text[..at],
            format!("\n⚠️ {} more characters are in the file above.", text[at..].chars().count()),
        ),
    }
}
