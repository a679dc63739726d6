//! The sandbox of agents: an agent can read and write only granted paths, and cannot signal or
//! trace processes outside the sandbox.
//!
//! There are two ways to enforce the [`grants`]. The rules of Landlock (landlock(7)) are built in
//! the gateway, and the child applies them to itself before it executes the agent. bubblewrap is a
//! program that mounts only the granted paths for the agent. Landlock takes microseconds and needs
//! no installation. bubblewrap also hides processes and sockets, and only under bubblewrap can an
//! agent use its own sandbox. Pinned by `tests/process/confined.rs`.

mod bubblewrap;
mod error;
mod grants;
mod installation;
mod landlock;
mod seccomp;
mod system_paths;

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use self::error::{BubblewrapError, SandboxError};
use aetheel_model::choice::SandboxMode;
use aetheel_turn::{Reach, WorkingDirectory, os_text};

/// The first version of Landlock that prevents truncation of files (Linux 6.2).
const NEEDED: i32 = 3;

/// How agents are confined here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sandbox {
    /// They are not confined.
    #[default]
    Off,
    /// The kernel enforces Landlock rules.
    Landlock {
        /// The version of Landlock in this kernel.
        abi: i32,
        /// bubblewrap for agents that have their own sandbox, if it works here.
        #[serde(with = "os_text::option")]
        bubblewrap: Option<PathBuf>,
    },
    /// bubblewrap mounts only the granted paths.
    Bubblewrap(#[serde(with = "os_text")] PathBuf),
}

pub(super) type Filter = &'static [seccompiler::sock_filter];

pub(super) enum Confinement {
    /// It is not confined.
    None,
    /// The child applies a Landlock ruleset and a seccomp filter to itself.
    Rules(OwnedFd, Filter),
    /// Another program with these arguments starts the agent, and reads the seccomp filter from
    /// descriptor 3.
    Program(PathBuf, Vec<OsString>, OwnedFd),
}

impl Sandbox {
    /// Selects a sandbox that works on this machine. Blocks while bubblewrap is tried.
    ///
    /// # Errors
    /// [`SandboxError`] if the sandbox that the operator selected does not work.
    pub fn probe(mode: SandboxMode) -> Result<Self, SandboxError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let abi = landlock::abi();
        match mode {
            SandboxMode::Off => Ok(Self::Off),
            SandboxMode::Landlock | SandboxMode::Auto if abi >= NEEDED => {
                Ok(Self::Landlock { abi, bubblewrap: bubblewrap::probe(&path).ok() })
            }
            SandboxMode::Auto => Ok(Self::Off),
            SandboxMode::Landlock => Err(SandboxError::OldLandlock { abi }),
            SandboxMode::Bwrap => {
                bubblewrap::probe(&path).map(Self::Bubblewrap).map_err(SandboxError::Bubblewrap)
            }
        }
    }

    /// Returns the value of `AGENT_SANDBOX` that selects this kind of sandbox.
    #[must_use]
    pub fn setting(&self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Landlock { .. } => "landlock",
            Self::Bubblewrap(_) => "bwrap",
        }
    }

    /// Returns whether agents are confined.
    #[must_use]
    pub fn is_on(&self) -> bool {
        *self != Self::Off
    }

    /// Returns a description for people, such as `Landlock (version 7)`.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Off => "off: agents reach everything the gateway's user may".to_owned(),
            Self::Landlock { abi, .. } => format!("Landlock (version {abi})"),
            Self::Bubblewrap(_) => "bubblewrap".to_owned(),
        }
    }

    /// Returns the gaps of the sandbox on this machine, one line each.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let Self::Landlock { abi, .. } = self else { return Vec::new() };
        let mut missing = Vec::new();
        if *abi < 5 {
            missing.push(
                "agents can use terminals and devices of the user (Linux 6.10 prevents this)"
                    .to_owned(),
            );
        }
        if *abi < 6 {
            missing.push(
                "agents can send signals to the gateway's processes, and reach abstract sockets (Linux 6.12 prevents this)".to_owned(),
            );
        }
        if *abi < 9 {
            let user = rustix::process::geteuid().as_raw();
            let found = service_managers(&PathBuf::from(format!("/run/user/{user}")));
            missing.extend(found.iter().map(|socket| {
                format!(
                    "agents can start programs outside of the sandbox through {} (Linux 7.1 prevents this); hint: run the gateway as a user without a systemd user manager, or use AGENT_SANDBOX=bwrap",
                    socket.display()
                )
            }));
        }
        missing
    }

    /// Returns whether agents that confine their own commands with mounts can do so in this
    /// sandbox.
    #[must_use]
    pub fn allows_mounts(&self) -> bool {
        !matches!(self, Self::Landlock { bubblewrap: None, .. })
    }

    /// Checks that a process with this reach can be confined.
    ///
    /// # Errors
    /// [`SandboxError`] if a granted path contains a hidden one, or the reverse.
    pub fn check(&self, reach: &Reach) -> Result<(), SandboxError> {
        if self.is_on() {
            grants::compute(reach, Path::new("/bin/sh"), OsStr::new(""), None).map(drop)
        } else {
            Ok(())
        }
    }

    /// Prepares the confinement of one process.
    ///
    /// # Errors
    /// [`SandboxError`] if the process cannot be confined, so that it must not start.
    pub(super) fn confine(
        &self,
        reach: &Reach,
        program: &Path,
        arguments: &[OsString],
        cwd: &WorkingDirectory,
        path: &OsStr,
    ) -> Result<Confinement, SandboxError> {
        let bwrap = match self {
            Self::Off => return Ok(Confinement::None),
            Self::Bubblewrap(bwrap) => Some(bwrap),
            Self::Landlock { bubblewrap, .. } => bubblewrap.as_ref().filter(|_| reach.own_sandbox),
        };
        let granted = grants::compute(reach, program, path, Some(cwd))?;
        match bwrap {
            Some(bwrap) => Ok(Confinement::Program(
                bwrap.clone(),
                bubblewrap::arguments(&granted, program, arguments, cwd),
                seccomp::filter_file()?,
            )),
            None => Ok(Confinement::Rules(landlock::rules(&granted)?, seccomp::filter()?)),
        }
    }
}

/// Returns the sockets below the user's runtime folder through which the user's systemd starts
/// programs.
fn service_managers(runtime: &Path) -> Vec<PathBuf> {
    ["systemd/private", "bus"]
        .map(|name| runtime.join(name))
        .into_iter()
        .filter(|path| std::fs::metadata(path).is_ok_and(|found| found.file_type().is_socket()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sockets_of_the_users_systemd_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(service_managers(folder.path()).is_empty());
        let bus = folder.path().join("bus");
        let _listener = std::os::unix::net::UnixListener::bind(&bus).expect("a socket");
        assert_eq!(service_managers(folder.path()), [bus]);
    }
}
