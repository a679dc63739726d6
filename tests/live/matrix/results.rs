//! Results of cells, saved below `target/live/` so that a run continues where the last one ended.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::super::agents::Agent;
use super::backends::Backend;

/// The outcome of a cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Passed,
    NotApplicable { why: String },
    AgentFault { why: String, evidence: String },
    Failed { what: String },
}

/// A cell's result, with the inputs that it depends on.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CellResult {
    pub fingerprint: String,
    pub verdict: Verdict,
    pub seconds: f64,
    /// Output that the backend's parser did not recognise, with counts.
    pub unrecognised: BTreeMap<String, u32>,
    /// Outcomes of the single attempts of the row, if it reports them.
    #[serde(default)]
    pub findings: BTreeMap<String, String>,
}

impl Verdict {
    /// Returns whether the cell need not be run again with the same inputs and the current list of
    /// the agent's faults.
    pub fn is_final(&self, fault: Option<&str>) -> bool {
        match (self, fault) {
            (Self::Passed, None) => true,
            (Self::AgentFault { why, .. }, Some(known)) => why == known,
            // Cells that do not apply cost nothing, and failed ones must be fixed.
            _ => false,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::NotApplicable { why } => write!(f, "not applicable: {why}"),
            Self::AgentFault { why, .. } => write!(f, "fault of the agent: {why}"),
            Self::Failed { what } => {
                write!(f, "FAILED: {}", what.chars().take(1500).collect::<String>())
            }
        }
    }
}

/// Returns the inputs of a result: the component, its profile and the agent. It does not include
/// the host: after a change of the host, cells have to be selected by hand.
pub fn fingerprint(component: &str, backend: &Backend, agent: &Agent) -> String {
    let profile = if backend.backend == backend.component {
        String::new()
    } else {
        format!(" {}", profile(backend.backend))
    };
    format!("{component} {} {}{profile}", agent.name, agent.version)
}

/// Returns a short digest of a launch profile's text.
fn profile(name: &str) -> String {
    let text = include_str!("../../../config/acp.md");
    let section = text
        .split("\n## ")
        .find(|section| section.lines().next() == Some(name))
        .unwrap_or_default();
    format!("{:x}", Sha256::digest(section)).chars().take(12).collect()
}

/// Returns a name that is valid as a file name and as one word of a command line.
pub fn slug(name: &str) -> String {
    name.replace([' ', ':'], "-")
}

pub fn read(backend: &Backend, agent: &Agent, as_root: bool, scenario: &str) -> Option<CellResult> {
    serde_json::from_str(&std::fs::read_to_string(path(backend, agent, as_root, scenario)).ok()?)
        .ok()
}

pub fn write(backend: &Backend, agent: &Agent, scenario: &str, kept: &CellResult) {
    let path = path(backend, agent, super::super::agents::is_root(), scenario);
    std::fs::create_dir_all(path.parent().expect("below target")).unwrap();
    std::fs::write(path, serde_json::to_string_pretty(kept).unwrap()).unwrap();
}

/// Returns the suffix for results with another sandbox, or an empty string for the default.
pub fn sandbox_suffix() -> String {
    let sandbox = super::gateway::sandbox();
    if sandbox == "auto" { String::new() } else { format!("-within-{sandbox}") }
}

/// Returns the file of a result. Results of root, or with another sandbox, are separate.
fn path(backend: &Backend, agent: &Agent, as_root: bool, scenario: &str) -> PathBuf {
    let folder = format!(
        "{}-{}{}{}",
        agent.name,
        agent.version,
        sandbox_suffix(),
        if as_root { "-as-root" } else { "" }
    );
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("target/live")
        .join(folder)
        .join(slug(backend.name))
        .join(format!("{scenario}.json"))
}
