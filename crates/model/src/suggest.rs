//! Suggestions for misspelled names.

/// Returns the most similar name, if it is similar enough for a spelling mistake.
#[must_use]
pub fn nearest<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_ascii_lowercase();
    let far = |name: &str| strsim::osa_distance(&written, &name.to_ascii_lowercase());
    let (distance, name) =
        names.into_iter().map(|name| (far(name), name)).min_by_key(|(distance, _)| *distance)?;
    // At most one character in three differs, and never all of them.
    (distance <= name.len().div_ceil(3) && distance < name.len().min(written.len())).then_some(name)
}

/// Returns `; did you mean X?`, or an empty text.
#[must_use]
pub fn suggestion<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(written, names).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_mistakes_are_recognised_and_other_words_are_not() {
        let names = ["Read", "Grep", "MAX_CONCURRENT_QUERIES", "LOG_LEVEL"];
        for (written, meant) in [
            ("Red", Some("Read")),
            ("MAX_CONCURENT_QUERIES", Some("MAX_CONCURRENT_QUERIES")),
            ("loglevel", Some("LOG_LEVEL")),
            ("Graep", Some("Grep")),
            ("EDITOR", None),
            ("x", None),
        ] {
            assert_eq!(nearest(written, names), meant, "{written}");
        }
        assert_eq!(suggestion("Red", names), "; did you mean `Read`?");
        assert_eq!(suggestion("x", []), "");
    }
}
