//! What needs the sandbox, processes or the whole program: `cargo bench --bench gateway`, a part of it with `-- parse`,
//! `-- links`, `-- swap`, `-- start` or `-- turns`.
//!
//! Needs the components in `backends/` and, for `parse`, `native-parse` of the guest workspace: `make bench` builds all
//! of it. Figures that stand against a goal are ratios where the machine's speed would decide, and what is compared is
//! measured in turn, so that other work on the machine hits both.
#![allow(clippy::unwrap_used)] // a panic says what is wrong

mod corpus;
mod cpu;
mod links;
#[allow(unused_imports)] // the tests use them
#[path = "../../tests/support/discord/mod.rs"]
mod local_discord;
mod parse;
mod program;
mod report;
mod start;
mod swap;
mod turns;

use std::path::PathBuf;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let wants = |part: &str| wanted.is_empty() || wanted.iter().any(|word| part.contains(word.as_str()));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if wants("parse") {
        runtime.block_on(parse::measure());
    }
    if wants("links") {
        runtime.block_on(links::measure());
    }
    if wants("swap") {
        runtime.block_on(swap::measure());
    }
    if wants("start") {
        runtime.block_on(start::measure());
    }
    if wants("turns") {
        runtime.block_on(turns::measure());
    }
}

/// A folder or file of the repository.
fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A built component.
fn component(name: &str) -> PathBuf {
    let path = repository("backends").join(name).with_extension("wasm");
    assert!(path.exists(), "{} is missing; build it with `make guests`", path.display());
    path
}
