//! Decides whether a piece of text looks as if it was written for people.

/// Minimum number of alphabetic characters in prose of two or more words.
const LETTERS: usize = 6;
/// Minimum number of alphabetic non-ASCII characters in prose. Some scripts have no spaces between
/// words.
const FOREIGN_LETTERS: usize = 4;

/// Returns whether a text looks like a part of an answer, and not like an id, a protocol word, a
/// path or a time.
pub(super) fn is_prose(text: &str) -> bool {
    let letters = text.chars().filter(|c| c.is_alphabetic());
    let (ascii, foreign) =
        letters.fold((0, 0), |(a, f), c| if c.is_ascii() { (a + 1, f) } else { (a, f + 1) });
    if foreign >= FOREIGN_LETTERS {
        return true;
    }
    let words = text.split_whitespace().filter(|word| {
        // Ids such as `n-1` are not words.
        let count = |of: fn(char) -> bool| word.chars().filter(|c| of(*c)).count();
        count(char::is_alphabetic) > count(char::is_numeric)
    });
    if words.count() >= 2 && ascii + foreign >= LETTERS {
        return true;
    }
    is_sentence(text.trim())
}

/// Like [`is_prose`], but stricter, for lines that are not JSON: agents print short notes in them.
pub(super) fn is_plain_prose(text: &str) -> bool {
    let words = text.split_whitespace().count();
    is_prose(text) && (words != 2 || text.trim_end().ends_with(['.', '!', '?']))
}

/// Returns whether the text is one capitalised word with a final mark, such as `Done.`
fn is_sentence(text: &str) -> bool {
    let Some(word) = text.strip_suffix(['.', '!', '?']) else { return false };
    word.chars().count() >= 3
        && word.starts_with(char::is_uppercase)
        && word.chars().all(char::is_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::is_prose;

    #[test]
    fn sentences_are_prose_and_protocol_words_are_not() {
        for text in ["Say hello.", "Done.", "it works now", "完了しました", "Überall gut"] {
            assert!(is_prose(text), "{text}");
        }
        for text in [
            "claude-opus-4-8",
            "in_progress",
            "2026-11-21T21:02:11.418Z",
            "c3870c18-e052-481f-a827-a1f4de417c8e",
            "/srv/proj/src/main.rs",
            "end_turn",
            "session n-1",
            "0.61.0",
            "",
        ] {
            assert!(!is_prose(text), "{text}");
        }
    }
}
