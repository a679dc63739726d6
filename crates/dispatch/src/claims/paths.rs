//! The paths of a claim, resolved in a working directory.

use std::path::PathBuf;

use super::ClaimError;
use crate::collisions::checkouts::CheckoutPlace;
use aetheel_model::claim::{ClaimPattern, ClaimRefusal, MAX_CLAIM_PATHS, PatternError};
use aetheel_turn::WorkingDirectory;

/// The identity of a working directory, and paths below it without links.
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

/// Returns paths without links. Links are followed up to the first name with `*`, so that a claim
/// covers the files that are written. Blocks.
///
/// # Errors
/// [`ClaimRefusal`] if a path is not valid or leads out of the directory.
fn resolve_below(
    directory: &WorkingDirectory,
    texts: &[String],
) -> Result<Vec<ClaimPattern>, ClaimRefusal> {
    if texts.len() > MAX_CLAIM_PATHS {
        return Err(ClaimRefusal::TooManyPaths);
    }
    let mut paths = Vec::new();
    for text in texts {
        let parsed = ClaimPattern::parse(text, directory.path())?;
        let (literal, rest) = parsed.literal_part();
        let below = directory.resolve(&literal).map_err(|_| PatternError::Outside(text.clone()))?;
        let names = below.iter().map(|name| name.to_string_lossy().into_owned());
        let names: Vec<String> = names.chain(rest.into_iter().map(str::to_owned)).collect();
        let pattern = ClaimPattern::parse(&names.join("/"), directory.path());
        paths.push(pattern.map_err(|error| match error {
            // A link leads to the working directory.
            PatternError::Empty => PatternError::Everything(text.clone()),
            other => other,
        })?);
    }
    Ok(paths)
}

/// Opens the working directory of a claim and resolves its paths.
///
/// # Errors
/// [`ClaimError`].
pub(super) async fn resolve(
    checkout: CheckoutPlace,
    texts: Vec<String>,
) -> Result<ResolvedPaths, ClaimError> {
    let resolve = move || {
        let directory = WorkingDirectory::open(&checkout.directory);
        let directory = directory.map_err(|_| ClaimError::Directory)?;
        let paths = resolve_below(&directory, &texts)?;
        Ok(ResolvedPaths { directory: checkout.identity(&directory), paths })
    };
    tokio::task::spawn_blocking(resolve).await.map_err(|_| ClaimError::Directory)?
}

/// Returns the identity of a working directory.
pub(super) async fn identity(checkout: CheckoutPlace) -> Result<PathBuf, ClaimError> {
    let identity =
        move || Some(checkout.identity(&WorkingDirectory::open(&checkout.directory).ok()?));
    let found = tokio::task::spawn_blocking(identity).await;
    found.ok().flatten().ok_or(ClaimError::Directory)
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
        let opened = WorkingDirectory::open(&directory).expect("opened");
        let of = |text: &str| resolve_below(&opened, &[text.to_owned()]);
        for (text, expected) in [
            ("link/a.rs", "src/a.rs"),
            ("link", "src"),
            ("link/*.rs", "src/*.rs"),
            ("new/deep/a.rs", "new/deep/a.rs"),
            ("self/src", "src"),
        ] {
            let resolved = of(text).expect(text);
            assert_eq!(resolved[0].as_str(), expected, "{text}");
        }
        for text in
            ["out", "out/a", "out/*", "out/missing", "../two", "self", "loop", "/etc/passwd"]
        {
            assert!(matches!(of(text), Err(ClaimRefusal::Pattern(_))), "{text}");
        }
        let absolute = directory.join("src");
        assert_eq!(of(&absolute.to_string_lossy()).expect("inside")[0].as_str(), "src");
        let many = vec!["x".to_owned(); 10_000];
        assert!(matches!(resolve_below(&opened, &many), Err(ClaimRefusal::TooManyPaths)));
    }

    #[test]
    fn a_text_is_split_at_commas_or_blanks() {
        assert_eq!(split(" a  b/c "), ["a", "b/c"]);
        assert_eq!(split("read me.md, b"), ["read me.md", "b"]);
        assert!(split(" , ").is_empty());
    }
}
