//! A policy or an observer in the list of `aetheel backend list`.

use std::path::PathBuf;

use serde::Serialize;

use aetheel_wasm::ExtensionInfo;

/// A component in use beside the backends.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct ExtensionRow {
    /// `policy` or `observer`.
    kind: &'static str,
    name: String,
    version: String,
    description: String,
    digest: String,
    file: PathBuf,
    /// The reason why it is trusted, or `None` if trust is not checked.
    #[serde(rename = "standing")]
    trust: Option<String>,
}

impl ExtensionRow {
    pub(super) fn new(info: ExtensionInfo) -> Self {
        let ExtensionInfo { kind, descriptor, digest, path, trust } = info;
        let (name, version) = (descriptor.name, descriptor.version);
        let (description, file) = (descriptor.description, path);
        Self { kind: kind.word(), name, version, description, digest, file, trust }
    }
}

impl ExtensionRow {
    pub(super) fn lines(rows: &[Self]) -> String {
        let line = |row: &Self| {
            let Self { kind, name, version, digest, description, .. } = row;
            let digest = digest.get(..12).unwrap_or(digest);
            format!("{kind} {name} {version} ({digest}): {description}\n")
        };
        rows.iter().map(line).collect()
    }
}
