//! Requests for files that another conversation uses: people decide about them, whatever policies
//! allow.

use super::{PolicyEffect, PolicyRuling, PolicyVote};
use crate::agent::AskKey;
use crate::redact::Redactor;

/// The name of the vote for files that another conversation uses. No policy has this name, because
/// names of policies contain no blanks.
const COLLISION_VOTE: &str = "file collisions";

impl PolicyRuling {
    /// Returns the decision about a question for which no policy has a rule.
    #[must_use]
    pub fn undecided(ask: AskKey) -> Self {
        Self { ask, effect: PolicyEffect::Ask, over_ceiling: false, votes: Vec::new() }
    }

    /// Returns the decision if the files of the request are used by another conversation: people are
    /// asked, unless a policy denies the request.
    #[must_use]
    pub fn with_collision(mut self, reason: String, redactor: &Redactor) -> Self {
        let vote = PolicyVote {
            policy: COLLISION_VOTE.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            effect: PolicyEffect::Ask,
            reason,
            failed: false,
        };
        if self.effect != PolicyEffect::Deny {
            self.effect = PolicyEffect::Ask;
            self.over_ceiling = false;
        }
        self.votes.insert(0, vote.bounded(redactor));
        self
    }

    /// Returns why people are asked, if that is because another conversation uses the files.
    #[must_use]
    pub fn collision(&self) -> Option<&str> {
        let vote = self.votes.first().filter(|vote| vote.policy == COLLISION_VOTE)?;
        (self.effect == PolicyEffect::Ask).then_some(vote.reason.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ruling(effect: PolicyEffect) -> PolicyRuling {
        let vote = PolicyVote {
            policy: "p".to_owned(),
            version: "1".to_owned(),
            effect,
            reason: String::new(),
            failed: false,
        };
        PolicyRuling { ask: 7, effect, over_ceiling: false, votes: vec![vote] }
    }

    #[test]
    fn a_collision_asks_people_although_policies_allow_but_a_denial_stays() {
        let of = |effect| {
            ruling(effect).with_collision("`a` was changed".to_owned(), &Redactor::default())
        };
        let held = of(PolicyEffect::Allow);
        assert_eq!((held.effect, held.collision()), (PolicyEffect::Ask, Some("`a` was changed")));
        assert!(!held.is_final() && held.line().is_some_and(|line| line.contains("was changed")));
        let denied = of(PolicyEffect::Deny);
        assert_eq!((denied.effect, denied.collision()), (PolicyEffect::Deny, None));
        assert!(denied.refusal().contains("`p`"), "{}", denied.refusal());
        assert_eq!(PolicyRuling::undecided(7).collision(), None);
    }
}
