//! Permissions of the gateway's own files and folders.
//!
//! An agent runs as the gateway's user. Landlock lets it change the mode of a file that it can
//! neither read nor write. As a result, the gateway may be unable to read the file, or everybody
//! may be able to write it. A start repairs both; `check` and `doctor` only report them. Files of
//! other users are ignored, and links are not followed.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, chmod, fstat, open};

use aetheel_model::finding::Finding;
use aetheel_settings::Config;

/// Number of levels of folders below `CONFIG_DIR/state` that are checked.
const DEPTH: usize = 4;

/// A file or folder whose mode denies access to the gateway or lets others write.
#[derive(Debug)]
struct WrongMode {
    path: PathBuf,
    mode: u32,
    right: u32,
    /// The error of the attempt to repair it.
    error: Option<io::Error>,
}

impl fmt::Display for WrongMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {:03o} to {:03o}", self.path.display(), self.mode, self.right)?;
        match &self.error {
            Some(error) => write!(f, " ({error})"),
            None => Ok(()),
        }
    }
}

/// Repairs the modes of the gateway's files and folders. Returns a warning with all changes.
#[must_use]
pub fn repair(config: &Config) -> Option<Finding> {
    let (failed, repaired): (Vec<_>, Vec<_>) =
        walk(config, true).into_iter().partition(|wrong| wrong.error.is_some());
    let mut said = Vec::new();
    if !repaired.is_empty() {
        said.push(format!("the start repaired the modes of {}", listed(&repaired)));
    }
    if !failed.is_empty() {
        said.push(format!("the start could not repair the modes of {}", listed(&failed)));
    }
    (!said.is_empty()).then(|| {
        Finding::warning("permissions", said.join("; "))
            .with_hint("an agent may have changed them, see SECURITY.md")
    })
}

/// Reports the modes that a start would repair.
pub(super) fn examine(config: &Config) -> Option<Finding> {
    let wrong = walk(config, false);
    if wrong.is_empty() {
        return None;
    }
    let says = format!("a start will change the modes of {}", listed(&wrong));
    let hint = "start the gateway, or change them with `chmod`";
    Some(Finding::warning("permissions", says).with_hint(hint))
}

fn listed(wrong: &[WrongMode]) -> String {
    wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The use of a file or folder, which determines its mode.
#[derive(Clone, Copy)]
enum FileUse {
    /// A folder that the operator may share with others.
    Folder,
    /// The folder in which agents work, which the operator may share with everybody.
    Workspace,
    /// A folder that the gateway only reads.
    Components,
    /// A file that the operator writes and the gateway reads.
    Text,
    /// A file that the gateway writes.
    Written,
    /// A folder of the gateway's state.
    State,
}

impl FileUse {
    /// Returns the mode that is to replace `mode`.
    fn right(self, mode: u32) -> u32 {
        let closed = |mode: u32| if mode & 0o002 == 0 { mode } else { mode & !0o022 };
        match self {
            Self::Folder => closed(mode | 0o700),
            Self::Workspace => mode | 0o700,
            Self::Components => closed(mode | 0o500),
            Self::Text if mode & 0o400 == 0 => closed(mode | 0o600),
            Self::Text => closed(mode),
            Self::Written => closed(mode | 0o600),
            Self::State if mode & 0o007 == 0 => (mode | 0o700) & !0o020,
            Self::State => (mode | 0o700) & !0o077,
        }
    }
}

fn walk(config: &Config, repairs: bool) -> Vec<WrongMode> {
    let mut walk = Walk { repairs, wrong: Vec::new() };
    // The operator may have linked the folders to where they are.
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = real(&config.config_dir);
    walk.look(&folder, FileUse::Folder);
    for path in entries(&folder) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.ends_with(".md") {
            walk.look(&path, if name == "memory.md" { FileUse::Written } else { FileUse::Text });
        }
    }
    walk.look(&real(&config.workspace_dir), FileUse::Workspace);
    let memory = folder.join("memory");
    walk.look(&memory, FileUse::Folder);
    entries(&memory).into_iter().for_each(|path| walk.look(&path, FileUse::Written));
    walk.state(&folder.join("state"), DEPTH);
    let recordings = real(&config.recordings_dir);
    walk.look(&recordings, FileUse::Folder);
    for path in entries(&recordings).into_iter().filter(|path| path.is_dir()) {
        walk.look(&path, FileUse::Folder);
    }
    let components = real(&config.backends_dir);
    walk.look(&components, FileUse::Components);
    for path in entries(&components) {
        if path.extension().is_some_and(|extension| extension == "wasm") {
            walk.look(&path, FileUse::Text);
        }
    }
    walk.wrong
}

struct Walk {
    repairs: bool,
    wrong: Vec<WrongMode>,
}

impl Walk {
    fn state(&mut self, folder: &Path, depth: usize) {
        self.look(folder, FileUse::State);
        for path in entries(folder) {
            match fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() && depth > 0 => self.state(&path, depth - 1),
                Ok(found) if found.is_file() => self.look(&path, FileUse::Written),
                _ => {}
            }
        }
    }

    /// Checks one file or folder. Ignores it if it belongs to another user or has another type.
    fn look(&mut self, path: &Path, kind: FileUse) {
        // `PATH` needs no permission to read the file.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(handle) = open(path, flags, Mode::empty()) else { return };
        let Ok(stat) = fstat(&handle) else { return };
        let is_folder = !matches!(kind, FileUse::Text | FileUse::Written);
        let wanted = if is_folder { FileType::Directory } else { FileType::RegularFile };
        if FileType::from_raw_mode(stat.st_mode) != wanted
            || stat.st_uid != rustix::process::geteuid().as_raw()
        {
            return;
        }
        let mode = stat.st_mode & 0o7777;
        let right = kind.right(mode);
        if mode != right {
            let error = self.repairs.then(|| change(&handle, right).err()).flatten();
            self.wrong.push(WrongMode { path: path.to_owned(), mode, right, error });
        }
    }
}

/// Changes the mode of a file. The handle may have been opened with `O_PATH`.
fn change(handle: &OwnedFd, mode: u32) -> io::Result<()> {
    let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
    Ok(chmod(path, Mode::from_raw_mode(mode))?)
}

/// Returns the entries of a folder, sorted by path. Empty if the folder cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = read.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    /// A configuration folder with files of these modes, and its settings.
    fn configured(files: &[(&str, u32)]) -> (tempfile::TempDir, Config) {
        let folder = tempfile::tempdir().unwrap();
        for (name, _) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "text").unwrap();
        }
        for (name, mode) in files {
            set(&folder.path().join(name), *mode);
        }
        let at = |name: &str| folder.path().join(name).display().to_string();
        let variables = BTreeMap::from([
            ("CONFIG_DIR", at("config")),
            ("BACKENDS_DIR", at("backends")),
            ("RECORDINGS_DIR", at("recordings")),
        ]);
        let config = Config::read(|name| variables.get(name).cloned()).unwrap();
        (folder, config)
    }

    #[test]
    fn modes_that_deny_access_or_let_others_write_are_repaired_and_reported() {
        let files = [
            ("config/channels.md", 0o000, 0o600),
            ("config/soul.md", 0o666, 0o644),
            ("config/agents.md", 0o444, 0o444),
            ("config/user.md", 0o664, 0o664),
            ("config/memory.md", 0o400, 0o600),
            ("config/memory/channel-1.md", 0o000, 0o600),
            ("config/state/queue.md", 0o666, 0o644),
            ("config/state/gateway.lock", 0o000, 0o600),
            ("config/state/holder.lock", 0o000, 0o600),
            ("config/state/turns/2026-11.md", 0o000, 0o600),
            ("backends/demo.wasm", 0o000, 0o600),
            ("backends/other.wasm", 0o444, 0o444),
        ];
        let made: Vec<_> = files.iter().map(|(name, mode, _)| (*name, *mode)).collect();
        let (folder, config) = configured(&made);
        let at = |name: &str| folder.path().join(name);
        for (name, mode) in [("config/state/turns", 0o000), ("config/state", 0o777)] {
            set(&at(name), mode);
        }
        set(&at("config"), 0o777);
        let found = examine(&config).expect("a finding").to_string();
        assert!(found.contains("channels.md` 000 to 600"), "{found}");
        assert_eq!(mode(&at("config/channels.md")), 0o000, "`examine` changes nothing");

        let warning = repair(&config).expect("a warning").to_string();
        for (name, before, after) in files {
            assert_eq!(mode(&at(name)), after, "{name}");
            let said = format!("{}` {before:03o} to {after:03o}", at(name).display());
            assert_eq!(warning.contains(&said), before != after, "{said:?} in {warning}");
        }
        let folders = [mode(&at("config")), mode(&at("config/state"))];
        assert_eq!((folders, mode(&at("config/state/turns"))), ([0o755, 0o700], 0o700));
        assert!(repair(&config).is_none() && examine(&config).is_none());
    }

    #[test]
    fn links_are_not_followed() {
        let (folder, config) = configured(&[("config/a.md", 0o600), ("elsewhere", 0o000)]);
        let link = folder.path().join("config/channels.md");
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), link).unwrap();
        assert!(repair(&config).is_none_or(|warning| !warning.message.contains("elsewhere")));
        assert_eq!(mode(&folder.path().join("elsewhere")), 0o000);
    }
}
