//! Selects the component of a backend that serves: one that is made for the installed agent. Pure.

use std::cmp::Reverse;

use semver::Version;

use aetheel_model::agent::Descriptor;

/// A component that could serve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contender<'a> {
    pub(super) descriptor: &'a Descriptor,
    /// When its file was written, in seconds and nanoseconds.
    pub(super) written: (i64, i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ComponentChoice {
    pub(super) index: usize,
    /// The reason for the selection, or `None` if there is only one component.
    pub(super) why: Option<String>,
    /// Whether it may be the wrong one.
    pub(super) doubtful: bool,
}

/// Selects, among the components made for the installed version, the one with the highest version,
/// and among equal versions the newest file. If no component fits or the agent's version is not
/// known, selects among all components. Returns `None` if there are no components.
pub(super) fn choose(contenders: &[Contender<'_>], agent: Option<&str>) -> Option<ComponentChoice> {
    let highest = |of: &dyn Fn(&Contender<'_>) -> bool| {
        let ranked = contenders.iter().enumerate().filter(|(_, contender)| of(contender));
        // The first one of equal candidates wins.
        ranked
            .max_by_key(|(index, contender)| {
                (rank(&contender.descriptor.version), contender.written, Reverse(*index))
            })
            .map(|(index, _)| index)
    };
    let fits = |contender: &Contender<'_>| {
        agent.is_some_and(|agent| contender.descriptor.fits(agent) == Some(true))
    };
    let fitting = contenders.iter().filter(|contender| fits(contender)).count();
    let index = highest(&fits).or_else(|| highest(&|_| true))?;
    if contenders.len() == 1 {
        return Some(ComponentChoice { index, why: None, doubtful: false });
    }
    let made_for = contenders[index].descriptor.understands.join(" or ");
    let why = match (agent, fitting) {
        (None, _) => "the agent's version is unknown: it is the highest".to_owned(),
        (Some(agent), 0) => format!("none is made for agent {agent}: it is the highest"),
        (Some(agent), 1) => {
            format!("it is made for agent versions {made_for}, installed is {agent}")
        }
        (Some(agent), several) => {
            format!(
                "it is the highest of {several} made for the installed agent {agent} (versions {made_for})"
            )
        }
    };
    Some(ComponentChoice { index, why: Some(why), doubtful: fitting == 0 })
}

/// Parses a version as semver. Other versions are lower than all that can be parsed.
fn rank(version: &str) -> Option<Version> {
    aetheel_model::agent::descriptor::version(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(version: &str, understands: &[&str]) -> Descriptor {
        let understands = serde_json::json!(understands);
        let json = serde_json::json!({"name": "x", "version": version, "programs": [{"name": "x"}], "understands": understands});
        Descriptor::parse(&json.to_string()).expect("valid")
    }

    /// Returns the index of the selected component among (version, understands, written), the
    /// reason, and whether the selection is doubtful.
    fn chosen(all: &[(&str, &str, i64)], agent: Option<&str>) -> (usize, Option<String>, bool) {
        let descriptors: Vec<Descriptor> = all
            .iter()
            .map(|(version, understands, _)| descriptor(version, &[understands]))
            .collect();
        let contenders: Vec<_> = descriptors
            .iter()
            .zip(all)
            .map(|(descriptor, (_, _, written))| Contender { descriptor, written: (*written, 0) })
            .collect();
        let choice = choose(&contenders, agent).expect("there are some");
        (choice.index, choice.why, choice.doubtful)
    }

    #[test]
    fn the_one_made_for_the_installed_agent_serves() {
        let all = [("0.9.0", "^2", 1), ("0.10.0", "^1", 1), ("0.1.0", "^3", 9)];
        for (agent, index) in [("2.1.197", 0), ("1.0", 1), ("3", 2)] {
            let (found, why, doubtful) = chosen(&all, Some(agent));
            assert_eq!((found, doubtful), (index, false), "{agent}");
            assert!(why.is_some_and(|why| why.ends_with(&format!("installed is {agent}"))));
        }
    }

    #[test]
    fn the_highest_fitting_version_and_then_the_newest_file_serves() {
        assert_eq!(
            chosen(&[("0.9.0", "^2", 5), ("0.10.0", "^2", 1)], Some("2.0.0")).0,
            1,
            "not as text"
        );
        assert_eq!(chosen(&[("0.9.0", "^2", 5), ("0.9.0", ">=2", 6)], Some("2.0.0")).0, 1);
        assert_eq!(chosen(&[("0.9.0", "^2", 6), ("0.9.0", ">=2", 5)], Some("2.0.0")).0, 0);
        assert_eq!(
            chosen(&[("odd", "^2", 9), ("0.0.1", "^2", 1)], Some("2.0.0")).0,
            1,
            "an invalid version is the lowest"
        );
        let (_, why, _) = chosen(&[("1.0.0", "^2", 1), ("2.0.0", "^2", 1)], Some("2.0.0"));
        assert_eq!(
            why.as_deref(),
            Some("it is the highest of 2 made for the installed agent 2.0.0 (versions ^2)")
        );
    }

    #[test]
    fn without_a_fitting_component_the_highest_serves_and_is_doubtful() {
        let all = [("2.0.0", "^2", 1), ("1.0.0", "^1", 9)];
        for agent in [None, Some("9.0.0"), Some("nightly")] {
            let (index, why, doubtful) = chosen(&all, agent);
            assert_eq!((index, doubtful), (0, true), "{agent:?}: {why:?}");
        }
    }

    #[test]
    fn a_single_component_needs_no_reason() {
        assert_eq!(chosen(&[("2.0.0", "^2", 1)], Some("9.0.0")), (0, None, false));
        assert_eq!(choose(&[], None), None);
    }
}
