//! The use of a tool by an agent: its beginning, its output and its end with the changed files.

use serde::{Deserialize, Serialize};

use super::is_nothing;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileChange {
    #[default]
    Edited,
    Added,
    Deleted,
    Renamed,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FileDiff {
    pub path: String,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub change: FileChange,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_path: Option<String>,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub binary: bool,
    pub old_text: Option<String>,
    pub new_text: Option<String>,
    pub unified: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ToolStart {
    pub id: String,
    pub parent: Option<String>,
    /// One of the unified kinds of `wit/types.wit`.
    pub kind: String,
    pub native_name: String,
    pub title: String,
    pub target: Option<String>,
    /// The tool's input as JSON text.
    pub input: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ToolOutput {
    pub id: String,
    pub text: String,
    /// Whether the text replaces the output so far.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub replace: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolStatus {
    Ok,
    Failed,
    Denied,
    Cancelled,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ToolEnd {
    pub id: String,
    pub status: ToolStatus,
    pub output: Option<String>,
    pub exit_code: Option<u32>,
    pub diffs: Vec<FileDiff>,
}
