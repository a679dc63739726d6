//! The recordings of agents (`tests/fixtures`): cases in the format of the kit, a recording
//! `NAME.jsonl` and the actions `NAME.actions.jsonl` that must come of it.
#![allow(dead_code, reason = "the benches use less of it")]

use std::path::{Path, PathBuf};

use aetheel::agent::{Action, TimedInput};
use aetheel::kit::{Case, actions_beside, find};
use aetheel::turn::recording::What;

/// Where the cases of a backend are.
pub fn fixtures(backend: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(backend)
}

/// All cases of a backend.
pub fn cases(backend: &str) -> Vec<Case> {
    let found = find(&[fixtures(backend)]).unwrap();
    found.iter().map(|path| Case::read(path).unwrap()).collect()
}

/// One case of a backend; `name` is the path of its recording without `.jsonl`.
pub fn case(backend: &str, name: &str) -> Case {
    Case::read(&fixtures(backend).join(format!("{name}.jsonl"))).unwrap()
}

/// The name of a case, with `-` for every folder below its backend's.
pub fn name(backend: &str, case: &Case) -> String {
    let path = case.path.strip_prefix(fixtures(backend)).unwrap().with_extension("");
    path.to_string_lossy().replace('/', "-")
}

/// Returns the inputs the host sends a guest in a case.
pub fn inputs(case: &Case) -> Vec<TimedInput> {
    let inputs = case.tape.entries.iter().filter_map(|entry| match &entry.what {
        What::In(input) => Some(TimedInput { at_ms: entry.t, input: input.clone() }),
        _ => None,
    });
    inputs.collect()
}

/// Returns the actions that must come of a case.
pub fn actions(case: &Case) -> &[Action] {
    case.actions.as_deref().unwrap_or_else(|| panic!("{}: no actions", case.path.display()))
}

/// Copies the files of a case.
pub fn copy(case: &Case, to: &Path) {
    std::fs::copy(&case.path, to).unwrap();
    std::fs::copy(actions_beside(&case.path), actions_beside(to)).unwrap();
}
