//! Permissions that users granted for a whole session, each with the safety level of its turn.

use crate::wit::{Mode, Safety, Settings};

/// The permissions of one session that were given as "always". A turn with a lower safety level, or
/// one that only plans, revokes the permissions given above its level; they stay revoked in later
/// turns.
#[derive(Clone, Debug)]
pub struct Grants<G> {
    /// Safety level of the current turn; 0 for planning.
    reach: u8,
    given: Vec<(u8, G)>,
}

impl<G> Default for Grants<G> {
    fn default() -> Self {
        Self { reach: ASKING, given: Vec::new() }
    }
}

/// Lowest level of a permission. Planning allows nothing, so a permission given in a planning turn
/// is for carrying out the plan.
const ASKING: u8 = 1;

impl<G: PartialEq> Grants<G> {
    /// Begins a turn with these settings. Returns whether permissions were revoked.
    pub fn begin(&mut self, settings: &Settings) -> bool {
        self.reach = reach(settings);
        let before = self.given.len();
        self.given.retain(|(reach, _)| *reach <= self.reach);
        self.given.len() < before
    }

    /// Adds a permission.
    pub fn give(&mut self, grant: G) {
        if !self.holds(&grant) {
            self.given.push((self.reach.max(ASKING), grant));
        }
    }

    /// Returns whether a permission is given.
    pub fn holds(&self, grant: &G) -> bool {
        self.given.iter().any(|(_, given)| given == grant)
    }

    /// Returns the permissions with the level each was given at, for [`Self::restored`].
    pub fn given(&self) -> &[(u8, G)] {
        &self.given
    }

    /// Restores the permissions that another instance of the link held between turns.
    #[must_use]
    pub fn restored(given: Vec<(u8, G)>) -> Self {
        Self { given, ..Self::default() }
    }

    /// Revokes all permissions, so that the next use of each needs a question.
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
    fn a_grant_holds_at_its_level_and_above() {
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
            "planning allows nothing at any level"
        );
        grants.begin(&settings(Safety::Danger, Mode::Build));
        assert!(grants.given().is_empty(), "revoked permissions stay revoked");
    }

    #[test]
    fn a_grant_from_a_planning_turn_holds_only_outside_planning() {
        let mut grants = Grants::default();
        grants.begin(&settings(Safety::Edit, Mode::Plan));
        grants.give("make");
        assert!(grants.holds(&"make"));
        assert!(grants.begin(&settings(Safety::Edit, Mode::Plan)));
        let restored = Grants::restored(vec![(2, "make")]);
        assert!(restored.holds(&"make"));
    }
}
