//! Searches for programs as a shell does.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

/// The reason why a program cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// There is no such file.
    #[error("program not found: {}", .0.display())]
    NotFound(PathBuf),
    /// This user may not execute the file.
    #[error("not executable: {}; check its permissions", .0.display())]
    NotExecutable(PathBuf),
}

/// Returns the absolute path of a program: `name` itself if it contains a slash, otherwise the
/// first executable file of that name in the folders of `path`, which has the form of `PATH`.
/// Relative folders of `path` are skipped, because their meaning depends on the current directory.
///
/// # Errors
/// [`ProgramError::NotExecutable`] if there are files of that name but none is executable,
/// otherwise [`ProgramError::NotFound`].
pub fn find_program(name: &Path, path: &OsStr) -> Result<PathBuf, ProgramError> {
    let mut refused = None;
    for candidate in candidates(name, path) {
        match candidate.metadata() {
            Ok(file) if file.is_file() => {
                // With the effective user, as execve(2) checks it.
                if accessat(CWD, &candidate, Access::EXEC_OK, AtFlags::EACCESS).is_ok() {
                    return Ok(candidate);
                }
                refused.get_or_insert(candidate);
            }
            _ => {}
        }
    }
    Err(refused
        .map_or_else(|| ProgramError::NotFound(name.to_owned()), ProgramError::NotExecutable))
}

fn candidates(name: &Path, path: &OsStr) -> Vec<PathBuf> {
    if name.as_os_str().is_empty() {
        return Vec::new();
    }
    if name.as_os_str().as_encoded_bytes().contains(&b'/') {
        return std::path::absolute(name).into_iter().collect();
    }
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_first_executable_file_of_the_path_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        for at in [&a, &b] {
            fs::create_dir(at).unwrap();
            fs::write(at.join("tool"), "").unwrap();
        }
        fs::create_dir(a.join("folder")).unwrap();
        let path = std::env::join_paths([Path::new("relative"), &a, &b]).unwrap();
        assert_eq!(
            find_program(Path::new("tool"), &path),
            Err(ProgramError::NotExecutable(a.join("tool")))
        );
        fs::set_permissions(b.join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find_program(Path::new("tool"), &path), Ok(b.join("tool")));
        assert_eq!(find_program(&b.join("tool"), OsStr::new("")), Ok(b.join("tool")));
        for missing in ["", "nothing", "folder", "./nothing"] {
            assert_eq!(
                find_program(Path::new(missing), &path),
                Err(ProgramError::NotFound(missing.into()))
            );
        }
    }
}
