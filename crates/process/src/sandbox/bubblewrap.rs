//! bubblewrap: starts a program in a namespace in which only the granted paths are mounted
//! (bwrap(1)).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use super::BubblewrapError;
use super::grants::Grants;
use super::system_paths::OpenedPath;
use crate::find_program;
use aetheel_turn::WorkingDirectory;

/// Options before the mounts. `--die-with-parent` ends the sandbox together with the gateway.
const BASE: &[&str] = &["--unshare-pid", "--unshare-ipc", "--die-with-parent", "--cap-drop", "ALL"];

/// Entries of `/proc` that root may write to even without capabilities: `sys/kernel/core_pattern`
/// names a program that the kernel starts outside of any sandbox. bubblewrap itself covers only
/// some of them.
const KERNEL_SETTINGS: [&str; 8] =
    ["acpi", "bus", "fs", "irq", "mtrr", "scsi", "sys", "sysrq-trigger"];

/// The end of a shell script that executes its arguments if the output of `stat` is `$0`.
const COMPARE: &str = r#")" = "$0" ] && exec "$@"
echo "a directory was replaced while the sandbox was set up; send the prompt again" >&2
exit 1"#;

/// Finds bubblewrap and checks that it works for this user. It needs user namespaces, which some
/// machines disable or restrict.
///
/// # Errors
/// [`BubblewrapError`] if it is not installed or does not work.
pub(super) fn probe(path: &OsStr) -> Result<PathBuf, BubblewrapError> {
    let program = find_program(Path::new("bwrap"), path)?;
    let tried = Command::new(&program)
        .args(BASE)
        .args(["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "/bin/sh", "-c", ":"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| BubblewrapError::Start { program: program.clone(), error })?;
    if tried.status.success() {
        return Ok(program);
    }
    let stderr = String::from_utf8_lossy(&tried.stderr);
    let message = stderr.lines().next().unwrap_or("it printed nothing").trim().to_owned();
    Err(BubblewrapError::Failed { program, message })
}

pub(super) fn arguments(
    granted: &Grants,
    program: &Path,
    arguments: &[OsString],
    cwd: &WorkingDirectory,
) -> Vec<OsString> {
    // Codex 0.169.0 keeps locks for its own sandbox in `/tmp`, wherever its temporary folder is.
    // The folder disappears with the process.
    let mut all: Vec<OsString> =
        BASE.iter().chain(&["--seccomp", "3", "--tmpfs", "/tmp"]).map(OsString::from).collect();
    let mut places: Vec<(&Path, &str)> =
        granted.read.iter().map(|place| (place.as_path(), "--ro-bind-try")).collect();
    places.extend(granted.write.iter().map(|place| (place.as_path(), "--bind-try")));
    // A path is mounted after the paths that contain it. If a path is granted for reading and
    // writing, the writable mount comes last.
    places.sort_by(|(one, how), (other, why)| one.cmp(other).then_with(|| why.cmp(how)));
    for (place, how) in places {
        all.extend([OsString::from(how), place.into(), place.into()]);
    }
    // Some systems have links in place of these folders.
    for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        let link = Path::new("/").join(name);
        if let Ok(target) = std::fs::read_link(&link) {
            all.extend([OsString::from("--symlink"), target.into(), link.into()]);
        }
    }
    all.extend(["--proc", "/proc"].map(OsString::from));
    // Other users cannot write to these files, and with the mounts, the agent's own sandbox would
    // not work: the kernel refuses to mount another /proc if a part of the first one is covered.
    if rustix::process::geteuid().is_root() {
        for name in KERNEL_SETTINGS {
            let place = OsString::from(format!("/proc/{name}"));
            all.extend([OsString::from("--ro-bind-try"), place.clone(), place]);
        }
    }
    all.extend(["--dev", "/dev", "--remount-ro", "/", "--chdir"].map(OsString::from));
    // The folder of a link need not be mounted, so the program's real path is used.
    let program = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    all.extend([cwd.path().into(), "--".into()]);
    if !granted.exchangeable.is_empty() {
        all.extend(comparison(&granted.exchangeable, cwd));
    }
    all.push(program.into());
    all.extend(arguments.iter().cloned());
    all
}

/// Returns the beginning of a command that executes the rest of it if these paths lead to the opened
/// files. bubblewrap follows the paths again, so what it has mounted is compared with what was
/// checked.
fn comparison(opened: &[Arc<OpenedPath>], cwd: &WorkingDirectory) -> [OsString; 4] {
    let mut script = b"[ \"$(command -p stat -c %d:%i".to_vec();
    for opened in opened {
        let is_cwd = opened.path == cwd.path();
        let path: &[u8] = if is_cwd { b"." } else { opened.path.as_os_str().as_bytes() };
        script.extend(b" '");
        script.extend(path.split(|byte| *byte == b'\'').collect::<Vec<_>>().join(&br"'\''"[..]));
        script.push(b'\'');
    }
    script.extend(COMPARE.as_bytes());
    let identities: Vec<String> = opened.iter().map(|opened| opened.identity()).collect();
    ["/bin/sh".into(), "-c".into(), OsString::from_vec(script), identities.join("\n").into()]
}
