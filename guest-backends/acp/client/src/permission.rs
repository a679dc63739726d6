//! Maps decisions to the options of a permission request.
//!
//! Option ids are specific to an agent (`allow`, `proceed_once`, `approved`, `once`). Only `kind`
//! has a defined meaning.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{AskOption, Decision, Scope};
use serde_json::json;

/// The options of a request, each with its kind, id and name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options(Vec<(String, String, String)>);

/// The answer to a request that no longer waits for a decision.
pub(crate) const CANCELLED: &str = r#"{"outcome":{"outcome":"cancelled"}}"#;

impl Options {
    pub(crate) fn read(params: &Value) -> Self {
        let text = |option: &Value, key| option.text(key).map(str::to_owned);
        let read = |option: &Value| {
            Some((
                text(option, "kind")?,
                text(option, "optionId")?,
                text(option, "name").unwrap_or_default(),
            ))
        };
        Self(params.list("options").iter().filter_map(read).collect())
    }

    /// Returns the agent's own options, if any of them covers more than this tool use. Options that
    /// allow later uses are only included if `always` is true.
    pub(crate) fn offered(&self, always: bool) -> Vec<AskOption> {
        let of = |(kind, id, name): &(String, String, String)| {
            let (allows, scope) = match kind.as_str() {
                "allow_once" => (true, Scope::Once),
                "allow_always" => (true, Scope::Always),
                "reject_once" => (false, Scope::Once),
                "reject_always" => (false, Scope::Always),
                _ => return None,
            };
            (always || !allows || scope == Scope::Once).then(|| AskOption {
                id: id.clone(),
                label: name.clone(),
                allows,
                scope,
            })
        };
        let all: Vec<AskOption> = self.0.iter().filter_map(of).collect();
        if all.iter().all(|option| option.scope == Scope::Once) { Vec::new() } else { all }
    }

    /// Converts a chosen option into the equivalent general decision.
    pub(crate) fn meaning(&self, decision: &Decision) -> Decision {
        let Decision::Chosen(chosen) = decision else { return decision.clone() };
        match self.0.iter().find(|(_, id, _)| id == chosen).map(|(kind, ..)| kind.as_str()) {
            Some("allow_once") => Decision::AllowOnce,
            Some("allow_always") => Decision::AllowAlways,
            Some(_) => Decision::Deny(None),
            None => Decision::Dismissed,
        }
    }

    /// Returns the agent's label for "always", or `None` if it does not offer that.
    pub(crate) fn always(&self) -> Option<String> {
        self.of_kind("allow_always").map(|(_, _, name)| name.clone())
    }

    /// Returns the option of a kind. If there are several, returns the first of the narrowest ones.
    fn of_kind(&self, kind: &str) -> Option<&(String, String, String)> {
        self.0
            .iter()
            .filter(|(offered, ..)| offered == kind)
            .min_by_key(|(_, id, name)| breadth(id, name))
    }

    /// Returns the result for a decision. "Deny and stop" is `cancelled`, which is sent after the
    /// turn was cancelled.
    ///
    /// A refusal is never `reject_always` unless the user chose that option, because it would also
    /// apply to later uses. It is never an error, because Droid 0.225.2 and codex-acp 0.16.0 do not
    /// survive one. If only "always" is offered, the permission for a single use is not extended to
    /// all uses.
    pub(crate) fn result(&self, decision: &Decision) -> String {
        if let Decision::Chosen(id) = decision
            && self.0.iter().any(|(_, offered, _)| offered == id)
        {
            return json!({"outcome": {"outcome": "selected", "optionId": id}}).to_string();
        }
        let kinds: &[&str] = match decision {
            Decision::AllowOnce => &["allow_once", "reject_once"],
            Decision::AllowAlways => &["allow_always", "allow_once", "reject_once"],
            // `cancelled` is the mildest answer: claude-agent-acp and Gemini CLI continue after it.
            // The other agents end the turn after any answer.
            Decision::DenyAndStop => &[],
            _ => &["reject_once"],
        };
        match kinds.iter().find_map(|kind| self.of_kind(kind)) {
            Some((_, id, _)) => {
                json!({"outcome": {"outcome": "selected", "optionId": id}}).to_string()
            }
            None => CANCELLED.to_owned(),
        }
    }

    /// Returns whether a single use can be allowed.
    pub(crate) fn allows_once(&self) -> bool {
        self.0.iter().any(|(kind, ..)| kind == "allow_once")
    }
}

/// Estimates how much an option allows from its wording. Gemini CLI 0.61.0 offers a whole MCP
/// server before the single tool, and all future sessions as another option.
fn breadth(id: &str, name: &str) -> u32 {
    let words = format!("{id} {name}").to_lowercase();
    let has = |any: &[&str]| u32::from(any.iter().any(|word| words.contains(word)));
    2 * has(&["server", "all tools", "everything"])
        + has(&["future", "permanent", "save", "project", "all sessions", "globally"])
}

#[cfg(test)]
mod tests {
    use aetheel_backend_sdk::json;

    use super::*;

    #[test]
    fn always_selects_the_narrowest_offered_option() {
        // Gemini CLI 0.61.0, for the tool of an MCP server.
        let params = r#"{"options":[{"optionId":"proceed_always_server","name":"Allow all server tools for this session","kind":"allow_always"},
            {"optionId":"proceed_always_and_save","name":"Allow tool for all future sessions","kind":"allow_always"},
            {"optionId":"proceed_always_tool","name":"Allow tool for this session","kind":"allow_always"},
            {"optionId":"proceed_once","name":"Allow","kind":"allow_once"},{"optionId":"cancel","name":"Reject","kind":"reject_once"}]}"#;
        let options = Options::read(&json::parse(params).expect("JSON"));
        assert_eq!(
            options.always().as_deref(),
            Some("Allow tool for this session"),
            "the displayed label is the label of the chosen option"
        );
        let offered = |always| {
            options
                .offered(always)
                .iter()
                .map(|option| (option.id.clone(), option.allows))
                .collect::<Vec<_>>()
        };
        assert_eq!(offered(true).len(), 5);
        assert_eq!(offered(false), [], "only options for a single use are left");
        let chosen = Decision::Chosen("proceed_always_and_save".to_owned());
        assert_eq!(
            (options.meaning(&chosen), options.result(&chosen).contains("proceed_always_and_save")),
            (Decision::AllowAlways, true)
        );
        let unknown = Decision::Chosen("x".to_owned());
        assert_eq!(
            (options.meaning(&unknown), options.result(&unknown).contains("cancel")),
            (Decision::Dismissed, true)
        );
        assert_eq!(
            options.result(&Decision::AllowAlways),
            r#"{"outcome":{"optionId":"proceed_always_tool","outcome":"selected"}}"#
        );
    }

    #[test]
    fn an_option_is_chosen_by_its_kind_and_not_by_its_id() {
        let params = r#"{"options":[{"optionId":"reject","kind":"allow_once","name":"x"},{"optionId":"allow","kind":"reject_once","name":"y"},
            {"optionId":"once","kind":"allow_always","name":"Always z"},{"optionId":"always","kind":"reject_always","name":"w"}]}"#;
        let options = Options::read(&json::parse(params).expect("JSON"));
        let id = |decision| options.result(&decision);
        assert_eq!(
            id(Decision::AllowOnce),
            r#"{"outcome":{"optionId":"reject","outcome":"selected"}}"#
        );
        assert_eq!(
            id(Decision::AllowAlways),
            r#"{"outcome":{"optionId":"once","outcome":"selected"}}"#
        );
        for refusal in
            [Decision::Deny(None), Decision::Deny(Some("no".into())), Decision::Dismissed]
        {
            assert_eq!(id(refusal), r#"{"outcome":{"optionId":"allow","outcome":"selected"}}"#);
        }
        assert_eq!(id(Decision::DenyAndStop), CANCELLED);
        assert_eq!(options.always().as_deref(), Some("Always z"));
        assert_eq!(
            Options::default().result(&Decision::AllowOnce),
            CANCELLED,
            "nothing is offered"
        );
    }
}
