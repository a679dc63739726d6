//! The permissions people gave for the whole session, and up to which level.

use crate::wit::{Mode, Safety, Settings};

/// Things that were allowed "always", of one session. None outlives a turn that may do less than
/// the one it was given in: a lower safety level and planning ask again, and what they took back
/// stays so.
#[derive(Clone, Debug)]
pub struct Grants<G> {
    /// How far the current turn may go.
    reach: u8,
    given: Vec<(u8, G)>,
}

impl<G> Default for Grants<G> {
    fn default() -> Self {
        Self { reach: ASKING, given: Vec::new() }
    }
}

/// The least reach at which anything can be allowed: planning allows nothing, so what is allowed in
/// a turn that planned is for carrying the plan out.
const ASKING: u8 = 1;

impl<G: PartialEq> Grants<G> {
    /// A turn with these settings begins. Returns whether anything was taken back.
    pub fn begin(&mut self, settings: &Settings) -> bool {
        self.reach = reach(settings);
        let before = self.given.len();
        self.given.retain(|(reach, _)| *reach <= self.reach);
        self.given.len() < before
    }

    /// Something is allowed from now on.
    pub fn give(&mut self, grant: G) {
        if !self.holds(&grant) {
            self.given.push((self.reach.max(ASKING), grant));
        }
    }

    /// Whether it is allowed.
    pub fn holds(&self, grant: &G) -> bool {
        self.given.iter().any(|(_, given)| given == grant)
    }

    /// Returns the grants, with the reach each was given at, for [`Self::restored`].
    pub fn given(&self) -> &[(u8, G)] {
        &self.given
    }

    /// Takes over what another link held between turns.
    #[must_use]
    pub fn restored(given: Vec<(u8, G)>) -> Self {
        Self { given, ..Self::default() }
    }

    /// Takes all grants back: the next use of each is asked for again.
    pub fn clear(&mut self) {
        self.given.clear();
    }
}

fn reach(settings: &Settings) -> u8 {
    match (settings.mode, settings.safety) {
        (Mode::Plan, _) => 0,
        (Mode::Build, Safety::Default) => ASKING,
        (Mode::Build, Safety::Edit) => 2,
        (Mode::Build, Safety::Danger) => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(safety: Safety, mode: Mode) -> Settings {
        Settings {
            model: None,
            safety,
            mode,
            effort: None,
            system_prompt: None,
            allowed_tools: Vec::new(),
            max_turns: None,
            options: "{}".to_owned(),
        }
    }

    #[test]
    fn what_was_allowed_at_a_level_holds_there_and_above_and_never_below() {
        let mut grants = Grants::default();
        assert!(!grants.begin(&settings(Safety::Default, Mode::Build)));
        grants.give("ls");
        grants.begin(&settings(Safety::Edit, Mode::Build));
        grants.give("make");
        grants.give("make");
        assert_eq!(grants.given(), [(1, "ls"), (2, "make")]);
        assert!(!grants.begin(&settings(Safety::Danger, Mode::Build)));
        assert!(grants.begin(&settings(Safety::Default, Mode::Build)));
        assert!(grants.holds(&"ls") && !grants.holds(&"make"));
        assert!(
            grants.begin(&settings(Safety::Danger, Mode::Plan)),
            "planning allows nothing, whatever the level"
        );
        grants.begin(&settings(Safety::Danger, Mode::Build));
        assert!(grants.given().is_empty(), "what was taken back stays so");
    }

    #[test]
    fn what_is_allowed_once_a_plan_is_carried_out_is_not_allowed_while_planning() {
        let mut grants = Grants::default();
        grants.begin(&settings(Safety::Edit, Mode::Plan));
        grants.give("make");
        assert!(grants.holds(&"make"));
        assert!(grants.begin(&settings(Safety::Edit, Mode::Plan)));
        let restored = Grants::restored(vec![(2, "make")]);
        assert!(restored.holds(&"make"));
    }
}
