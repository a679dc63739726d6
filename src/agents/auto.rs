//! `AGENT_BACKEND=auto`: detects the default backend at the start.

use crate::agents::{AgentRegistry, is_demo};
use crate::config::AUTO;
use crate::finding::Finding;
use crate::turn::Backends as _;

/// The backends that are tried first, in this order. The others follow by name, profiles last.
const PREFERRED: [&str; 2] = ["droid", "opencode"];

/// Result of the detection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detection {
    /// The first backend that can work here.
    pub name: Option<String>,
    /// The backends before it, each with the reason why it cannot work.
    pub skipped: Vec<(String, String)>,
    /// Number of profiles before it whose programs are not installed.
    pub uninstalled: usize,
}

impl Detection {
    /// Explains the result in one line. Profiles without an installed program are only counted.
    pub fn why(&self) -> String {
        let skipped: Vec<String> =
            self.skipped.iter().map(|(name, reason)| format!("; not {name}: {reason}")).collect();
        let uncounted = match self.uninstalled {
            0 => String::new(),
            1 => "; not 1 profile of acp.md: its program is not installed".to_owned(),
            count => format!("; not {count} profiles of acp.md: their programs are not installed"),
        };
        match skipped.is_empty() && self.uninstalled == 0 {
            true => "the first of all".to_owned(),
            false => format!("the first that can work here{}{uncounted}", skipped.concat()),
        }
    }

    /// Returns the problems to report if no backend can work here.
    pub fn faults(&self) -> Vec<Finding> {
        let unavailable = |message| Finding::unavailable("default backend", message);
        let first = unavailable(format!("AGENT_BACKEND {AUTO:?}: no backend can work here"))
            .with_hint("run `aetheel backend list`");
        let skipped = self.skipped.iter();
        let skipped =
            skipped.map(|(name, reason)| unavailable(format!("backend `{name}`: {reason}")));
        std::iter::once(first).chain(skipped).collect()
    }
}

/// Inspects the agents in order, and runs each one without a problem to get its version. Stops at
/// the first agent that responds.
pub async fn detect(agents: &AgentRegistry) -> Detection {
    let (profiles, components): (Vec<String>, Vec<String>) =
        agents.names().into_iter().partition(|name| agents.is_profile(name));
    let mut detected = Detection::default();
    for name in in_order(components, profiles) {
        match unusable_reason(agents, &name).await {
            None => {
                detected.name = Some(name);
                break;
            }
            Some(reason) => detected.skipped.push((name, reason)),
        }
    }
    let before = detected.skipped.len();
    let installed =
        |name: &str| agents.inspect(name).is_some_and(|findings| findings.program.is_some());
    detected.skipped.retain(|(name, _)| !agents.is_profile(name) || installed(name));
    detected.uninstalled = before - detected.skipped.len();
    detected
}

/// Returns the reason why a backend cannot work here, or `None` if its agent responded.
async fn unusable_reason(agents: &AgentRegistry, name: &str) -> Option<String> {
    let Some(backend) = agents.get(name) else { return Some("it is not loaded".to_owned()) };
    if is_demo(&*backend) {
        return Some("it answers only when named".to_owned());
    }
    let looked = agents.inspect(name).map(|findings| findings.reasons()).unwrap_or_default();
    if !looked.is_empty() {
        return Some(looked);
    }
    agents
        .examine(name)
        .await
        .map(|findings| findings.reasons())
        .filter(|reasons| !reasons.is_empty())
}

/// Returns the order in which backends are tried.
fn in_order(components: Vec<String>, profiles: Vec<String>) -> Vec<String> {
    let others =
        components.into_iter().chain(profiles).filter(|name| !PREFERRED.contains(&name.as_str()));
    PREFERRED.map(str::to_owned).into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn droid_goes_before_opencode_and_opencode_before_all_others() {
        let components = ["claude", "codex", "droid", "opencode"].map(str::to_owned).to_vec();
        assert_eq!(
            in_order(components, vec!["amp".to_owned()]),
            ["droid", "opencode", "claude", "codex", "amp"]
        );
    }

    #[test]
    fn every_skipped_backend_is_listed_with_its_reason() {
        let skipped =
            ["droid", "opencode", "claude"].map(|name| (name.to_owned(), "no".to_owned())).to_vec();
        let found = Detection { name: Some("codex".to_owned()), skipped, uninstalled: 0 };
        assert_eq!(
            found.why(),
            "the first that can work here; not droid: no; not opencode: no; not claude: no"
        );
        assert_eq!(
            Detection { name: Some("droid".to_owned()), ..Detection::default() }.why(),
            "the first of all"
        );
    }
}
