//! Which of several components of one backend serves: the one made for the agent that is installed.
//! Pure.

use std::cmp::Reverse;

use semver::Version;

use aetheel_model::agent::Descriptor;

/// A component that could serve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contender<'a> {
    pub(super) descriptor: &'a Descriptor,
    /// When its file was written: seconds and nanoseconds.
    pub(super) written: (i64, i64),
}

/// The one that serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) index: usize,
    /// Why it is this one; none: it is the only one.
    pub(super) why: Option<String>,
    /// It may be the wrong one.
    pub(super) doubtful: bool,
}

/// Chooses: of those made for the installed version the highest, of equals the newest file. Where
/// none is, or nobody knows the version, of all. None: there is none.
pub(super) fn choose(contenders: &[Contender<'_>], agent: Option<&str>) -> Option<Choice> {
    let highest = |of: &dyn Fn(&Contender<'_>) -> bool| {
        let ranked = contenders.iter().enumerate().filter(|(_, contender)| of(contender));
        // The first of full equals.
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
        return Some(Choice { index, why: None, doubtful: false });
    }
    let made_for = contenders[index].descriptor.understands.join(" or ");
    let why = match (agent, fitting) {
        (None, _) => "nobody knows the agent's version: it is the highest".to_owned(),
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
    Some(Choice { index, why: Some(why), doubtful: fitting == 0 })
}

/// Versions compare as semver, what is none below all others.
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

    /// The version chosen among (version, understands, written), and why.
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
    fn of_several_that_fit_the_higher_version_then_the_newer_file_serves() {
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
            "what is no version is the lowest"
        );
        let (_, why, _) = chosen(&[("1.0.0", "^2", 1), ("2.0.0", "^2", 1)], Some("2.0.0"));
        assert_eq!(
            why.as_deref(),
            Some("it is the highest of 2 made for the installed agent 2.0.0 (versions ^2)")
        );
    }

    #[test]
    fn where_none_fits_or_nobody_knows_the_highest_serves_and_it_is_said() {
        let all = [("2.0.0", "^2", 1), ("1.0.0", "^1", 9)];
        for agent in [None, Some("9.0.0"), Some("nightly")] {
            let (index, why, doubtful) = chosen(&all, agent);
            assert_eq!((index, doubtful), (0, true), "{agent:?}: {why:?}");
        }
    }

    #[test]
    fn a_single_one_needs_no_reason() {
        assert_eq!(chosen(&[("2.0.0", "^2", 1)], Some("9.0.0")), (0, None, false));
        assert_eq!(choose(&[], None), None);
    }
}
