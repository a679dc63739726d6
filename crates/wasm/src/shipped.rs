//! The components that came with the program, and how they get into the operator's folder.
//!
//! An installed program has them where it cannot write. The operator's folder is the one that
//! serves: what is missing there is put there once, what nobody touched since goes along with the
//! program, and everything else is the operator's. [`NOTED`] says what was put there. Nothing comes
//! in that the operator's trust settings would refuse. Pinned by the tests below and by
//! `tests/gateway/installed.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::AdmissionError;
use super::install;
use super::source::{self, Source};
use super::trust::{Gate, read_signature, signature_of};
use aetheel_model::plain::with_causes;
use aetheel_store::disk::{EVERYBODY, replace_for};

/// File of the operator's folder with what was put there: `<sha256>  <file>`, a line each, as
/// `sha256sum` writes and checks it.
const NOTED: &str = ".shipped";

/// What becomes of one shipped component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It was never here: it comes.
    New,
    /// The one before is as it was put here: it is replaced.
    Newer,
    /// It is here.
    Here,
    /// The operator put another one in its place, rolled it back, or took it away: that stands.
    Theirs,
}

impl Fate {
    /// Decides by digests: of the shipped one, of what was noted, and of the file that is here.
    fn of(shipped: &str, noted: Option<&str>, here: Option<&str>) -> Self {
        match (noted, here) {
            (_, Some(here)) if here == shipped => Self::Here,
            (None, None) => Self::New,
            (Some(noted), Some(here)) if noted == here => Self::Newer,
            _ => Self::Theirs,
        }
    }
}

/// Brings the components of `shipped` into `folder`, and tells the log. `limit` is the largest
/// component taken, bytes.
///
/// # Errors
/// The system's, naming the path; what could be brought until then is whole.
pub async fn bring(
    shipped: &Path,
    folder: &Path,
    gate: &Gate,
    limit: u64,
) -> Result<(), (PathBuf, io::Error)> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| (path, error)
    };
    // The shipped ones serve by themselves.
    if fs::canonicalize(shipped).ok() == fs::canonicalize(folder).ok() {
        return Ok(());
    }
    let notes = folder.join(NOTED);
    let before = read_notes(&notes).map_err(at(&notes))?;
    let mut noted = before.clone();
    for name in components(shipped).map_err(at(shipped))? {
        let (from, to) = (shipped.join(&name), folder.join(&name));
        let fresh = match source::read(from.clone(), limit).await {
            Ok(source) => source,
            Err(error) => {
                tracing::warn!(path = %from.display(), "a shipped component cannot be read: {}", with_causes(&error));
                continue;
            }
        };
        let here = match source::read(to.clone(), limit).await {
            Ok(source) => Some(source.digest),
            Err(AdmissionError::Read(error)) if error.kind() == io::ErrorKind::NotFound => None,
            // Whatever lies there is not ours.
            Err(_) => Some(String::new()),
        };
        let known = noted.get(&name).map(String::as_str);
        match Fate::of(&fresh.digest, known, here.as_deref()) {
            Fate::Here => {}
            Fate::Theirs => {
                tracing::info!(path = %to.display(), shipped = %from.display(), "a shipped component is not taken: the backends folder has the operator's decision; hint: `aetheel backend install` takes it");
                continue;
            }
            Fate::New | Fate::Newer => {
                if let Err(error) = gate.judge(&from, &fresh).await {
                    tracing::info!(path = %from.display(), "a shipped component is not taken: it {}; hint: {}", with_causes(&error), error.hint());
                    continue;
                }
                put(&from, to.clone(), &fresh).await.map_err(at(&to))?;
                tracing::info!(path = %to.display(), digest = fresh.digest, "a shipped component was put into the backends folder");
            }
        }
        noted.insert(name, fresh.digest);
    }
    if noted == before {
        return Ok(());
    }
    let text: String = noted.iter().map(|(name, digest)| format!("{digest}  {name}\n")).collect();
    replace_for(&notes, text.as_bytes(), EVERYBODY).map(drop).map_err(at(&notes))
}

/// Puts a component in its place at one stroke, with the signature that came along.
async fn put(from: &Path, to: PathBuf, fresh: &Source) -> io::Result<()> {
    let (beside, bytes) = (signature_of(from), fresh.bytes.clone());
    let done = tokio::task::spawn_blocking(move || {
        install::prepare(&to, &bytes, read_signature(&beside).as_deref())?.install(None)
    });
    done.await.map_err(io::Error::other)?
}

/// The names of the components in a folder, in order.
fn components(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        names.extend(name.to_str().filter(|name| name.ends_with(".wasm")).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// What was put into the folder, by file name; lines that say nothing are left out.
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
            bring(&shipped, &folder, &Gate::open(), 100).await.expect("brought");
        }
    }

    #[tokio::test]
    async fn what_is_missing_comes_and_what_nobody_touched_goes_along_with_the_program() {
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
        // An older program brings its own back.
        folders.ship("demo.wasm", "one");
        folders.bring().await;
        assert_eq!(folders.here("demo.wasm").as_deref(), Some("one"));
    }

    #[tokio::test]
    async fn what_the_operator_put_there_or_took_away_stands() {
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
        // It was the shipped one, whoever put it there.
        assert_eq!(folders.here("same.wasm").as_deref(), Some("newer"));
    }

    #[tokio::test]
    async fn nothing_comes_that_is_too_large_and_a_signature_comes_along() {
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
