//! `spans` is an observer of Aetheel. It writes a line of JSON for each finished turn and each
//! finished tool use: a span with the names of OpenTelemetry's semantic conventions for generative
//! AI. A collector can read the file and send the spans on.
//!
//! `trace` is the state machine, without the bindings of the contract.

pub mod trace;

#[cfg(target_arch = "wasm32")]
mod component {
    use std::cell::RefCell;

    use crate::trace::{Happening, Moment, Tracer};

    wit_bindgen::generate!({ path: "../../../wit/observer", world: "turn-observer" });

    use exports::aetheel::observer::observer as wit;

    struct Component;

    // An instance has one thread.
    thread_local! {
        static TRACER: RefCell<Tracer> = RefCell::default();
    }

    impl wit::Guest for Component {
        fn describe() -> String {
            serde_json::json!({
                "name": "spans",
                "version": env!("CARGO_PKG_VERSION"),
                "description": env!("CARGO_PKG_DESCRIPTION"),
            })
            .to_string()
        }

        fn configure(options: String) -> Result<(), String> {
            match options.trim() {
                "" | "{}" => Ok(()),
                _ => Err("this observer has no options".to_owned()),
            }
        }

        fn observe(events: Vec<wit::Event>) -> Result<Vec<String>, String> {
            let lines = TRACER.with_borrow_mut(|tracer| {
                let spans = events.into_iter().filter_map(|event| {
                    let wit::Event { at_ms, turn, lane, backend, kind } = event;
                    let moment = Moment { at_ms, turn, lane, backend };
                    Some(tracer.add(moment, happening(kind)?))
                });
                spans.flatten().collect()
            });
            Ok(lines)
        }

        fn finish() -> Vec<String> {
            Vec::new()
        }
    }

    fn happening(kind: wit::EventKind) -> Option<Happening> {
        Some(match kind {
            wit::EventKind::TurnBegun(begun) => Happening::TurnBegun { model: begun.model },
            wit::EventKind::ToolBegun(tool) => {
                Happening::ToolBegun { id: tool.id, parent: tool.parent, name: tool.tool }
            }
            wit::EventKind::ToolEnded(tool) => {
                Happening::ToolEnded { id: tool.id, status: tool.status }
            }
            wit::EventKind::TurnEnded(ended) => Happening::TurnEnded {
                ending: ended.ending,
                failure: ended.failure,
                took_ms: ended.took_ms,
                model: ended.model,
                tokens: ended.usage.map(|usage| (usage.input, usage.output)),
            },
            wit::EventKind::QuestionOpened(_)
            | wit::EventKind::QuestionClosed(_)
            | wit::EventKind::PolicyDecided(_) => return None,
        })
    }

    export!(Component);
}
