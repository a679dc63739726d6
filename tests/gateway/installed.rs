//! The program as packages install it: `bin/aetheel` with its components in `lib/aetheel/backends`,
//! for an operator without a configuration.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::needs;
use crate::support::program::{Ended, Installation, aetheel, built, copy_program, rebuilt};

/// Returns an installation of the program in its own tree, with `demo` as the shipped component.
fn installed() -> Installation {
    let installation = Installation::new();
    fs::remove_dir_all(installation.path("backends")).unwrap();
    for name in ["usr/bin", "usr/lib/aetheel/backends"] {
        fs::create_dir_all(installation.path(name)).unwrap();
    }
    // A link would resolve to the folder where the program was built.
    let program = installation.path("usr/bin/aetheel");
    copy_program(aetheel(), &program);
    ship(&installation, &built("demo"));
    installation
}

fn ship(installation: &Installation, component: &[u8]) {
    fs::write(shipped(installation), component).unwrap();
}

fn shipped(installation: &Installation) -> PathBuf {
    installation.path("usr/lib/aetheel/backends/demo.wasm")
}

async fn run(installation: &Installation, arguments: &str, input: &str) -> Ended {
    let program = installation.path("usr/bin/aetheel");
    let mut program =
        installation.start_in_shell(&format!("exec {} {arguments}", program.display()));
    program.type_in(input).await;
    program.end_input();
    program.ended().await
}

#[tokio::test]
async fn a_fresh_installation_answers_and_its_components_are_copied_to_the_operators_folder() {
    let installation = installed();
    let ended = run(&installation, "console --backend demo", "hello\n").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("You said: hello"), "{}", ended.stdout);
    assert_eq!(fs::read(installation.backend("demo")).unwrap(), built("demo"));

    // A newer program brings a newer component, but never overwrites one that the operator changed.
    let newer = rebuilt(built("demo"), "newer");
    ship(&installation, &newer);
    run(&installation, "console --backend demo", "hello\n").await;
    assert_eq!(fs::read(installation.backend("demo")).unwrap(), newer);
    let own = rebuilt(built("demo"), "own");
    fs::write(installation.backend("demo"), &own).unwrap();
    ship(&installation, &built("demo"));
    let ended = run(&installation, "console --backend demo", "hello\n").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(fs::read(installation.backend("demo")).unwrap(), own);
}

/// Runs the console in the folder `project`, without any settings.
async fn run_without_settings(program: &str, input: &str) -> (Installation, Ended) {
    let unset = [
        "CONFIG_DIR",
        "BACKENDS_DIR",
        "WORKSPACE_DIR",
        "RECORDINGS_DIR",
        "AGENT_BACKEND",
        "PERMISSION_MODE",
        "ALLOWED_TOOLS",
    ];
    let installation = unset.iter().fold(installed(), |made, name| made.with(name, ""));
    fs::create_dir(installation.path("project")).unwrap();
    let line = format!("cd project && exec {program} console --backend demo");
    let mut console = installation.start_in_shell(&line);
    console.type_in(input).await;
    console.end_input();
    let ended = console.ended().await;
    (installation, ended)
}

#[tokio::test]
async fn a_console_without_settings_asks_and_leaves_the_current_folder_as_it_is() {
    // From a package, and from the folder where the program was built.
    for program in ["../usr/bin/aetheel", "\"$0\""] {
        let input = "ask make\nallow\nedit\nallow\n/status\n";
        let (installation, ended) = run_without_settings(program, input).await;
        assert_eq!(ended.code, 0, "{ended:?}");
        assert_eq!(ended.stdout.matches("Allowed by you").count(), 2, "{}", ended.stdout);
        assert!(!ended.stdout.contains("does not allow"), "{}", ended.stdout);
        let project = installation.path("project").display().to_string();
        assert!(ended.stdout.contains(&project), "{}", ended.stdout);
        assert!(!ended.stderr.contains("does not allow"), "{}", ended.stderr);
        // The demo agent keeps its conversation in the folder where it works.
        let names = |folder: &str| {
            let entries = fs::read_dir(installation.path(folder)).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names("project"), [".demo-agent"], "{program}");
        assert_eq!(names("home"), [".local"], "{program}");
        assert_eq!(names("home/.local"), ["state"]);
        assert_eq!(names("home/.local/state/aetheel"), ["console", "recordings"]);
    }
}

#[tokio::test]
async fn a_console_without_settings_refuses_a_folder_that_contains_its_own_state() {
    let (installation, _) = run_without_settings("../usr/bin/aetheel", "hello\n").await;
    let line = "cd home && exec ../usr/bin/aetheel console --backend demo";
    let mut console = installation.start_in_shell(line);
    console.end_input();
    let ended = console.ended().await;
    assert_eq!(ended.code, 78, "{ended:?}");
    assert!(ended.stderr.contains("change to the folder of a project"), "{}", ended.stderr);
}

/// Adds a clone in which the program and the demo backend were built.
fn build_clone(installation: &Installation) {
    for name in ["clone/target/debug", "clone/backends", "clone/scripts"] {
        fs::create_dir_all(installation.path(name)).unwrap();
    }
    copy_program(aetheel(), &installation.path("clone/target/debug/aetheel"));
    fs::write(installation.path("clone/backends/demo.wasm"), built("demo")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/demo");
    fs::copy(script, installation.path("clone/scripts/demo")).unwrap();
}

#[tokio::test]
async fn a_console_in_a_clone_uses_copies_of_the_backends_that_agents_may_write() {
    let (installation, _) = run_without_settings("../usr/bin/aetheel", "").await;
    build_clone(&installation);
    let line = "cd clone && exec target/debug/aetheel console --backend demo";
    let mut console = installation.start_in_shell(line);
    console.type_in("hello\n").await;
    console.end_input();
    let ended = console.ended().await;
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stdout.contains("You said: hello"), "{ended:?}");
    assert!(installation.path("home/.local/state/aetheel/backends/demo.wasm").exists());
}

#[tokio::test]
async fn the_demo_of_a_new_clone_begins_a_new_conversation() {
    let (installation, _) = run_without_settings("../usr/bin/aetheel", "").await;
    for clone in ["first", "second"] {
        build_clone(&installation);
        let mut console = installation.start_in_shell("exec clone/scripts/demo");
        console.type_in("hello\n").await;
        console.end_input();
        let ended = console.ended().await;
        assert!(ended.stdout.contains("You said: hello"), "{clone}: {ended:?}");
        fs::remove_dir_all(installation.path("clone")).unwrap();
    }
}

#[tokio::test]
async fn a_first_start_logs_the_installed_backends_in_one_line() {
    let installation = installed();
    let ended = run(&installation, "console -v --backend demo", "hello\n").await;
    let lines = ended.stderr.lines().filter(|line| line.contains("shipped backend"));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 1, "{}", ended.stderr);
    assert!(lines[0].contains("demo"), "{}", lines[0]);
    let digits = lines[0].split(|c: char| !c.is_ascii_hexdigit()).map(str::len).max();
    assert!(digits < Some(64), "no digest: {}", lines[0]);
}

#[tokio::test]
async fn inspecting_a_fresh_installation_changes_nothing() {
    let installation = installed();
    for look in ["check", "doctor --offline", "backend list"] {
        let ended = run(&installation, look, "").await;
        assert!(ended.stdout.contains("demo"), "{look}: {} {}", ended.stdout, ended.stderr);
        assert!(!ended.stdout.contains("there is no folder"), "{look}: {}", ended.stdout);
        assert!(!installation.path("backends").exists(), "{look}");
    }
}

#[tokio::test]
async fn an_untrusted_shipped_component_is_not_copied() {
    let installation = installed().with("BACKEND_TRUST", "pinned");
    let ended = run(&installation, "console --backend demo", "hello\n").await;
    assert_eq!(ended.code, 78, "{}", ended.stdout);
    assert!(!installation.backend("demo").exists());
    // Once the operator pins it, it is copied.
    let pin = format!("backend install --pin --yes {}", shipped(&installation).display());
    let ended = run(&installation, &pin, "").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let ended = run(&installation, "console --backend demo", "hello\n").await;
    assert!(ended.stdout.contains("You said: hello"), "{} {}", ended.stdout, ended.stderr);
}

#[tokio::test]
async fn shipped_components_serve_from_their_place_if_they_cannot_be_copied() {
    let installation = installed();
    // The folder cannot be created because a file has its name.
    fs::write(installation.path("backends"), "").unwrap();
    let ended = run(&installation, "console --backend demo", "hello\n").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("You said: hello"), "{}", ended.stdout);
    assert!(ended.stderr.contains("cannot copy the shipped backends there"), "{}", ended.stderr);
}

#[tokio::test]
async fn agents_may_not_write_into_the_folder_of_the_shipped_components() {
    let installation = installed();
    let inside = installation.path("usr").display().to_string();
    let installation =
        installation.with("WORKSPACE_DIR", &inside).with("AGENT_SANDBOX", "landlock");
    if !needs::landlock() {
        return;
    }
    let ended = run(&installation, "console --backend demo", "hello\n").await;
    assert_eq!(ended.code, 78, "{}", ended.stdout);
    assert!(
        ended.stderr.contains("lib/aetheel/backends, which is the gateway's own"),
        "{}",
        ended.stderr
    );
}
