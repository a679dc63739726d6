//! Which versions of an agent a component was proven with, by its cases.

use std::collections::BTreeMap;

use aetheel_model::plain::counted;

use aetheel_recording::case::Case;

const MAX_VERSION_BYTES: usize = 40;

/// Counts cases by the version of the agent that made them. A case counts if it has expected actions
/// and names a version. A component is proven with these versions if it passes the cases.
#[must_use]
pub fn proven_versions(cases: &[Case]) -> BTreeMap<String, usize> {
    let mut versions = BTreeMap::new();
    let complete = cases.iter().filter(|case| case.actions.is_some());
    // The cases may come from anybody.
    let version = |case: &Case| case.tape.header.agent_version.clone().filter(|it| is_plain(it));
    for version in complete.filter_map(version) {
        *versions.entry(version).or_default() += 1;
    }
    versions
}

/// Describes the result of [`proven_versions`], for example `1.0.0 (2 cases), 1.1.0 (1 case)`.
/// Returns `None` if there are no versions.
#[must_use]
pub fn describe_versions(versions: &BTreeMap<String, usize>) -> Option<String> {
    let list =
        |(version, cases): (&String, &usize)| format!("{version} ({})", counted(*cases, "case"));
    (!versions.is_empty()).then(|| versions.iter().map(list).collect::<Vec<_>>().join(", "))
}

fn is_plain(version: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-+_".contains(&byte);
    (1..=MAX_VERSION_BYTES).contains(&version.len()) && version.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use aetheel_recording::ParsedRecording;
    use serde_json::json;

    use super::*;

    fn case(version: Option<&str>, is_complete: bool) -> Case {
        let header = json!({
            "aetheel-recording": 1, "link": "l", "backend": "b", "backend-version": "1",
            "generation": 1, "digest": "", "agent-version": version, "started": "",
        });
        Case {
            path: PathBuf::from("case.jsonl"),
            tape: ParsedRecording::read(&format!("{header}\n")).unwrap(),
            actions: is_complete.then(Vec::new),
        }
    }

    #[test]
    fn complete_cases_count_for_the_version_of_their_agent() {
        let cases = [
            case(Some("1.1.0"), true),
            case(Some("1.0.0"), true),
            case(Some("1.0.0"), true),
            case(Some("2.0.0"), false),
            case(None, true),
            case(Some("3\n## other.wasm"), true),
            case(Some(""), true),
        ];
        let versions = proven_versions(&cases);
        assert_eq!(
            describe_versions(&versions).as_deref(),
            Some("1.0.0 (2 cases), 1.1.0 (1 case)")
        );
        assert_eq!(describe_versions(&proven_versions(&[])), None);
    }
}
