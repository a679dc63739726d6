//! The data that a link stores for its guest: private files, secrets and the contents of
//! attachments. Also builds message bodies from them.

use std::collections::{BTreeSet, HashMap};
use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use rustix::fs::{Mode, OFlags, open, openat, renameat};
use tempfile::TempDir;

use super::action_error::ActionError;
use super::limits::{DELIVERIES, FILE_SIZE, FILES, SECRETS};
use crate::Blob;
use aetheel_model::agent::{Chunk, PutFile, SessionKey, TurnKey};

/// The name of the agent's temporary folder in the private folder.
const TEMPORARY_FOLDER: &str = "tmp";
/// The name of the guest's file `tmp` on disk. Guests cannot choose it.
const FILE_NAMED_TMP: &str = ".tmp";
/// The folder with the files in a private folder that an earlier version of the gateway created.
const EARLIER_FILES_FOLDER: &str = "files";

/// The private files of a link and the temporary folder of its agent. Both are removed with the
/// link.
///
/// The files are in a folder of the gateway that a confined agent can only read. The agent's
/// temporary folder is in it. It is created when it is first needed, because creating and removing
/// a folder takes more time than a file.
#[derive(Default)]
pub(super) struct LinkFiles {
    /// The paths of the files, by the guest's name.
    pub(super) paths: HashMap<String, PathBuf>,
    folder: Option<Folder>,
    /// The beginning of the folder's name.
    prefix: String,
    /// Whether the folder outlives this value, until [`LinkFiles::remove`] is called.
    outlives: bool,
    /// The number of files written so far, from which temporary names are made.
    written: u32,
}

/// The private folder on disk.
struct Folder {
    /// Removes the folder when dropped.
    owned: Option<TempDir>,
    path: PathBuf,
    /// The folder with the files.
    files: PathBuf,
    /// A handle of `files`, so that an agent gains nothing by replacing the folder of that name.
    handle: OwnedFd,
    /// The agent's temporary folder, once it exists.
    temporary: Option<PathBuf>,
}

impl Folder {
    fn make(prefix: &str, outlives: bool) -> io::Result<Self> {
        let mut folder = tempfile::Builder::new()
            .prefix(prefix)
            .permissions(Permissions::from_mode(0o700))
            .tempdir()?;
        let path = folder.path().to_owned();
        folder.disable_cleanup(outlives);
        let handle = open_folder(&path)?;
        let owned = Some(folder).filter(|_| !outlives);
        Ok(Self { owned, files: path.clone(), path, handle, temporary: None })
    }

    /// Opens an existing folder.
    fn at(path: &Path) -> io::Result<Self> {
        // A guest's file can have this name, but it is not a folder.
        let earlier = path.join(EARLIER_FILES_FOLDER);
        let (files, handle) = match open_folder(&earlier) {
            Ok(handle) => (earlier, handle),
            Err(_) => (path.to_owned(), open_folder(path)?),
        };
        // It exists, because an agent runs.
        let temporary = Some(path.join(TEMPORARY_FOLDER));
        Ok(Self { owned: None, path: path.to_owned(), files, handle, temporary })
    }

    /// Returns the agent's temporary folder. Creates it if it does not exist.
    fn temporary(&mut self) -> io::Result<PathBuf> {
        if let Some(folder) = &self.temporary {
            return Ok(folder.clone());
        }
        let folder = self.path.join(TEMPORARY_FOLDER);
        rustix::fs::mkdir(&folder, Mode::RWXU)?;
        Ok(self.temporary.insert(folder).clone())
    }

    /// Returns the path of a file.
    fn file(&self, name: &str) -> PathBuf {
        self.files.join(file_name(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let Some(folder) = self.owned.take() else { return };
        // An agent may have left many files there.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(folder))),
            Err(_) => drop(folder),
        }
    }
}

impl LinkFiles {
    /// Creates an empty set. With `outlives`, the files stay until [`LinkFiles::remove`] is called,
    /// even if the gateway restarts.
    pub(super) fn new(prefix: &str, outlives: bool) -> Self {
        Self { prefix: prefix.to_owned(), outlives, ..Self::default() }
    }

    /// Continues with the folder of a link that outlived the gateway.
    ///
    /// # Errors
    /// The system's error, for example if the folder no longer exists.
    pub(super) fn take_over(&mut self, folder: &Path) -> io::Result<()> {
        self.folder = Some(Folder::at(folder)?);
        Ok(())
    }

    /// Adds a file that the link put before a restart. Returns false if the file no longer exists.
    pub(super) fn restore(&mut self, name: &str) -> bool {
        let path = self.folder.as_ref().map(|folder| folder.file(name));
        match path.filter(|path| path.symlink_metadata().is_ok_and(|found| found.is_file())) {
            Some(path) => self.paths.insert(name.to_owned(), path),
            None => return false,
        };
        self.written += 1;
        true
    }

    /// Returns the names of the files, sorted.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.paths.keys().cloned().collect();
        names.sort();
        names
    }

    /// Returns the path of the private folder, once it exists.
    pub(super) fn folder_path(&self) -> Option<&Path> {
        self.folder.as_ref().map(|folder| folder.path.as_path())
    }

    /// Returns whether something else removed the folder, such as a cleaner of `/tmp`.
    pub(super) fn is_missing(&self) -> bool {
        let is_missing = |folder: &Folder| {
            [Some(&folder.files), folder.temporary.as_ref()]
                .into_iter()
                .flatten()
                .any(|at| !at.is_dir())
        };
        self.folder.as_ref().is_some_and(is_missing)
    }

    /// Removes the folder if it would outlive this value.
    pub(super) fn remove(&mut self) {
        if let Some(folder) = self.folder.take().filter(|_| self.outlives) {
            remove(folder.path.clone());
        }
    }

    fn folder(&mut self) -> io::Result<&mut Folder> {
        if self.folder.is_none() {
            self.folder = Some(Folder::make(&self.prefix, self.outlives)?);
        }
        self.folder.as_mut().ok_or_else(|| io::Error::other("there is no folder"))
    }

    /// Returns the folder of the files and the agent's temporary folder.
    ///
    /// # Errors
    /// [`ActionError::Folder`] if they do not exist and cannot be created.
    pub(super) fn folders(&mut self) -> Result<(PathBuf, PathBuf), ActionError> {
        let folder = self.folder().map_err(ActionError::Folder)?;
        let temporary = folder.temporary().map_err(ActionError::Folder)?;
        Ok((folder.files.clone(), temporary))
    }

    /// Writes a file. A file that is put again replaces the previous one, even if the agent changed
    /// that one.
    ///
    /// # Errors
    /// Returns an error if the name, the size or the content is refused, or if the file cannot be
    /// written.
    pub(super) fn put(
        &mut self,
        file: &PutFile,
        stock: &mut BodySources,
    ) -> Result<(), ActionError> {
        let name = &file.name;
        let plain = (1..=64).contains(&name.len())
            && !name.starts_with('.')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b));
        if !plain {
            return Err(ActionError::FileName(name.clone()));
        }
        let body = stock.body(&file.body)?;
        if body.len() > FILE_SIZE || (self.paths.len() >= FILES && !self.paths.contains_key(name)) {
            return Err(ActionError::TooManyFiles);
        }
        self.written += 1;
        let fresh = format!(".{}", self.written);
        let path = self
            .folder()
            .and_then(|folder| write(folder, &fresh, name, &body))
            .map_err(ActionError::Write)?;
        self.paths.insert(name.clone(), path);
        Ok(())
    }
}

/// Removes a folder in the background, because an agent may have left many files there.
pub(crate) fn remove(folder: PathBuf) {
    let remove = move || {
        // A later start removes the rest.
        let _ = std::fs::remove_dir_all(folder);
    };
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(remove)),
        Err(_) => remove(),
    }
}

/// Creates a file under a name that an agent cannot predict, and renames it. A symbolic link at the
/// target is replaced, never followed.
fn write(folder: &Folder, fresh: &str, name: &str, body: &[u8]) -> io::Result<PathBuf> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    File::from(openat(&folder.handle, fresh, flags, Mode::RUSR | Mode::WUSR)?).write_all(body)?;
    renameat(&folder.handle, fresh, &folder.handle, file_name(name))?;
    Ok(folder.file(name))
}

/// Returns the name on disk of a guest's file.
fn file_name(name: &str) -> &str {
    if name == TEMPORARY_FOLDER { FILE_NAMED_TMP } else { name }
}

/// Opens a folder, but no symbolic link to one.
fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(open(path, flags, Mode::empty())?)
}

/// Returns a new secret: 64 hexadecimal digits, 244 bits of them random.
pub(crate) fn new_secret() -> String {
    format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple())
}

/// Contents of message bodies that no guest ever sees: random secrets by the guest's name, created
/// on first use, and the contents of files that were attached to turns.
#[derive(Default)]
pub(super) struct BodySources {
    secrets: HashMap<String, String>,
    blobs: HashMap<u32, HeldBlob>,
    /// The address of the MCP server for this link, without the session.
    tool_server: Option<String>,
    /// The sessions whose address a message contained.
    addressed: BTreeSet<SessionKey>,
}

/// The contents of a file that was attached to a turn.
struct HeldBlob {
    turn: TurnKey,
    bytes: Arc<[u8]>,
    /// How often they may still be sent.
    sends_left: u8,
}

impl BodySources {
    /// Creates sources without secrets. `tool_server` is the address of the MCP server for this link,
    /// without the session.
    pub(super) fn new(tool_server: Option<String>) -> Self {
        Self { tool_server, ..Self::default() }
    }

    /// Returns the address of the MCP server for this link, without the session.
    pub(super) fn tool_server(&self) -> Option<&str> {
        self.tool_server.as_deref()
    }

    /// Returns whether the agent was given the address of the MCP server for a session.
    pub(super) fn is_addressed(&self, session: SessionKey) -> bool {
        self.addressed.contains(&session)
    }

    /// Forgets which addresses the agent was given.
    pub(super) fn forget_addressed(&mut self) {
        self.addressed.clear();
    }

    /// Returns the secret of a name.
    ///
    /// # Errors
    /// [`ActionError::TooManySecrets`] if it would be created and may not be.
    pub(super) fn secret(&mut self, name: &str) -> Result<&str, ActionError> {
        if !self.secrets.contains_key(name) && (self.secrets.len() >= SECRETS || name.len() > 64) {
            return Err(ActionError::TooManySecrets);
        }
        Ok(self.secrets.entry(name.to_owned()).or_insert_with(new_secret))
    }

    /// Returns the secrets by name, to store them for a restart of the gateway.
    pub(super) fn secrets(&self) -> &HashMap<String, String> {
        &self.secrets
    }

    /// Sets the secrets that were stored before a restart of the gateway.
    pub(super) fn take_over(&mut self, secrets: HashMap<String, String>) {
        self.secrets = secrets;
    }

    /// Returns the secret of a name, if it was used before.
    pub(super) fn existing_secret(&self, name: &str) -> Option<&str> {
        self.secrets.get(name).map(String::as_str)
    }

    /// Adds the contents of files that were attached to a turn.
    pub(super) fn add_blobs(&mut self, turn: TurnKey, blobs: Vec<Blob>) {
        self.blobs.extend(
            blobs.into_iter().map(|blob| {
                (blob.key, HeldBlob { turn, bytes: blob.bytes, sends_left: DELIVERIES })
            }),
        );
    }

    /// Removes the contents of files that were attached to a turn.
    pub(super) fn forget_blobs(&mut self, turn: TurnKey) {
        self.blobs.retain(|_, kept| kept.turn != turn);
    }

    /// Builds a body from its chunks.
    ///
    /// # Errors
    /// Returns an error if a secret or an attachment may not be used.
    pub(super) fn body(&mut self, chunks: &[Chunk]) -> Result<Vec<u8>, ActionError> {
        let mut bytes = Vec::new();
        for chunk in chunks {
            match chunk {
                Chunk::Text(text) => bytes.extend_from_slice(text.as_bytes()),
                Chunk::Secret(name) => bytes.extend_from_slice(self.secret(name)?.as_bytes()),
                Chunk::ToolServer(session) => {
                    let server = self.tool_server.as_ref().ok_or(ActionError::NoToolServer)?;
                    bytes.extend_from_slice(format!("{server}/{session}").as_bytes());
                    self.addressed.insert(*session);
                }
                Chunk::Base64(key) => {
                    let kept = self.blobs.get_mut(key).ok_or(ActionError::NoBlob(*key))?;
                    kept.sends_left =
                        kept.sends_left.checked_sub(1).ok_or(ActionError::BlobUsedUp(*key))?;
                    bytes.extend_from_slice(STANDARD.encode(&kept.bytes).as_bytes());
                }
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str, text: &str) -> PutFile {
        PutFile { name: name.into(), body: vec![Chunk::Text(text.into())] }
    }

    #[test]
    fn a_file_put_again_follows_no_link_and_changes_only_itself() {
        let outside = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(outside.path(), "precious").expect("written");
        let (mut files, mut stock) = (LinkFiles::default(), BodySources::default());
        files.put(&text("prompt.md", "one"), &mut stock).expect("put");
        let place = files.paths["prompt.md"].clone();
        std::fs::remove_file(&place).expect("removed");
        std::os::unix::fs::symlink(outside.path(), &place).expect("linked");
        files.put(&text("prompt.md", "two"), &mut stock).expect("put again");
        assert_eq!(std::fs::read_to_string(outside.path()).expect("read"), "precious");
        assert_eq!(
            (std::fs::read_to_string(&place).expect("read").as_str(), &files.paths["prompt.md"]),
            ("two", &place)
        );
        // The handle is not affected if the whole folder is replaced.
        let (folder, _) = files.folders().expect("made");
        let (elsewhere, aside) =
            (tempfile::tempdir().expect("a folder"), folder.with_extension("aside"));
        std::fs::rename(&folder, &aside).expect("moved");
        std::os::unix::fs::symlink(elsewhere.path(), &folder).expect("linked");
        files.put(&text("prompt.md", "three"), &mut stock).expect("put again");
        assert_eq!(std::fs::read_dir(elsewhere.path()).expect("read").count(), 0);
        assert_eq!(std::fs::read_to_string(aside.join("prompt.md")).expect("read"), "three");
        std::fs::remove_dir_all(aside).expect("removed");
    }

    #[test]
    fn folders_are_created_when_they_are_first_needed() {
        let mut files = LinkFiles::default();
        assert!(files.folder_path().is_none() && !files.is_missing());
        let mut stock = BodySources::default();
        files.put(&text("a.md", "x"), &mut stock).expect("put");
        let path = files.folder_path().expect("made").to_owned();
        let names = |path: &Path| {
            let found = std::fs::read_dir(path).expect("read").flatten();
            let mut names: Vec<String> =
                found.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&path), ["a.md"]);
        let (folder, temporary) = files.folders().expect("made");
        assert_eq!((folder, temporary), (path.clone(), path.join("tmp")));
        assert_eq!(names(&path), ["a.md", "tmp"]);
        // The name of the temporary folder is a valid name of a file.
        files.put(&text("tmp", "y"), &mut stock).expect("put");
        assert_eq!(std::fs::read_to_string(&files.paths["tmp"]).expect("read"), "y");
        assert!(path.join("tmp").is_dir() && !files.is_missing());
        std::fs::remove_dir(path.join("tmp")).expect("removed");
        assert!(files.is_missing());
        drop(files);
        assert!(!path.exists());
    }

    #[test]
    fn a_link_continues_with_its_folder_and_with_that_of_an_earlier_version() {
        let mut before = LinkFiles::new("aetheel-test-", true);
        let mut stock = BodySources::default();
        for name in ["a.md", "tmp"] {
            before.put(&text(name, name), &mut stock).expect("put");
        }
        let (files, temporary) = before.folders().expect("made");
        let path = before.folder_path().expect("made").to_owned();
        drop(before);
        let mut after = LinkFiles::new("aetheel-test-", true);
        after.take_over(&path).expect("it outlives the value");
        assert!(after.restore("a.md") && after.restore("tmp") && !after.restore("b.md"));
        assert_eq!(after.folders().expect("there"), (files, temporary));
        assert_eq!(std::fs::read_to_string(&after.paths["tmp"]).expect("read"), "tmp");
        after.remove();
        assert!(!path.exists());

        let earlier = tempfile::tempdir().expect("a folder");
        for name in ["files", "tmp"] {
            std::fs::create_dir(earlier.path().join(name)).expect("made");
        }
        std::fs::write(earlier.path().join("files/a.md"), "x").expect("written");
        let mut after = LinkFiles::new("aetheel-test-", true);
        after.take_over(earlier.path()).expect("taken over");
        assert!(after.restore("a.md"));
        let at = |name: &str| earlier.path().join(name);
        assert_eq!(after.folders().expect("there"), (at("files"), at("tmp")));
    }

    #[test]
    fn files_and_temporary_folder_are_private_and_removed_with_their_link() {
        let mut files = LinkFiles::default();
        files.put(&text("a.md", "x"), &mut BodySources::default()).expect("put");
        let (folder, temporary) = files.folders().expect("made");
        let mode = |path: &std::path::Path| {
            std::fs::metadata(path).expect("there").permissions().mode() & 0o777
        };
        let modes = [&folder, &temporary, &folder.join("a.md")].map(|path| mode(path));
        assert_eq!(modes, [0o700, 0o700, 0o600]);
        std::fs::write(temporary.join("left"), "by the agent").expect("written");
        drop(files);
        assert!(!folder.exists());
    }

    #[test]
    fn a_blob_is_sent_a_limited_number_of_times_while_its_turn_is_open() {
        let blob = |key| Blob { key, bytes: Arc::from(&b"\x89PNG"[..]) };
        let mut stock = BodySources::default();
        stock.add_blobs(1, vec![blob(16)]);
        stock.add_blobs(2, vec![blob(32)]);
        let body = [Chunk::Text("<".into()), Chunk::Base64(16), Chunk::Text(">".into())];
        for _ in 0..DELIVERIES {
            assert_eq!(stock.body(&body).expect("allowed"), b"<iVBORw==>");
        }
        // The memory of the host is bounded, however often a guest repeats the request.
        assert!(stock.body(&body).is_err_and(|error| error.to_string().contains("4 times")));
        assert!(stock.body(&[Chunk::Base64(1)]).is_err(), "no turn has this blob");
        stock.forget_blobs(2);
        assert!(stock.body(&[Chunk::Base64(32)]).is_err(), "its turn is over");
    }
}
