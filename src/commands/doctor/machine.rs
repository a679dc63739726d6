//! Checks the machine: the user, folders, permissions of files with secrets, limits and disk space.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::process::{Resource, geteuid, getrlimit};

use super::report::{fault, warning};
use crate::startup::running::gateway_of;
use crate::startup::surroundings::nearest;
use crate::startup::{confinement, shipped};
use aetheel_model::finding::Finding;
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
    config: &Config,
    variables: &HashMap<String, String>,
    env_file: Option<&Path>,
) -> Vec<Finding> {
    [
        user(variables.get("HOME").map(String::as_str), geteuid().is_root()).to_vec(),
        folders(config).to_vec(),
        sandbox(config),
        secrets(config, env_file),
        limits(),
        disk_space(config),
        vec![running_gateway(config)],
    ]
    .concat()
}

fn user(home: Option<&str>, root: bool) -> [Finding; 2] {
    let user = match root {
        true => warning(
            "user",
            "root: agents may do everything on this machine",
            "run the gateway as a separate user; some agents refuse to work as root",
        ),
        false => Finding::ok("user", "not root"),
    };
    let home = match home {
        None | Some("") => warning(
            "home",
            "HOME is not set",
            "agents look for their sign-in there; set it to the user's folder",
        ),
        Some(home) if Path::new(home).starts_with("/tmp") => warning(
            "home",
            format!("{home} is below /tmp"),
            "files of agents there are lost at a restart, and some agents refuse to work; use a permanent folder",
        ),
        Some(home) if !Path::new(home).is_dir() => warning(
            "home",
            format!("{home} is not a folder"),
            "agents look for their sign-in there; create it, or set HOME",
        ),
        Some(home) => Finding::ok("home", home),
    };
    [user, home]
}

fn sandbox(config: &Config) -> Vec<Finding> {
    let with_hint = |findings: Vec<Finding>, hint| {
        findings.into_iter().map(move |finding| finding.or_hint(hint))
    };
    match confinement::probe_sandbox(config) {
        Err(faults) => {
            with_hint(faults, "docs/sandbox.md describes how agents are confined").collect()
        }
        Ok(sandbox) => {
            let missing = confinement::warnings(config, &sandbox);
            let on = sandbox.is_on().then(|| Finding::ok("sandbox", sandbox.describe()));
            let hint = "SECURITY.md describes the protection with and without it";
            on.into_iter().chain(with_hint(missing, hint)).collect()
        }
    }
}

/// Reports which program keeps agents while the gateway restarts.
pub(super) async fn holder(config: &Config) -> Option<Finding> {
    if config.agent_holder == HolderMode::Off {
        return None;
    }
    let program = match std::env::current_exe() {
        Ok(gateway) => program_beside(&gateway).await.map_err(|error| error.to_string()),
        Err(error) => Err(format!("the folder of this program is unknown: {error}")),
    };
    Some(match program {
        Ok(program) => Finding::ok(
            "holder",
            format!("{} keeps agents while the gateway restarts", program.display()),
        ),
        Err(error) => warning(
            "holder",
            error,
            format!(
                "install `{PROGRAM}` {} beside `aetheel`; `aetheel hold` does the same, but uses more memory",
                env!("CARGO_PKG_VERSION")
            ),
        ),
    })
}

fn folders(config: &Config) -> [Finding; 2] {
    let compiled = match cache_fault(&config.cache_dir) {
        Some(says) => fault(
            "compiled code",
            says,
            "code in this folder runs without checks: only the gateway's user may have access to it",
        ),
        None => Finding::ok(
            "compiled code",
            format!("only the gateway's user can write to {}", config.cache_dir.display()),
        ),
    };
    let backends = shipped::serving_folder(config);
    let in_folder = || match fs::read_dir(&backends) {
        Ok(_) if backends != config.backends_dir => Finding::ok(
            "BACKENDS_DIR",
            format!(
                "the first start creates {} and copies the backends of {} into it",
                config.backends_dir.display(),
                backends.display()
            ),
        ),
        Ok(_) => Finding::ok("BACKENDS_DIR", format!("{} can be read", backends.display())),
        Err(error) => {
            let says = format!("{}: {error}", backends.display());
            fault("BACKENDS_DIR", says, shipped::HOW_TO_GET)
        }
    };
    [compiled, shipped::missing(config).unwrap_or_else(in_folder)]
}

fn secrets(config: &Config, env_file: Option<&Path>) -> Vec<Finding> {
    let state = config.config_dir.join("state");
    let files = [
        ("env file", env_file.map(Path::to_owned), 0o077),
        ("state", Some(state).filter(|state| state.exists()), 0o007),
    ];
    let found = files.into_iter().filter_map(|(name, path, others)| {
        let path = path?;
        Some(match fs::metadata(&path).map(|metadata| metadata.permissions().mode() & 0o777) {
            Ok(mode) if mode & others != 0 => {
                let hint = format!(
                    "chmod {} {}",
                    if path.is_dir() { "700" } else { "600" },
                    path.display()
                );
                let says = format!("{} can be read by others (mode {mode:03o})", path.display());
                warning(name, says, hint)
            }
            Ok(mode) => {
                Finding::ok(name, format!("{} is private (mode {mode:03o})", path.display()))
            }
            Err(error) => {
                warning(name, format!("{}: {error}", path.display()), "check its permissions")
            }
        })
    });
    found.collect()
}

fn limits() -> Vec<Finding> {
    let files = match getrlimit(Resource::Nofile).current {
        Some(files) if files < FILES => warning(
            "open files",
            format!("at most {files}"),
            format!("raise it to {FILES} or more: `ulimit -n`, or LimitNOFILE= of its unit"),
        ),
        files => Finding::ok(
            "open files",
            files.map_or_else(|| "no limit".to_owned(), |files| format!("at most {files}")),
        ),
    };
    let inotify = |name: &str| {
        fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).ok()?.trim().parse::<u64>().ok()
    };
    let watches = [("max_user_watches", MIN_WATCHES), ("max_user_instances", MIN_WATCHERS)];
    let watches = watches.map(|(name, least)| match inotify(name) {
        Some(most) if most < least => {
            let hint = format!(
                "sysctl fs.inotify.{name}={least}; without it changed backends are found only every 30 s"
            );
            warning("inotify", format!("{name} is {most}"), hint)
        }
        Some(most) => Finding::ok("inotify", format!("{name} is {most}")),
        None => warning(
            "inotify",
            format!("{name} is unknown"),
            "changed backends are found every 30 s in any case",
        ),
    });
    [files].into_iter().chain(watches).collect()
}

fn disk_space(config: &Config) -> Vec<Finding> {
    let folders = [("CONFIG_DIR", &config.config_dir), ("RECORDINGS_DIR", &config.recordings_dir)];
    let disks = folders.into_iter().filter_map(|(name, folder)| {
        let about = format!("disk of {name}");
        Some(match rustix::fs::statvfs(&nearest(folder)?) {
            Ok(disk) => {
                let (free, all) = (
                    disk.f_bavail.saturating_mul(disk.f_frsize),
                    disk.f_blocks.saturating_mul(disk.f_frsize),
                );
                let says = format!("{} MiB of {} MiB are free", free >> 20, all >> 20);
                if free < MIN_FREE_BYTES {
                    fault(about, says, "free some space: messages cannot be saved")
                } else if free / 100 < all / 10_000 * MIN_FREE_PERCENT {
                    warning(about, says, "free some space, or lower RECORDINGS_MAX_MIB")
                } else {
                    Finding::ok(about, says)
                }
            }
            Err(error) => warning(about, format!("unknown: {error}"), "check the folder"),
        })
    });
    let (bytes, whole) = size_of(&config.recordings_dir);
    let says = format!(
        "{}{} MiB; at most {} MiB",
        if whole { "" } else { "more than " },
        bytes >> 20,
        config.recordings_max_bytes >> 20
    );
    let recordings = match bytes > config.recordings_max_bytes.saturating_mul(2) {
        true => warning(
            "recordings",
            says,
            "the gateway removes the oldest while it runs; check that it may delete them",
        ),
        false => Finding::ok("recordings", says),
    };
    disks.chain([recordings]).collect()
}

fn running_gateway(config: &Config) -> Finding {
    match gateway_of(config) {
        Some(pid) => Finding::ok("gateway", format!("process {pid} serves this CONFIG_DIR now")),
        None => Finding::ok("gateway", "none serves this CONFIG_DIR now"),
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

    fn levels(findings: &[Finding]) -> Vec<(&str, FindingLevel)> {
        findings.iter().map(|line| (line.subject.as_str(), line.level)).collect()
    }

    #[test]
    fn root_and_a_temporary_home_are_warned_about() {
        assert_eq!(
            levels(&user(Some("/tmp/x"), true)),
            [("user", FindingLevel::Warning), ("home", FindingLevel::Warning)]
        );
        for home in [None, Some(""), Some("/nonexistent")] {
            assert_eq!(
                levels(&user(home, false)),
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
            assert_eq!(levels(&secrets(&config, Some(&file))), [("env file", level)], "{mode:o}");
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
