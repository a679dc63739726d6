//! Which option of a permission request a decision means.
//!
//! Ids are the agent's own and differ (`allow`, `proceed_once`, `approved`, `once`); only `kind` says what one means.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::Decision;
use serde_json::json;

/// The options of a request: kind, id, name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options(Vec<(String, String, String)>);

/// The answer to a request that nobody decides any more.
pub(crate) const CANCELLED: &str = r#"{"outcome":{"outcome":"cancelled"}}"#;

impl Options {
    pub(crate) fn read(params: &Value) -> Self {
        let text = |option: &Value, key| option.text(key).map(str::to_owned);
        let read = |option: &Value| Some((text(option, "kind")?, text(option, "optionId")?, text(option, "name").unwrap_or_default()));
        Self(params.list("options").iter().filter_map(read).collect())
    }

    /// What "always" means here.
    pub(crate) fn always(&self) -> Option<String> {
        self.0.iter().find(|(kind, ..)| kind == "allow_always").map(|(_, _, name)| name.clone())
    }

    /// The result that tells a decision. "Deny and stop" is `cancelled`, told after the turn was cancelled.
    ///
    /// A refusal never is `reject_always`, which would bind later uses too, and never an error: Droid 0.225.2 and codex-acp
    /// 0.16.0 do not survive one. Where only "always" is offered, a yes to this use is not made a yes to all.
    pub(crate) fn result(&self, decision: &Decision) -> String {
        let kinds: &[&str] = match decision {
            Decision::AllowOnce => &["allow_once", "reject_once"],
            Decision::AllowAlways => &["allow_always", "allow_once", "reject_once"],
            // Mildest: claude-agent-acp and Gemini CLI go on after it; the others end the turn whatever is answered.
            Decision::Deny(_) | Decision::Dismissed | Decision::Answers(_) => &["reject_once"],
            Decision::DenyAndStop => &[],
        };
        match kinds.iter().find_map(|kind| self.0.iter().find(|(offered, ..)| offered == kind)) {
            Some((_, id, _)) => json!({"outcome": {"outcome": "selected", "optionId": id}}).to_string(),
            None => CANCELLED.to_owned(),
        }
    }

    /// Whether a use can be allowed without allowing later ones.
    pub(crate) fn allows_once(&self) -> bool {
        self.0.iter().any(|(kind, ..)| kind == "allow_once")
    }
}

#[cfg(test)]
mod tests {
    use aetheel_backend_sdk::json;

    use super::*;

    #[test]
    fn a_decision_is_told_by_the_kind_of_the_option_and_never_by_its_id() {
        let params = r#"{"options":[{"optionId":"reject","kind":"allow_once","name":"x"},{"optionId":"allow","kind":"reject_once","name":"y"},
            {"optionId":"once","kind":"allow_always","name":"Always z"},{"optionId":"always","kind":"reject_always","name":"w"}]}"#;
        let options = Options::read(&json::parse(params).expect("JSON"));
        let id = |decision| options.result(&decision);
        assert_eq!(id(Decision::AllowOnce), r#"{"outcome":{"optionId":"reject","outcome":"selected"}}"#);
        assert_eq!(id(Decision::AllowAlways), r#"{"outcome":{"optionId":"once","outcome":"selected"}}"#);
        for refusal in [Decision::Deny(None), Decision::Deny(Some("no".into())), Decision::Dismissed] {
            assert_eq!(id(refusal), r#"{"outcome":{"optionId":"allow","outcome":"selected"}}"#);
        }
        assert_eq!(id(Decision::DenyAndStop), CANCELLED);
        assert_eq!(options.always().as_deref(), Some("Always z"));
        assert_eq!(Options::default().result(&Decision::AllowOnce), CANCELLED, "nothing is offered");
    }
}
