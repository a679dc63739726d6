//! The systemd units and the settings of the packages fit this program, and systemd accepts them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use aetheel::cli::exit;
use aetheel_settings::{Config, VARIABLES};

use crate::support::needs;

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the gateway's unit.
fn unit() -> (String, BTreeMap<String, Vec<String>>) {
    unit_of("aetheel.service")
}

/// Returns the text of a unit, and its settings by name, in order.
fn unit_of(name: &str) -> (String, BTreeMap<String, Vec<String>>) {
    let unit = file(&format!("packaging/systemd/{name}"));
    let mut settings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in unit.lines().filter(|line| !line.starts_with('#')) {
        if let Some((name, value)) = line.split_once('=') {
            settings.entry(name.to_owned()).or_default().push(value.to_owned());
        }
    }
    (unit, settings)
}

fn setting(settings: &BTreeMap<String, Vec<String>>, name: &str) -> String {
    let [value] = &settings.get(name).unwrap_or_else(|| panic!("{name} is not set"))[..] else {
        panic!("{name} is set twice")
    };
    value.clone()
}

#[test]
fn only_temporary_failures_restart_the_unit_and_there_are_no_other_commands() {
    let (_, settings) = unit();
    let never: Vec<u8> = setting(&settings, "RestartPreventExitStatus")
        .split(' ')
        .map(|code| code.parse().unwrap())
        .collect();
    assert_eq!(never, [exit::USAGE, exit::NO_PERMISSION, exit::CONFIG]);
    for again in [exit::UNAVAILABLE, exit::SOFTWARE, exit::TEMPORARY] {
        assert!(!never.contains(&again), "{again} is temporary");
    }
    // systemd.service(5): RestartPreventExitStatus= applies to the main process. Other commands
    // would be restarted after any exit status.
    let others: Vec<&String> =
        settings.keys().filter(|name| name.starts_with("Exec") && *name != "ExecStart").collect();
    assert!(others.is_empty(), "{others:?}");
    assert_eq!(setting(&settings, "Restart"), "on-failure");
}

#[test]
fn its_timeouts_fit_the_programs_own_and_its_variables_are_known() {
    let (_, settings) = unit();
    let defaults = Config::read(|_| None).unwrap();
    let needed = defaults.shutdown_grace + defaults.agents.stop_grace * 2;
    assert!(
        setting(&settings, "TimeoutStopSec").parse::<u64>().unwrap() >= needed.as_secs() + 20,
        "it needs {needed:?} and 20 s"
    );
    assert_eq!(
        (setting(&settings, "Type"), setting(&settings, "KillMode")),
        ("notify".to_owned(), "mixed".to_owned())
    );
    // The gateway divides its cgroup among runs.
    assert!(["cpu", "memory", "pids"].iter().all(|controller| {
        setting(&settings, "Delegate").split(' ').any(|given| given == *controller)
    }));
    let set = settings["Environment"]
        .iter()
        .flat_map(|line| line.split(' '))
        .filter_map(|pair| pair.split('=').next());
    for name in set.filter(|name| *name != "HOME") {
        assert!(VARIABLES.iter().any(|variable| variable.name == name), "{name}");
    }
    let credential = setting(&settings, "LoadCredential");
    assert!(
        VARIABLES.iter().any(|variable| credential.starts_with(&format!("{}:", variable.name))),
        "{credential}"
    );
}

#[test]
fn the_holders_unit_has_the_gateways_restrictions_and_shares_its_temporary_folder() {
    let (_, gateway) = unit();
    let (_, holder) = unit_of("aetheel-hold.service");
    let own = [
        "Description",
        "Type",
        "ExecStart",
        "TimeoutStopSec",
        "Restart",
        "RestartSec",
        "RestartPreventExitStatus",
        "KillMode",
    ];
    for (name, values) in holder.iter().filter(|(name, _)| !own.contains(&name.as_str())) {
        assert_eq!(gateway.get(name), Some(values), "{name}");
    }
    for name in
        gateway.keys().filter(|name| name.starts_with("Protect") || name.ends_with("Filter"))
    {
        assert!(holder.contains_key(name), "{name}");
    }
    let never: Vec<u8> = setting(&holder, "RestartPreventExitStatus")
        .split(' ')
        .map(|code| code.parse().unwrap())
        .collect();
    assert_eq!(never, [exit::USAGE, exit::LOCKED, exit::CONFIG]);
    assert_eq!(setting(&holder, "Type"), "notify");
    assert!(setting(&holder, "ExecStart").starts_with("/usr/local/bin/aetheel-hold --state "));
    for name in ["Wants", "After", "JoinsNamespaceOf"] {
        assert!(
            setting(&gateway, name).split(' ').any(|unit| unit == "aetheel-hold.service"),
            "{name}"
        );
    }
}

#[test]
fn the_packaged_settings_are_known_and_use_folders_that_the_unit_can_write() {
    let (_, settings) = unit();
    let state = format!("/var/lib/{}/", setting(&settings, "StateDirectory"));
    assert!(setting(&settings, "ExecStart").ends_with(" run --env-file /etc/aetheel/settings.env"));
    let text = file("packaging/settings.env");
    let set: BTreeMap<&str, &str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .collect();
    for name in set.keys() {
        assert!(VARIABLES.iter().any(|variable| variable.name == *name), "{name}");
    }
    for name in ["CONFIG_DIR", "BACKENDS_DIR", "WORKSPACE_DIR", "RECORDINGS_DIR"] {
        assert!(set[name].starts_with(&state), "{name}");
    }
    let (_, holder) = unit_of("aetheel-hold.service");
    let where_they_meet = format!(" --state {}/state", set["CONFIG_DIR"]);
    assert!(setting(&holder, "ExecStart").ends_with(&where_they_meet));
}

#[test]
fn the_image_contains_agent_versions_that_were_tested() {
    let versions = file("scripts/agents.versions");
    let proven = versions.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        Some(format!("{}@{}", words.next()?, words.next()?))
    });
    let proven: Vec<String> = proven.collect();
    let image = file("packaging/Containerfile");
    let named = image.lines().find_map(|line| line.strip_prefix("ARG AGENTS=")).unwrap();
    let named: Vec<&str> = named.trim_matches('"').split(' ').collect();
    assert!(named.len() >= 3, "{named:?}");
    for agent in named {
        assert!(proven.iter().any(|proven| proven == agent), "{agent}: {proven:?}");
    }
}

#[test]
fn systemd_reports_no_problems() {
    if !needs::program("systemd-analyze", "systemd") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("aetheel.service");
    // systemd would look for a program and a user that do not exist here.
    let text =
        unit().0.replace("/usr/local/bin/aetheel ", "/bin/true ").replace("User=aetheel\n", "");
    let verified = |text: &str| {
        fs::write(&file, text).unwrap();
        let done = Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(&file)
            .output()
            .unwrap();
        String::from_utf8_lossy(&done.stderr).into_owned()
    };
    let about = |said: &str| {
        said.lines()
            .filter(|line| line.contains("aetheel.service"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let said = verified(&text);
    assert_eq!(about(&said), Vec::<String>::new(), "{said}");
    let said = verified(&text.replace("KillMode=mixed", "KillMod=mixed"));
    assert!(!about(&said).is_empty(), "a misspelt setting must be reported: {said}");
}
