//! Installs the components that were shipped with the program into the operator's folder.
//!
//! The shipped components are in a folder that the program cannot write. Components are served from
//! the operator's folder: a missing component is installed there once, a component that nobody
//! changed is updated with the program, and all other files belong to the operator. The file
//! [`NOTED`] lists the installed components. A component that the operator's trust settings refuse
//! is not installed. `tests/gateway/installed.rs` also tests this module.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::AdmissionError;
use super::install;
use super::source::{self, ComponentSource};
use super::trust::{TrustGate, read_signature, signature_of};
use aetheel_model::plain::with_causes;
use aetheel_store::disk::{WORLD_READABLE_MODE, replace_for};

/// The file in the operator's folder that lists the installed components. Each line is
/// `<sha256>  <file>`, the format of `sha256sum`.
const NOTED: &str = ".shipped";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShippedAction {
    /// It was never installed: install it.
    New,
    /// The installed one was not changed: replace it.
    Newer,
    Present,
    /// The operator replaced, rolled back or removed it: keep that.
    OperatorsOwn,
}

impl ShippedAction {
    /// Decides from the digests of the shipped component, of the noted one, and of the file in the
    /// operator's folder.
    fn of(shipped: &str, noted: Option<&str>, here: Option<&str>) -> Self {
        match (noted, here) {
            (_, Some(here)) if here == shipped => Self::Present,
            (None, None) => Self::New,
            (Some(noted), Some(here)) if noted == here => Self::Newer,
            _ => Self::OperatorsOwn,
        }
    }
}

/// Installs the components of `shipped` into `folder` and logs what it did. `limit` is the maximum
/// size of a component in bytes.
///
/// # Errors
/// The system's error with the path. Components that were already installed are complete.
pub async fn install_shipped(
    shipped: &Path,
    folder: &Path,
    gate: &TrustGate,
    limit: u64,
) -> Result<(), (PathBuf, io::Error)> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| (path, error)
    };
    // The shipped components are served directly.
    if fs::canonicalize(shipped).ok() == fs::canonicalize(folder).ok() {
        return Ok(());
    }
    let notes = folder.join(NOTED);
    let before = read_notes(&notes).map_err(at(&notes))?;
    let mut noted = before.clone();
    let mut installed = Vec::new();
    for name in components(shipped).map_err(at(shipped))? {
        let (from, to) = (shipped.join(&name), folder.join(&name));
        let fresh = match source::read(from.clone(), limit).await {
            Ok(source) => source,
            Err(error) => {
                tracing::warn!(path = %from.display(), "a shipped backend cannot be read: {}", with_causes(&error));
                continue;
            }
        };
        let here = match source::read(to.clone(), limit).await {
            Ok(source) => Some(source.digest),
            Err(AdmissionError::Read(error)) if error.kind() == io::ErrorKind::NotFound => None,
            // The operator's folder has something else at this path.
            Err(_) => Some(String::new()),
        };
        let known = noted.get(&name).map(String::as_str);
        match ShippedAction::of(&fresh.digest, known, here.as_deref()) {
            ShippedAction::Present => {}
            ShippedAction::OperatorsOwn => {
                tracing::info!(path = %to.display(), shipped = %from.display(), "a shipped backend is not installed: the operator changed or removed its file; hint: `aetheel backend install` installs it");
                continue;
            }
            ShippedAction::New | ShippedAction::Newer => {
                if let Err(error) = gate.judge(&from, &fresh).await {
                    tracing::info!(path = %from.display(), "a shipped backend is not installed: it {}; hint: {}", with_causes(&error), error.hint());
                    continue;
                }
                put(&from, to.clone(), &fresh).await.map_err(at(&to))?;
                installed.push(name.trim_end_matches(".wasm").to_owned());
            }
        }
        noted.insert(name, fresh.digest);
    }
    if !installed.is_empty() {
        let (names, folder) = (installed.join(", "), folder.display());
        tracing::info!(%folder, backends = names, "shipped backends were installed");
    }
    if noted == before {
        return Ok(());
    }
    let text: String = noted.iter().map(|(name, digest)| format!("{digest}  {name}\n")).collect();
    replace_for(&notes, text.as_bytes(), WORLD_READABLE_MODE).map(drop).map_err(at(&notes))
}

/// Installs a component atomically, with its signature if it has one.
async fn put(from: &Path, to: PathBuf, fresh: &ComponentSource) -> io::Result<()> {
    let (beside, bytes) = (signature_of(from), fresh.bytes.clone());
    let done = tokio::task::spawn_blocking(move || {
        install::prepare(&to, &bytes, read_signature(&beside).as_deref())?.install(None)
    });
    done.await.map_err(io::Error::other)?
}

/// Returns the names of the components in a folder, sorted.
fn components(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        names.extend(name.to_str().filter(|name| name.ends_with(".wasm")).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// Returns the digests of the installed components by file name. Invalid lines are ignored.
fn read_notes(path: &Path) -> io::Result<BTreeMap<String, String>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        text => text?,
    };
    let line = |line: &str| {
        let (digest, name) = line.split_once("  ")?;
        Some((name.to_owned(), digest.to_owned()))
    };
    Ok(text.lines().filter_map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folders {
        root: tempfile::TempDir,
    }

    impl Folders {
        fn new() -> Self {
            let root = tempfile::tempdir().expect("a folder");
            for name in ["shipped", "backends"] {
                fs::create_dir(root.path().join(name)).expect("a folder");
            }
            Self { root }
        }

        fn ship(&self, name: &str, content: &str) {
            fs::write(self.root.path().join("shipped").join(name), content).expect("written");
        }

        fn here(&self, name: &str) -> Option<String> {
            fs::read_to_string(self.root.path().join("backends").join(name)).ok()
        }

        fn put(&self, name: &str, content: &str) {
            fs::write(self.root.path().join("backends").join(name), content).expect("written");
        }

        async fn bring(&self) {
            let (shipped, folder) =
                (self.root.path().join("shipped"), self.root.path().join("backends"));
            install_shipped(&shipped, &folder, &TrustGate::open(), 100).await.expect("brought");
        }
    }

    #[tokio::test]
    async fn missing_components_are_installed_and_unchanged_ones_updated() {
        let folders = Folders::new();
        folders.ship("demo.wasm", "one");
        folders.ship("notes.txt", "no component");
        folders.bring().await;
        assert_eq!(folders.here("demo.wasm").as_deref(), Some("one"));
        assert_eq!(folders.here("notes.txt"), None);
        folders.ship("demo.wasm", "two");
        folders.ship("claude.wasm", "first");
        folders.bring().await;
        assert_eq!(folders.here("demo.wasm").as_deref(), Some("two"));
        assert_eq!(folders.here("claude.wasm").as_deref(), Some("first"));
        // An older program installs its own components again.
        folders.ship("demo.wasm", "one");
        folders.bring().await;
        assert_eq!(folders.here("demo.wasm").as_deref(), Some("one"));
    }

    #[tokio::test]
    async fn files_that_the_operator_changed_or_removed_are_kept_that_way() {
        let folders = Folders::new();
        folders.put("mine.wasm", "mine");
        folders.put("same.wasm", "same");
        for name in ["mine.wasm", "same.wasm", "gone.wasm", "changed.wasm"] {
            folders.ship(name, "same");
        }
        folders.bring().await;
        fs::remove_file(folders.root.path().join("backends/gone.wasm")).expect("removed");
        folders.put("changed.wasm", "rolled back");
        for name in ["mine.wasm", "same.wasm", "gone.wasm", "changed.wasm"] {
            folders.ship(name, "newer");
        }
        folders.bring().await;
        assert_eq!(folders.here("mine.wasm").as_deref(), Some("mine"));
        assert_eq!(folders.here("gone.wasm"), None);
        assert_eq!(folders.here("changed.wasm").as_deref(), Some("rolled back"));
        // It was the shipped component, even though the operator installed it.
        assert_eq!(folders.here("same.wasm").as_deref(), Some("newer"));
    }

    #[tokio::test]
    async fn large_components_are_not_installed_and_signatures_are() {
        let folders = Folders::new();
        folders.ship("large.wasm", &"x".repeat(101));
        folders.ship("demo.wasm", "one");
        folders.ship("demo.wasm.minisig", "signed");
        folders.bring().await;
        assert_eq!(folders.here("large.wasm"), None);
        assert_eq!(folders.here("demo.wasm.minisig").as_deref(), Some("signed"));
        let notes = folders.here(NOTED).expect("notes");
        assert_eq!(notes.lines().count(), 1, "{notes}");
        assert!(notes.ends_with("  demo.wasm\n"), "{notes}");
    }
}
