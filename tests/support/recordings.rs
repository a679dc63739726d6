//! The recordings of agents in `tests/fixtures`. A case consists of a recording `NAME.jsonl` and
//! the expected actions `NAME.actions.jsonl`, in the format of the kit.
#![allow(dead_code, reason = "the benches use less of it")]

use std::path::{Path, PathBuf};

use aetheel_model::agent::{Action, TimedInput};
use aetheel_recording::EntryKind;
use aetheel_recording::case::{Case, actions_beside, find};

/// Returns the folder with the cases of a backend.
pub fn fixtures(backend: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(backend)
}

/// Returns all cases of a backend.
pub fn cases(backend: &str) -> Vec<Case> {
    let found = find(&[fixtures(backend)]).unwrap();
    found.iter().map(|path| Case::read(path).unwrap()).collect()
}

/// Returns a case of a backend. `name` is the path of its recording without `.jsonl`.
pub fn case(backend: &str, name: &str) -> Case {
    Case::read(&fixtures(backend).join(format!("{name}.jsonl"))).unwrap()
}

/// Returns the path of a case below its backend's folder, with `-` in place of `/`.
pub fn name(backend: &str, case: &Case) -> String {
    let path = case.path.strip_prefix(fixtures(backend)).unwrap().with_extension("");
    path.to_string_lossy().replace('/', "-")
}

/// Returns the inputs of the guest in a case.
pub fn inputs(case: &Case) -> Vec<TimedInput> {
    let inputs = case.tape.entries.iter().filter_map(|entry| match &entry.kind {
        EntryKind::In(input) => Some(TimedInput { at_ms: entry.t, input: input.clone() }),
        _ => None,
    });
    inputs.collect()
}

/// Returns the expected actions of a case.
pub fn actions(case: &Case) -> &[Action] {
    case.actions.as_deref().unwrap_or_else(|| panic!("{}: no actions", case.path.display()))
}

/// Copies the files of a case.
pub fn copy(case: &Case, to: &Path) {
    std::fs::copy(&case.path, to).unwrap();
    std::fs::copy(actions_beside(&case.path), actions_beside(to)).unwrap();
}
