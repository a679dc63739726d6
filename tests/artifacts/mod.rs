//! Backends travel through OCI registries and folders with the OCI image layout, with the real program. The registry
//! is the reference implementation; hostile registries are servers of the tests.

mod arrival;
mod hostile;
mod locked;
mod logins;
mod proven;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::json;

use crate::support::built;
use crate::support::guests::Wat;
use crate::support::oci_registry::{OciRegistry, push};
use crate::support::program::{Ended, Installation};

/// Returns a component of the backend `mini`, which asks for these variables.
fn mini(version: &str, passes: &[&str]) -> Wat {
    let descriptor = json!({ "programs": [{ "name": "mini" }], "environment": { "pass": passes } });
    Wat { descriptor, ..Wat::new("mini", version) }
}

/// Makes an installation in which the permissions of `mini` are accepted.
fn installation() -> Installation {
    let installation = Installation::new();
    mini("1.0.0", &[]).accepted_in(&installation.path("config"));
    installation
}

async fn run(installation: &Installation, arguments: &[&str]) -> Ended {
    installation.run(&[&["backend"], arguments].concat(), "").await
}

/// Runs a command that must succeed, and returns its output.
async fn done(installation: &Installation, arguments: &[&str]) -> String {
    let ended = run(installation, arguments).await;
    assert_eq!(ended.code, 0, "{arguments:?}: {}{}", ended.stdout, ended.stderr);
    ended.stdout
}

/// Runs a command that must be refused with this exit code, and returns its errors.
async fn refused(installation: &Installation, arguments: &[&str], code: i32) -> String {
    let before = state(installation);
    let ended = run(installation, arguments).await;
    assert_eq!(ended.code, code, "{arguments:?}: {}{}", ended.stdout, ended.stderr);
    assert_eq!(state(installation), before, "{arguments:?} changed something");
    ended.stderr
}

/// Returns the content of all files that an installation may change.
fn state(installation: &Installation) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for folder in ["backends", "config"] {
        for entry in fs::read_dir(installation.path(folder)).unwrap().flatten() {
            let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
            files.insert(name, fs::read(entry.path()).unwrap_or_default());
        }
    }
    files
}

/// Writes a component into a new folder of the installation, and returns its path.
fn file(installation: &Installation, folder: &str, component: &[u8]) -> String {
    fs::create_dir_all(installation.path(folder)).unwrap();
    let path = installation.path(folder).join("mini.wasm");
    fs::write(&path, component).unwrap();
    path.display().to_string()
}

/// Pushes a shipped backend with two of its cases.
async fn push_with_cases(installation: &Installation, registry: &OciRegistry) -> String {
    fs::create_dir_all(installation.path("project/gemini.cases")).unwrap();
    let component = installation.path("project/gemini.wasm");
    fs::write(&component, built("gemini.wasm")).unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gemini");
    for name in ["plain", "tool-shell"] {
        for end in ["jsonl", "actions.jsonl"] {
            let name = format!("{name}.{end}");
            fs::copy(fixtures.join(&name), installation.path("project/gemini.cases").join(&name))
                .unwrap();
        }
    }
    push(&component.display().to_string(), &registry.reference("team/gemini:0.1")).await
}

/// Returns the digest at the end of a reference.
fn digest_of(reference: &str) -> &str {
    reference.split_once('@').expect("a digest").1
}
