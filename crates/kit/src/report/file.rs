//! The file of a report: a recording whose header has one more field, `report`. `docs/kit.md`
//! describes it.

use serde::{Deserialize, Serialize};

use super::fault::FaultKind;
use aetheel_recording::{Header, RecordingEntry};

/// The version of the field `report`. A reader refuses higher versions.
pub const REPORT_FORMAT: u32 = 1;

/// The field `report` in the first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ReportFacts {
    /// The version of this field ([`REPORT_FORMAT`]).
    pub format: u32,
    /// The version of the program that made the report.
    pub aetheel: String,
    /// The contract that the component implements.
    pub contract: String,
    /// The operating system.
    pub os: String,
    /// The processor architecture.
    pub arch: String,
    /// The limits with which the component ran.
    pub limits: ReportedLimits,
    /// The fault.
    pub fault: FaultFacts,
    /// Whether words were kept that may come from people.
    pub kept_text: bool,
}

/// The limits of a guest that can cause a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ReportedLimits {
    /// Maximum memory in bytes.
    pub memory: u64,
    /// Maximum run time of one call in milliseconds.
    pub call_ms: u64,
}

/// The fault of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FaultFacts {
    /// Its kind.
    pub kind: FaultKind,
    /// The class of its message, or a field of the agent's output.
    pub place: String,
    /// The line of the report at which it shows.
    pub line: usize,
    /// For a missing text: the text, with placeholders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
}

/// The reason why a file is not a report.
#[derive(Debug, thiserror::Error)]
pub enum ReportReadError {
    /// The first line has no field `report`.
    #[error("it is a recording and not a report; `aetheel report` makes one from it")]
    NotAReport,
    /// The field cannot be parsed.
    #[error("line 1 has no valid `report`: {0}")]
    Facts(serde_json::Error),
    /// The report has this format, which is newer than this program.
    #[error("the report has format {0}, this program reads up to {REPORT_FORMAT}")]
    Format(u32),
}

#[derive(Serialize)]
struct ReportHeader<'a> {
    #[serde(flatten)]
    header: &'a Header,
    report: &'a ReportFacts,
}

impl ReportFacts {
    /// Parses the field in the first line of a file.
    ///
    /// # Errors
    /// [`ReportReadError`].
    pub fn read(text: &str) -> Result<Self, ReportReadError> {
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let mut header: serde_json::Value =
            serde_json::from_str(first).map_err(ReportReadError::Facts)?;
        let Some(facts) = header.get_mut("report") else { return Err(ReportReadError::NotAReport) };
        match facts.get("format").and_then(serde_json::Value::as_u64) {
            Some(format) if format > u64::from(REPORT_FORMAT) => {
                Err(ReportReadError::Format(u32::try_from(format).unwrap_or(u32::MAX)))
            }
            _ => serde_json::from_value(facts.take()).map_err(ReportReadError::Facts),
        }
    }
}

pub(super) fn to_text(header: &Header, facts: &ReportFacts, entries: &[RecordingEntry]) -> String {
    let first = serde_json::to_string(&ReportHeader { header, report: facts });
    let lines = entries.iter().map(serde_json::to_string);
    std::iter::once(first).chain(lines).filter_map(Result::ok).map(|line| line + "\n").collect()
}
