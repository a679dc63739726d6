//! What Claude Code really printed, end to end, until it is long enough to measure.

use std::fs;

use crate::repository;

/// Bytes of a corpus, at least.
const SIZE: usize = 4 << 20;

/// All recorded runs that ended well and were streamed, over and over, one JSON object a line.
pub fn lines() -> Vec<String> {
    let mut folders: Vec<_> = fs::read_dir(repository("tests/fixtures/claude"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    let mut recorded = Vec::new();
    for folder in folders {
        let ended_well = fs::read_to_string(folder.join("exit")).is_ok_and(|exit| exit.trim() == "0");
        let stdout = fs::read_to_string(folder.join("stdout")).unwrap_or_default();
        if ended_well && stdout.starts_with("{\"type\":\"system\"") {
            recorded.extend(stdout.lines().map(str::to_owned));
        }
    }
    assert!(!recorded.is_empty(), "no recorded runs");
    let mut size = 0;
    recorded
        .iter()
        .cycle()
        .take_while(|line| {
            let more = size < SIZE;
            size += line.len() + 1;
            more
        })
        .cloned()
        .collect()
}

/// Bytes of lines and their terminators.
pub fn size(lines: &[String]) -> usize {
    lines.iter().map(|line| line.len() + 1).sum()
}
