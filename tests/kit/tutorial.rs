//! Runs the tutorial, command by command, as a reader would type it.

use std::path::Path;
use std::process::Command;
use std::sync::PoisonError;

use crate::support::program::aetheel;

/// Returns the fenced blocks of a page: the text after the backticks, and the lines.
pub fn blocks(page: &str) -> Vec<(String, Vec<String>)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, Vec<String>)> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some((info.to_owned(), Vec::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, lines))) => lines.push(line.to_owned()),
            (None, None) => {}
        }
    }
    blocks
}

/// Runs a command and returns its output. Panics if it fails.
fn run(command: &str, folder: &Path) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let programs = aetheel().parent().unwrap().display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(folder)
        .env("PATH", path)
        .env("CACHE_DIR", folder.join("cache"))
        // Shares the target folder of the guests, so that nothing is built twice, and ignores the
        // flags of this build.
        .env("CARGO_TARGET_DIR", root.join("target/guests"))
        .env("CARGO_NET_OFFLINE", "true")
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{command}: {}\n{said}", output.status);
    said
}

#[test]
fn every_command_of_the_tutorial_works_as_described() {
    let page = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/writing-a-backend.md"),
    )
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let _one = super::templates::ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut said = Vec::new();
    for (info, lines) in blocks(&page) {
        if let Some(file) = info.split_once("file=").map(|(_, file)| file) {
            std::fs::write(folder.path().join(file), lines.join("\n") + "\n").unwrap();
        } else if info == "console" {
            for line in lines {
                let command = line
                    .strip_prefix("$ ")
                    .unwrap_or_else(|| panic!("no command: {line}"))
                    .to_owned();
                let told = run(&command, folder.path());
                said.push((command, told));
            }
        }
    }
    let told = |what: &str, number: usize| {
        let (_, told) = said
            .iter()
            .filter(|(command, _)| command.contains(what))
            .nth(number)
            .unwrap_or_else(|| panic!("no {what}"));
        told.clone()
    };
    assert!(told("./mini --json", 0).contains("is 42."), "the agent speaks");
    assert!(
        told("replay mini.wasm", 0).contains("unknown     line type"),
        "{}",
        told("replay mini.wasm", 0)
    );
    let read = told("replay mini.wasm", 1);
    assert!(read.contains("Six times seven is 42.") && !read.contains("unknown"), "{read}");
    assert!(told("cat cases/first.actions.jsonl", 0).contains("turn-done"));
    assert!(
        told("aetheel console", 0).contains("Six times seven is 42."),
        "{}",
        told("aetheel console", 0)
    );
    assert!(told("aetheel console", 1).contains("(unread, "), "{}", told("aetheel console", 1));
    let differs = told("--diff", 0);
    assert!(differs.contains("42"), "{differs}");
    assert!(
        told("aetheel console", 2).contains("Six times seven is 42."),
        "{}",
        told("aetheel console", 2)
    );
    let (unread, live) = (told("replay chatty.wasm", 0), told("replay chatty.wasm", 1));
    assert!(
        unread.contains("line type \"reply\"") && !live.contains("unknown"),
        "{unread}\n{live}"
    );
    assert!(
        live.contains("This is message 1.")
            && live.contains("shell: rm notes.bak")
            && live.contains("Then I leave it."),
        "{live}"
    );
    let talk = told("aetheel console", 3);
    let places: Vec<_> =
        ["This is message 1.", "rm notes.bak", "Then I leave it.", "This is message 2."]
            .map(|part| talk.find(part))
            .to_vec();
    assert!(
        places.is_sorted() && places.iter().all(Option::is_some),
        "one process, in this order: {talk}"
    );
    let swapped = told("aetheel console", 4);
    assert!(
        swapped.starts_with("This is message 1.\nThis is message 2. (newer)\n"),
        "the process continued with a newer component: {swapped}"
    );
}
