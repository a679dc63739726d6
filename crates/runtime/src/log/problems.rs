//! The latest warnings and errors of this process, for `aetheel status`.

use std::collections::VecDeque;

use parking_lot::Mutex;
use serde_json::Value;

use aetheel_model::plain::short_line;

const MAX_LINES: usize = 5;
/// Largest length of a line, in characters.
const MAX_CHARS: usize = 300;

static LATEST: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Returns the latest warnings and errors, the oldest first. They contain no secrets.
#[must_use]
pub fn latest() -> Vec<String> {
    LATEST.lock().iter().cloned().collect()
}

pub(super) fn keep(line: &str) {
    let mut latest = LATEST.lock();
    if latest.len() == MAX_LINES {
        latest.pop_front();
    }
    latest.push_back(short_line(&summary(line), MAX_CHARS));
}

/// Returns the most important fields of a JSON line, or another line as it is.
fn summary(line: &str) -> String {
    let Ok(Value::Object(fields)) = serde_json::from_str(line) else { return line.to_owned() };
    let field = |name: &str| fields.get(name).and_then(Value::as_str);
    let words = [field("timestamp"), field("level"), field("message")];
    let mut text = words.into_iter().flatten().collect::<Vec<_>>().join(" ");
    for name in ["error", "reason"] {
        if let Some(more) = field(name) {
            text.push_str(&format!(": {more}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_lines_are_kept_with_their_main_fields() {
        for number in 0..MAX_LINES + 2 {
            keep(&format!(
                r#"{{"timestamp":"T","level":"WARN","message":"no {number}","turn":"1","error":"why"}}"#
            ));
        }
        let latest = latest();
        assert_eq!(latest.len(), MAX_LINES);
        assert_eq!(latest.last().map(String::as_str), Some("T WARN no 6: why"));
    }
}
