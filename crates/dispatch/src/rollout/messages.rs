//! Texts about rollouts for the operator. Pure.

use aetheel_model::config::Rollout;
use aetheel_model::plain::counted;
use aetheel_store::workspace::{RolloutNote, RolloutState};
use aetheel_turn::comparison::TurnDifference;

/// Maximum number of differences in a notice.
const SHOWN_DIFFERENCES: usize = 3;

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

/// Returns the notice that a rollout was stopped.
pub(super) fn stopped(version: &str, note: &RolloutNote) -> String {
    let (backend, component) = (&note.backend, short(note));
    let harmful: Vec<_> = note.differences.iter().filter(|it| it.harmful).collect();
    let mut text = format!(
        "🛑 Version {version} (`{component}`) of **{backend}** does not serve, because it reads a turn worse than the serving version:"
    );
    for difference in harmful.iter().take(SHOWN_DIFFERENCES) {
        text.push_str(&format!(
            "\n- recording `{}`, line {}: {}",
            difference.recording,
            difference.line,
            difference.text.replace('`', "'")
        ));
    }
    let more = harmful.len().saturating_sub(SHOWN_DIFFERENCES);
    if more > 0 {
        text.push_str(&format!("\n- and {}", counted(more, "more difference")));
    }
    text + &format!(
        "\n`aetheel backend rollout {backend}` shows all differences, `aetheel backend withdraw {backend}` drops the version, and `aetheel backend promote {backend}` uses it anyway. (rollout stopped)"
    )
}

/// Returns the notice that a new version was promoted.
pub(super) fn promoted(version: &str, note: &RolloutNote) -> String {
    let (backend, component) = (&note.backend, short(note));
    format!(
        "✅ Version {version} (`{component}`) of **{backend}** serves now: it read {} without a harmful difference to the version before. `aetheel backend rollback {backend}` returns to that one. (rollout)",
        counted(usize::try_from(note.compared).unwrap_or(usize::MAX), "turn")
    )
}

/// Returns a line about the state of a rollout.
pub(super) fn summary(version: &str, note: &RolloutNote, rollout: &Rollout) -> String {
    let (backend, compared, skipped) = (&note.backend, note.compared, note.skipped);
    let of = match rollout {
        Rollout::Shadow(turns) => format!(" of {turns}"),
        Rollout::Now => String::new(),
    };
    let result = match note.state {
        RolloutState::Running => format!(
            "{compared}{of} turns compared, {skipped} skipped, {} different",
            note.different
        ),
        RolloutState::Stopped => {
            format!("stopped after {compared} turns, because it reads a turn worse")
        }
    };
    format!(
        "Version {version} is on rollout and does not serve yet: {result}. Details: `aetheel backend rollout {backend}`"
    )
}

fn short(note: &RolloutNote) -> &str {
    note.digest.get(..12).unwrap_or(&note.digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_store::workspace::NotedDifference;

    #[test]
    fn a_stop_shows_where_the_first_differences_are() {
        let difference = |line| NotedDifference {
            recording: "1f0c9a2e".to_owned(),
            line,
            harmful: true,
            text: "answer is missing: `Hello`".to_owned(),
        };
        let note = RolloutNote {
            differences: (1..=5).map(difference).collect(),
            ..RolloutNote::new("mini", &"ab".repeat(32))
        };
        let text = stopped("2.0.0", &note);
        for part in [
            "Version 2.0.0 (`abababababab`) of **mini** does not serve",
            "- recording `1f0c9a2e`, line 1: answer is missing: 'Hello'\n",
            "- and 2 more differences\n",
            "`aetheel backend withdraw mini`",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
