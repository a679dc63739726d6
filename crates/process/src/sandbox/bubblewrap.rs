//! bubblewrap: a program that starts another one where only what is granted is mounted (bwrap(1)).

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::grants::Grants;
use crate::find_program;

/// What stands before the mounts. Without a process of ours nothing of it goes on.
const BASE: &[&str] = &["--unshare-pid", "--unshare-ipc", "--die-with-parent", "--cap-drop", "ALL"];

/// Entries of `/proc` that root may write to even without capabilities: `sys/kernel/core_pattern`
/// names a program that the kernel starts outside of any sandbox. bubblewrap itself covers only
/// some of them.
const SETTINGS_OF_THE_KERNEL: [&str; 8] =
    ["acpi", "bus", "fs", "irq", "mtrr", "scsi", "sys", "sysrq-trigger"];

/// Finds it, and sees whether it works for this user: it needs user namespaces, which are off or
/// restricted on some machines.
///
/// # Errors
/// Why not.
pub(super) fn probe(path: &OsStr) -> Result<PathBuf, String> {
    let program = find_program(Path::new("bwrap"), path).map_err(|error| error.to_string())?;
    let tried = Command::new(&program)
        .args(BASE)
        .args(["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "/bin/sh", "-c", ":"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{} does not start: {error}", program.display()))?;
    if tried.status.success() {
        return Ok(program);
    }
    let said = String::from_utf8_lossy(&tried.stderr);
    Err(format!(
        "{} does not work here: {}",
        program.display(),
        said.lines().next().unwrap_or("it says nothing").trim()
    ))
}

/// What to start it with for a program and its arguments.
pub(super) fn arguments(
    granted: &Grants,
    program: &Path,
    arguments: &[OsString],
    cwd: &Path,
) -> Vec<OsString> {
    // Codex 0.169.0 keeps locks for its own sandbox there, wherever its temporary folder is.
    // Nothing of it outlives the process.
    let mut all: Vec<OsString> =
        BASE.iter().chain(&["--seccomp", "3", "--tmpfs", "/tmp"]).map(OsString::from).collect();
    let mut places: Vec<(&Path, &str)> =
        granted.read.iter().map(|place| (place.as_path(), "--ro-bind-try")).collect();
    places.extend(granted.write.iter().map(|place| (place.as_path(), "--bind-try")));
    // What lies in another place is mounted after it; where both are named, writing wins.
    places.sort_by(|(one, how), (other, why)| one.cmp(other).then_with(|| why.cmp(how)));
    for (place, how) in places {
        all.extend([OsString::from(how), place.into(), place.into()]);
    }
    // Where the system's folders are links, they are here too.
    for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        let link = Path::new("/").join(name);
        if let Ok(target) = std::fs::read_link(&link) {
            all.extend([OsString::from("--symlink"), target.into(), link.into()]);
        }
    }
    all.extend(["--proc", "/proc"].map(OsString::from));
    // For others these mounts would only keep a sandbox of the agent's own from working: the kernel
    // lets nobody mount a second /proc where a part of the first is covered.
    if rustix::process::geteuid().is_root() {
        for name in SETTINGS_OF_THE_KERNEL {
            let place = OsString::from(format!("/proc/{name}"));
            all.extend([OsString::from("--ro-bind-try"), place.clone(), place]);
        }
    }
    all.extend(["--dev", "/dev", "--remount-ro", "/", "--chdir"].map(OsString::from));
    // Only what is mounted is there: a link's folder need not be.
    let program = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    all.extend([cwd.into(), "--".into(), program.into()]);
    all.extend(arguments.iter().cloned());
    all
}
