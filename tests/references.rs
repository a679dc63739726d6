//! Tests that documents and doc comments name only files and tests that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of this repository that a reference may begin with.
const FOLDERS: [&str; 12] = [
    "contrib/",
    "tests/",
    "src/",
    "crates/",
    "benches/",
    "docs/",
    "scripts/",
    "fuzz/",
    "config/",
    "wit/",
    "packaging/",
    "guest-backends/",
];

/// Words in capitals stand for a name that the reader fills in.
fn is_placeholder(path: &str) -> bool {
    path.split('/').any(|part| {
        part.split(['-', '.'])
            .any(|word| word.len() > 2 && word.chars().all(|c| c.is_ascii_uppercase()))
    }) || path.contains(['*', '{'])
}

fn collect(folder: &Path, kinds: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() {
            if name != "target" && name != ".git" && name != "backends" && name != "node_modules" {
                collect(&path, kinds, found);
            }
        } else if path.extension().is_some_and(|kind| kinds.iter().any(|wanted| kind == *wanted)) {
            found.push(path);
        }
    }
}

fn all(kinds: &[&str]) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    collect(root, kinds, &mut found);
    found
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).expect("a text");
            (path, text)
        })
        .collect()
}

/// Returns the texts between backticks, line by line.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

#[test]
fn files_named_in_documents_and_comments_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut missing = BTreeSet::new();
    for (path, text) in all(&["md", "rs"]) {
        // These name files of other programs.
        if path.ends_with("contrib/migrate/src/openclaw.rs") || path.ends_with("CHANGELOG.md") {
            continue;
        }
        let comments: String = if path.extension().is_some_and(|kind| kind == "rs") {
            text.lines()
                .filter(|line| line.trim_start().starts_with("//"))
                .map(|line| format!("{line}\n"))
                .collect()
        } else {
            text
        };
        let folders: Vec<&Path> = path.ancestors().skip(1).collect();
        for named in quoted(&comments) {
            let named = named.split("::").next().unwrap_or_default();
            let is_path = FOLDERS.iter().any(|folder| named.starts_with(folder))
                && !named.contains(char::is_whitespace)
                && !is_placeholder(named);
            let exists = |folder: &&Path| folder.starts_with(root) && folder.join(named).exists();
            if is_path && !folders.iter().any(exists) && !named.contains("/state/") {
                missing.insert(format!("{}: `{named}`", path.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.into_iter().collect::<Vec<_>>().join("\n"));
}

#[test]
fn tests_named_in_documents_exist() {
    let sources: String = all(&["rs", "py"]).into_iter().map(|(_, text)| text).collect();
    let mut missing = BTreeSet::new();
    for (path, text) in all(&["md"]) {
        if path.ends_with("CHANGELOG.md") {
            continue;
        }
        for named in quoted(&text).filter(|named| named.contains("::")) {
            for name in named.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
                // Names of tests have many words. Some are abbreviated with an ellipsis.
                if name.matches('_').count() >= 4 && !named.contains('…') {
                    let defined = [format!("fn {name}("), format!("        {name}")];
                    if !defined.iter().any(|defined| sources.contains(defined.as_str())) {
                        missing.insert(format!("{}: `{name}`", path.display()));
                    }
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.into_iter().collect::<Vec<_>>().join("\n"));
}
