//! The notice about a mended backend.

use aetheel_model::plain::counted;
use aetheel_store::workspace::MendingNote;

/// Largest number of characters of the difference in a notice.
const MAX_DIFFERENCE: usize = 1_100;

/// Returns the notice about an accepted change.
pub(super) fn mended(
    note: &MendingNote,
    difference: &str,
    automatic: bool,
    holds_back: bool,
) -> String {
    let MendingNote { backend, component, rounds, cents, remark, .. } = note;
    let version = component.get(..12).unwrap_or(component);
    let cost = match cents {
        0 => String::new(),
        cents => format!(", {}.{:02} USD", cents / 100, cents % 100),
    };
    let mut text = format!(
        "🩹 An agent changed **{backend}** so that it reads lost replies: {remark} ({}{cost}). The changed version is `{version}`.\n",
        counted(usize::try_from(*rounds).unwrap_or(usize::MAX), "round")
    );
    let shown: String = difference.replace("```", "'''").chars().take(MAX_DIFFERENCE).collect();
    text.push_str(&format!("```diff\n{}\n```\n", shown.trim_end()));
    if shown.chars().count() < difference.chars().count() {
        text.push_str(&format!("The whole difference is in `state/mended/{backend}.diff`. "));
    }
    text.push_str(match (automatic, holds_back) {
        (true, false) => "It was installed (`BACKEND_MEND=auto`).",
        (true, true) => "It is on rollout now (`BACKEND_MEND=auto`).",
        (false, true) => {
            "*Try beside* lets it read turns beside the serving version first (`BACKEND_ROLLOUT`), *Install* uses it at once."
        }
        (false, false) => "*Install* uses it at once. Read the difference before.",
    });
    text.push_str(&format!(
        " Later, `aetheel backend rollback {backend}` returns to the version before. (mended)"
    ));
    text
}
