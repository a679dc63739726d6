//! The scripts that prepare a clone: the toolchain, and an installation from the clone.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

fn write_program(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs a script of the clone with these programs before the usual ones.
fn run(script: &str, arguments: &[&str], programs: &Path) -> Output {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(script))
        .args(arguments)
        .env("PATH", format!("{}:/usr/bin:/bin", programs.display()))
        .output()
        .unwrap()
}

#[test]
fn the_toolchain_is_installed_without_a_line_for_each_component() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // The toolchain is missing. As rustup, this one lists what it replaces unless it is quiet.
    write_program(&at("cargo"), "exit 1");
    write_program(&at("rustc"), "exit 1");
    write_program(&at("cc"), "exit 0");
    let lists = "case \"$*\" in *--quiet*) ;; *) echo 'info: removing previous version of component clippy' >&2 ;; esac";
    write_program(&at("rustup"), &format!("{lists}\necho \"$@\" >>{}", at("calls").display()));
    let done = run("setup", &[], folder.path());
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}");
    assert!(!said.contains("removing previous version"), "{said}");
    let calls = fs::read_to_string(at("calls")).unwrap();
    assert!(calls.contains("toolchain install"), "{calls}");
}

#[test]
fn an_installation_from_a_clone_has_the_layout_of_a_package() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("built")).unwrap();
    for name in ["aetheel", "aetheel-hold", "aetheel-kit"] {
        write_program(&at("built").join(name), "exit 0");
    }
    let (built, prefix) = (at("built").display().to_string(), at("prefix").display().to_string());
    let done = run("install", &[&built, &prefix], folder.path());
    assert!(done.status.success(), "{done:?}");
    for name in
        ["bin/aetheel", "bin/aetheel-hold", "bin/aetheel-kit", "lib/aetheel/backends/demo.wasm"]
    {
        assert!(at("prefix").join(name).is_file(), "{name} is missing");
    }
    let refused = run("install", &[&built, "relative"], folder.path());
    assert_eq!(refused.status.code(), Some(64), "{refused:?}");
}
