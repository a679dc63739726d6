//! Capabilities as text that an operator reads and saves: lines of `key: words`, with related
//! capabilities on one line.
//!
//! A word is written unchanged if it is plain ASCII, and as a JSON string otherwise. Parsing the
//! lines returns the same capabilities.

use std::collections::BTreeMap;

use super::{Capabilities, Capability, EXPANDS, Limit, LimitSupport};
use crate::agent::Safety;
use crate::agent::descriptor::{Expands, FlagValue, LinkSharing, StateAccess, StatePath};

const SAFETIES: [(Safety, &str, &str); 3] = [
    (Safety::Default, "flag", "default"),
    (Safety::Edit, "flag-at-edit", "edit"),
    (Safety::Danger, "flag-at-danger", "danger"),
];
const KEEPING: [(LimitSupport, &str); 3] = [
    (LimitSupport::Always, "keeps"),
    (LimitSupport::Live, "keeps-live"),
    (LimitSupport::Never, "ignores"),
];
const SHARING: [(LinkSharing, &str); 3] =
    [(LinkSharing::Turn, "turn"), (LinkSharing::Session, "session"), (LinkSharing::Link, "all")];
const LIMITS: [(Limit, &str); 2] = [(Limit::Tools, "allowed-tools"), (Limit::Plan, "plan")];

/// Returns all capabilities, one line for each key and subject.
#[must_use]
pub fn lines(all: &Capabilities) -> Vec<String> {
    // Sorted by capability, also within a line.
    let mut order: Vec<String> = Vec::new();
    let mut grouped: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for capability in all {
        let (head, tail) = written(capability);
        let words = grouped.entry(head.clone()).or_insert_with(|| {
            order.push(head);
            Vec::new()
        });
        words.extend(tail);
    }
    order
        .into_iter()
        .map(|head| {
            [vec![head.clone()], grouped.remove(&head).unwrap_or_default()].concat().join(" ")
        })
        .collect()
}

/// Returns the beginning of a capability's line, and the words that the capability adds to it.
fn written(capability: &Capability) -> (String, Vec<String>) {
    let line = |key: &str, about: &[&str], words: Vec<String>| {
        let about: String = about.iter().map(|word| format!(" {}", quoted(word))).collect();
        (format!("{key}:{about}"), words)
    };
    match capability {
        Capability::Program { name, first } => {
            line(if *first { "program" } else { "further-program" }, &[name], vec![])
        }
        Capability::Version { program, arguments } => {
            let words: Vec<&str> =
                [program].into_iter().chain(arguments).map(String::as_str).collect();
            line("version", &words, vec![])
        }
        Capability::Word { program, word } => line("words", &[program], vec![quoted(word)]),
        Capability::Flag { program, flag, takes, value, from } => {
            let key = SAFETIES
                .iter()
                .find(|(safety, ..)| safety == from)
                .map_or("flag", |(_, key, _)| key);
            match takes {
                FlagValue::None => line(key, &[program, flag], vec![]),
                FlagValue::One => line(key, &[program, flag, "="], vec![quoted(value)]),
                FlagValue::Many => line(key, &[program, flag, "=="], vec![quoted(value)]),
            }
        }
        Capability::Sets(name) => line("sets", &[], vec![quoted(name)]),
        Capability::Passes(name) => line("passes", &[], vec![quoted(name)]),
        Capability::Secret(name) => line("secrets", &[], vec![quoted(name)]),
        Capability::ReadsPathOf(name) => line("reads-path-of", &[], vec![quoted(name)]),
        Capability::SignInFile(path) => line("sign-in-files", &[], vec![quoted(path)]),
        Capability::State(StatePath { path, access, moved_by, below }) => {
            let access = if *access == StateAccess::Write { "write" } else { "read" };
            let moved = moved_by
                .iter()
                .map(String::as_str)
                .chain(Some(below.as_str()).filter(|below| !below.is_empty()));
            line("state", &[vec![access, path], moved.collect()].concat(), vec![])
        }
        Capability::OwnSandbox => line("own-sandbox", &["yes"], vec![]),
        Capability::AsRoot { at, unless } => {
            let at =
                SAFETIES.iter().find(|(safety, ..)| safety == at).map_or("", |(_, _, word)| word);
            line(
                "as-root",
                &[],
                vec![quoted(
                    &unless.as_ref().map_or(at.to_owned(), |unless| format!("{at}={unless}")),
                )],
            )
        }
        Capability::Leaves(kind) => line("leaves", &[], vec![trigger(*kind).to_owned()]),
        Capability::Tool { kind, name } => line("tools", &[kind], vec![quoted(name)]),
        Capability::Limit { limit, support } => {
            let key = KEEPING.iter().find(|(known, _)| known == support).map_or("", |(_, key)| key);
            let limit =
                LIMITS.iter().find(|(known, _)| known == limit).map_or("", |(_, word)| word);
            line(key, &[], vec![limit.to_owned()])
        }
        Capability::Profiles => line("profiles", &["yes"], vec![]),
        Capability::Shares(sharing) => line(
            "shares",
            &[],
            vec![
                SHARING
                    .iter()
                    .find(|(known, _)| known == sharing)
                    .map_or("", |(_, word)| word)
                    .to_owned(),
            ],
        ),
    }
}

/// The reason why a line is not a list of capabilities, in words that follow the key.
#[derive(Debug, thiserror::Error)]
pub enum CapabilityError {
    /// The key needs another number of words.
    #[error("has too few or too many words")]
    WordCount,
    /// A word is not possible in its place.
    #[error("{word:?} is {fault}")]
    InvalidWord {
        /// The word as it is written.
        word: String,
        /// The possible words.
        fault: &'static str,
    },
    /// The words after a flag do not describe its values.
    #[error("needs `=` (or `==`, for several) and values after the flag, or nothing")]
    FlagValues,
    /// A quoted word does not end.
    #[error("lacks a closing quote")]
    QuoteMissing,
    /// A quoted word is not a JSON string.
    #[error("{word} is not a JSON string: {source}")]
    InvalidString {
        /// The word with its quotes.
        word: String,
        /// The error of the parser.
        source: serde_json::Error,
    },
}

impl CapabilityError {
    fn word(word: &str, fault: &'static str) -> Self {
        Self::InvalidWord { word: word.to_owned(), fault }
    }
}

/// Parses a line. Returns `None` if the key is not that of a capability.
///
/// # Errors
/// [`CapabilityError`] if the words are not possible after this key.
pub fn parse(key: &str, text: &str) -> Option<Result<Vec<Capability>, CapabilityError>> {
    let known = [
        "program",
        "further-program",
        "version",
        "words",
        "sets",
        "passes",
        "secrets",
        "reads-path-of",
        "sign-in-files",
        "as-root",
        "leaves",
    ];
    let known = known
        .into_iter()
        .chain(["state", "own-sandbox", "tools", "profiles", "shares"])
        .chain(SAFETIES.map(|(_, key, _)| key))
        .chain(KEEPING.map(|(_, key)| key));
    known
        .into_iter()
        .any(|known| known == key)
        .then(|| words(text).and_then(|words| read(key, &words)))
}

fn read(key: &str, words: &[String]) -> Result<Vec<Capability>, CapabilityError> {
    let each = |make: fn(String) -> Capability| Ok(words.iter().cloned().map(make).collect());
    let one = |table: &[(LimitSupport, &str)]| {
        table.iter().find(|(_, word)| *word == key).map(|(support, _)| *support)
    };
    match (key, words) {
        ("program" | "further-program", [name]) => {
            Ok(vec![Capability::Program { name: name.clone(), first: key == "program" }])
        }
        ("version", [program, arguments @ ..]) if !arguments.is_empty() => {
            Ok(vec![Capability::Version {
                program: program.clone(),
                arguments: arguments.to_vec(),
            }])
        }
        ("words", [program, rest @ ..]) if !rest.is_empty() => Ok(rest
            .iter()
            .map(|word| Capability::Word { program: program.clone(), word: word.clone() })
            .collect()),
        ("sets", [_, ..]) => each(Capability::Sets),
        ("passes", [_, ..]) => each(Capability::Passes),
        ("secrets", [_, ..]) => each(Capability::Secret),
        ("reads-path-of", [_, ..]) => each(Capability::ReadsPathOf),
        ("sign-in-files", [_, ..]) => each(Capability::SignInFile),
        ("state", [access, path, moved @ ..]) if moved.len() <= 2 => {
            let access = match access.as_str() {
                "write" => StateAccess::Write,
                "read" => StateAccess::Read,
                other => return Err(CapabilityError::word(other, "neither `read` nor `write`")),
            };
            let (moved_by, below) =
                (moved.first().cloned(), moved.get(1).cloned().unwrap_or_default());
            Ok(vec![Capability::State(StatePath { path: path.clone(), access, moved_by, below })])
        }
        ("own-sandbox", [word]) if word == "yes" => Ok(vec![Capability::OwnSandbox]),
        ("as-root", [_, ..]) => words.iter().map(|word| as_root(word)).collect(),
        ("leaves", [_, ..]) => words.iter().map(|word| leaves(word)).collect(),
        ("tools", [kind, names @ ..]) if !names.is_empty() => Ok(names
            .iter()
            .map(|name| Capability::Tool { kind: kind.clone(), name: name.clone() })
            .collect()),
        ("profiles", [word]) if word == "yes" => Ok(vec![Capability::Profiles]),
        ("shares", [word]) => {
            let known = SHARING.iter().find(|(_, known)| known == word);
            known
                .map(|(sharing, _)| vec![Capability::Shares(*sharing)])
                .ok_or_else(|| CapabilityError::word(word, "not one of `turn`, `session`, `all`"))
        }
        (_, [_, ..]) if one(&KEEPING).is_some() => {
            let support = one(&KEEPING).unwrap_or(LimitSupport::Never);
            let limit = |word: &String| {
                LIMITS.iter().find(|(_, known)| known == word).map(|(limit, _)| *limit)
            };
            let each = words.iter().map(|word| {
                limit(word).map(|limit| Capability::Limit { limit, support }).ok_or_else(|| {
                    CapabilityError::word(word, "not one of `allowed-tools`, `plan`")
                })
            });
            each.collect()
        }
        (_, [program, flag, rest @ ..]) => flags(key, program, flag, rest),
        _ => Err(CapabilityError::WordCount),
    }
}

fn flags(
    key: &str,
    program: &str,
    flag: &str,
    rest: &[String],
) -> Result<Vec<Capability>, CapabilityError> {
    let Some(from) =
        SAFETIES.iter().find(|(_, known, _)| *known == key).map(|(safety, ..)| *safety)
    else {
        return Err(CapabilityError::WordCount);
    };
    let with = |takes, value: &str| Capability::Flag {
        program: program.to_owned(),
        flag: flag.to_owned(),
        takes,
        value: value.to_owned(),
        from,
    };
    match rest {
        [] => Ok(vec![with(FlagValue::None, "")]),
        [sign, values @ ..] if sign == "=" && !values.is_empty() => {
            Ok(values.iter().map(|value| with(FlagValue::One, value)).collect())
        }
        [sign, values @ ..] if sign == "==" && !values.is_empty() => {
            Ok(values.iter().map(|value| with(FlagValue::Many, value)).collect())
        }
        _ => Err(CapabilityError::FlagValues),
    }
}

fn as_root(word: &str) -> Result<Capability, CapabilityError> {
    let (at, unless) =
        word.split_once('=').map_or((word, None), |(at, unless)| (at, Some(unless.to_owned())));
    let known = SAFETIES.iter().find(|(.., known)| *known == at);
    known
        .map(|(at, ..)| Capability::AsRoot { at: *at, unless })
        .ok_or_else(|| CapabilityError::word(word, "not one of `default`, `edit`, `danger`"))
}

fn leaves(word: &str) -> Result<Capability, CapabilityError> {
    let known = EXPANDS.into_iter().find(|kind| trigger(*kind) == word);
    known
        .map(Capability::Leaves)
        .ok_or_else(|| CapabilityError::word(word, "not a form that agents expand"))
}

fn trigger(kind: Expands) -> &'static str {
    match kind {
        Expands::AtPath => "at-path",
        Expands::SlashCommand => "slash-command",
        Expands::Bang => "bang",
        Expands::LeadingDash => "leading-dash",
    }
}

/// Returns a word as it is written in a line: unchanged if it is plain, otherwise as a JSON string
/// of ASCII characters, so that nothing is hidden or reordered.
pub(super) fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=*@+,~%^".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    let mut text = String::from("\"");
    for unit in word.encode_utf16() {
        match u8::try_from(unit).ok().filter(|byte| (b' '..=b'~').contains(byte)) {
            // The excluded bytes could end a string, a comment or a code span of markdown.
            Some(byte) if !b"\"\\`<>".contains(&byte) => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\u{unit:04x}")),
        }
    }
    text + "\""
}

fn words(text: &str) -> Result<Vec<String>, CapabilityError> {
    let (mut words, mut rest) = (Vec::new(), text.trim());
    while !rest.is_empty() {
        let end = if let Some(quoted) = rest.strip_prefix('"') {
            // A quote within a word is always written as `\u0022`.
            quoted.find('"').map(|end| end + 2).ok_or(CapabilityError::QuoteMissing)?
        } else {
            rest.find(char::is_whitespace).unwrap_or(rest.len())
        };
        let (word, behind) = rest.split_at(end);
        words.push(if word.starts_with('"') {
            serde_json::from_str(word).map_err(|source| CapabilityError::InvalidString {
                word: word.to_owned(),
                source,
            })?
        } else {
            word.to_owned()
        });
        rest = behind.trim_start();
    }
    Ok(words)
}
