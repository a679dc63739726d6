//! Tests of mending: changes of shipped backends that read a new format of their agent are
//! accepted, and wrong or malicious changes are refused.
//!
//! The recordings are those of the shipped backends, changed as a new version of the agent might
//! change its output. `renamed` lets a program that edits text mend each backend. In the other
//! tests, the test makes the change. Each takes a sample; `make proof` (`MUTANTS=all`) takes all.

mod attacks;
pub mod formats;
mod renamed;
mod smith;
mod turns;
mod tutorial;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use aetheel_mending::workshop::Workshop;

use self::formats::{Format, lost_formats};
use self::smith::{Bench, adapter};

/// Returns whether all cases are tried instead of a sample.
fn all() -> bool {
    std::env::var("MUTANTS").is_ok_and(|mutants| mutants == "all")
}

/// Rust of a package manager is not in the home folder, but links to it are in `PATH`.
#[tokio::test(flavor = "multi_thread")]
async fn the_toolchain_is_found_through_path() {
    let asked = std::process::Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    let sysroot = PathBuf::from(String::from_utf8(asked.stdout).unwrap().trim());
    let folder = tempfile::tempdir().unwrap();
    let [programs, home] = ["bin", "home"].map(|name| folder.path().join(name));
    fs::create_dir(&programs).unwrap();
    fs::create_dir(&home).unwrap();
    symlink(sysroot.join("bin/rustc"), programs.join("rustc")).unwrap();
    let variables = [("PATH", &programs), ("HOME", &home)]
        .map(|(name, path)| (name.to_owned(), path.display().to_string()));
    let source = smith::sources();
    let opened =
        Workshop::open(smith::custody(), Vec::new(), &variables.into(), (&source, "gemini"), &[])
            .await;
    assert!(opened.unwrap().readable.contains(&sysroot));
}

/// Judges a correct change of a backend for each of these many changes of its agent's output: one
/// that restores the former format.
async fn correct_changes_are_accepted(name: &str, every: usize) {
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
async fn correct_changes_for_new_formats_of_gemini_are_accepted() {
    correct_changes_are_accepted("gemini", if all() { 10 } else { 2 }).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ten builds: make proof"]
async fn correct_changes_for_new_formats_of_claude_are_accepted() {
    correct_changes_are_accepted("claude", 10).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ten builds: make proof"]
async fn correct_changes_for_new_formats_of_codex_are_accepted() {
    correct_changes_are_accepted("codex", 10).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ten builds: make proof"]
async fn correct_changes_for_new_formats_of_droid_are_accepted() {
    correct_changes_are_accepted("droid", 10).await;
}
