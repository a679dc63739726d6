//! Which program serves as the holder.
//!
//! `aetheel-hold` is a small program that is installed beside the gateway's. The gateway's program
//! can do the same (`aetheel hold`), but needs more memory. It is used if `aetheel-hold` is missing
//! or has another version, as in the middle of an upgrade.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::{OperatorCommand, OperatorCommandError};

/// The file name of the holder's program.
pub const PROGRAM: &str = "aetheel-hold";
/// How long the program may take to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);
/// Characters of another program's output that an error repeats.
const MAX_QUOTED_CHARS: usize = 80;

/// The reason why the program `aetheel-hold` beside the gateway's is not used.
#[derive(Debug, thiserror::Error)]
pub enum UnusableProgram {
    /// It is not installed.
    #[error("`{}` does not exist", .0.display())]
    Missing(PathBuf),
    /// It has another version, or is another program.
    #[error("`{}` prints {found:?} as its version, not {expected:?}", program.display())]
    OtherVersion {
        /// The file.
        program: PathBuf,
        /// The first line of its output.
        found: String,
        /// The line that a usable program prints.
        expected: String,
    },
    /// It cannot be started, or it does not end.
    #[error("`{}` does not print its version: {source}", program.display())]
    NoAnswer {
        /// The file.
        program: PathBuf,
        /// Why not.
        source: OperatorCommandError,
    },
}

/// Returns the program `aetheel-hold` that belongs to a gateway's program: it is in the same folder
/// and has this gateway's version.
///
/// # Errors
/// [`UnusableProgram`]
pub async fn program_beside(gateway: &Path) -> Result<PathBuf, UnusableProgram> {
    let program = gateway.with_file_name(PROGRAM);
    if !program.exists() {
        return Err(UnusableProgram::Missing(program));
    }
    let command = OperatorCommand {
        program: program.clone(),
        arguments: vec![OsString::from("--version")],
        inherits_stdin: false,
        limit: VERSION_TIMEOUT,
    };
    let expected = format!("{PROGRAM} {}", env!("CARGO_PKG_VERSION"));
    match command.output().await {
        Ok((0, output)) if output == expected => Ok(program),
        Ok((_, output)) => {
            let line = output.lines().next().unwrap_or_default();
            let found = line.chars().take(MAX_QUOTED_CHARS).collect();
            Err(UnusableProgram::OtherVersion { program, found, expected })
        }
        Err(source) => Err(UnusableProgram::NoAnswer { program, source }),
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum HolderProgram {
    /// `aetheel-hold`
    Separate(PathBuf),
    /// The gateway's program, which is started as `aetheel hold`.
    Gateway(PathBuf),
}

impl HolderProgram {
    /// Returns the program to start for a gateway. `gateway` is the gateway's program, or `None`
    /// for the one of this process. Logs a warning if that program has to serve as the holder.
    pub(super) async fn find(gateway: Option<&Path>) -> Self {
        let gateway = match gateway {
            Some(gateway) => Ok(gateway.to_owned()),
            None => std::env::current_exe(),
        };
        let Ok(gateway) = gateway else { return Self::Gateway(running_program()) };
        match program_beside(&gateway).await {
            Ok(program) => Self::Separate(program),
            Err(error) => {
                tracing::warn!(
                    %error,
                    "the holder is `aetheel hold`, which uses more memory than `{PROGRAM}`; hint: install `{PROGRAM}` {} beside `aetheel`",
                    env!("CARGO_PKG_VERSION")
                );
                // After an upgrade the file is another version's, or is gone.
                Self::Gateway(if gateway.exists() { gateway } else { running_program() })
            }
        }
    }

    /// Returns the command without its options.
    pub(super) fn command(&self) -> Command {
        use std::os::unix::process::CommandExt as _;
        match self {
            Self::Separate(program) => {
                let mut command = Command::new(program);
                command.arg0(PROGRAM);
                command
            }
            Self::Gateway(program) => {
                let mut command = Command::new(program);
                command.arg0("aetheel").arg("hold");
                command
            }
        }
    }
}

/// The program of this process, which can be started even if its file was replaced or removed.
fn running_program() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A folder with a program `aetheel-hold` that runs these lines of a shell script.
    fn installed(script: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join(PROGRAM);
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
        folder
    }

    #[tokio::test]
    async fn only_a_program_of_this_version_is_used() {
        let own = env!("CARGO_PKG_VERSION");
        let folder = installed(&format!("[ \"$*\" = --version ] && echo aetheel-hold {own}"));
        let gateway = folder.path().join("aetheel");
        let program = folder.path().join(PROGRAM);
        assert_eq!(program_beside(&gateway).await.ok(), Some(program.clone()));
        assert_eq!(HolderProgram::find(Some(&gateway)).await, HolderProgram::Separate(program));
        for other in [
            "echo aetheel-hold 0.0.1".to_owned(),
            format!("echo aetheel {own}"),
            format!("echo aetheel-hold {own}; exit 1"),
            "echo; echo more".to_owned(),
        ] {
            let folder = installed(&other);
            let gateway = folder.path().join("aetheel");
            fs::write(&gateway, "").expect("written");
            let error = program_beside(&gateway).await.expect_err(&other);
            assert!(matches!(error, UnusableProgram::OtherVersion { .. }), "{other}: {error}");
            assert_eq!(
                HolderProgram::find(Some(&gateway)).await,
                HolderProgram::Gateway(gateway),
                "{other}"
            );
        }
    }

    #[tokio::test]
    async fn a_missing_or_broken_program_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let gateway = folder.path().join("aetheel");
        let error = program_beside(&gateway).await.expect_err("nothing is there");
        assert!(error.to_string().ends_with("aetheel-hold` does not exist"), "{error}");
        assert_eq!(
            HolderProgram::find(Some(&gateway)).await,
            HolderProgram::Gateway("/proc/self/exe".into()),
            "the gateway's file is gone too"
        );
        fs::write(folder.path().join(PROGRAM), "not executable").expect("written");
        let error = program_beside(&gateway).await.expect_err("it cannot be started");
        assert!(matches!(error, UnusableProgram::NoAnswer { .. }), "{error}");
    }
}
