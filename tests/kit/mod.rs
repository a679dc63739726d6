//! Tests of the kit: every command through the real program, with the shipped components, their
//! recordings, and guests that misbehave on purpose.

mod commands;
mod dev;
mod hostile;
mod machine;
mod one_judge;
mod own_recordings;
mod profile;
mod program;
mod recording;
mod report;
mod shipped;
mod templates;
pub mod tutorial;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::built;
use crate::support::guests::Wat;
use crate::support::program::{aetheel, aetheel_kit};
use crate::support::recordings::{cases, copy, name};

/// A folder with a component in it.
pub struct Bench {
    pub folder: tempfile::TempDir,
    pub component: PathBuf,
}

/// The result of a command.
#[derive(Debug)]
pub struct Done {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Bench {
    pub fn of(wasm: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let component = folder.path().join("x.wasm");
        std::fs::write(&component, wasm).unwrap();
        Self { folder, component }
    }

    pub fn wat(wat: &Wat) -> Self {
        Self::of(&wat.build())
    }

    /// Uses a shipped component, with the recordings of its fixtures whose names `fits` accepts.
    pub fn shipped(name: &str, fits: impl Fn(&str) -> bool) -> Self {
        Self::with_cases(&built(&format!("{name}.wasm")), name, fits)
    }

    /// Uses a component, with the recordings of a backend whose names `fits` accepts in `cases`.
    pub fn with_cases(wasm: &[u8], backend: &str, fits: impl Fn(&str) -> bool) -> Self {
        let bench = Self::of(wasm);
        std::fs::create_dir(bench.folder.path().join("cases")).unwrap();
        for case in cases(backend) {
            let name = name(backend, &case);
            if fits(&name) {
                copy(&case, &bench.case(&name));
            }
        }
        bench
    }

    pub fn case(&self, name: &str) -> PathBuf {
        self.folder.path().join("cases").join(format!("{name}.jsonl"))
    }

    /// Tests the component as a contributor would: `test` passes for all recordings, of which there
    /// are at least `least`, and `check` finds nothing with every `step`th of them. Returns how often
    /// `check` handed the state over to a new guest.
    pub fn passes(&self, least: usize, step: usize) -> u64 {
        let tested = self.run(&["test", self.component(), "cases", "--json"]);
        assert_eq!(tested.code, Some(0), "{tested:?}");
        assert!(tested.json()["passed"].as_u64().unwrap() >= least as u64, "{tested:?}");
        let mut cases: Vec<String> = std::fs::read_dir(self.folder.path().join("cases"))
            .unwrap()
            .map(|entry| format!("cases/{}", entry.unwrap().file_name().to_string_lossy()))
            .filter(|name| !name.ends_with(".actions.jsonl"))
            .collect();
        cases.sort();
        let cases: Vec<&str> = cases.iter().step_by(step).map(String::as_str).collect();
        let checked = self.run(&[&["check", self.component(), "--json"], &cases[..]].concat());
        assert_eq!(checked.code, Some(0), "{:#?}", checked.findings());
        let areas = checked.json()["areas"].clone();
        assert!(areas[0]["trials"].as_u64().unwrap() > 12 * cases.len() as u64, "{areas}");
        let handover = areas.as_array().unwrap().iter().find(|area| area["name"] == "handover");
        handover.unwrap()["trials"].as_u64().unwrap()
    }

    /// Runs `aetheel backend COMMAND` in the folder.
    pub fn run(&self, arguments: &[&str]) -> Done {
        self.run_with(arguments, &[])
    }

    pub fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Done {
        done(self.command(arguments, variables).stdin(Stdio::null()).output().unwrap())
    }

    pub fn command(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
        aetheel_kit();
        let mut command = Command::new(aetheel());
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled-backends");
        command
            .arg("backend")
            .args(arguments)
            .current_dir(self.folder.path())
            .env("CACHE_DIR", cache)
            .envs(variables.iter().copied());
        command
    }

    pub fn component(&self) -> &str {
        self.component.to_str().unwrap()
    }
}

pub fn done(output: Output) -> Done {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Done { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

impl Done {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the findings of `check --json`.
    pub fn findings(&self) -> Vec<Value> {
        let areas = self.json();
        areas["areas"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|area| area["findings"].as_array().unwrap().clone())
            .collect()
    }

    pub fn says(&self, part: &str) -> &Self {
        assert!(
            self.out.contains(part) || self.err.contains(part),
            "{part:?} is not printed:\n{}\n{}",
            self.out,
            self.err
        );
        self
    }
}
