//! Checks the machine: the user, folders, permissions of files with secrets, limits and disk space.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::process::{Resource, geteuid, getrlimit};

use super::report::DoctorReport;
use crate::startup::running::gateway_of;
use crate::startup::surroundings::nearest;
use crate::startup::{confinement, shipped};
use aetheel_process::holder::{PROGRAM, program_beside};
use aetheel_settings::{Config, HolderMode};
use aetheel_wasm::cache_fault;

/// Open files that a busy gateway needs for connections, pipes and pidfds of agents, and watches.
const FILES: u64 = 1_024;
/// Inotify watches and instances that one user should have, because other programs need them too.
const MIN_WATCHES: u64 = 8_192;
const MIN_WATCHERS: u64 = 64;
/// Share of a file system that should be free, in percent, and the minimum, in bytes.
const MIN_FREE_PERCENT: u64 = 5;
const MIN_FREE_BYTES: u64 = 64 << 20;
/// Largest number of files that are counted to measure the size of the recordings.
const MAX_COUNTED_FILES: usize = 200_000;

/// Runs all checks that need neither the network nor the agents.
pub(super) fn examine(
    report: &mut DoctorReport,
    config: &Config,
    variables: &HashMap<String, String>,
    env_file: Option<&Path>,
) {
    user(report, variables.get("HOME").map(String::as_str), geteuid().is_root());
    folders(report, config);
    sandbox(report, config);
    secrets(report, config, env_file);
    limits(report);
    disk_space(report, config);
    running_gateway(report, config);
}

fn user(report: &mut DoctorReport, home: Option<&str>, root: bool) {
    if root {
        let hint = "run the gateway as a separate user; some agents refuse to work as root";
        report.warning("user", "root: agents may do everything on this machine", hint);
    } else {
        report.ok("user", "not root");
    }
    match home {
        None | Some("") => report.warning(
            "home",
            "HOME is not set",
            "agents look for their sign-in there; set it to the user's folder",
        ),
        Some(home) if Path::new(home).starts_with("/tmp") => {
            report.warning(
                "home",
                format!("{home} is below /tmp"),
                "files of agents there are lost at a restart, and some agents refuse to work; use a permanent folder",
            );
        }
        Some(home) if !Path::new(home).is_dir() => {
            report.warning(
                "home",
                format!("{home} is not a folder"),
                "agents look for their sign-in there; create it, or set HOME",
            );
        }
        Some(home) => report.ok("home", home),
    }
}

fn sandbox(report: &mut DoctorReport, config: &Config) {
    match confinement::probe_sandbox(config) {
        Err(faults) => faults.into_iter().for_each(|fault| {
            report.add(fault.or_hint("docs/sandbox.md describes how agents are confined"));
        }),
        Ok(sandbox) => {
            let missing = confinement::warnings(config, &sandbox);
            if sandbox.is_on() {
                report.ok("sandbox", sandbox.describe());
            }
            for finding in missing {
                let hint = "SECURITY.md describes the protection with and without it";
                report.add(finding.or_hint(hint));
            }
        }
    }
}

/// Reports which program keeps agents while the gateway restarts.
pub(super) async fn holder(report: &mut DoctorReport, config: &Config) {
    if config.agent_holder == HolderMode::Off {
        return;
    }
    let program = match std::env::current_exe() {
        Ok(gateway) => program_beside(&gateway).await.map_err(|error| error.to_string()),
        Err(error) => Err(format!("the folder of this program is unknown: {error}")),
    };
    match program {
        Ok(program) => report.ok(
            "holder",
            format!("{} keeps agents while the gateway restarts", program.display()),
        ),
        Err(error) => report.warning(
            "holder",
            error,
            format!(
                "install `{PROGRAM}` {} beside `aetheel`; `aetheel hold` does the same, but uses more memory",
                env!("CARGO_PKG_VERSION")
            ),
        ),
    }
}

fn folders(report: &mut DoctorReport, config: &Config) {
    match cache_fault(&config.cache_dir) {
        Some(fault) => report.fault(
            "compiled code",
            fault,
            "code in this folder runs without checks: only the gateway's user may have access to it",
        ),
        None => report.ok(
            "compiled code",
            format!("only the gateway's user can write to {}", config.cache_dir.display()),
        ),
    }
    let backends = shipped::serving_folder(config);
    if let Some(fault) = shipped::missing(config) {
        return report.add(fault);
    }
    match fs::read_dir(&backends) {
        Ok(_) if backends != config.backends_dir => report.ok(
            "BACKENDS_DIR",
            format!(
                "the first start creates {} and copies the backends of {} into it",
                config.backends_dir.display(),
                backends.display()
            ),
        ),
        Ok(_) => report.ok("BACKENDS_DIR", format!("{} can be read", backends.display())),
        Err(error) => {
            report.fault(
                "BACKENDS_DIR",
                format!("{}: {error}", backends.display()),
                shipped::HOW_TO_GET,
            );
        }
    }
}

fn secrets(report: &mut DoctorReport, config: &Config, env_file: Option<&Path>) {
    let state = config.config_dir.join("state");
    let files = [
        ("env file", env_file.map(Path::to_owned), 0o077),
        ("state", Some(state).filter(|state| state.exists()), 0o007),
    ];
    for (name, path, others) in files {
        let Some(path) = path else { continue };
        match fs::metadata(&path).map(|metadata| metadata.permissions().mode() & 0o777) {
            Ok(mode) if mode & others != 0 => {
                let hint = format!(
                    "chmod {} {}",
                    if path.is_dir() { "700" } else { "600" },
                    path.display()
                );
                report.warning(
                    name,
                    format!("{} can be read by others (mode {mode:03o})", path.display()),
                    hint,
                );
            }
            Ok(mode) => report.ok(name, format!("{} is private (mode {mode:03o})", path.display())),
            Err(error) => report.warning(
                name,
                format!("{}: {error}", path.display()),
                "check its permissions",
            ),
        }
    }
}

fn limits(report: &mut DoctorReport) {
    match getrlimit(Resource::Nofile).current {
        Some(files) if files < FILES => {
            report.warning(
                "open files",
                format!("at most {files}"),
                format!("raise it to {FILES} or more: `ulimit -n`, or LimitNOFILE= of its unit"),
            );
        }
        files => report.ok(
            "open files",
            files.map_or_else(|| "no limit".to_owned(), |files| format!("at most {files}")),
        ),
    }
    let inotify = |name: &str| {
        fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).ok()?.trim().parse::<u64>().ok()
    };
    for (name, least) in [("max_user_watches", MIN_WATCHES), ("max_user_instances", MIN_WATCHERS)] {
        match inotify(name) {
            Some(most) if most < least => {
                let hint = format!(
                    "sysctl fs.inotify.{name}={least}; without it changed backends are found only every 30 s"
                );
                report.warning("inotify", format!("{name} is {most}"), hint);
            }
            Some(most) => report.ok("inotify", format!("{name} is {most}")),
            None => report.warning(
                "inotify",
                format!("{name} is unknown"),
                "changed backends are found every 30 s in any case",
            ),
        }
    }
}

fn disk_space(report: &mut DoctorReport, config: &Config) {
    for (name, folder) in
        [("CONFIG_DIR", &config.config_dir), ("RECORDINGS_DIR", &config.recordings_dir)]
    {
        let about = format!("disk of {name}");
        match nearest(folder).map(|there| rustix::fs::statvfs(&there)) {
            Some(Ok(disk)) => {
                let (free, all) = (
                    disk.f_bavail.saturating_mul(disk.f_frsize),
                    disk.f_blocks.saturating_mul(disk.f_frsize),
                );
                let says = format!("{} MiB of {} MiB are free", free >> 20, all >> 20);
                if free < MIN_FREE_BYTES {
                    report.fault(about, says, "free some space: messages cannot be saved");
                } else if free / 100 < all / 10_000 * MIN_FREE_PERCENT {
                    report.warning(about, says, "free some space, or lower RECORDINGS_MAX_MIB");
                } else {
                    report.ok(about, says);
                }
            }
            Some(Err(error)) => {
                report.warning(about, format!("unknown: {error}"), "check the folder")
            }
            None => {}
        }
    }
    let (bytes, whole) = size_of(&config.recordings_dir);
    let says = format!(
        "{}{} MiB; at most {} MiB",
        if whole { "" } else { "more than " },
        bytes >> 20,
        config.recordings_max_bytes >> 20
    );
    if bytes > config.recordings_max_bytes.saturating_mul(2) {
        report.warning(
            "recordings",
            says,
            "the gateway removes the oldest while it runs; check that it may delete them",
        );
    } else {
        report.ok("recordings", says);
    }
}

fn running_gateway(report: &mut DoctorReport, config: &Config) {
    match gateway_of(config) {
        Some(pid) => report.ok("gateway", format!("process {pid} serves this CONFIG_DIR now")),
        None => report.ok("gateway", "none serves this CONFIG_DIR now"),
    }
}

/// Returns the size of all files below a folder in bytes, and whether all files were counted.
fn size_of(folder: &Path) -> (u64, bool) {
    let (mut folders, mut bytes, mut left) = (vec![folder.to_owned()], 0_u64, MAX_COUNTED_FILES);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Some(rest) = left.checked_sub(1) else { return (bytes, false) };
            left = rest;
            // Links are not followed.
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                Ok(metadata) => bytes += metadata.len(),
                Err(_) => {}
            }
        }
    }
    (bytes, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::finding::FindingLevel;

    fn levels(report: &DoctorReport) -> Vec<(&str, FindingLevel)> {
        report.lines.iter().map(|line| (line.subject.as_str(), line.level)).collect()
    }

    #[test]
    fn root_and_a_temporary_home_are_warned_about() {
        let mut report = DoctorReport::default();
        user(&mut report, Some("/tmp/x"), true);
        assert_eq!(
            levels(&report),
            [("user", FindingLevel::Warning), ("home", FindingLevel::Warning)]
        );
        for home in [None, Some(""), Some("/nonexistent")] {
            let mut report = DoctorReport::default();
            user(&mut report, home, false);
            assert_eq!(
                levels(&report),
                [("user", FindingLevel::Ok), ("home", FindingLevel::Warning)],
                "{home:?}"
            );
        }
    }

    #[test]
    fn an_env_file_others_can_read_is_warned_about() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("env");
        fs::write(&file, "TOKEN=x\n").unwrap();
        let config = Config::read(|name| {
            (name == "CONFIG_DIR").then(|| folder.path().display().to_string())
        })
        .unwrap();
        for (mode, level) in [
            (0o644, FindingLevel::Warning),
            (0o640, FindingLevel::Warning),
            (0o600, FindingLevel::Ok),
        ] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let mut report = DoctorReport::default();
            secrets(&mut report, &config, Some(&file));
            assert_eq!(levels(&report), [("env file", level)], "{mode:o}");
        }
    }

    #[test]
    fn recordings_are_measured_through_all_folders() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("day")).unwrap();
        fs::write(folder.path().join("day/a"), vec![0; 1_000]).unwrap();
        fs::write(folder.path().join("b"), vec![0; 24]).unwrap();
        assert_eq!(size_of(folder.path()), (1_024, true));
        assert_eq!(size_of(&folder.path().join("gone")), (0, true));
    }
}
