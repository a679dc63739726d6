//! The Rust project. It contains the SDK's sources, so it needs only the crate registry.

use super::TemplateFile;

/// Lists the files of a project: those of both kinds, and the backend itself.
macro_rules! project {
    ($backend:literal) => {
        &[
            ("Cargo.toml", include_str!("../../../../templates/rust/Cargo.toml.in")),
            // The dependency versions that the SDK is tested with; cargo removes unused ones.
            ("Cargo.lock", include_str!("../../../../guest-backends/Cargo.lock")),
            (".cargo/config.toml", include_str!("../../../../guest-backends/.cargo/config.toml")),
            (".gitignore", include_str!("../../../../templates/rust/gitignore")),
            ("Makefile", include_str!("../../../../templates/rust/Makefile")),
            ("README.md", include_str!("../../../../templates/rust/README.md")),
            ("src/lib.rs", include_str!(concat!("../../../../templates/rust/", $backend))),
            ("tests/cases.rs", include_str!("../../../../templates/rust/cases.rs")),
            ("sdk/Cargo.toml", include_str!("../../../../guest-backends/sdk/Cargo.toml")),
            (
                "sdk/src/actions_json.rs",
                include_str!("../../../../guest-backends/sdk/src/actions_json.rs"),
            ),
            ("sdk/src/defaults.rs", include_str!("../../../../guest-backends/sdk/src/defaults.rs")),
            ("sdk/src/dialogue.rs", include_str!("../../../../guest-backends/sdk/src/dialogue.rs")),
            (
                "sdk/src/dialogue_tests.rs",
                include_str!("../../../../guest-backends/sdk/src/dialogue_tests.rs"),
            ),
            ("sdk/src/disturb.rs", include_str!("../../../../guest-backends/sdk/src/disturb.rs")),
            ("sdk/src/either.rs", include_str!("../../../../guest-backends/sdk/src/either.rs")),
            ("sdk/src/emit.rs", include_str!("../../../../guest-backends/sdk/src/emit.rs")),
            ("sdk/src/end.rs", include_str!("../../../../guest-backends/sdk/src/end.rs")),
            ("sdk/src/figures.rs", include_str!("../../../../guest-backends/sdk/src/figures.rs")),
            ("sdk/src/fixture.rs", include_str!("../../../../guest-backends/sdk/src/fixture.rs")),
            ("sdk/src/form.rs", include_str!("../../../../guest-backends/sdk/src/form.rs")),
            ("sdk/src/grants.rs", include_str!("../../../../guest-backends/sdk/src/grants.rs")),
            ("sdk/src/heap.rs", include_str!("../../../../guest-backends/sdk/src/heap.rs")),
            (
                "sdk/src/inputs_json.rs",
                include_str!("../../../../guest-backends/sdk/src/inputs_json.rs"),
            ),
            ("sdk/src/json.rs", include_str!("../../../../guest-backends/sdk/src/json.rs")),
            ("sdk/src/lib.rs", include_str!("../../../../guest-backends/sdk/src/lib.rs")),
            (
                "sdk/src/live/agent.rs",
                include_str!("../../../../guest-backends/sdk/src/live/agent.rs"),
            ),
            (
                "sdk/src/live/asks.rs",
                include_str!("../../../../guest-backends/sdk/src/live/asks.rs"),
            ),
            (
                "sdk/src/live/context.rs",
                include_str!("../../../../guest-backends/sdk/src/live/context.rs"),
            ),
            (
                "sdk/src/live/counts.rs",
                include_str!("../../../../guest-backends/sdk/src/live/counts.rs"),
            ),
            ("sdk/src/live/mod.rs", include_str!("../../../../guest-backends/sdk/src/live/mod.rs")),
            (
                "sdk/src/live/tests.rs",
                include_str!("../../../../guest-backends/sdk/src/live/tests.rs"),
            ),
            ("sdk/src/mutated.rs", include_str!("../../../../guest-backends/sdk/src/mutated.rs")),
            (
                "sdk/src/mutation/mod.rs",
                include_str!("../../../../guest-backends/sdk/src/mutation/mod.rs"),
            ),
            (
                "sdk/src/mutation/visible.rs",
                include_str!("../../../../guest-backends/sdk/src/mutation/visible.rs"),
            ),
            ("sdk/src/offer.rs", include_str!("../../../../guest-backends/sdk/src/offer.rs")),
            ("sdk/src/one_shot.rs", include_str!("../../../../guest-backends/sdk/src/one_shot.rs")),
            (
                "sdk/src/one_shot_tests.rs",
                include_str!("../../../../guest-backends/sdk/src/one_shot_tests.rs"),
            ),
            ("sdk/src/outline.rs", include_str!("../../../../guest-backends/sdk/src/outline.rs")),
            ("sdk/src/renewal.rs", include_str!("../../../../guest-backends/sdk/src/renewal.rs")),
            ("sdk/src/rpc.rs", include_str!("../../../../guest-backends/sdk/src/rpc.rs")),
            ("sdk/src/text.rs", include_str!("../../../../guest-backends/sdk/src/text.rs")),
            (
                "sdk/src/throughput.rs",
                include_str!("../../../../guest-backends/sdk/src/throughput.rs"),
            ),
            ("sdk/src/tool.rs", include_str!("../../../../guest-backends/sdk/src/tool.rs")),
        ]
    };
}

pub(super) const ONE_SHOT: &[TemplateFile] = project!("one-shot/lib.rs");
pub(super) const LIVE: &[TemplateFile] = project!("live/lib.rs");
pub(super) const BOTH: &[TemplateFile] = project!("both/lib.rs");

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_project_has_every_source_of_the_sdk() {
        fn sources(folder: &Path, found: &mut Vec<String>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    sources(&path, found);
                } else {
                    found.push(path.to_string_lossy().into_owned());
                }
            }
        }
        let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-backends/sdk");
        let mut found = Vec::new();
        sources(&sdk.join("src"), &mut found);
        let mut found: Vec<&str> = found
            .iter()
            .map(|path| path.strip_prefix(sdk.to_str().unwrap()).unwrap().trim_start_matches('/'))
            .collect();
        found.sort_unstable();
        for project in [ONE_SHOT, LIVE, BOTH] {
            let mut written: Vec<&str> = project
                .iter()
                .filter_map(|(path, _)| path.strip_prefix("sdk/"))
                .filter(|path| path.starts_with("src/"))
                .collect();
            written.sort_unstable();
            assert_eq!(written, found);
        }
    }
}
