//! An observer of Aetheel. It writes a line for each finished turn.

wit_bindgen::generate!({ path: "wit", world: "turn-observer" });

use exports::aetheel::observer::observer::{Event, EventKind, Guest};

struct Component;

impl Guest for Component {
    fn describe() -> String {
        serde_json::json!({
            "name": "{{name}}",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Writes a line for each finished turn",
        })
        .to_string()
    }

    fn configure(options: String) -> Result<(), String> {
        match options.trim() {
            "" | "{}" => Ok(()),
            _ => Err("this observer has no options".to_owned()),
        }
    }

    fn observe(events: Vec<Event>) -> Result<Vec<String>, String> {
        let line = |event: &Event| match &event.kind {
            EventKind::TurnEnded(ended) => {
                let line = serde_json::json!({
                    "turn": event.turn,
                    "lane": event.lane,
                    "backend": event.backend,
                    "ending": ended.ending,
                    "took-ms": ended.took_ms,
                });
                Some(line.to_string())
            }
            _ => None,
        };
        Ok(events.iter().filter_map(line).collect())
    }

    fn finish() -> Vec<String> {
        Vec::new()
    }
}

export!(Component);
