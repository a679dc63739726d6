//! The paths of a claim, resolved in a working directory.

use std::path::{Path, PathBuf};

use aetheel_model::claim::{ClaimPattern, ClaimRefusal, MAX_CLAIM_PATHS, PatternError};

/// Paths below a working directory, all without links.
#[derive(Debug)]
pub(super) struct ResolvedPaths {
    pub(super) directory: PathBuf,
    pub(super) paths: Vec<ClaimPattern>,
}

/// Splits a text into paths: at commas if it has one, otherwise at white space.
pub(super) fn split(text: &str) -> Vec<String> {
    let separator = |c: char| if text.contains(',') { c == ',' } else { c.is_whitespace() };
    let parts = text.split(separator).map(str::trim).filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}

/// Resolves paths. Links are followed up to the first name with `*`, so that a claim covers the
/// files that are written. Blocks.
///
/// # Errors
/// [`ClaimRefusal`] if a path is not valid or leads out of the directory.
pub(super) fn resolve(directory: &Path, texts: &[String]) -> Result<ResolvedPaths, ClaimRefusal> {
    if texts.len() > MAX_CLAIM_PATHS {
        return Err(ClaimRefusal::TooManyPaths);
    }
    let outside = |text: &str| PatternError::Outside(text.to_owned());
    let Ok(real) = directory.canonicalize() else {
        return Err(outside(&directory.to_string_lossy()).into());
    };
    let mut paths = Vec::new();
    for text in texts {
        // An agent may know its working directory by either path.
        let parsed = ClaimPattern::parse(text, directory).or_else(|error| match error {
            PatternError::Outside(_) => ClaimPattern::parse(text, &real),
            other => Err(other),
        })?;
        let (literal, rest) = parsed.literal_part();
        let found = real_path(&real.join(&literal));
        let below = found.strip_prefix(&real).map_err(|_| outside(text))?;
        let names = below.iter().map(|name| name.to_string_lossy().into_owned());
        let names: Vec<String> = names.chain(rest.into_iter().map(str::to_owned)).collect();
        paths.push(ClaimPattern::parse(&names.join("/"), &real).map_err(|error| match error {
            // A link leads to the working directory.
            PatternError::Empty => PatternError::Everything(text.clone()),
            other => other,
        })?);
    }
    Ok(ResolvedPaths { directory: real, paths })
}

/// Returns a path without links. The part that does not exist is kept.
fn real_path(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    let mut known = path;
    loop {
        if let Ok(found) = known.canonicalize() {
            return missing.into_iter().rev().fold(found, |path, name| path.join(name));
        }
        let (Some(parent), Some(name)) = (known.parent(), known.file_name()) else {
            return path.to_owned();
        };
        missing.push(name);
        known = parent;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_inside_of_the_directory_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path().join("one");
        for name in ["one/src", "two"] {
            std::fs::create_dir_all(folder.path().join(name)).expect("created");
        }
        symlink("src", directory.join("link")).expect("linked");
        symlink("../two", directory.join("out")).expect("linked");
        symlink(".", directory.join("self")).expect("linked");
        symlink("loop", directory.join("loop")).expect("linked");
        symlink(&directory, folder.path().join("alias")).expect("linked");
        let of = |directory: &Path, text: &str| resolve(directory, &[text.to_owned()]);
        for (text, expected) in [
            ("link/a.rs", "src/a.rs"),
            ("link", "src"),
            ("link/*.rs", "src/*.rs"),
            ("new/deep/a.rs", "new/deep/a.rs"),
            ("self/src", "src"),
        ] {
            let resolved = of(&directory, text).expect(text);
            assert_eq!(resolved.paths[0].as_str(), expected, "{text}");
        }
        for text in ["out", "out/a", "out/*", "../two", "self", "/etc/passwd"] {
            assert!(matches!(of(&directory, text), Err(ClaimRefusal::Pattern(_))), "{text}");
        }
        let alias = folder.path().join("alias");
        for absolute in [alias.join("src"), directory.join("src")] {
            let resolved = of(&alias, &absolute.to_string_lossy()).expect("inside");
            assert_eq!(resolved.paths[0].as_str(), "src");
            assert_eq!(resolved.directory, directory.canonicalize().expect("exists"));
        }
        let many = vec!["x".to_owned(); 10_000];
        assert!(matches!(resolve(&directory, &many), Err(ClaimRefusal::TooManyPaths)));
    }

    #[test]
    fn a_text_is_split_at_commas_or_blanks() {
        assert_eq!(split(" a  b/c "), ["a", "b/c"]);
        assert_eq!(split("read me.md, b"), ["read me.md", "b"]);
        assert!(split(" , ").is_empty());
    }
}
