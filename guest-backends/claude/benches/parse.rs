//! Parse throughput: `cargo bench --bench parse`.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a bench exports nothing, and a panic reports the failure"
)]

use std::path::Path;

use aetheel_backend_sdk::fixture::{Fixture, run, start};
use claude::Backend;
use divan::Bencher;
use divan::counter::BytesCount;

fn main() {
    divan::main();
}

/// A long streamed answer, a large tool result, and many tools.
#[divan::bench(args = ["long-20k", "shell-big-output", "tools-sequence"])]
fn recorded(bencher: Bencher, name: &str) {
    let fixture = Fixture::load(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/claude").join(name),
    );
    let bytes: usize = fixture.stdout.iter().map(|line| line.len() + 1).sum();
    bencher
        .counter(BytesCount::new(bytes))
        .with_inputs(|| (start("hi"), fixture.inputs()))
        .bench_values(|(start, inputs)| run::<Backend>(start, inputs));
}
