//! The benches that need the sandbox, processes or the whole program: `cargo bench --bench
//! gateway`. Run a part of them with `-- parse`, `-- live`, `-- answers`, `-- links`, `-- swap`,
//! `-- start`, `-- turns`, `-- teams`, `-- rollout`, `-- messages`, `-- webhooks`, `-- output`,
//! `-- outlive`, `-- dashboard`, `-- letters` or `-- cluster`, and one backend's parser with `-- parse
//! claude`.
//!
//! They need the components in `backends/` and, for `parse`, the examples of the guest workspace.
//! `make bench` builds all of it. `letters` and `cluster` need the programs of a PostgreSQL server,
//! as the tests do. Without optimisation (`cargo test --bench gateway -- live`), `parse` and `live`
//! repeat everything only a few times, to check that they work.
//!
//! Figures with a goal are ratios if they depend on the machine's speed. Compared figures are
//! measured in alternation, so that other work on the machine affects both.
#![allow(unreachable_pub, reason = "a program exports nothing")]
#![allow(clippy::unwrap_used, reason = "a panic says what is wrong")]

mod agent;
mod answers;
mod backends;
mod bot;
#[path = "../../tests/support/caller.rs"]
mod caller;
mod cluster;
mod cpu;
mod dashboard;
mod host;
mod letters;
#[allow(dead_code, reason = "the tests use it")]
#[path = "../../tests/support/link.rs"]
mod link;
mod links;
mod live;
#[allow(unused_imports, reason = "the tests use them")]
#[path = "../../tests/support/discord/mod.rs"]
mod local_discord;
mod messages;
mod outlive;
mod parse;
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../../tests/support/postgres.rs"]
mod postgres;
mod program;
#[path = "../../tests/support/recordings.rs"]
mod recordings;
mod report;
mod rollout;
mod script;
mod start;
mod swap;
mod talk;
mod teams;
mod turns;
mod webhooks;

use std::path::{Path, PathBuf};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    // The bench also starts itself with these arguments.
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["replay-agent", script, ..] => return agent::replay(script),
        ["open-sessions", backend, cache] => {
            return runtime().block_on(live::open_sessions(backend, Path::new(cache)));
        }
        _ => {}
    }
    let wanted: Vec<&str> =
        words.iter().map(String::as_str).filter(|argument| !argument.starts_with('-')).collect();
    let wants = |part: &str| wanted.is_empty() || wanted.iter().any(|word| part.contains(word));
    let runtime = runtime();
    if wants("parse") {
        runtime.block_on(parse::measure(&wanted));
    }
    if wants("live") {
        runtime.block_on(live::measure());
    }
    if wants("answers") {
        runtime.block_on(answers::measure());
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
    if wants("teams") {
        runtime.block_on(teams::measure());
    }
    if wants("rollout") {
        runtime.block_on(rollout::measure());
    }
    if wants("messages") {
        runtime.block_on(messages::measure());
    }
    if wants("webhooks") {
        runtime.block_on(webhooks::measure());
    }
    if wants("output") {
        runtime.block_on(turns::long_output());
    }
    if wants("outlive") {
        outlive::measure(&runtime);
    }
    if wants("dashboard") {
        runtime.block_on(dashboard::measure());
    }
    if wants("letters") {
        runtime.block_on(letters::measure());
    }
    if wants("cluster") {
        runtime.block_on(cluster::measure());
    }
}

/// Returns how often something is repeated: `count` times, or less without optimisation, where
/// figures do not matter.
fn times(count: usize) -> usize {
    if cfg!(debug_assertions) { count.min(3) } else { count }
}

/// Returns the path of a folder or file of the repository.
fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Returns the path of a built component. Panics if `make guests` did not build it.
fn component(name: &str) -> PathBuf {
    let path = repository("backends").join(name).with_extension("wasm");
    assert!(path.exists(), "{} is missing; build it with `make guests`", path.display());
    path
}
