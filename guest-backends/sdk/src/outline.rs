//! A summary of a turn without details that differ between conversations, used to compare the modes
//! of a backend.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "used in tests, where a panic reports the failure"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// Summarises the actions that a case lists for a turn, in order: the session, each use of a tool
/// with kind, native name and status, whether the answer equals the text shown since the last tool,
/// whether tokens were counted, and the outcome. `case` is the path of its recording without
/// `.jsonl`.
///
/// Omits everything that one-shot runs do not report (pieces of text, thinking, titles, asks), and
/// the text itself.
#[must_use]
pub fn outline(case: &Path, turn: u32) -> Vec<String> {
    let path = crate::fixture::beside(case, "actions.jsonl");
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut summary = Vec::new();
    let (mut names, mut shown) = (BTreeMap::new(), BTreeMap::<u64, String>::new());
    let mut used = false;
    for action in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        if action.get("session-ready").is_some() {
            summary.push("session".to_owned());
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
                summary.push(format!(
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
            let answer: String = shown.values().map(String::as_str).collect();
            summary.push(format!(
                "answer as shown: {}",
                !answer.is_empty() && done["text"].as_str().is_none_or(|text| text == answer)
            ));
            summary.push(format!("tokens: {}", used || !done["usage"].is_null()));
            summary.push(done["outcome"].to_string());
        }
    }
    // The session is reported again when its id or model changes.
    let mut first = true;
    summary.retain(|line| line != "session" || std::mem::take(&mut first));
    summary
}
