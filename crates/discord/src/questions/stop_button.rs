//! The button that stops a running turn, below its growing answer.
//!
//! The button's id contains only the event. People who may use `/stop` in the channel may press it.

use serde_json::{Value, json};

/// The beginning of the button's id.
const PREFIX: &str = "stop:";
/// The reply to a press that comes too late.
pub(crate) const NOT_RUNNING: &str = "This is not running any more.";

/// Returns the button that stops the turn of an event.
pub(crate) fn row(event: u64) -> Value {
    let button = json!({"type": 2, "style": 2, "label": "Stop", "emoji": {"name": "⏹️"}, "custom_id": format!("{PREFIX}{event}")});
    json!([{"type": 1, "components": [button]}])
}

/// Returns the event of a button, or `None` if it is another button.
pub(crate) fn event_of(custom_id: &str) -> Option<u64> {
    custom_id.strip_prefix(PREFIX)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_button_id_contains_its_event() {
        assert_eq!(event_of(row(7)[0]["components"][0]["custom_id"].as_str().unwrap()), Some(7));
        assert_eq!(
            (event_of("stop:"), event_of("again:7"), event_of("ask:7:stop")),
            (None, None, None)
        );
    }
}
