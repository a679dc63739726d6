//! `state/components/`: the components that served, so that an earlier one can be restored.
//!
//! The folder contains one folder for each backend, and in it one file for each component,
//! `<sequence>-<sha256>.wasm`, with its signature beside it. The newest [`KEPT_COMPONENTS`] are
//! kept. All files are readable only by their owner, and a file is only used if its content matches
//! its name.
//!
//! `state/partial-components/` contains in the same form the components that served only some
//! lanes, so that the recordings of their turns can be examined. They are never restored.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::FileError;
use crate::disk::{replace, sync_folder};
use aetheel_model::plain::hex;

/// Components that are kept for each backend, including the one that serves.
pub const KEPT_COMPONENTS: usize = 3;

/// Components that are kept for each backend because they served some lanes.
const KEPT_PARTIAL: usize = 5;

/// The file that contains the name that the serving component has in the backends folder.
const FILE_NAME_FILE: &str = "from";

/// A component that served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedComponent {
    /// SHA-256 of the component, lower-case hex.
    pub digest: String,
    /// The bytes of the component.
    pub bytes: Arc<[u8]>,
    /// The content of the `*.minisig` beside it.
    pub signature: Option<Vec<u8>>,
}

/// The component of a backend that served last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastServed {
    /// Name of the backend.
    pub backend: String,
    /// SHA-256 of the component, lower-case hex.
    pub digest: String,
    /// Name of the file in the backends folder; empty if it was not noted.
    pub file: String,
}

/// The folder. Its methods do I/O and must be called on the blocking pool.
#[derive(Clone, Debug)]
pub struct Components {
    folder: PathBuf,
    /// The folder of the components that served some lanes.
    partial: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct StoredComponent {
    sequence: u64,
    digest: String,
}

impl Components {
    /// Names the folder in a configuration folder. Does not create it.
    #[must_use]
    pub fn new(config_dir: &Path) -> Self {
        let state = config_dir.join("state");
        Self { folder: state.join("components"), partial: state.join("partial-components") }
    }

    /// Saves the serving component as the newest of its backend, and removes the oldest beyond
    /// [`KEPT_COMPONENTS`].
    ///
    /// # Errors
    /// [`FileError`]; the components that were kept before are still kept.
    pub fn keep(&self, backend: &str, served: &ServedComponent) -> Result<(), FileError> {
        let folder = self.folder.join(backend);
        self.keep_in(&folder, served, KEPT_COMPONENTS)
            .map_err(|error| FileError::new("save a component in", &folder, error))
    }

    /// Saves a component that serves only some lanes, and removes the oldest of them.
    ///
    /// # Errors
    /// [`FileError`]; the components that were kept before are still kept.
    pub fn keep_partial(&self, backend: &str, served: &ServedComponent) -> Result<(), FileError> {
        let folder = self.partial.join(backend);
        self.keep_in(&folder, served, KEPT_PARTIAL)
            .map_err(|error| FileError::new("save a component in", &folder, error))
    }

    fn keep_in(&self, folder: &Path, served: &ServedComponent, limit: usize) -> io::Result<()> {
        if self.renew_in(folder, &served.digest)? {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut places = list(folder)?;
        let newest = places.last().map_or(0, |place| place.sequence);
        let new = StoredComponent { sequence: newest + 1, digest: served.digest.clone() };
        if let Some(text) = &served.signature {
            replace(&signature(folder, &new), text)?;
        }
        replace(&new.component(folder), &served.bytes)?;
        places.push(new);
        for old in &places[..places.len().saturating_sub(limit)] {
            remove(folder, old)?;
        }
        sync_folder(folder);
        Ok(())
    }

    /// Makes a kept component the newest of its backend. Returns false if it is not kept, or is
    /// damaged.
    ///
    /// # Errors
    /// [`FileError`]; the components that were kept before are still kept.
    pub fn renew(&self, backend: &str, digest: &str) -> Result<bool, FileError> {
        let folder = self.folder.join(backend);
        self.renew_in(&folder, digest)
            .map_err(|error| FileError::new("save a component in", &folder, error))
    }

    fn renew_in(&self, folder: &Path, digest: &str) -> io::Result<bool> {
        let places = match list(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            places => places?,
        };
        let newest = places.last().map_or(0, |place| place.sequence);
        let same = |place: &&StoredComponent| place.digest == digest && is_whole(folder, place);
        let Some(old) = places.iter().find(same) else { return Ok(false) };
        if old.sequence < newest {
            let new = StoredComponent { sequence: newest + 1, digest: old.digest.clone() };
            let _ = fs::rename(signature(folder, old), signature(folder, &new));
            fs::rename(old.component(folder), new.component(folder))?;
            sync_folder(folder);
        }
        Ok(true)
    }

    /// Saves the name of the file in the backends folder that contains the serving component.
    ///
    /// # Errors
    /// [`FileError`] if the name cannot be written.
    pub fn save_file_name(&self, backend: &str, file: &str) -> Result<(), FileError> {
        let folder = self.folder.join(backend);
        if fs::read_to_string(folder.join(FILE_NAME_FILE)).is_ok_and(|noted| noted == file) {
            return Ok(());
        }
        replace(&folder.join(FILE_NAME_FILE), file.as_bytes())
            .map(drop)
            .map_err(|error| FileError::new("save a file name in", &folder, error))
    }

    /// Returns the component that served last, for each backend.
    #[must_use]
    pub fn last(&self) -> Vec<LastServed> {
        let folders = fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
            .map(|entry| entry.path());
        let last = folders.filter_map(|folder| {
            let backend = folder.file_name()?.to_str()?.to_owned();
            let digest = list(&folder).ok()?.pop()?.digest;
            let file = fs::read_to_string(folder.join(FILE_NAME_FILE)).unwrap_or_default();
            Some(LastServed { backend, digest, file })
        });
        last.collect()
    }

    /// Returns the digests of the kept components, newest first. Their files may be damaged.
    #[must_use]
    pub fn kept_digests(&self, backend: &str) -> Vec<String> {
        let places = list(&self.folder.join(backend)).unwrap_or_default();
        places.into_iter().rev().map(|place| place.digest).collect()
    }

    /// Returns the file of a component that served all or some lanes, if it is kept and undamaged.
    #[must_use]
    pub fn file(&self, backend: &str, digest: &str) -> Option<PathBuf> {
        [&self.folder, &self.partial].into_iter().find_map(|folder| {
            let folder = folder.join(backend);
            let places = list(&folder).ok()?;
            let same =
                |place: &&StoredComponent| place.digest == digest && is_whole(&folder, place);
            Some(places.iter().find(same)?.component(&folder))
        })
    }

    /// Returns the kept components: those that served, newest first, and then those that served
    /// only some lanes. Damaged files are left out and logged.
    #[must_use]
    pub fn all(&self, backend: &str) -> Vec<ServedComponent> {
        let folder = self.partial.join(backend);
        let places = list(&folder).unwrap_or_default();
        let mut all = self.before(backend, None);
        all.extend(places.iter().rev().filter_map(|place| read(&folder, place)));
        all
    }

    /// Returns the components that served before this one, newest first, or all of them without a
    /// digest. Damaged files are left out and logged.
    #[must_use]
    pub fn before(&self, backend: &str, digest: Option<&str>) -> Vec<ServedComponent> {
        let folder = self.folder.join(backend);
        let places = list(&folder).unwrap_or_default();
        let end = digest
            .and_then(|digest| places.iter().rposition(|place| place.digest == digest))
            .unwrap_or(places.len());
        let earlier =
            places[..end].iter().rev().filter(|place| Some(place.digest.as_str()) != digest);
        earlier.filter_map(|place| read(&folder, place)).collect()
    }

    /// Removes a component, so that it is not restored.
    ///
    /// # Errors
    /// [`FileError`] if its file cannot be removed.
    pub fn forget(&self, backend: &str, digest: &str) -> Result<(), FileError> {
        let folder = self.folder.join(backend);
        let places = list(&folder).unwrap_or_default();
        let mut same = places.iter().filter(|place| place.digest == digest);
        same.try_for_each(|place| remove(&folder, place))
            .map_err(|error| FileError::new("remove a component from", &folder, error))
    }
}

impl StoredComponent {
    fn component(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}-{}.wasm", self.sequence, self.digest))
    }
}

fn signature(folder: &Path, place: &StoredComponent) -> PathBuf {
    folder.join(format!("{}-{}.wasm.minisig", place.sequence, place.digest))
}

/// Lists the kept components, oldest first.
fn list(folder: &Path) -> io::Result<Vec<StoredComponent>> {
    let mut places = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let place = name.to_str().and_then(|name| name.strip_suffix(".wasm")?.split_once('-'));
        let place = place.and_then(|(sequence, digest)| {
            Some(StoredComponent { sequence: sequence.parse().ok()?, digest: digest.to_owned() })
        });
        places.extend(place);
    }
    places.sort();
    Ok(places)
}

fn is_whole(folder: &Path, place: &StoredComponent) -> bool {
    fs::read(place.component(folder)).is_ok_and(|bytes| digest(&bytes) == place.digest)
}

fn read(folder: &Path, place: &StoredComponent) -> Option<ServedComponent> {
    let path = place.component(folder);
    match fs::read(&path) {
        Ok(bytes) if digest(&bytes) == place.digest => Some(ServedComponent {
            digest: place.digest.clone(),
            bytes: bytes.into(),
            signature: fs::read(signature(folder, place)).ok(),
        }),
        Ok(_) => {
            tracing::warn!(path = %path.display(), "a kept version is damaged and is not used; hint: remove the file");
            None
        }
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a kept version cannot be read");
            None
        }
    }
}

fn remove(folder: &Path, place: &StoredComponent) -> io::Result<()> {
    let _ = fs::remove_file(signature(folder, place)); // most have none
    fs::remove_file(place.component(folder))
}

/// Returns the SHA-256 of a component's bytes in hexadecimal.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn served(text: &str) -> ServedComponent {
        ServedComponent {
            digest: digest(text.as_bytes()),
            bytes: text.as_bytes().into(),
            signature: None,
        }
    }

    fn texts(components: &Components, before: Option<&str>) -> Vec<String> {
        let digest = before.map(|text| served(text).digest);
        components
            .before("demo", digest.as_deref())
            .into_iter()
            .map(|served| String::from_utf8(served.bytes.to_vec()).expect("text"))
            .collect()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }

    #[test]
    fn the_newest_three_stay_private_and_one_that_serves_again_is_the_newest() {
        let folder = tempfile::tempdir().expect("a folder");
        let components = Components::new(folder.path());
        assert_eq!(texts(&components, None), Vec::<String>::new());
        assert!(!components.renew("demo", &served("a").digest).expect("nothing is there"));
        for text in ["a", "b", "c", "c", "d"] {
            components.keep("demo", &served(text)).expect("kept");
        }
        assert_eq!(texts(&components, None), ["d", "c", "b"]);
        assert!(!components.renew("demo", &served("a").digest).expect("it is forgotten"));
        assert_eq!(
            (texts(&components, Some("d")), texts(&components, Some("c"))),
            (vec!["c".into(), "b".into()], vec!["b".into()])
        );
        components.keep("demo", &served("b")).expect("kept");
        assert_eq!(
            (texts(&components, None), texts(&components, Some("b"))),
            (vec!["b".into(), "d".into(), "c".into()], vec!["d".into(), "c".into()])
        );
        assert_eq!(texts(&components, Some("never served")), ["b", "d", "c"]);
        components.forget("demo", &served("b").digest).expect("forgotten");
        assert_eq!(texts(&components, None), ["d", "c"]);
        let there = folder.path().join("state/components/demo");
        assert_eq!((mode(&there), mode(there.parent().expect("a folder"))), (0o700, 0o700));
        for file in fs::read_dir(&there).expect("files") {
            assert_eq!(mode(&file.expect("a file").path()), 0o600);
        }
    }

    #[test]
    fn components_that_served_some_lanes_are_found_by_digest_and_never_restored() {
        let folder = tempfile::tempdir().expect("a folder");
        let components = Components::new(folder.path());
        components.keep("demo", &served("serves")).expect("kept");
        for text in ["a", "b", "c", "d", "e", "f"] {
            components.keep_partial("demo", &served(text)).expect("kept");
        }
        assert_eq!(texts(&components, None), ["serves"]);
        assert_eq!(components.kept_digests("demo"), [served("serves").digest]);
        assert_eq!(components.last().len(), 1);
        let found = components.file("demo", &served("b").digest).expect("kept");
        assert_eq!(fs::read(found).expect("read"), b"b");
        assert_eq!(components.file("demo", &served("a").digest), None, "five are kept");
        let newest = ["f", "e", "d", "c", "b"].map(|text| served(text).digest);
        let all: Vec<String> = components.all("demo").into_iter().map(|it| it.digest).collect();
        assert_eq!((&all[0], &all[1..]), (&served("serves").digest, &newest[..]));
    }

    #[test]
    fn a_signature_stays_with_its_component() {
        let folder = tempfile::tempdir().expect("a folder");
        let components = Components::new(folder.path());
        let signed = ServedComponent { signature: Some(b"sig".to_vec()), ..served("a") };
        components.keep("demo", &signed).expect("kept");
        components.keep("demo", &served("b")).expect("kept");
        assert!(components.renew("demo", &signed.digest).expect("kept again, without its bytes"));
        assert_eq!(components.before("demo", None).first(), Some(&signed));
    }

    #[test]
    fn a_damaged_file_is_not_used_and_is_saved_again_when_it_serves() {
        let folder = tempfile::tempdir().expect("a folder");
        let components = Components::new(folder.path());
        components.keep("demo", &served("a")).expect("kept");
        components.keep("demo", &served("b")).expect("kept");
        let damaged = folder
            .path()
            .join("state/components/demo")
            .join(format!("1-{}.wasm", served("a").digest));
        fs::write(&damaged, "other").expect("damaged");
        assert_eq!(texts(&components, Some("b")), Vec::<String>::new());
        components.keep("demo", &served("a")).expect("kept");
        assert_eq!(texts(&components, None), ["a", "b"]);
    }

    #[test]
    fn an_error_names_the_folder_that_cannot_be_created() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("state"), "").expect("a file in its place");
        let error =
            Components::new(folder.path()).keep("demo", &served("a")).expect_err("no folder");
        assert!(error.to_string().contains("state/components/demo"), "{error}");
    }
}
