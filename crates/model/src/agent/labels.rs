//! The labels of choices, which are the same for every agent.

use super::{AskOption, DecisionScope};

/// The label of an option that allows one call of a tool.
pub const ALLOW_ONCE: &str = "Allow once";
/// The label of an option that allows a tool until the session ends.
pub const ALLOW_SESSION: &str = "Allow for this session";

/// Labels of agents that add nothing to the kind of the option.
const PLAIN_LABELS: [&str; 11] = [
    "allow",
    "allow always",
    "always",
    "approve",
    "deny",
    "never",
    "no",
    "proceed",
    "reject",
    "reject always",
    "yes",
];

impl AskOption {
    /// Returns the effect of this answer, in the same words for every agent, followed by the
    /// agent's own label if that adds something.
    ///
    /// The first words come from the option's kind, so that a label cannot claim the opposite.
    #[must_use]
    pub fn full_label(&self) -> String {
        let does = match (self.allows, self.scope) {
            (true, DecisionScope::Once) => ALLOW_ONCE,
            (true, DecisionScope::Session) => ALLOW_SESSION,
            (true, DecisionScope::Project) => "Always allow in this project",
            (true, DecisionScope::User | DecisionScope::Always) => "Always allow",
            (false, DecisionScope::Once) => "Deny",
            (false, DecisionScope::Session) => "Deny for this session",
            (false, DecisionScope::Project) => "Always deny in this project",
            (false, DecisionScope::User | DecisionScope::Always) => "Always deny",
        };
        let own = self.label.trim();
        let lower = own.to_lowercase();
        if own.is_empty() || PLAIN_LABELS.contains(&lower.as_str()) || lower == does.to_lowercase()
        {
            return does.to_owned();
        }
        // Avoids labels such as "Always allow: Always Allow npm test".
        match lower.strip_prefix("always allow ") {
            Some(rest) if does == "Always allow" && own.is_ascii() => {
                format!("{does}: {}", &own[own.len() - rest.len()..])
            }
            _ => format!("{does}: {own}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_begins_with_the_effect_of_the_answer() {
        let option = |id: &str, label: &str, allows, scope| AskOption {
            id: id.to_owned(),
            label: label.to_owned(),
            allows,
            scope,
        };
        for (option, label) in [
            (option("a", "Yes", true, DecisionScope::Once), "Allow once"),
            (option("a", "Deny", true, DecisionScope::Once), "Allow once"),
            (option("a", "Never do it", true, DecisionScope::Always), "Always allow: Never do it"),
            (
                option("a", "Always Allow npm test", true, DecisionScope::Always),
                "Always allow: npm test",
            ),
            (
                option("a", "Allow for this session", true, DecisionScope::Session),
                "Allow for this session",
            ),
            (option("a", "Allow", false, DecisionScope::Once), "Deny"),
            (
                option("a", "No, keep planning", false, DecisionScope::Once),
                "Deny: No, keep planning",
            ),
        ] {
            assert_eq!(option.full_label(), label);
        }
    }
}
