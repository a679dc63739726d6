//! Texts about rollouts for the operator. Pure.

use super::offers::NoticeKind;
use aetheel_model::plain::counted;
use aetheel_model::rollout::Rollout;
use aetheel_recording::Backend;
use aetheel_recording::comparison::TurnDifference;
use aetheel_store::workspace::{RolloutNote, RolloutState};

/// Maximum number of differences in a notice.
const SHOWN_DIFFERENCES: usize = 3;
/// Maximum number of channels in a notice.
const SHOWN_CHANNELS: usize = 10;

/// The rollout that a text is about.
pub(super) struct DescribedRollout<'a> {
    /// The version in the descriptor of the new component.
    pub(super) version: &'a str,
    /// The version that serves, with the beginning of its digest.
    pub(super) serving: String,
    pub(super) note: &'a RolloutNote,
    pub(super) rollout: &'a Rollout,
    /// The name of this machine, in a cluster.
    pub(super) machine: Option<&'a str>,
}

/// Returns a version with the beginning of its digest, because several builds may have one version.
pub(super) fn named(backend: &dyn Backend) -> String {
    let digest = &backend.generation().digest;
    let digest = digest.get(..12).unwrap_or(digest);
    format!("{} (`{digest}`)", backend.descriptor().version)
}

impl DescribedRollout<'_> {
    /// Returns `Version V (…) of NAME`, in a cluster with the machine.
    fn name(&self) -> String {
        let (component, backend) = (short(self.note), &self.note.backend);
        let machine = self.machine.map(|name| format!(" on machine `{name}`"));
        format!(
            "Version {} (`{component}`) of **{backend}**{}",
            self.version,
            machine.unwrap_or_default()
        )
    }

    /// Returns the notice about something that an owner can decide.
    pub(super) fn notice(&self, kind: NoticeKind) -> String {
        let backend = &self.note.backend;
        match kind {
            NoticeKind::Began(_) => format!(
                "🆕 {} {}\nMy owner decides earlier with a button, `aetheel backend promote {backend}` or `aetheel backend withdraw {backend}`. (rollout)",
                self.name(),
                self.plan()
            ),
            NoticeKind::Stopped => {
                self.harm(&format!(
                    "🛑 {} does not serve, because it reads a turn worse than version {}:",
                    self.name(),
                    self.serving
                )) + &format!(
                    "\n`aetheel backend rollout {backend}` shows all differences. My owner drops it or uses it anyway, with a button or with `aetheel backend withdraw {backend}` or `aetheel backend promote {backend}`. (rollout stopped)"
                )
            }
            NoticeKind::Waits => format!(
                "⏸️ {} may serve now, but could not be promoted; the log has the reason, and it is tried again after the next turn. My owner decides with a button, `aetheel backend promote {backend}` or `aetheel backend withdraw {backend}`. (rollout)",
                self.name()
            ),
        }
    }

    /// Describes what happens to the version until it is promoted.
    fn plan(&self) -> String {
        let serving = &self.serving;
        match self.rollout {
            Rollout::Now => format!("waits; version {serving} serves."),
            Rollout::Shadow(turns) => format!(
                "is on rollout: it reads the next {} beside version {serving}, which serves until then.",
                counted_turns(u64::from(turns.get()))
            ),
            Rollout::Canary { percent, turns } => format!(
                "is on rollout: it serves {percent} % of the conversations, and replaces version {serving} after {} without harm.",
                counted_turns(u64::from(turns.get()))
            ),
            Rollout::Channels(channels) => {
                let shown =
                    channels.iter().take(SHOWN_CHANNELS).map(|channel| format!("<#{channel}>"));
                let more = channels.len().saturating_sub(SHOWN_CHANNELS);
                let more = (more > 0).then(|| format!("{more} more"));
                let all: Vec<String> = shown.chain(more).collect();
                format!(
                    "is on rollout: it serves in {} until my owner promotes it. Version {serving} serves everywhere else.",
                    all.join(", ")
                )
            }
        }
    }

    /// Returns the notice that a version was withdrawn because of a turn that it served.
    pub(super) fn withdrawn(&self) -> String {
        let backend = &self.note.backend;
        self.harm(&format!(
            "🛑 {} was withdrawn, because it read a turn worse than version {} would have:",
            self.name(),
            self.serving
        )) + &format!(
            "\nVersion {} serves everywhere. A reply that was lost is delivered now, if that version can read it. `aetheel backend install FILE` puts {backend} on rollout again. (rollout withdrawn)",
            self.serving
        )
    }

    /// Returns the notice that the version serves.
    pub(super) fn promoted(&self) -> String {
        let turns = match self.rollout {
            Rollout::Canary { .. } | Rollout::Channels(_) => {
                format!("it served {}", counted_turns(self.note.served))
            }
            Rollout::Now | Rollout::Shadow(_) => {
                format!("it read {}", counted_turns(self.note.compared))
            }
        };
        let harm = match self.note.state {
            RolloutState::Running => " without a harmful difference to the version before",
            RolloutState::Stopped => ", and was promoted in spite of harmful differences",
        };
        format!(
            "✅ {} serves now: {turns}{harm}. `aetheel backend rollback {}` returns to that one. (rollout)",
            self.name(),
            self.note.backend
        )
    }

    /// Returns a line about the state of the rollout.
    pub(super) fn summary(&self) -> String {
        let (version, RolloutNote { compared, skipped, different, served, .. }) =
            (self.version, self.note);
        let place = match (self.rollout, self.note.state) {
            (Rollout::Canary { percent, .. }, RolloutState::Running) => {
                format!("serves {percent} % of the conversations")
            }
            (Rollout::Channels(channels), RolloutState::Running) => {
                format!("serves in {}", counted(channels.len(), "channel"))
            }
            _ => "does not serve yet".to_owned(),
        };
        let result = match (self.note.state, self.rollout) {
            (RolloutState::Stopped, _) => {
                format!("stopped after {compared} turns, because it reads a turn worse")
            }
            (RolloutState::Running, Rollout::Shadow(turns)) => {
                format!(
                    "{compared} of {turns} turns compared, {skipped} skipped, {different} different"
                )
            }
            (RolloutState::Running, Rollout::Canary { turns, .. }) => format!(
                "{served} of {turns} turns served, {compared} compared, {skipped} skipped, {different} different"
            ),
            (RolloutState::Running, Rollout::Now | Rollout::Channels(_)) => format!(
                "{served} turns served, {compared} compared, {skipped} skipped, {different} different"
            ),
        };
        format!(
            "Version {version} is on rollout and {place}: {result}. Details: `aetheel backend rollout {}`",
            self.note.backend
        )
    }

    /// Adds the first harmful differences to a text.
    fn harm(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let harmful: Vec<_> = self.note.differences.iter().filter(|it| it.harmful).collect();
        for difference in harmful.iter().take(SHOWN_DIFFERENCES) {
            text.push_str(&format!(
                "\n- turn `{}`, recording `{}`, line {}: {}",
                difference.turn,
                difference.recording,
                difference.line,
                difference.text.replace('`', "'")
            ));
        }
        let more = harmful.len().saturating_sub(SHOWN_DIFFERENCES);
        if more > 0 {
            text.push_str(&format!("\n- and {}", counted(more, "more difference")));
        }
        text
    }
}

/// Describes a difference on one line.
pub(super) fn difference(difference: &TurnDifference) -> String {
    let TurnDifference { what, before, now, .. } = difference;
    match (before.as_deref(), now.as_deref()) {
        (Some(""), Some("")) | (None, None) => format!("{what} differs"),
        (Some(before), Some(now)) => format!("{what} was {before}, is {now}"),
        (Some(before), None) => format!("{what} is missing: {before}"),
        (None, Some(now)) => format!("{what} is new: {now}"),
    }
}

fn counted_turns(turns: u64) -> String {
    counted(usize::try_from(turns).unwrap_or(usize::MAX), "turn")
}

fn short(note: &RolloutNote) -> &str {
    note.digest.get(..12).unwrap_or(&note.digest)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use aetheel_model::id::ChannelId;
    use aetheel_store::workspace::NotedDifference;

    #[test]
    fn a_stop_shows_where_the_first_differences_are() {
        let difference = |line| NotedDifference {
            turn: "5e0d11aa".to_owned(),
            recording: "1f0c9a2e".to_owned(),
            line,
            harmful: true,
            text: "answer is missing: `Hello`".to_owned(),
        };
        let note = RolloutNote {
            differences: (1..=5).map(difference).collect(),
            ..RolloutNote::new("mini", &"ab".repeat(32))
        };
        let of = DescribedRollout {
            version: "2.0.0",
            serving: "1.0.0".to_owned(),
            note: &note,
            rollout: &Rollout::Shadow(NonZeroU32::MIN),
            machine: None,
        };
        let text = of.notice(NoticeKind::Stopped);
        for part in [
            "Version 2.0.0 (`abababababab`) of **mini** does not serve",
            "- turn `5e0d11aa`, recording `1f0c9a2e`, line 1: answer is missing: 'Hello'\n",
            "- and 2 more differences\n",
            "`aetheel backend withdraw mini`",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn notices_fit_into_a_message_and_name_the_machine() {
        let text = "x".repeat(400);
        let difference = |line| NotedDifference {
            turn: "5e0d11aa".to_owned(),
            recording: "1f0c9a2e".to_owned(),
            line,
            harmful: true,
            text: text.clone(),
        };
        let note = RolloutNote {
            differences: (1..=20).map(difference).collect(),
            ..RolloutNote::new(&"n".repeat(32), &"ab".repeat(32))
        };
        let channels = (1..=200).map(|id| ChannelId::discord(u64::MAX - id)).collect();
        let of = DescribedRollout {
            version: &"9".repeat(30),
            serving: "8".repeat(30),
            note: &note,
            rollout: &Rollout::Channels(channels),
            machine: Some("north"),
        };
        let all = [
            of.notice(NoticeKind::Began(0)),
            of.notice(NoticeKind::Stopped),
            of.notice(NoticeKind::Waits),
            of.withdrawn(),
            of.promoted(),
        ];
        for text in all {
            assert!(text.chars().count() <= 1_900 && text.contains("on machine `north`"), "{text}");
        }
    }
}
