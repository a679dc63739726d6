//! Tests of `aetheel backend dev`. A copied file takes the place of a compiler, so that a change has
//! a known effect.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};

use super::{Bench, Done};
use crate::support::built;
use crate::support::program::aetheel;

/// A project whose build copies a file.
struct Project {
    bench: Bench,
    folder: PathBuf,
}

const BUILD: [&str; 2] = ["--build", "cp src/source.bin built.wasm"];

impl Project {
    /// Creates a project with a case, and a folder of recordings with a turn of the gateway.
    fn new() -> Self {
        let bench = Bench::shipped("gemini", |case| case == "plain");
        let folder = bench.folder.path().join("project");
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::rename(bench.folder.path().join("cases"), folder.join("cases")).unwrap();
        let day = bench.folder.path().join("recordings/2026-11-24");
        fs::create_dir_all(&day).unwrap();
        let recorded = fs::read_to_string(folder.join("cases/plain.jsonl")).unwrap();
        let recorded = recorded.replacen(r#""backend":"fixture""#, r#""backend":"gemini""#, 1);
        fs::write(day.join("1f0c9a2e.jsonl"), recorded).unwrap();
        let project = Self { bench, folder };
        project.save(&built("gemini.wasm"));
        project
    }

    /// Saves a source, as editors do: under another name first.
    fn save(&self, source: &[u8]) {
        let unfinished = self.folder.join("src/.unfinished");
        fs::write(&unfinished, source).unwrap();
        fs::rename(unfinished, self.folder.join("src/source.bin")).unwrap();
    }

    fn once(&self, arguments: &[&str]) -> Done {
        let recordings = self.bench.folder.path().join("recordings");
        self.bench.run_with(
            &[&["dev", "project", "--once"], arguments].concat(),
            &[("RECORDINGS_DIR", recordings.to_str().unwrap())],
        )
    }

    fn watch(&self) -> Watching {
        let recordings = self.bench.folder.path().join("recordings");
        let mut child = self
            .bench
            .command(
                &[&["dev", "project"][..], &BUILD].concat(),
                &[("RECORDINGS_DIR", recordings.to_str().unwrap())],
            )
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Watching { child, output }
    }
}

/// The running command. It is killed when this is dropped.
struct Watching {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Watching {
    /// Returns the output of the next round that fits. A save can cause two rounds if its events
    /// arrive far apart.
    fn round_with(&mut self, fits: impl Fn(&str) -> bool) -> String {
        loop {
            let round = self.round();
            if fits(&round) {
                return round;
            }
        }
    }

    /// Returns the output until the command waits for a change.
    fn round(&mut self) -> String {
        let mut round = String::new();
        while !round.contains("waiting for a change") {
            assert_ne!(self.output.read_line(&mut round).unwrap(), 0, "it ended: {round}");
        }
        round
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Returns a version that expects the agent's answers in another field.
fn broken() -> Vec<u8> {
    let mut component = built("gemini.wasm");
    let places: Vec<usize> =
        (0..component.len() - 7).filter(|at| &component[*at..at + 7] == b"content").collect();
    places.into_iter().for_each(|at| component[at..at + 7].copy_from_slice(b"kontent"));
    component
}

fn contains(round: &str, parts: &[&str]) {
    for part in parts {
        assert!(round.contains(part), "{part:?} is not in:\n{round}");
    }
}

#[test]
fn every_change_shows_its_effect_on_cases_and_on_turns_of_the_gateway() {
    let project = Project::new();
    let mut watching = project.watch();
    let first = watching.round();
    contains(
        &first,
        &[
            "built in ",
            "gemini 0.",
            "cases: 1 of 1 passed",
            "recordings: 1 read\n",
            "check: no problems found",
        ],
    );

    project.save(&broken());
    let second = watching.round_with(|round| round.contains("0 of 1 passed"));
    contains(
        &second,
        &[
            "changed: src/source.bin",
            "FAIL  project/cases/plain.jsonl:",
            "cases: 0 of 1 passed",
            "recordings/2026-11-24/1f0c9a2e.jsonl:",
            "- text",
            "recordings: 1 read, 1 not as the first build reads them",
        ],
    );

    project.save(b"not a component");
    let unusable = watching.round_with(|round| !round.contains("built in "));
    assert!(!unusable.contains("result after"), "nothing can be tried: {unusable}");

    fs::create_dir(project.folder.join("src/new")).unwrap();
    project.save(&built("gemini.wasm"));
    let third = watching.round_with(|round| round.contains("1 of 1 passed"));
    contains(&third, &["1 read, all as the first build reads them"]);
    fs::write(project.folder.join("src/new/file"), "").unwrap();
    watching.round_with(|round| round.contains("changed: src/new/file"));
}

#[test]
fn a_round_fails_with_its_build_its_cases_or_a_lost_answer() {
    let project = Project::new();
    let good = project.once(&BUILD);
    assert_eq!(good.code, Some(0), "{good:?}");

    let program = format!("test \"$AETHEEL\" = {} && {}", aetheel().display(), BUILD[1]);
    let finds_the_program = project.once(&["--build", &program]);
    assert_eq!(finds_the_program.code, Some(0), "{finds_the_program:?}");
    let unbuilt = project.once(&["--build", "echo one; echo two >&2; exit 3"]);
    assert_eq!(unbuilt.code, Some(1), "{unbuilt:?}");
    unbuilt.says("  one\n  two\n").says("exit 3` failed with exit code 3");

    fs::remove_dir_all(project.folder.join("cases")).unwrap();
    project.save(&broken());
    let lost = project.once(&BUILD);
    assert_eq!(lost.code, Some(1), "a field with the answer is missing: {lost:?}");
    lost.says("there are no recordings in `cases`").says("1f0c9a2e.jsonl:").says("! missing");

    let ignored = project.once(&[&BUILD[..], &["--turns", "0"]].concat());
    assert_eq!(ignored.code, Some(0), "{ignored:?}");
    let component = project.bench.component();
    let against = project.once(&[&BUILD[..], &["--against", component]].concat());
    against.says("not as ").says("x.wasm reads them").says("- text");
}

#[test]
fn a_project_without_one_clear_component_is_refused_with_the_next_step() {
    let project = Project::new();
    let nothing = project.once(&["--build", "true"]);
    assert_eq!(nothing.code, Some(1), "{nothing:?}");
    nothing.says("wrote no `*.wasm` into project").says("--component");
    for name in ["a.wasm", "b.wasm"] {
        fs::write(project.folder.join(name), built("gemini.wasm")).unwrap();
    }
    let several = project.once(&["--build", "true"]);
    assert_eq!(several.code, Some(64), "{several:?}");
    several.says("several `*.wasm` in project");
    let named = project.once(&["--build", "true", "--component", "a.wasm"]);
    assert_eq!(named.code, Some(0), "{named:?}");
    let missing = project.bench.run(&["dev", "elsewhere"]);
    assert_eq!(missing.code, Some(64), "{missing:?}");
    missing.says("elsewhere: No such file or directory");
}
