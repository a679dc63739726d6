//! The changed files of a candidate: which an agent may change, and which words they may not add.

use std::collections::{BTreeMap, BTreeSet};

use similar::TextDiff;

/// Largest source file, in bytes.
const MAX_FILE: usize = 256 * 1024;
const MAX_CHANGED: usize = 40;
/// Words with which sources include other files or variables of the build, or leave the rules of
/// safe Rust. A candidate may not use them more often than the original.
const COUNTED_WORDS: [&str; 13] = [
    "asm",
    "env",
    "export_name",
    "extern",
    "global_asm",
    "include",
    "include_bytes",
    "include_str",
    "link_section",
    "no_mangle",
    "option_env",
    "proc_macro",
    "unsafe",
];

/// The files of a folder by their paths below it, with `/`.
pub type SourceFiles = BTreeMap<String, Vec<u8>>;

/// The changes of a candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourcePatch {
    /// The changed and new files.
    pub written: SourceFiles,
    /// The removed files.
    pub removed: BTreeSet<String>,
    /// The changes as a unified diff.
    pub diff: String,
}

/// The reason why a change of sources is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchFault {
    /// Nothing was changed.
    #[error("no source of the backend was changed")]
    Nothing,
    /// A file was changed that is not a source of the backend.
    #[error("`{0}` was changed; only `*.rs` files in `{1}` may be")]
    Outside(String, String),
    /// The name of a file is unusual.
    #[error("the name of `{0}` has characters other than letters, digits, `-`, `_` and `.`")]
    Name(String),
    /// A file is too large.
    #[error("`{0}` has more than {size} KiB", size = MAX_FILE / 1024)]
    Large(String),
    /// Too many files were changed.
    #[error("{0} files were changed; at most {MAX_CHANGED} may be")]
    Many(usize),
    /// A file is not text.
    #[error("`{0}` is not UTF-8")]
    NotText(String),
    /// A word is used more often than in the original.
    #[error("the sources use `{0}` {2} times instead of {1}; they may not add it")]
    Word(&'static str, usize, usize),
}

/// Compares a candidate's files with the original ones. `sources` are the folders of the backend's
/// own sources, for example `gemini/src`.
///
/// # Errors
/// Returns all reasons why the change is refused.
pub fn examine(
    original: &SourceFiles,
    candidate: &SourceFiles,
    sources: &[String],
) -> Result<SourcePatch, Vec<PatchFault>> {
    let mut patch = SourcePatch::default();
    let mut faults = Vec::new();
    let names: BTreeSet<&String> = original.keys().chain(candidate.keys()).collect();
    for name in names {
        let (before, after) = (original.get(name), candidate.get(name));
        if before == after {
            continue;
        }
        faults.extend(fault_of(name, after, sources));
        let text = |bytes: Option<&Vec<u8>>| {
            bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
        };
        let (old, new) = (text(before), text(after));
        let (a, b) = (format!("a/{name}"), format!("b/{name}"));
        let diff = TextDiff::from_lines(&old, &new);
        patch.diff.push_str(&diff.unified_diff().context_radius(3).header(&a, &b).to_string());
        match after {
            Some(bytes) => drop(patch.written.insert(name.clone(), bytes.clone())),
            None => drop(patch.removed.insert(name.clone())),
        }
    }
    let changed = patch.written.len() + patch.removed.len();
    if changed == 0 {
        return Err(vec![PatchFault::Nothing]);
    }
    if changed > MAX_CHANGED {
        faults.push(PatchFault::Many(changed));
    }
    for word in COUNTED_WORDS {
        let count = |files: &SourceFiles| -> usize {
            let own = files.iter().filter(|(name, _)| is_source(name, sources));
            own.map(|(_, bytes)| occurrences(&String::from_utf8_lossy(bytes), word)).sum()
        };
        let (before, after) = (count(original), count(candidate));
        if after > before {
            faults.push(PatchFault::Word(word, before, after));
        }
    }
    if faults.is_empty() { Ok(patch) } else { Err(faults) }
}

fn fault_of(name: &str, after: Option<&Vec<u8>>, sources: &[String]) -> Option<PatchFault> {
    let usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    if !name.chars().all(usual) {
        return Some(PatchFault::Name(name.escape_default().to_string()));
    }
    if !is_source(name, sources) {
        return Some(PatchFault::Outside(name.to_owned(), sources.join("` and `")));
    }
    let bytes = after?;
    if bytes.len() > MAX_FILE {
        return Some(PatchFault::Large(name.to_owned()));
    }
    std::str::from_utf8(bytes).is_err().then(|| PatchFault::NotText(name.to_owned()))
}

/// Returns whether a path is a source file in one of the folders `sources`. Hidden files and `..`
/// are not.
fn is_source(name: &str, sources: &[String]) -> bool {
    let is_below = |folder: &String| {
        let below = name.strip_prefix(folder.as_str()).and_then(|rest| rest.strip_prefix('/'));
        below.is_some_and(|rest| {
            rest.ends_with(".rs") && rest.split('/').all(|part| !part.starts_with('.'))
        })
    };
    sources.iter().any(is_below)
}

/// Returns how often a word is used, also in comments and texts. A word is a run of letters, digits
/// and `_`.
fn occurrences(text: &str, word: &str) -> usize {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|found| *found == word).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(all: &[(&str, &str)]) -> SourceFiles {
        all.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect()
    }

    const ORIGINAL: [(&str, &str); 3] = [
        ("Cargo.toml", "[workspace]\n"),
        ("mini/Cargo.toml", "[package]\n"),
        ("mini/src/lib.rs", "include_str!(\"d.json\");\nfn a() {}\n"),
    ];

    fn sources() -> Vec<String> {
        ["mini/src", "mini/client/src"].map(str::to_owned).into()
    }

    fn changed(name: &str, text: &str) -> Result<SourcePatch, Vec<PatchFault>> {
        let original = files(&ORIGINAL);
        let mut candidate = original.clone();
        candidate.insert(name.to_owned(), text.as_bytes().to_vec());
        examine(&original, &candidate, &sources())
    }

    #[test]
    fn changed_sources_are_a_patch() {
        let patch = changed("mini/src/new.rs", "fn b() {}\n").unwrap();
        assert_eq!(patch.written.len(), 1);
        assert!(changed("mini/client/src/new.rs", "fn b() {}\n").is_ok());
        assert!(patch.diff.contains("+++ b/mini/src/new.rs") && patch.diff.contains("+fn b() {}"));
        let mut candidate = files(&ORIGINAL);
        candidate.remove("mini/src/lib.rs");
        let patch = examine(&files(&ORIGINAL), &candidate, &sources()).unwrap();
        assert_eq!(patch.removed.len(), 1);
        assert_eq!(
            examine(&files(&ORIGINAL), &files(&ORIGINAL), &sources()),
            Err(vec![PatchFault::Nothing])
        );
    }

    #[test]
    fn changes_elsewhere_are_refused() {
        for name in [
            "mini/build.rs",
            "mini/Cargo.toml",
            "Cargo.lock",
            ".cargo/config.toml",
            "mini/src/../build.rs",
            "mini/src/.hidden.rs",
            "mini/client/build.rs",
            "mini/src/descriptor.json",
            "mini/srcs/a.rs",
            "other/src/lib.rs",
        ] {
            let faults = changed(name, "fn b() {}\n").unwrap_err();
            assert!(matches!(&faults[..], [PatchFault::Outside(..)]), "{name}: {faults:?}");
        }
        let removed = files(&ORIGINAL[1..]);
        assert!(examine(&files(&ORIGINAL), &removed, &sources()).is_err());
        assert!(matches!(&changed("mini/src/a\n.rs", "").unwrap_err()[..], [PatchFault::Name(_)]));
    }

    #[test]
    fn words_that_reach_out_of_the_sources_may_not_be_added() {
        let lib = "include_str!(\"d.json\");\nfn a() { /* environment, Env, unsafety */ }\n";
        assert!(changed("mini/src/lib.rs", lib).is_ok());
        for text in [
            "const A: &str = include_str!(\"/etc/passwd\");",
            "const A: &str = env!(\"HOME\");",
            "use std::r#env;",
            "unsafe fn f() {}",
        ] {
            let faults = changed("mini/src/b.rs", text).unwrap_err();
            assert!(matches!(&faults[..], [PatchFault::Word(..)]), "{text}: {faults:?}");
        }
        let large = "/".repeat(MAX_FILE + 1);
        assert!(matches!(
            &changed("mini/src/b.rs", &large).unwrap_err()[..],
            [PatchFault::Large(_)]
        ));
    }
}
