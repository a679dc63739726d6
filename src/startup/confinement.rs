//! Determines the sandbox of agents on this machine, the paths that it grants and hides, and
//! settings that conflict with it.

use std::path::{Path, PathBuf};

use super::shipped;
use aetheel_model::choice::SandboxMode;
use aetheel_model::finding::Finding;
use aetheel_process::Sandbox;
use aetheel_settings::Config;
use aetheel_turn::ReachPolicy;

/// Programs that create a sandbox or change the user. Both fail inside Landlock.
const CONFINERS: &[&str] = &[
    "bwrap",
    "docker",
    "doas",
    "firejail",
    "nerdctl",
    "nsenter",
    "nsjail",
    "podman",
    "runuser",
    "su",
    "sudo",
    "systemd-run",
    "unshare",
];

/// Returns the paths that agents of all backends may or may not access. Returns `None` if agents
/// are not confined.
pub fn fence(config: &Config, sandbox: &Sandbox) -> Option<ReachPolicy> {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let agent_folders = std::iter::once(&config.workspace_dir)
        .chain(&config.project_roots)
        .chain(&config.agent_write);
    let hidden = [&config.config_dir, &config.recordings_dir, &config.cache_dir]
        .into_iter()
        .chain(&config.secret_files);
    sandbox.is_on().then(|| ReachPolicy {
        read: config.agent_read.clone(),
        write: config.agent_write.clone(),
        hidden: hidden.map(|path| absolute(path)).collect(),
        read_only: std::iter::once(absolute(&config.backends_dir))
            .chain(shipped::folder())
            .collect(),
        agent_folders: agent_folders.map(|path| absolute(path)).collect(),
    })
}

/// Determines the sandbox of agents.
///
/// # Errors
/// Returns the problems if this machine does not support the chosen sandbox, or if other settings
/// conflict with it.
pub fn probe_sandbox(config: &Config) -> Result<Sandbox, Vec<Finding>> {
    let sandbox = Sandbox::probe(config.agent_sandbox)
        .map_err(|error| vec![Finding::invalid("sandbox", error.to_string())])?;
    let mut faults = Vec::new();
    let wrapper =
        config.agent_wrapper.first().and_then(|word| Path::new(word).file_name()?.to_str());
    if let (Some(wrapper), true) =
        (wrapper.filter(|name| CONFINERS.contains(name)), sandbox.is_on())
    {
        let message = format!(
            "AGENT_WRAPPER: `{wrapper}` would run inside the sandbox ({}), where it cannot work; set AGENT_SANDBOX=off if it is the sandbox, \
             or remove it",
            sandbox.describe()
        );
        faults.push(Finding::invalid("sandbox", message));
    }
    if let Some(fence) = fence(config, &sandbox) {
        let check = |setting: &str, write: &[PathBuf], read: &[PathBuf]| {
            let (write, read) = (write.to_vec(), read.to_vec());
            let ReachPolicy { hidden, read_only: kept, agent_folders, .. } = fence.clone();
            let reach = aetheel_turn::Reach {
                write,
                read,
                hidden,
                read_only: kept,
                agent_folders,
                ..aetheel_turn::Reach::default()
            };
            sandbox.check(&reach).err().map(|fault| {
                let message = format!("{setting}: {fault}, or set AGENT_SANDBOX=off");
                Finding::invalid("sandbox", message)
            })
        };
        let workspace = [std::path::absolute(&config.workspace_dir)
            .unwrap_or_else(|_| config.workspace_dir.clone())];
        let stands_there = std::env::current_dir().is_ok_and(|here| here == workspace[0]);
        let faulty = check("WORKSPACE_DIR", &workspace, &[]);
        faults.extend(faulty.map(|fault| match stands_there {
            true => {
                fault.with_hint("change to the folder of a project (`cd`), or set WORKSPACE_DIR")
            }
            false => fault,
        }));
        faults.extend(check("AGENT_WRITE", &config.agent_write, &[]));
        faults.extend(check("AGENT_READ", &[], &config.agent_read));
    }
    if faults.is_empty() { Ok(sandbox) } else { Err(faults) }
}

/// Returns warnings about the sandbox, one line each.
pub fn warnings(config: &Config, sandbox: &Sandbox) -> Vec<Finding> {
    if sandbox.is_on() {
        return sandbox
            .missing()
            .into_iter()
            .map(|what| format!("agents are confined by {}, but {what}", sandbox.describe()))
            .map(|message| Finding::warning("sandbox", message))
            .collect();
    }
    let why = match config.agent_sandbox {
        SandboxMode::Off => "AGENT_SANDBOX=off",
        _ => {
            "this kernel has no Landlock (Linux 6.2 or later, among the security modules); AGENT_SANDBOX=bwrap may work"
        }
    };
    let message = format!(
        "agents are NOT confined ({why}): they can read and write everything that the gateway's user can, including the gateway's own files"
    );
    vec![Finding::warning("sandbox", message)]
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn config(set: &[(&str, &str)]) -> Config {
        let variables: HashMap<String, String> =
            set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Config::read(|name| variables.get(name).cloned()).expect("valid")
    }

    fn landlock() -> Option<Sandbox> {
        let sandbox = Sandbox::probe(SandboxMode::Landlock);
        if let Err(why) = &sandbox {
            eprintln!("SKIPPED: {why}");
        }
        sandbox.ok()
    }

    #[test]
    fn settings_that_expose_the_gateways_own_folders_are_refused() {
        let Some(_) = landlock() else { return };
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name).display().to_string();
        for name in ["config", "work", "other"] {
            std::fs::create_dir(folder.path().join(name)).expect("made");
        }
        let base = [
            ("CONFIG_DIR", at("config")),
            ("RECORDINGS_DIR", at("recordings")),
            ("CACHE_DIR", at("cache")),
        ];
        let faults = |more: &[(&str, String)]| {
            let all: Vec<(&str, &str)> =
                base.iter().chain(more).map(|(name, value)| (*name, value.as_str())).collect();
            probe_sandbox(&config(&all)).err().unwrap_or_default()
        };
        assert!(faults(&[("WORKSPACE_DIR", at("work"))]).is_empty());
        for (setting, place) in [
            ("WORKSPACE_DIR", ""),
            ("WORKSPACE_DIR", "config"),
            ("AGENT_WRITE", ""),
            ("AGENT_READ", "config/state"),
        ] {
            std::fs::create_dir_all(folder.path().join("config/state")).expect("made");
            let work =
                ("WORKSPACE_DIR", at(if setting == "WORKSPACE_DIR" { place } else { "work" }));
            let told = faults(&[
                work,
                (
                    if setting == "WORKSPACE_DIR" { "AGENT_READ" } else { setting },
                    at(if setting == "WORKSPACE_DIR" { "other" } else { place }),
                ),
            ]);
            assert!(
                told.len() == 1
                    && told[0].message.starts_with(setting)
                    && told[0].message.contains("the gateway's own"),
                "{setting} {place}: {told:?}"
            );
        }
        let told = faults(&[
            ("WORKSPACE_DIR", at("work")),
            ("AGENT_WRAPPER", "/usr/bin/bwrap --ro-bind / / --".to_owned()),
        ]);
        assert!(
            told.len() == 1
                && told[0].message.contains("AGENT_WRAPPER")
                && told[0].message.contains("AGENT_SANDBOX=off"),
            "{told:?}"
        );
    }

    #[test]
    fn a_link_in_a_folder_of_agents_is_refused_with_its_setting() {
        let Some(_) = landlock() else { return };
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name).display().to_string();
        for name in ["config", "work/inner", "target"] {
            std::fs::create_dir_all(folder.path().join(name)).expect("made");
        }
        for link in ["work/link", "link"] {
            std::os::unix::fs::symlink(at("target"), at(link)).expect("linked");
        }
        let faults = |setting: &str, place: &str| {
            let mut set = vec![
                ("CONFIG_DIR", at("config")),
                ("RECORDINGS_DIR", at("recordings")),
                ("CACHE_DIR", at("cache")),
                ("PROJECT_ROOTS", at("work")),
                ("WORKSPACE_DIR", at("work/inner")),
            ];
            set.retain(|(name, _)| *name != setting);
            set.push((setting, at(place)));
            let set: Vec<(&str, &str)> = set.iter().map(|(n, value)| (*n, &value[..])).collect();
            probe_sandbox(&config(&set)).err().unwrap_or_default()
        };
        for setting in ["AGENT_READ", "AGENT_WRITE", "WORKSPACE_DIR"] {
            for place in ["link", "work/inner"] {
                assert_eq!(faults(setting, place), [], "{setting} {place}");
            }
            let found = faults(setting, "work/link");
            assert_eq!(found.len(), 1, "{setting}: {found:?}");
            let message = &found[0].message;
            assert!(
                message.starts_with(setting)
                    && message.contains(&at("work/link"))
                    && message.contains("name the path without this link"),
                "{message}"
            );
        }
    }

    #[test]
    fn a_machine_without_a_sandbox_gets_a_warning() {
        let told = warnings(&config(&[]), &Sandbox::Off);
        assert!(
            told.len() == 1
                && told[0].message.contains("NOT confined")
                && told[0].message.contains("Landlock"),
            "{told:?}"
        );
        assert!(
            warnings(&config(&[("AGENT_SANDBOX", "off")]), &Sandbox::Off)[0]
                .message
                .contains("AGENT_SANDBOX=off")
        );
        let old = warnings(&config(&[]), &Sandbox::Landlock { abi: 3, bubblewrap: None });
        for part in ["signals", "devices"] {
            assert!(old.iter().any(|line| line.message.contains(part)), "{part}: {old:?}");
        }
    }
}
