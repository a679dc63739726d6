//! The doctor's report, as text and as JSON.

use serde::Serialize;

use crate::cli::exit;
use crate::finding::{Finding, FindingLevel};
use crate::redact::Redactor;
use crate::terminal::OutputStyle;

/// All findings. Fields of the JSON form may be added, but never change or disappear.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct DoctorReport {
    pub faults: usize,
    pub warnings: usize,
    pub lines: Vec<Finding>,
}

impl DoctorReport {
    pub(super) fn ok(&mut self, about: impl Into<String>, says: impl Into<String>) {
        self.add(Finding::ok(about, says));
    }

    pub(super) fn warning(
        &mut self,
        about: impl Into<String>,
        says: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.add(Finding::warning(about, says).with_hint(hint));
    }

    pub(super) fn fault(
        &mut self,
        about: impl Into<String>,
        says: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.add(Finding::invalid(about, says).with_hint(hint));
    }

    pub(super) fn add(&mut self, finding: Finding) {
        self.faults += usize::from(finding.level.is_fault());
        self.warnings += usize::from(finding.level == FindingLevel::Warning);
        self.lines.push(finding);
    }

    /// Returns the exit code: 0 without problems, 1 with warnings, 2 with faults.
    pub(super) fn code(&self) -> u8 {
        match (self.faults, self.warnings) {
            (0, 0) => exit::OK,
            (0, _) => exit::WARNINGS,
            _ => exit::FAULTS,
        }
    }

    /// Returns the report as text or JSON, without secrets.
    pub(super) fn text(&self, json: bool, paper: OutputStyle, redactor: &Redactor) -> String {
        if json {
            return redactor.redact(serde_json::to_string_pretty(self).unwrap_or_default()) + "\n";
        }
        let mut text = String::new();
        for (at, Finding { level, subject, message, hint }) in self.lines.iter().enumerate() {
            let level = match level {
                FindingLevel::Ok => paper.good("ok     "),
                FindingLevel::Warning => paper.bold("warning"),
                _ => paper.bad("FAULT  "),
            };
            text.push_str(&format!("{level}  {subject}: {}\n", message.replace('\n', "; ")));
            // If consecutive lines have the same hint, it is printed once, after the last of them.
            let next = self.lines.get(at + 1).and_then(|next| next.hint.as_ref());
            if let Some(hint) = hint.as_ref().filter(|hint| Some(*hint) != next) {
                text.push_str(&format!("         hint: {}\n", hint.replace('\n', "; ")));
            }
        }
        let some = |count: usize, what: &str| {
            format!("{count} {what}{}", if count == 1 { "" } else { "s" })
        };
        let sum = match (self.faults, self.warnings) {
            (0, 0) => "no problems found".to_owned(),
            (faults, warnings) => {
                format!("{}, {}", some(faults, "fault"), some(warnings, "warning"))
            }
        };
        redactor.redact(text + &sum + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_line_decides_the_exit_code() {
        let mut report = DoctorReport::default();
        report.ok("clock", "right");
        assert_eq!(
            (
                report.code(),
                report.text(false, OutputStyle::plain(), &Redactor::default()).lines().last()
            ),
            (0, Some("no problems found"))
        );
        report.warning("user", "root", "use another");
        assert_eq!(report.code(), 1);
        report.fault("token", "refused\nreally", "make a new one");
        assert_eq!(report.code(), 2);
        let text = report.text(false, OutputStyle::plain(), &Redactor::default());
        assert!(text.contains("FAULT    token: refused; really\n         hint: make a new one\n1 fault, 1 warning\n"), "{text}");
    }

    #[test]
    fn a_hint_that_several_lines_share_is_printed_once() {
        let mut report = DoctorReport::default();
        for setting in ["A", "B", "C"] {
            report.fault("settings", format!("{setting} is wrong"), "see the manual");
        }
        report.warning("user", "root", "use another");
        let text = report.text(false, OutputStyle::plain(), &Redactor::default());
        assert_eq!(text.matches("hint: ").count(), 2, "{text}");
        assert!(text.contains("C is wrong\n         hint: see the manual\n"), "{text}");
    }
}
