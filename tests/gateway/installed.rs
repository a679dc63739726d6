//! The program as packages install it: `bin/aetheel` with its components in `lib/aetheel/backends`,
//! for an operator without a configuration.

use std::fs;
use std::path::PathBuf;

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
    let ended = run(&installation, "console --backend demo", "hello\n").await;
    if ended.stderr.contains("AGENT_SANDBOX") && !ended.stderr.contains("WORKSPACE_DIR") {
        eprintln!("SKIPPED: {}", ended.stderr);
        return;
    }
    assert_eq!(ended.code, 78, "{}", ended.stdout);
    assert!(
        ended.stderr.contains("lib/aetheel/backends, which is the gateway's own"),
        "{}",
        ended.stderr
    );
}
