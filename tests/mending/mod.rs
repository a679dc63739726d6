//! Tests of mending: changes of shipped backends that read a new format of their agent are
//! accepted, and wrong or malicious changes are refused.
//!
//! The recordings are those of the shipped backends, changed as a new version of the agent might
//! change its output. Scripted programs take the place of the agents that mend. Each test takes a
//! sample; `make proof` (`MUTANTS=all`) takes all of them.

mod attacks;
pub mod formats;
mod smith;
mod turns;
mod tutorial;

use self::formats::{Format, lost_formats};
use self::smith::{Bench, adapter};

/// Returns whether all cases are tried instead of a sample.
fn all() -> bool {
    std::env::var("MUTANTS").is_ok_and(|mutants| mutants == "all")
}

/// Mends a backend after each of these many changes of its agent's output.
async fn new_formats_are_mended(name: &str, every: usize) {
    let mut bench = Bench::open(name).await;
    let formats = lost_formats(name, bench.serving(), every).await;
    assert!(formats.len() >= every, "{name}: only {} formats lose a reply", formats.len());
    let mut refused = Vec::new();
    for Format { description, lost, restore } in formats {
        bench.lose(lost);
        let candidate = adapter(bench.original(), name, &restore);
        match bench.judge(&candidate).await {
            Ok(mended) => assert!(!mended.judgement.replies.is_empty(), "{description}"),
            Err(reasons) => refused.push(format!("{description}: {reasons:#?}")),
        }
        println!("{name}: {description}");
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn new_formats_of_gemini_are_mended() {
    new_formats_are_mended("gemini", if all() { 10 } else { 2 }).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ten builds: make proof"]
async fn new_formats_of_claude_are_mended() {
    new_formats_are_mended("claude", 10).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ten builds: make proof"]
async fn new_formats_of_codex_are_mended() {
    new_formats_are_mended("codex", 10).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ten builds: make proof"]
async fn new_formats_of_droid_are_mended() {
    new_formats_are_mended("droid", 10).await;
}
