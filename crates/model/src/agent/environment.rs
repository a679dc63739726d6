//! The environment variables of an agent.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

/// The environment variables that reach the agent in addition to the host's base list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Environment {
    /// Variables that the guest may set.
    pub set: Vec<String>,
    /// Variables whose values the host passes on.
    pub pass: Vec<String>,
    /// The variables of `pass` and of the credentials whose values are absolute paths that the
    /// agent reads. With `None`, all credentials count as such variables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
    /// The gateway's variables whose values the agent gets under other names, by the agent's name.
    /// Set only by the operator's accounts, never by a backend.
    #[serde(skip)]
    pub sources: BTreeMap<String, String>,
}

impl Environment {
    /// Returns the gateway's variables as the agent's names refer to them.
    #[must_use]
    pub fn seen_by_agent<'a>(
        &self,
        variables: &'a HashMap<String, String>,
    ) -> Cow<'a, HashMap<String, String>> {
        if self.sources.is_empty() {
            return Cow::Borrowed(variables);
        }
        let mut seen = variables.clone();
        for (name, source) in &self.sources {
            match variables.get(source) {
                Some(value) => drop(seen.insert(name.clone(), value.clone())),
                None => drop(seen.remove(name)),
            }
        }
        Cow::Owned(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_replaces_the_values_of_its_variables_and_a_missing_source_removes_them() {
        let pairs = |pairs: &[(&str, &str)]| -> HashMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
        };
        let variables = pairs(&[("KEY", "own"), ("HOME", "/home"), ("WORK_KEY", "work")]);
        let of = |source: &str| Environment {
            sources: BTreeMap::from([("KEY".to_owned(), source.to_owned())]),
            ..Environment::default()
        };
        assert_eq!(*Environment::default().seen_by_agent(&variables), variables);
        assert_eq!(of("WORK_KEY").seen_by_agent(&variables)["KEY"], "work");
        assert_eq!(of("MISSING").seen_by_agent(&variables).get("KEY"), None);
        let text = serde_json::to_string(&of("WORK_KEY")).expect("serialised");
        assert!(!text.contains("WORK_KEY"), "a backend cannot see or choose sources: {text}");
        let forged = r#"{"sources":{"KEY":"DISCORD_BOT_TOKEN"}}"#;
        let parsed = serde_json::from_str::<Environment>(forged).unwrap_or_default();
        assert_eq!(parsed.sources, BTreeMap::new());
    }
}
