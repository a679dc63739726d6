//! Removes secrets from all output of the program.

use std::sync::Arc;

use aho_corasick::AhoCorasick;
use secrecy::{ExposeSecret, SecretString};

/// Returns whether the value of a variable with this name is treated as a secret.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // The URL contains the database's password.
    if name == "CLUSTER_URL" {
        return true;
    }
    // Headers for a collector of traces usually contain credentials.
    if name.starts_with("OTEL_") && name.ends_with("_HEADERS") {
        return true;
    }
    ["_KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"].iter().any(|part| name.contains(part))
        && !name.ends_with("_FILE")
        && !name.ends_with("_DIR")
        && !name.ends_with("_DIRECTORY")
}

/// Replaces known secret values by `***`.
///
/// Only the given values are known. Secrets of fewer than six bytes are ignored, because they would
/// blank ordinary words.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    /// `None` if there is nothing to hide.
    secrets: Option<AhoCorasick>,
    values: Arc<[SecretString]>,
}

impl Redactor {
    /// Creates a redactor for these values.
    #[must_use]
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a SecretString>) -> Self {
        let values: Vec<String> = secrets
            .into_iter()
            .map(|secret| secret.expose_secret().trim().to_owned())
            .filter(|value| value.len() >= 6)
            .collect();
        if values.is_empty() {
            return Self::default();
        }
        let secrets = AhoCorasick::builder()
            .match_kind(aho_corasick::MatchKind::LeftmostLongest)
            .build(&values)
            .ok();
        Self { secrets, values: values.into_iter().map(SecretString::from).collect() }
    }

    /// Returns a redactor that also hides these words, if they have at least four bytes.
    #[must_use]
    pub fn with_words<'a>(&self, words: impl IntoIterator<Item = &'a String>) -> Self {
        let more =
            words.into_iter().map(|word| word.trim().to_owned()).filter(|word| word.len() >= 4);
        let values: Vec<String> =
            self.values.iter().map(|value| value.expose_secret().to_owned()).chain(more).collect();
        let secrets = AhoCorasick::builder()
            .match_kind(aho_corasick::MatchKind::LeftmostLongest)
            .build(&values)
            .ok();
        Self {
            secrets: secrets.filter(|_| !values.is_empty()),
            values: values.into_iter().map(SecretString::from).collect(),
        }
    }

    /// Returns how many bytes at the end of a text may be the beginning of a secret whose rest has
    /// not arrived yet.
    #[must_use]
    pub fn partial_secret_bytes(&self, text: &str) -> usize {
        let partial_bytes = |secret: &SecretString| {
            let secret = secret.expose_secret();
            let longest = text.len().min(secret.len() - 1);
            (1..=longest)
                .rev()
                .find(|length| {
                    secret.is_char_boundary(*length) && text.ends_with(&secret[..*length])
                })
                .unwrap_or(0)
        };
        self.values.iter().map(partial_bytes).max().unwrap_or(0)
    }

    /// Returns the text without secrets. Reuses its allocation if it contains none.
    #[must_use]
    pub fn redact(&self, text: String) -> String {
        match &self.secrets {
            Some(secrets) if secrets.is_match(&text) => {
                let stars = vec!["***"; secrets.patterns_len()];
                secrets.replace_all(&text, &stars)
            }
            _ => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_are_replaced_and_short_ones_stay() {
        let secrets: Vec<SecretString> =
            ["sk-canary-1", "sk-canary-12", "abc"].map(|s| s.to_owned().into()).into();
        let redactor = Redactor::new(&secrets);
        assert_eq!(redactor.redact("key sk-canary-12, abc".to_owned()), "key ***, abc");
        assert_eq!(Redactor::default().redact("key sk-canary-1".to_owned()), "key sk-canary-1");
    }

    #[test]
    fn a_text_that_ends_in_the_middle_of_a_secret_is_recognised() {
        let secrets: Vec<SecretString> =
            ["sk-canary-1", "schlüssel"].map(|s| s.to_owned().into()).into();
        let redactor = Redactor::new(&secrets);
        let cases = [
            ("key sk-can", 6),
            ("key s", 1),
            ("key sk-canary-1", 0),
            ("sk-can.", 0),
            ("schlü", 6),
            ("", 0),
        ];
        for (text, unfinished) in cases {
            assert_eq!(redactor.partial_secret_bytes(text), unfinished, "{text}");
        }
        assert_eq!(Redactor::default().partial_secret_bytes("s"), 0);
        assert!(!format!("{:?}", redactor.values).contains("canary"));
    }
}
