//! How `aetheel` starts `aetheel-kit`.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use super::{Bench, Done, done};
use crate::support::guests::Wat;
use crate::support::program::{aetheel, aetheel_kit, copy_program};

/// Runs a copy of `aetheel` in the folder of the bench, with `path` as `PATH`.
fn run(bench: &Bench, arguments: &[&str], path: &Path) -> Done {
    let program = bench.folder.path().join("aetheel");
    if !program.exists() {
        copy_program(aetheel(), &program);
    }
    let mut command = Command::new(program);
    command.args(arguments).current_dir(bench.folder.path()).env("PATH", path);
    done(command.output().unwrap())
}

#[test]
fn without_aetheel_kit_its_commands_name_the_file_and_the_next_step_and_their_help_works() {
    let bench = Bench::wat(&Wat::new("mini", "1.0.0"));
    let nowhere = Path::new("/nonexistent");
    for arguments in [&["backend", "inspect", "x.wasm"][..], &["policy", "new", "mine"]] {
        let ended = run(&bench, arguments, nowhere);
        let beside = bench.folder.path().join("aetheel-kit");
        let missing = format!("`{}` does not exist", beside.display());
        assert_eq!((ended.code, ended.out.as_str()), (Some(69), ""), "{ended:?}");
        assert!(ended.err.contains(&missing), "{ended:?}");
        assert!(ended.err.contains("install `aetheel-kit` "), "{ended:?}");
    }
    let help = run(&bench, &["backend", "inspect", "--help"], nowhere);
    assert!(help.code == Some(0) && help.out.contains("Describe a backend"), "{help:?}");
}

#[test]
fn aetheel_kit_is_found_in_path_and_its_exit_code_and_output_are_those_of_the_command() {
    let bench = Bench::wat(&Wat::new("mini", "1.0.0"));
    let inspected = bench.run(&["inspect", "x.wasm", "--json"]);
    let found =
        run(&bench, &["backend", "inspect", "x.wasm", "--json"], aetheel_kit().parent().unwrap());
    assert_eq!(
        (found.code, found.json()["sha256"].clone()),
        (Some(0), inspected.json()["sha256"].clone())
    );

    // The one beside `aetheel` is used first.
    let beside = bench.folder.path().join("aetheel-kit");
    fs::write(&beside, "#!/bin/sh\necho \"beside: $*\"\nexit 7\n").unwrap();
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o755)).unwrap();
    let path = bench.folder.path().join("path");
    fs::create_dir(&path).unwrap();
    symlink("/bin/sh", path.join("sh")).unwrap();
    let ended = run(&bench, &["report", "x y", "--json"], &path);
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(7), "beside: report x y --json\n"),
        "{ended:?}"
    );
}
