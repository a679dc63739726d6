//! `AGENT_BACKEND=auto`: detects the default backend at the start.

use crate::agents::{AgentRegistry, is_demo};
use aetheel_model::finding::Finding;
use aetheel_settings::AUTO;
use aetheel_turn::Backends as _;

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
    let candidates = agents.names().into_iter().map(|name| AutoCandidate {
        is_profile: agents.is_profile(&name),
        rank: agents.get(&name).and_then(|backend| backend.descriptor().rank),
        name,
    });
    let mut detected = Detection::default();
    for name in in_order(candidates.collect()) {
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

/// A backend that could be selected.
struct AutoCandidate {
    name: String,
    is_profile: bool,
    /// The rank in its descriptor.
    rank: Option<u32>,
}

/// Returns the order in which backends are tried: by rank, then those without a rank by name, and
/// profiles last.
fn in_order(mut candidates: Vec<AutoCandidate>) -> Vec<String> {
    candidates.sort_by(|a, b| {
        let key = |it: &AutoCandidate| (it.is_profile, it.rank.is_none(), it.rank);
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    });
    candidates.into_iter().map(|candidate| candidate.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::agent::Descriptor;

    fn candidate(name: &str, rank: Option<u32>) -> AutoCandidate {
        AutoCandidate { name: name.to_owned(), is_profile: false, rank }
    }

    #[test]
    fn ranks_decide_the_order_and_backends_without_one_follow_by_name() {
        let profile = AutoCandidate { is_profile: true, ..candidate("amp", Some(1)) };
        let candidates = vec![
            profile,
            candidate("b", None),
            candidate("second", Some(20)),
            candidate("a", None),
            candidate("first", Some(10)),
        ];
        assert_eq!(in_order(candidates), ["first", "second", "a", "b", "amp"]);
    }

    #[test]
    fn the_shipped_components_have_the_ranks_of_the_requirements() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("guest-backends");
        let names = ["acp", "claude", "codex", "demo", "droid", "gemini", "opencode"];
        let candidates = names.map(|name| {
            let path = folder.join(name).join("src/descriptor.json");
            let json = std::fs::read_to_string(path).expect("a descriptor");
            candidate(name, Descriptor::parse(&json).expect("valid").rank)
        });
        assert_eq!(
            in_order(candidates.into()),
            ["claude", "droid", "opencode", "acp", "codex", "demo", "gemini"]
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
