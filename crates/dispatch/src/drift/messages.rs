//! Notices to the operator about drift: output of agents that a backend does not recognise. Pure.
//! The arguments must already be free of secrets and control characters.

use super::regression::{BadTurns, Regression};
use aetheel_model::plain::counted;
use aetheel_store::workspace::{Drift, DriftKey};

/// The maximum length of a notice, in characters.
const NOTICE_LIMIT: usize = 1_900;
/// The maximum number of kinds that `/status` names.
const NAMED_LIMIT: usize = 3;

/// The documentation page about drift, as a link in Markdown.
pub(super) const PAGE: &str =
    concat!("<", env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/drift.md>");

/// An unknown output whose kind was seen for the first time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FirstSeen {
    pub(super) key: DriftKey,
    /// The generation of the backend.
    pub(super) generation: String,
    /// Where in the output the unknown part was.
    pub(super) path: Option<String>,
    pub(super) sample: String,
    pub(super) recording: String,
}

/// Returns one notice about kinds of output that were seen for the first time. `further` is the
/// number of kinds that are not in `all`, which the notice only counts.
pub(super) fn first_seen(all: &[FirstSeen], further: usize) -> String {
    let mut text =
        "👀 An agent sent output that its backend does not recognise. (drift)".to_owned();
    let mut left = all.len() + further;
    let Some(FirstSeen { key, recording, .. }) = all.first() else { return text };
    let end = format!(
        "\nUsually the agent is newer than its backend. Check how the backend reads it: \
         `aetheel backend replay {} {recording}`. Report it to the backend's authors: \
         `aetheel report {recording}`. Next steps: {PAGE}",
        key.backend
    );
    let mut heading = String::new();
    for first in all {
        let mut piece = String::new();
        let about = source_heading(first);
        if about != heading {
            piece.push_str(&format!("\n{about}"));
        }
        let path = first.path.as_ref().map_or_else(String::new, |path| format!(" at `{path}`"));
        piece.push_str(&format!("\n- `{}`{path}", first.key.what));
        if !first.sample.is_empty() {
            piece.push_str(&format!("\n```\n{}\n```", first.sample));
        }
        // Leave room for the line with the number of omitted kinds.
        if [&text, &piece, &end].into_iter().map(|text| text.chars().count()).sum::<usize>() + 60
            > NOTICE_LIMIT
        {
            break;
        }
        text.push_str(&piece);
        heading = about;
        left -= 1;
    }
    if left > 0 {
        text.push_str(&format!("\n…and {left} more; `aetheel doctor` counts them."));
    }
    text + &end
}

/// Returns the notice about a backend that misreads more than its previous generation did, and
/// about the action taken.
pub(super) fn rolled_back(backend: &str, verdict: &Regression, result: &RollbackResult) -> String {
    let measured = measurement(verdict);
    let turned_out = verdict.generation.to_string();
    match result {
        RollbackResult::Done(serves) => format!(
            "⏪ Version {turned_out} of **{backend}** reads worse than the previous one and was \
             rolled back: {measured}. Version {serves} serves now. Compare the two on the \
             recordings of those turns before you install it again; {PAGE}. (rolled back)"
        ),
        RollbackResult::Failed(why) => format!(
            "⚠️ Version {turned_out} of **{backend}** reads worse than the previous one: \
             {measured}. It could not be rolled back and still serves: {why}. Put the file of the \
             earlier version into BACKENDS_DIR; {PAGE}. (not rolled back)"
        ),
        RollbackResult::Disabled => format!(
            "⚠️ Version {turned_out} of **{backend}** reads worse than the previous one: {measured}. It still serves, because \
             BACKEND_ROLLBACK is `never`; `aetheel backend rollback {backend}` rolls it back; {PAGE}. (not rolled back)"
        ),
    }
}

/// The action taken after a [`Regression`] was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RollbackResult {
    /// The backend was rolled back to this generation.
    Done(String),
    /// The rollback failed for this reason.
    Failed(String),
    /// The operator has disabled rollbacks.
    Disabled,
}

/// Describes the counts of a [`Regression`].
pub(super) fn measurement(verdict: &Regression) -> String {
    let Regression { now: BadTurns { bad, of }, before, agent_version, misread, .. } = verdict;
    let how = if *misread {
        "were misread"
    } else {
        "were misread or had unknown output that the previous version did not have"
    };
    format!(
        "{bad} of its first {of} turns {how}, before that {} of {}, with the agent's version {agent_version}",
        before.bad, before.of
    )
}

/// Returns a line for owners about the unknown output of a backend's current generation, or `None`
/// if there was no such output.
pub(super) fn summary<'a>(met: impl Iterator<Item = &'a Drift>) -> Option<String> {
    let mut met: Vec<&Drift> = met.collect();
    met.sort_unstable_by(|a, b| b.last.cmp(&a.last).then(a.key.cmp(&b.key)));
    let times: u64 = met.iter().map(|drift| drift.times).sum();
    let named: Vec<String> = met
        .iter()
        .take(NAMED_LIMIT)
        .map(|drift| format!("{} ({}×)", drift.key.what, drift.times))
        .collect();
    let more = if met.len() > NAMED_LIMIT {
        format!(", and {}", counted(met.len() - NAMED_LIMIT, "more kind"))
    } else {
        String::new()
    };
    (!met.is_empty())
        .then(|| format!("The agent sent output that this backend does not recognise, {times}×: {}{more}. Next steps: {PAGE}", named.join(", ")))
}

fn source_heading(first: &FirstSeen) -> String {
    let FirstSeen { key: DriftKey { backend, agent_version, .. }, generation, recording, .. } =
        first;
    format!(
        "**{backend}**, agent version {agent_version}, backend version {generation}, recording `{recording}`:"
    )
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use aetheel_recording::Generation;

    fn first(what: &str, sample: &str) -> FirstSeen {
        let key = DriftKey {
            backend: "gemini".to_owned(),
            agent_version: "0.9.1".to_owned(),
            what: what.to_owned(),
            component: "0123456789ab".to_owned(),
        };
        let (generation, recording) = ("2@0123456789ab".to_owned(), "1f0c9a2e".to_owned());
        FirstSeen {
            key,
            generation,
            path: Some("type".to_owned()),
            sample: sample.to_owned(),
            recording,
        }
    }

    #[test]
    fn one_notice_describes_a_burst() {
        let all =
            [first("line type \"foo\"", "{\"type\":\"foo\"}"), first("line type \"bar\"", "")];
        assert_eq!(
            first_seen(&all, 2),
            "👀 An agent sent output that its backend does not recognise. (drift)\n\
             **gemini**, agent version 0.9.1, backend version 2@0123456789ab, recording `1f0c9a2e`:\n\
             - `line type \"foo\"` at `type`\n```\n{\"type\":\"foo\"}\n```\n\
             - `line type \"bar\"` at `type`\n\
             …and 2 more; `aetheel doctor` counts them.\n\
             Usually the agent is newer than its backend. Check how the backend reads it: \
             `aetheel backend replay gemini 1f0c9a2e`. \
             Report it to the backend's authors: `aetheel report 1f0c9a2e`. \
             Next steps: <https://github.com/aetheel/aetheel/blob/main/docs/drift.md>"
        );
    }

    #[test]
    fn a_rollback_notice_has_the_counts_and_the_serving_generation() {
        let verdict = Regression {
            generation: Generation { number: 2, digest: "b".repeat(64) },
            agent_version: "0.9.1".to_owned(),
            now: BadTurns { bad: 3, of: 4 },
            before: BadTurns { bad: 1, of: 20 },
            misread: true,
        };
        let notice = |result| rolled_back("gemini", &verdict, &result);
        let done = notice(RollbackResult::Done("3@aaaaaaaaaaaa".to_owned()));
        assert!(done.contains("3 of its first 4 turns were misread, before that 1 of 20, with the agent's version 0.9.1"), "{done}");
        assert!(
            done.contains("Version 2@bbbbbbbbbbbb of **gemini**")
                && done.contains("Version 3@aaaaaaaaaaaa serves now"),
            "{done}"
        );
        assert!(
            notice(RollbackResult::Failed("the folder is gone".to_owned()))
                .contains("still serves: the folder is gone.")
        );
        assert!(notice(RollbackResult::Disabled).contains("`aetheel backend rollback gemini`"));
    }

    #[test]
    fn owners_see_the_latest_kinds() {
        let met = |n: i64| {
            let at = Timestamp::from_second(n).expect("a time");
            Drift {
                key: first(&format!("kind {n}"), "").key,
                times: 2,
                first: at,
                last: at,
                recording: String::new(),
            }
        };
        let all: Vec<Drift> = (0..5).map(met).collect();
        let line = summary(all.iter()).expect("a line");
        assert!(
            line.contains("10×: kind 4 (2×), kind 3 (2×), kind 2 (2×), and 2 more kinds."),
            "{line}"
        );
        assert_eq!(summary([].iter()), None);
    }

    proptest! {
        #[test]
        fn a_notice_fits_into_a_message_and_its_code_blocks_are_closed(sizes in proptest::collection::vec((0..120usize, 0..300usize), 1..40), further in 0..1000usize) {
            let all: Vec<FirstSeen> = sizes.iter().map(|(what, sample)| first(&"w".repeat(*what), &"ü".repeat(*sample))).collect();
            let text = first_seen(&all, further);
            prop_assert!(text.chars().count() <= NOTICE_LIMIT);
            prop_assert!(text.matches("```").count().is_multiple_of(2) && text.ends_with(PAGE));
            let shown = text.lines().filter(|line| line.starts_with("- `")).count();
            let left: usize = text.lines().find_map(|line| line.strip_prefix("…and ")?.split(' ').next()?.parse().ok()).unwrap_or(0);
            prop_assert_eq!(shown + left, all.len() + further);
        }
    }
}
