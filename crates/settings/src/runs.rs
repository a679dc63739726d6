//! Which backends keep their agent running, and which start it for each turn.

use std::collections::BTreeMap;

use crate::parsers::list;

/// How an agent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunMode {
    /// The agent continues to run after a turn.
    Live,
    /// One process for each turn.
    OneShot,
}

impl RunMode {
    /// Returns the word for the mode in settings: `live` or `one-shot`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::OneShot => "one-shot",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Live, Self::OneShot].into_iter().find(|run| run.word() == text)
    }
}

/// The operator's choices of [`RunMode`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunModes {
    /// The choice for backends that are not named.
    pub all: Option<RunMode>,
    /// The choices for single backends, by name.
    pub named: BTreeMap<String, RunMode>,
}

impl RunModes {
    /// Parses items such as `live` and `codex=one-shot`. The second part of the result contains
    /// their faults.
    pub(super) fn parse(text: &str) -> (Self, Vec<String>) {
        let (mut runs, mut faults) = (Self::default(), Vec::new());
        for item in list(text) {
            let (name, run) = item
                .split_once('=')
                .map_or((None, item), |(name, run)| (Some(name.trim()), run.trim()));
            match (name, RunMode::parse(run)) {
                (None, Some(run)) => runs.all = Some(run),
                (Some(name), Some(run)) if !name.is_empty() => drop(runs.named.insert(name.to_owned(), run)),
                _ => faults.push(format!("{item:?} must be `live`, `one-shot`, or one of them after a backend's name and `=`")),
            }
        }
        (runs, faults)
    }

    /// Returns the choice for a backend, or else the one for all.
    #[must_use]
    pub fn of(&self, backend: &str) -> Option<RunMode> {
        self.named.get(backend).copied().or(self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_of_a_named_backend_overrides_the_one_for_all() {
        let (runs, faults) = RunModes::parse("codex = live,one-shot");
        assert_eq!(
            (runs.of("codex"), runs.of("claude"), faults),
            (Some(RunMode::Live), Some(RunMode::OneShot), vec![])
        );
        assert_eq!(RunModes::default().of("codex"), None);
    }

    #[test]
    fn an_invalid_item_is_reported() {
        let (_, faults) = RunModes::parse("once,=live,codex=,claude=live");
        assert_eq!(faults.len(), 3, "{faults:?}");
    }
}
