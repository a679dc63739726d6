//! The paths of a claim.

use std::path::{Component, Path, PathBuf};

/// Maximum length of a path in a claim, in characters.
pub const MAX_PATTERN_CHARS: usize = 200;
/// Maximum number of `*` in a path.
const MAX_STARS: usize = 4;

/// A path below a working directory. A `*` stands for any characters of one name. A path that names
/// a folder also covers everything in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimPattern(String);

/// The reason why a text is not the path of a claim.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The text is empty or only `.`.
    #[error("a path is empty; name a file or a folder below the working directory")]
    Empty,
    /// The path is too long.
    #[error("a path has more than {MAX_PATTERN_CHARS} characters")]
    TooLong,
    /// The path contains control characters, backticks or backslashes.
    #[error("a path contains a character that is not allowed")]
    Character,
    /// The path leads out of the working directory.
    #[error("`{0}` is not below the working directory")]
    Outside(String),
    /// The path would cover the whole working directory.
    #[error("`{0}` would reserve everything; name files or folders")]
    Everything(String),
    /// The path contains too many `*`.
    #[error(
        "`{0}` contains `**` or more than {MAX_STARS} times `*`; name a folder to reserve everything in it"
    )]
    Stars(String),
}

impl ClaimPattern {
    /// Parses a path. An absolute path must be below `directory`.
    ///
    /// # Errors
    /// [`PatternError`]
    pub fn parse(text: &str, directory: &Path) -> Result<Self, PatternError> {
        let text = text.trim();
        if text.chars().count() > MAX_PATTERN_CHARS {
            return Err(PatternError::TooLong);
        }
        if text.chars().any(|c| c.is_control() || c == '`' || c == '\\') {
            return Err(PatternError::Character);
        }
        let path = Path::new(text);
        let below = match path.is_absolute() {
            true => path.strip_prefix(directory).map_err(|_| PatternError::Outside(text.into()))?,
            false => path,
        };
        let mut names = Vec::new();
        for component in below.components() {
            match component {
                Component::CurDir => {}
                Component::Normal(name) => names.push(name.to_string_lossy().into_owned()),
                _ => return Err(PatternError::Outside(text.to_owned())),
            }
        }
        let Some(first) = names.first() else {
            return Err(if text.is_empty() {
                PatternError::Empty
            } else {
                PatternError::Everything(text.to_owned())
            });
        };
        if first.chars().all(|c| c == '*') {
            return Err(PatternError::Everything(text.to_owned()));
        }
        let joined = names.join("/");
        if joined.contains("**") || joined.matches('*').count() > MAX_STARS {
            return Err(PatternError::Stars(text.to_owned()));
        }
        Ok(Self(joined))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the path up to its first name with `*`, and the rest.
    #[must_use]
    pub fn literal_part(&self) -> (PathBuf, Vec<&str>) {
        let names: Vec<&str> = self.names().collect();
        let literal = names.iter().take_while(|name| !name.contains('*')).count();
        (names[..literal].iter().collect(), names[literal..].to_vec())
    }

    /// Returns whether the path covers a file, which is given relative to the working directory.
    #[must_use]
    pub fn covers(&self, file: &Path) -> bool {
        let mut parts = file.components();
        self.names().all(|name| match parts.next() {
            Some(Component::Normal(part)) => matches(name, &part.to_string_lossy()),
            _ => false,
        })
    }

    /// Returns whether there may be a file that both paths cover.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.names().zip(other.names()).all(|(one, other)| may_be_equal(one, other))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let end = pieces.pop().unwrap_or_default();
    for piece in pieces {
        let Some(at) = name.find(piece) else { return false };
        name = &name[at + piece.len()..];
    }
    name.ends_with(end)
}

fn may_be_equal(one: &str, other: &str) -> bool {
    match (one.contains('*'), other.contains('*')) {
        (_, false) => matches(one, other),
        (false, true) => matches(other, one),
        // Only the parts before the first and after the last `*` are certain.
        (true, true) => {
            let ends = |text: &str| {
                let first = text.find('*').unwrap_or(0);
                let last = text.rfind('*').unwrap_or(0);
                (text[..first].to_owned(), text[last + 1..].to_owned())
            };
            let ((a, b), (c, d)) = (ends(one), ends(other));
            (a.starts_with(&c) || c.starts_with(&a)) && (b.ends_with(&d) || d.ends_with(&b))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> ClaimPattern {
        ClaimPattern::parse(text, Path::new("/srv/site")).expect(text)
    }

    #[test]
    fn a_path_covers_its_file_everything_in_its_folder_and_names_with_stars() {
        for (path, file, covered) in [
            ("src/a.rs", "src/a.rs", true),
            ("src/a.rs", "src/b.rs", false),
            ("./src/", "src/deep/a.rs", true),
            ("/srv/site/src", "src/a.rs", true),
            ("src", "src2/a.rs", false),
            ("src/a.rs", "src", false),
            ("*.rs", "a.rs", true),
            ("*.rs", "src/a.rs", false),
            ("src/*.rs", "src/a.rs", true),
            ("src/*/mod.rs", "src/a/mod.rs", true),
            ("src/*/mod.rs", "src/a/b/mod.rs", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxcyyb", false),
            ("ab*ba", "aba", false),
            ("é*", "éa", true),
        ] {
            assert_eq!(pattern(path).covers(Path::new(file)), covered, "{path} {file}");
        }
    }

    #[test]
    fn a_path_that_is_outside_or_covers_everything_is_refused() {
        let directory = Path::new("/srv/site");
        for text in [
            "",
            " ",
            ".",
            "/",
            "..",
            "../a",
            "a/../b",
            "a/../..",
            "/srv",
            "/srv/site",
            "/srv/site2/a",
            "*",
            "**",
            "**/a",
            "*/a",
            "a/**",
            "a*b*c*d*e*",
            "a\nb",
            "a`b",
            "a\\b",
            "a\0",
        ] {
            assert!(ClaimPattern::parse(text, directory).is_err(), "{text:?}");
        }
        let long = "é".repeat(MAX_PATTERN_CHARS + 1);
        assert_eq!(ClaimPattern::parse(&long, directory), Err(PatternError::TooLong));
    }

    #[test]
    fn paths_overlap_if_a_file_can_be_in_both() {
        for (one, other, overlap) in [
            ("src", "src/a.rs", true),
            ("src/a.rs", "src/b.rs", false),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/a.md", false),
            ("src/a*", "src/*b", true),
            ("src/a*", "src/b*", false),
            ("src/*.rs", "src/*.md", false),
            ("*.rs", "src/a.rs", false),
        ] {
            assert_eq!(pattern(one).overlaps(&pattern(other)), overlap, "{one} {other}");
            assert_eq!(pattern(other).overlaps(&pattern(one)), overlap, "{other} {one}");
        }
    }
}
