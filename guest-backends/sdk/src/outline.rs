//! The course of a turn without what differs from one conversation to another: to compare the modes
//! of a backend.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "part of tests: a panic says what is wrong"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// Returns what the actions of a case tell of a turn, in order: the session, each use of a tool with
/// kind, native name and status, whether the answer is what people were shown since the last tool,
/// whether tokens were counted, and the end. `case` is the path of its recording without `.jsonl`.
///
/// Left out are what one-shot runs do not tell (pieces of text, thinking, titles, asks) and all
/// texts.
#[must_use]
pub fn outline(case: &Path, turn: u32) -> Vec<String> {
    let path = crate::fixture::beside(case, "actions.jsonl");
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut told = Vec::new();
    let (mut names, mut shown) = (BTreeMap::new(), BTreeMap::<u64, String>::new());
    let mut used = false;
    for action in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        if action.get("session-ready").is_some() {
            told.push("session".to_owned());
        }
        let (event, done) = (&action["event"], &action["turn-done"]);
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if event["turn"] == turn {
            let kind = &event["kind"];
            if let Some(start) = kind.get("tool-start") {
                assert!(start["title"].as_str().is_some_and(|title| !title.is_empty()), "{start}");
                names.insert(
                    word(&start["id"]),
                    format!("{} {}", word(&start["kind"]), word(&start["native-name"])),
                );
            } else if let Some(end) = kind.get("tool-end") {
                told.push(format!(
                    "tool {} {}",
                    names[end["id"].as_str().unwrap()],
                    word(&end["status"])
                ));
                shown.clear();
            } else if let Some(piece) = kind.get("text") {
                let part = shown.entry(piece["part"].as_u64().unwrap()).or_default();
                if piece["replace"] == true {
                    part.clear();
                }
                part.push_str(piece["text"].as_str().unwrap());
            }
            used |= kind.get("usage").is_some();
        } else if done["turn"] == turn {
            let said: String = shown.values().map(String::as_str).collect();
            told.push(format!(
                "answer as shown: {}",
                !said.is_empty() && done["text"].as_str().is_none_or(|text| text == said)
            ));
            told.push(format!("tokens: {}", used || !done["usage"].is_null()));
            told.push(done["outcome"].to_string());
        }
    }
    // It is told again when its id or model changes.
    let mut first = true;
    told.retain(|line| line != "session" || std::mem::take(&mut first));
    told
}
