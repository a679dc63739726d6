//! A policy of Aetheel. It denies commands that become another user, and has no rule for anything
//! else.

wit_bindgen::generate!({ path: "wit", world: "tool-policy" });

use exports::aetheel::policy::policy::{Decision, Effect, Guest, Request};

struct Component;

impl Guest for Component {
    fn describe() -> String {
        serde_json::json!({
            "name": "{{name}}",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Denies commands that become another user",
        })
        .to_string()
    }

    fn configure(options: String) -> Result<(), String> {
        match options.trim() {
            "" | "{}" => Ok(()),
            _ => Err("this policy has no options".to_owned()),
        }
    }

    fn decide(request: Request) -> Result<Decision, String> {
        let command = request.command.unwrap_or_default();
        let mut words = command.split(|letter: char| !letter.is_alphanumeric());
        if words.any(|word| matches!(word, "sudo" | "su" | "doas")) {
            let reason = "commands may not become another user".to_owned();
            return Ok(Decision { effect: Effect::Deny, reason });
        }
        Ok(Decision { effect: Effect::Pass, reason: String::new() })
    }
}

export!(Component);
