//! Collects the secrets of `OpenClaw`, so that they are not copied, and their locations, to show
//! them to the operator.

use secrecy::SecretString;
use serde_json::Value;

use aetheel_model::redact::Redactor;

/// Parts of names that have secret values, in lower case without separators.
const SECRET_NAME_PARTS: [&str; 8] =
    ["token", "secret", "password", "passwd", "apikey", "credential", "privatekey", "cookie"];
const TOKEN_PREFIXES: [&str; 14] = [
    "sk-",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "AIza",
    "hf_",
    "npm_",
    "eyJ",
];
/// Shorter values are not treated as secrets, because they could be ordinary words. In bytes.
const MIN_SECRET_BYTES: usize = 8;
const MAX_DEPTH: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct SourceSecrets {
    values: Vec<SecretString>,
    /// File and name of each secret, without its value.
    pub places: Vec<String>,
}

impl SourceSecrets {
    pub(crate) fn add_settings(&mut self, file: &str, settings: &Value) {
        self.walk(file, "", settings, MAX_DEPTH);
    }

    /// Collects the secrets of lines `NAME=value`.
    pub(crate) fn add_env(&mut self, file: &str, text: &str) {
        for (name, value) in parse_env(text) {
            self.note(file, name, value);
        }
    }

    pub(crate) fn redactor(&self) -> Redactor {
        Redactor::new(&self.values)
    }

    fn walk(&mut self, file: &str, path: &str, value: &Value, depth: usize) {
        if depth == 0 {
            return;
        }
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let path = if path.is_empty() { name } else { &format!("{path}.{name}") };
                    self.walk(file, path, value, depth - 1);
                }
            }
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    self.walk(file, &format!("{path}[{at}]"), item, depth - 1);
                }
            }
            Value::String(value) => self.note(file, path, value),
            _ => {}
        }
    }

    fn note(&mut self, file: &str, path: &str, value: &str) {
        let value = value.trim();
        let name = path.rsplit('.').next().unwrap_or(path);
        // `${NAME}` refers to a value that is stored elsewhere.
        let elsewhere = value.starts_with('$') || value.contains(char::is_whitespace);
        if is_secret_name(name) && value.len() >= MIN_SECRET_BYTES && !elsewhere {
            self.values.push(value.to_owned().into());
            self.places.push(format!("{file}: {path}"));
        }
    }
}

/// Parses lines `NAME=value`, and removes quotes around the values.
fn parse_env(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let line = line.trim().strip_prefix("export ").unwrap_or(line.trim());
        let (name, value) = line.split_once('=').filter(|_| !line.starts_with('#'))?;
        let value = value.trim();
        let quoted = ['"', '\''].iter().find_map(|quote| {
            value.strip_prefix(*quote).and_then(|value| value.strip_suffix(*quote))
        });
        Some((name.trim(), quoted.unwrap_or(value)))
    })
}

fn is_secret_name(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = plain.to_ascii_lowercase();
    SECRET_NAME_PARTS.iter().any(|part| plain.contains(part))
}

/// Redacts words that look like secrets, in addition to known values, because agents write keys
/// into their notes. Also returns the number of redacted words.
pub(crate) fn redact_likely_secrets(text: &str) -> (String, usize) {
    let (mut hidden, mut count, mut key) = (String::with_capacity(text.len()), 0, false);
    for line in text.split_inclusive('\n') {
        if key || line.contains("-----BEGIN ") && line.contains("PRIVATE KEY") {
            // Redacts all lines up to the end of the key.
            (key, count) = (!line.contains("-----END "), count + usize::from(!key));
            hidden.push_str(if line.ends_with('\n') { "***\n" } else { "***" });
            continue;
        }
        let mut named = false;
        for word in
            line.split_inclusive(|c: char| c.is_whitespace() || "=:,\"'`()[]<>|".contains(c))
        {
            let end = |c: char| c.is_whitespace() || "=:,\"'`()[]<>|".contains(c);
            let bare = word.trim_end_matches(end);
            if is_token(bare) || named && looks_like_secret(bare) {
                hidden.push_str("***");
                hidden.push_str(&word[bare.len()..]);
                (count, named) = (count + 1, false);
                continue;
            }
            hidden.push_str(word);
            // Matches `password: …` and `API_KEY=…`. In a sentence about tokens, the word is
            // followed by a blank.
            let separates = word.ends_with(['=', ':']);
            let begins = bare.is_empty() && named;
            named = begins || !bare.is_empty() && separates && is_secret_name(bare);
        }
    }
    (hidden, count)
}

fn is_token(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if word.len() < 20 || !word.chars().all(plain) {
        return false;
    }
    let parts: Vec<&str> = word.split('.').collect();
    // The token of a Discord bot: id, time and signature.
    let discord = matches!(parts[..], [id, time, signature]
        if id.len() >= 18 && (5..=8).contains(&time.len()) && signature.len() >= 20);
    discord || TOKEN_PREFIXES.iter().any(|begin| word.starts_with(begin))
}

/// Returns whether a word after `password:` is likely a secret: it is long, or contains a digit.
fn looks_like_secret(word: &str) -> bool {
    word.len() >= MIN_SECRET_BYTES
        && (word.len() >= 16 || word.bytes().any(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_redacted_and_their_locations_are_listed() {
        let mut secrets = SourceSecrets::default();
        secrets.add_settings(
            "x.json",
            &json!({
                "channels": {"discord": {"token": "abc.def.ghi-canary"}},
                "list": [{"apiKey": "key-canary-2"}, {"api_key": "${FROM_ENV}"}],
                "tokens": ["canary-four"], "maxTokens": 12, "tokenizer": "o200k", "password": "short",
            }),
        );
        secrets.add_env(
            ".env",
            "# A=b\nexport DISCORD_BOT_TOKEN='canary-three'\nHOME_CHANNEL=12345678\n",
        );
        assert_eq!(
            secrets.places,
            [
                "x.json: channels.discord.token",
                "x.json: list[0].apiKey",
                "x.json: tokens[0]",
                ".env: DISCORD_BOT_TOKEN"
            ]
        );
        let text = "abc.def.ghi-canary key-canary-2 canary-three short";
        assert_eq!(secrets.redactor().redact(text.to_owned()), "*** *** *** short");
        assert!(!format!("{secrets:?}").contains("canary"));
    }

    #[test]
    fn likely_secrets_are_redacted_and_prose_is_not() {
        let discord =
            ["MTIzNDU2Nzg5MDEyMzQ1Njc4", "Gabcde", "abcdefghijklmnopqrstuvwxyz0123"].join(".");
        for (text, wanted, hidden) in [
            ("my key is `sk-ant-api03-REDACTED0000`, ok", "my key is `***`, ok", 1),
            (&format!("token={discord}"), "token=***", 1),
            ("password: hunter2hunter2", "password: ***", 1),
            ("API_KEY=\"abcdefgh12345678\"", "API_KEY=\"***\"", 1),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nrest",
                "***\n***\n***\nrest",
                1,
            ),
            (
                "The token: ask Ada for it. Passwords belong elsewhere.",
                "The token: ask Ada for it. Passwords belong elsewhere.",
                0,
            ),
            (
                "see https://example.org/a-long-path/with-words-in-it",
                "see https://example.org/a-long-path/with-words-in-it",
                0,
            ),
        ] {
            assert_eq!(redact_likely_secrets(text), (wanted.to_owned(), hidden), "{text}");
        }
    }
}
