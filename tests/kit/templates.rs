//! Tests of `aetheel backend new`: every project builds with its toolchain and passes its own test,
//! offline.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use crate::support::needs;
use crate::support::program::aetheel;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn new(arguments: &[&str], folder: &Path) -> Output {
    Command::new(aetheel())
        .args(["backend", "new"])
        .args(arguments)
        .arg("--into")
        .arg(folder)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Returns the folder of programs of a toolchain of `scripts/toolchain`, or `None` if it is left
/// out. Rust projects use the toolchain of this build.
fn bin_of(toolchain: &str) -> Option<String> {
    if toolchain.is_empty() {
        return Some(String::new());
    }
    let toolchains = std::env::var("TOOLCHAINS")
        .map_or_else(|_| root().join("target/toolchains"), PathBuf::from);
    // The names of folders end with versions.
    let version = |name: &str| name.strip_prefix(toolchain)?.strip_prefix('-')?.chars().next();
    let is = |name: &str| {
        version(name).is_some_and(|first| first.is_ascii_digit()) && !name.contains("part")
    };
    let mut folders = std::fs::read_dir(toolchains).into_iter().flatten().flatten();
    let found = folders
        .any(|entry| is(&entry.file_name().to_string_lossy()) && entry.path().is_dir())
        .then_some(())
        .ok_or_else(|| "the toolchain is not installed".to_owned());
    if !needs::met(toolchain, found, "run `make languages`") {
        return None;
    }
    let bin = Command::new(root().join("scripts/toolchain")).arg(toolchain).output().unwrap();
    Some(String::from_utf8_lossy(&bin.stdout).trim().to_owned())
}

/// Rust projects share one target folder.
pub static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn builds_and_passes(lang: &str, kind: &str, toolchain: &str, also: &[&[&str]]) {
    let Some(bin) = bin_of(toolchain) else { return };
    let folder = tempfile::tempdir().unwrap();
    let project: PathBuf = folder.path().join("project");
    let made = new(&["my-agent", "--lang", lang, "--kind", kind], &project);
    assert!(made.status.success(), "{}", said(&made));
    assert!(said(&made).contains("make test"), "what to do next: {}", said(&made));
    let _one =
        (lang == "rust").then(|| ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner));
    let make = format!("AETHEEL={}", aetheel().display());
    // The folder where npm would have installed the compilers.
    let modules = format!("BIN={bin}");
    let first = ["make", "test", make.as_str(), modules.as_str()];
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    for command in std::iter::once(&first[..]).chain(also.iter().copied()) {
        let mut process = Command::new(command[0]);
        process.args(&command[1..]).current_dir(&project).env("PATH", &path);
        // Shares Cargo's target folder, so that nothing is built twice, and ignores the flags of
        // this build.
        process
            .env("CARGO_TARGET_DIR", root().join("target/guests"))
            .env("CARGO_NET_OFFLINE", "true")
            .env_remove("RUSTFLAGS");
        // The folder of npm's packages, which would otherwise be downloaded.
        process.env("BIN", path.split(':').next().unwrap());
        // The same for the caches of their compilers.
        process.env("ZIG_GLOBAL_CACHE_DIR", root().join("target/toolchains/zig-cache"));
        // A busy machine needs longer for both.
        process.env("COMPILE_TIMEOUT_MS", "900000").env("GUEST_CALL_MS", "20000");
        process.env("GOCACHE", root().join("target/toolchains/go-cache")).env("GOPROXY", "off");
        let output = process.output().unwrap();
        assert!(output.status.success(), "{lang}, {kind}: {command:?}\n{}", said(&output));
    }
    assert!(project.join("my-agent.wasm").exists());
    let check = ["backend", "check", "my-agent.wasm", "cases", "--json"];
    let checked = Command::new(aetheel())
        .args(check)
        .current_dir(&project)
        .env("GUEST_CALL_MS", "20000")
        .output()
        .unwrap();
    let checked: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    let areas = checked["areas"].as_array().unwrap();
    let fields = areas.iter().find(|area| area["name"] == "fields").unwrap();
    assert!(fields["trials"].as_u64() > Some(20), "{lang}, {kind}: {fields}");
    assert_eq!(fields["notes"], serde_json::Value::Null, "{lang}, {kind}: unreported losses");
}

macro_rules! templates {
    ($($(#[$mark:meta])* $test:ident: $lang:literal, $kind:literal, $toolchain:literal, $also:expr;)*) => { $(
        #[test]
        $(#[$mark])*
        fn $test() {
            builds_and_passes($lang, $kind, $toolchain, $also);
        }
    )* };
}
// One line for every language and kind. The third column is the name in `scripts/toolchain`.
templates! {
    a_new_one_shot_backend_in_rust_builds_and_passes_its_test: "rust", "one-shot", "", &[&["cargo", "test"]];
    a_new_live_backend_in_rust_builds_and_passes_its_test: "rust", "live", "", &[&["cargo", "test"]];
    a_new_backend_in_rust_for_both_ways_to_run_builds_and_passes_its_test: "rust", "both", "", &[&["cargo", "test"]];
    a_new_one_shot_backend_in_c_builds_and_passes_its_test: "c", "one-shot", "zig", &[];
    a_new_live_backend_in_c_builds_and_passes_its_test: "c", "live", "zig", &[];
    a_new_one_shot_backend_in_cpp_builds_and_passes_its_test: "cpp", "one-shot", "zig", &[];
    #[ignore = "minutes of compiling, much like the one-shot one: make test-templates"]
    a_new_live_backend_in_cpp_builds_and_passes_its_test: "cpp", "live", "zig", &[];
    a_new_one_shot_backend_in_zig_builds_and_passes_its_test: "zig", "one-shot", "zig", &[];
    #[ignore = "minutes of compiling, much like the one-shot one: make test-templates"]
    a_new_live_backend_in_zig_builds_and_passes_its_test: "zig", "live", "zig", &[];
    a_new_one_shot_backend_in_go_builds_and_passes_its_test: "go", "one-shot", "go", &[];
    #[ignore = "minutes of compiling, much like the one-shot one: make test-templates"]
    a_new_live_backend_in_go_builds_and_passes_its_test: "go", "live", "go", &[];
    a_new_one_shot_backend_in_python_builds_and_passes_its_test: "python", "one-shot", "componentize-py", &[];
    #[ignore = "minutes of compiling, much like the one-shot one: make test-templates"]
    a_new_live_backend_in_python_builds_and_passes_its_test: "python", "live", "componentize-py", &[];
    a_new_backend_in_python_for_both_ways_to_run_builds_and_passes_its_test: "python", "both", "componentize-py", &[];
    a_new_one_shot_backend_in_javascript_builds_and_passes_its_test: "javascript", "one-shot", "node", &[];
    #[ignore = "minutes of compiling, much like the one-shot one: make test-templates"]
    a_new_live_backend_in_javascript_builds_and_passes_its_test: "javascript", "live", "node", &[];
    a_new_one_shot_backend_in_typescript_builds_and_passes_its_test: "typescript", "one-shot", "node", &[];
    #[ignore = "minutes of compiling, much like the one-shot one: make test-templates"]
    a_new_live_backend_in_typescript_builds_and_passes_its_test: "typescript", "live", "node", &[];
    a_new_one_shot_backend_in_assemblyscript_builds_and_passes_its_test: "assemblyscript", "one-shot", "node", &[];
    #[ignore = "minutes of compiling, much like the one-shot one: make test-templates"]
    a_new_live_backend_in_assemblyscript_builds_and_passes_its_test: "assemblyscript", "live", "node", &[];
}

#[test]
fn an_exception_of_a_guest_in_javascript_is_reported_with_its_location() {
    let Some(bin) = bin_of("node") else { return };
    let folder = tempfile::tempdir().unwrap();
    let project: PathBuf = folder.path().join("project");
    assert!(
        new(&["my-agent", "--lang", "javascript", "--kind", "live"], &project).status.success()
    );
    let source = project.join("backend.js");
    let text = std::fs::read_to_string(&source).unwrap();
    let broken = text.replacen("case \"text\":", "case \"text\":\n      said.nothing.at.all;", 1);
    let line = 1 + broken.lines().position(|line| line.contains("said.nothing")).unwrap();
    std::fs::write(&source, broken).unwrap();
    let run = |command: &mut Command| said(&command.current_dir(&project).output().unwrap());
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    let made = run(Command::new("make")
        .arg(format!("AETHEEL={}", aetheel().display()))
        .arg(format!("BIN={bin}"))
        .env("PATH", path));
    assert!(project.join("my-agent.wasm").exists(), "{made}");
    let told = run(Command::new(aetheel()).args([
        "backend",
        "replay",
        "my-agent.wasm",
        "cases/hello.jsonl",
    ]));
    assert!(told.contains("TypeError") && told.contains(&format!("backend.js:{line}")), "{told}");
}

#[test]
fn a_panic_of_a_guest_in_rust_is_reported_with_its_functions_and_lines() {
    let folder = tempfile::tempdir().unwrap();
    let project: PathBuf = folder.path().join("project");
    assert!(new(&["my-agent", "--lang", "rust", "--kind", "one-shot"], &project).status.success());
    let source = project.join("src/lib.rs");
    let text = std::fs::read_to_string(&source).unwrap();
    let broken = text.replacen(
        "\"text\" => emit",
        "\"text\" if text(\"text\").len() < 1_000_000 =>\n                panic!(\"too short\"),\n            \"text\" => emit",
        1,
    );
    let line = 1 + broken.lines().position(|line| line.contains("panic!")).expect("it is changed");
    std::fs::write(&source, broken).unwrap();
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let run = |command: &mut Command| said(&command.current_dir(&project).output().unwrap());
    let made = run(Command::new("make")
        .env("CARGO_TARGET_DIR", root().join("target/guests"))
        .env("CARGO_NET_OFFLINE", "true")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only")
        .env("CARGO_PROFILE_RELEASE_STRIP", "none")
        .env_remove("RUSTFLAGS"));
    assert!(project.join("my-agent.wasm").exists(), "{made}");
    let replay = ["backend", "replay", "my-agent.wasm", "cases/hello.jsonl", "--json"];
    let told = run(Command::new(aetheel()).args(replay));
    assert!(told.contains(&format!("src/lib.rs:{line})")), "{told}");
    let profile = ["backend", "profile", "my-agent.wasm", "cases/hello.jsonl", "--rounds", "1"];
    let told = run(Command::new(aetheel()).args(profile));
    assert!(told.contains(&format!("src/lib.rs:{line})")), "{told}");
}

#[test]
fn an_existing_folder_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine"), "mine").unwrap();
    let refused = new(&["my-agent"], folder.path());
    assert_eq!(refused.status.code(), Some(64));
    assert!(said(&refused).contains("already exists"), "{}", said(&refused));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_kind_without_a_template_in_a_language_is_refused_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let refused =
        new(&["my-agent", "--lang", "zig", "--kind", "both"], &folder.path().join("project"));
    assert_eq!(refused.status.code(), Some(64));
    assert!(
        said(&refused).contains("only in rust and python; begin with `--kind live`"),
        "{}",
        said(&refused)
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_name_that_is_invalid_in_a_descriptor_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let refused = new(&["My_Agent"], &folder.path().join("project"));
    assert_eq!(refused.status.code(), Some(64));
    assert!(said(&refused).contains("is not a valid name for a backend"), "{}", said(&refused));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_simple_backend_stays_short() {
    // A live template has a table of the fields that each line must have.
    for (file, limit) in [
        ("templates/rust/one-shot/lib.rs", 100),
        ("templates/rust/live/lib.rs", 110),
        ("guest-backends/demo/src/lib.rs", 100),
    ] {
        let lines = std::fs::read_to_string(root().join(file)).unwrap().lines().count();
        assert!(lines < limit, "{file} has {lines} lines");
    }
}

/// Creates a project of a policy or an observer, and builds and checks it offline.
fn extension_builds_and_passes(kind: &str) {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("project");
    let made = Command::new(aetheel())
        .args([kind, "new", "my-part", "--into"])
        .arg(&project)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", said(&made));
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let output = Command::new("make")
        .arg("test")
        .arg(format!("AETHEEL={}", aetheel().display()))
        .current_dir(&project)
        .env("CARGO_TARGET_DIR", root().join("target/guests"))
        .env("CARGO_NET_OFFLINE", "true")
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    assert!(output.status.success(), "{kind}\n{}", said(&output));
    assert!(said(&output).contains("no problems found"), "{}", said(&output));
    let again = Command::new(aetheel())
        .args([kind, "new", "Not-Valid", "--into"])
        .arg(folder.path().join("other"))
        .output()
        .unwrap();
    assert!(said(&again).contains("is not a valid name"), "{}", said(&again));
}

#[test]
fn a_new_policy_builds_and_passes_its_check() {
    extension_builds_and_passes("policy");
}

#[test]
fn a_new_observer_builds_and_passes_its_check() {
    extension_builds_and_passes("observer");
}
