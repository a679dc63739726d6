//! Finds and starts `aetheel-kit`, the program with the commands of backend authors
//! (`crates/authoring`).

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use crate::cli::exit;
use crate::terminal::fail;
use aetheel_process::{exec_program, find_program};

/// The file name of the program.
pub const PROGRAM: &str = "aetheel-kit";

/// The reason why `aetheel-kit` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KitProgramError {
    /// It is neither beside this program nor in `PATH`.
    #[error("`{}` does not exist, and PATH has no `{PROGRAM}`; install `{PROGRAM}` {} beside `aetheel`, or run `cargo build --bins` in a clone", .0.display(), env!("CARGO_PKG_VERSION"))]
    Missing(PathBuf),
    /// The system does not start it.
    #[error("cannot start `{}`: {source}; install `{PROGRAM}` {} there", program.display(), env!("CARGO_PKG_VERSION"))]
    NotStarted {
        /// The file.
        program: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Finds the program: beside this one, or in `PATH`.
///
/// # Errors
/// It is in neither place.
pub fn find() -> Result<PathBuf, KitProgramError> {
    let own = std::env::current_exe().unwrap_or_default();
    find_for(&own, &std::env::var_os("PATH").unwrap_or_default())
}

fn find_for(own: &Path, path: &OsStr) -> Result<PathBuf, KitProgramError> {
    let beside = own.with_file_name(PROGRAM);
    if beside.is_file() {
        return Ok(beside);
    }
    find_program(Path::new(PROGRAM), path).map_err(|_| KitProgramError::Missing(beside))
}

/// Replaces this process by the program, with the same arguments and environment: its commands read
/// the settings themselves. If that fails, prints the reason and returns the exit code.
pub fn run() -> u8 {
    let error = find().map_or_else(
        |error| error,
        |program| {
            let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
            let source = exec_program(&program, &arguments);
            KitProgramError::NotStarted { program, source }
        },
    );
    fail(&error.to_string());
    exit::UNAVAILABLE
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_program_beside_this_one_comes_before_those_in_path() {
        let folder = tempfile::tempdir().unwrap();
        let [own, other] = ["own", "other"].map(|name| folder.path().join(name));
        for folder in [&own, &other] {
            fs::create_dir(folder).unwrap();
        }
        let find = || find_for(&own.join("aetheel"), other.as_os_str());
        let missing = find().unwrap_err().to_string();
        assert!(missing.starts_with(&format!("`{}` does not exist", own.join(PROGRAM).display())));
        for folder in [&other, &own] {
            let file = folder.join(PROGRAM);
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
            assert_eq!(find().unwrap(), file);
        }
    }
}
