//! The buttons below notices about rollouts. Pure.
//!
//! The id of a button names the machine, the component and the decision. So it works after a
//! restart, and never decides about another version than its message shows. Its beginning differs
//! between notices, because it prevents a second post of the same notice.

use sha2::{Digest as _, Sha256};

use crate::outlet::Offer;
use aetheel_store::workspace::RolloutNote;

/// The reason for a notice with buttons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoticeKind {
    /// The rollout begins. Contains how often this process began it before.
    Began(u8),
    /// A harmful difference stopped the rollout.
    Stopped,
    /// The version cannot be promoted by itself.
    Waits,
}

/// A decision of an owner about a version on rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutDecision {
    /// It serves from now on.
    Promote,
    /// It is dropped.
    Withdraw,
}

impl RolloutDecision {
    /// Parses `promote` or `withdraw`.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Promote, Self::Withdraw].into_iter().find(|decision| decision.word() == word)
    }

    /// Returns `promote` or `withdraw`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Promote => "promote",
            Self::Withdraw => "withdraw",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Promote => "Promote",
            Self::Withdraw => "Withdraw",
        }
    }
}

const PREFIX: &str = "ro";
/// Lengths of the marks of the machine and the component in an id.
const MACHINE: usize = 4;
const COMPONENT: usize = 10;

/// The content of a button's id.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RolloutOffer<'a> {
    pub(super) backend: &'a str,
    pub(super) decision: RolloutDecision,
    machine: &'a str,
    component: &'a str,
}

impl<'a> RolloutOffer<'a> {
    /// Parses an id. Returns `None` for any other button.
    pub(super) fn parse(id: &'a str) -> Option<Self> {
        let (mark, rest) = id.split_once('-')?;
        let (word, backend) = rest.split_once('-')?;
        let mark = mark.strip_prefix(PREFIX).filter(|mark| mark.is_ascii())?;
        let (machine, component) = mark.get(1..)?.split_at_checked(MACHINE)?;
        let decision = RolloutDecision::parse(word)?;
        (component.len() == COMPONENT).then_some(Self { backend, decision, machine, component })
    }

    /// Returns whether the button is about this component on this machine.
    pub(super) fn is_about(&self, machine: Option<&str>, digest: &str) -> bool {
        self.machine == machine_mark(machine) && digest.starts_with(self.component)
    }
}

/// Returns the buttons of a notice about a rollout.
pub(super) fn buttons(kind: NoticeKind, machine: Option<&str>, note: &RolloutNote) -> Vec<Offer> {
    let kind = match kind {
        NoticeKind::Began(before) => char::from(b'a' + before % 10),
        NoticeKind::Stopped => 's',
        NoticeKind::Waits => 'w',
    };
    let component = note.digest.get(..COMPONENT).unwrap_or(&note.digest);
    let stem = format!("{PREFIX}{kind}{}{component}", machine_mark(machine));
    let offer = |decision: RolloutDecision| Offer {
        id: format!("{stem}-{}-{}", decision.word(), note.backend),
        label: decision.label().to_owned(),
    };
    [RolloutDecision::Promote, RolloutDecision::Withdraw].map(offer).into()
}

/// Identifies a machine of a cluster. Each machine has its own rollouts.
fn machine_mark(machine: Option<&str>) -> String {
    let digest = Sha256::digest(machine.unwrap_or_default());
    digest.iter().take(MACHINE / 2).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_button_is_about_one_version_on_one_machine() {
        let note = |digit: &str| RolloutNote::new("long-name", &digit.repeat(64));
        let [promote, withdraw] = &buttons(NoticeKind::Began(0), Some("one"), &note("a"))[..]
        else {
            panic!("two buttons");
        };
        let read = RolloutOffer::parse(&promote.id).expect("read");
        assert_eq!((read.backend, read.decision), ("long-name", RolloutDecision::Promote));
        assert_eq!(
            RolloutOffer::parse(&withdraw.id).map(|read| read.decision),
            Some(RolloutDecision::Withdraw)
        );
        assert!(read.is_about(Some("one"), &"a".repeat(64)));
        assert!(!read.is_about(Some("two"), &"a".repeat(64)));
        assert!(!read.is_about(None, &"a".repeat(64)) && !read.is_about(Some("one"), "b"));
        for other in
            ["", "17-0", "lost-ab12cd34", "approve-ab-mini", "rob-promote-mini", "roé-promote-x"]
        {
            assert_eq!(RolloutOffer::parse(other), None, "{other}");
        }
        // Discord compares only this much to prevent a second post.
        let beginning = |kind, machine, digit| {
            let offers = buttons(kind, machine, &note(digit));
            assert!(offers.iter().all(|offer| offer.id.len() <= 64));
            offers[0].id[..17].to_owned()
        };
        let first = beginning(NoticeKind::Began(0), None, "a");
        assert_ne!(first, beginning(NoticeKind::Began(1), None, "a"));
        assert_ne!(first, beginning(NoticeKind::Stopped, None, "a"));
        assert_ne!(first, beginning(NoticeKind::Began(0), Some("one"), "a"));
        assert_ne!(first, beginning(NoticeKind::Began(0), None, "b"));
    }
}
