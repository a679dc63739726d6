//! `AGENT_BACKEND=auto`: which backend answers when the operator leaves it to the start.

use super::roster::{Roster, is_demo};
use crate::config::AUTO;
use crate::turn::Backends as _;

/// Who goes first, in this order; the others follow by name, profiles last.
const FIRST: [&str; 2] = ["droid", "opencode"];

/// What was found.
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
        let skipped: Vec<String> = self.skipped.iter().map(|(name, reason)| format!("; not {name}: {reason}")).collect();
        let uncounted = match self.uninstalled {
            0 => String::new(),
            count => format!("; not {count} profiles of acp.md: their programs are not installed"),
        };
        match skipped.is_empty() && self.uninstalled == 0 {
            true => "the first of all".to_owned(),
            false => format!("the first that can work here{}{uncounted}", skipped.concat()),
        }
    }

    /// What is wrong where there is none.
    pub fn faults(&self) -> Vec<String> {
        let first = format!("AGENT_BACKEND {AUTO:?}: no backend can work here; `aetheel backend list` says more");
        let skipped = self.skipped.iter().map(|(name, reason)| format!("backend `{name}`: {reason}"));
        std::iter::once(first).chain(skipped).collect()
    }
}

/// Looks at the agents on this machine without starting any.
pub fn detect(roster: &Roster) -> Detected {
    let names = roster.names();
    let (profiles, components): (Vec<String>, Vec<String>) = names.into_iter().partition(|name| roster.is_profile(name));
    let mut detected = first_of(components, profiles, |name| {
        let Some(backend) = roster.get(name) else { return Some("it is not loaded".to_owned()) };
        if is_demo(&*backend) {
            return Some("it answers only when named".to_owned());
        }
        roster.look(name).map(|findings| findings.reasons()).filter(|reasons| !reasons.is_empty())
    });
    let before = detected.skipped.len();
    let installed = |name: &str| roster.look(name).is_some_and(|findings| findings.program.is_some());
    detected.skipped.retain(|(name, _)| !roster.is_profile(name) || installed(name));
    detected.uninstalled = before - detected.skipped.len();
    detected
}

/// The first with no reason against it.
fn first_of(components: Vec<String>, profiles: Vec<String>, against: impl Fn(&str) -> Option<String>) -> Detected {
    let first = FIRST.map(str::to_owned);
    let others = components.into_iter().chain(profiles).filter(|name| !FIRST.contains(&name.as_str()));
    let mut detected = Detected::default();
    for name in first.into_iter().chain(others) {
        match against(&name) {
            None => {
                detected.name = Some(name);
                break;
            }
            Some(reason) => detected.skipped.push((name, reason)),
        }
    }
    detected
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(able: &[&str]) -> Detected {
        let components = ["claude", "codex", "droid", "opencode"].map(str::to_owned).to_vec();
        first_of(components, vec!["amp".to_owned()], |name| (!able.contains(&name)).then(|| "no".to_owned()))
    }

    #[test]
    fn droid_goes_before_opencode_and_opencode_before_all_others() {
        for (able, name, skipped) in [
            (&["claude", "droid", "opencode"][..], Some("droid"), 0),
            (&["claude", "opencode"], Some("opencode"), 1),
            (&["amp", "codex", "claude"], Some("claude"), 2),
            (&["amp", "codex"], Some("codex"), 3),
            (&["amp"], Some("amp"), 4),
            (&[], None, 5),
        ] {
            let found = found(able);
            assert_eq!((found.name.as_deref(), found.skipped.len()), (name, skipped), "{able:?}: {found:?}");
        }
    }

    #[test]
    fn every_skipped_one_is_named_with_its_reason() {
        assert_eq!(found(&["codex"]).why(), "the first that can work here; not droid: no; not opencode: no; not claude: no");
        assert_eq!(found(&["droid"]).why(), "the first of all");
    }
}
