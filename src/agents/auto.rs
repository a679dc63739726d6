//! `AGENT_BACKEND=auto`: which backend answers when the operator leaves it to the start.

use crate::agents::{AgentRegistry, is_demo};
use crate::config::AUTO;
use crate::turn::Backends as _;

/// The backends tried first, in this order; the others follow by name, profiles last.
const FIRST: [&str; 2] = ["droid", "opencode"];

/// The result of looking for a backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detected {
    /// The first backend that can work here.
    pub name: Option<String>,
    /// Those before it, each with why it cannot.
    pub skipped: Vec<(String, String)>,
    /// Profiles before it whose programs are not there.
    pub uninstalled: usize,
}

impl Detected {
    /// Why it came to this, as one line; profiles of agents that nobody installed are only counted.
    pub fn why(&self) -> String {
        let skipped: Vec<String> =
            self.skipped.iter().map(|(name, reason)| format!("; not {name}: {reason}")).collect();
        let uncounted = match self.uninstalled {
            0 => String::new(),
            count => format!("; not {count} profiles of acp.md: their programs are not installed"),
        };
        match skipped.is_empty() && self.uninstalled == 0 {
            true => "the first of all".to_owned(),
            false => format!("the first that can work here{}{uncounted}", skipped.concat()),
        }
    }

    /// The faults to report where no backend was found.
    pub fn faults(&self) -> Vec<String> {
        let first = format!(
            "AGENT_BACKEND {AUTO:?}: no backend can work here; `aetheel backend list` says more"
        );
        let skipped =
            self.skipped.iter().map(|(name, reason)| format!("backend `{name}`: {reason}"));
        std::iter::once(first).chain(skipped).collect()
    }
}

/// Looks at the agents on this machine, and asks those that look well for their versions, one after
/// the other until one answers.
pub async fn detect(agents: &AgentRegistry) -> Detected {
    let (profiles, components): (Vec<String>, Vec<String>) =
        agents.names().into_iter().partition(|name| agents.is_profile(name));
    let mut detected = Detected::default();
    for name in in_order(components, profiles) {
        match against(agents, &name).await {
            None => {
                detected.name = Some(name);
                break;
            }
            Some(reason) => detected.skipped.push((name, reason)),
        }
    }
    let before = detected.skipped.len();
    let installed =
        |name: &str| agents.look(name).is_some_and(|findings| findings.program.is_some());
    detected.skipped.retain(|(name, _)| !agents.is_profile(name) || installed(name));
    detected.uninstalled = before - detected.skipped.len();
    detected
}

/// Why a backend cannot work here; none: its agent answered.
async fn against(agents: &AgentRegistry, name: &str) -> Option<String> {
    let Some(backend) = agents.get(name) else { return Some("it is not loaded".to_owned()) };
    if is_demo(&*backend) {
        return Some("it answers only when named".to_owned());
    }
    let looked = agents.look(name).map(|findings| findings.reasons()).unwrap_or_default();
    if !looked.is_empty() {
        return Some(looked);
    }
    agents
        .examine(name)
        .await
        .map(|findings| findings.reasons())
        .filter(|reasons| !reasons.is_empty())
}

/// The order in which backends are tried.
fn in_order(components: Vec<String>, profiles: Vec<String>) -> Vec<String> {
    let others =
        components.into_iter().chain(profiles).filter(|name| !FIRST.contains(&name.as_str()));
    FIRST.map(str::to_owned).into_iter().chain(others).collect()
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
    fn every_skipped_one_is_named_with_its_reason() {
        let skipped =
            ["droid", "opencode", "claude"].map(|name| (name.to_owned(), "no".to_owned())).to_vec();
        let found = Detected { name: Some("codex".to_owned()), skipped, uninstalled: 0 };
        assert_eq!(
            found.why(),
            "the first that can work here; not droid: no; not opencode: no; not claude: no"
        );
        assert_eq!(
            Detected { name: Some("droid".to_owned()), ..Detected::default() }.why(),
            "the first of all"
        );
    }
}
