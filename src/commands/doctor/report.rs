//! The doctor's report, as text and as JSON.

use serde::Serialize;

use crate::cli::exit;
use crate::terminal::{OutputStyle, Verbosity};
use aetheel_model::finding::{Finding, FindingLevel};
use aetheel_model::redact::Redactor;

/// All findings. Fields of the JSON form may be added, but never change or disappear.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct DoctorReport {
    pub faults: usize,
    pub warnings: usize,
    pub lines: Vec<Finding>,
}

/// Returns a finding that needs no action, and therefore does not change the exit code.
pub(super) fn note(
    about: impl Into<String>,
    says: impl Into<String>,
    hint: impl Into<String>,
) -> Finding {
    Finding::new(FindingLevel::Note, about, says).with_hint(hint)
}

pub(super) fn warning(
    about: impl Into<String>,
    says: impl Into<String>,
    hint: impl Into<String>,
) -> Finding {
    Finding::warning(about, says).with_hint(hint)
}

pub(super) fn fault(
    about: impl Into<String>,
    says: impl Into<String>,
    hint: impl Into<String>,
) -> Finding {
    Finding::invalid(about, says).with_hint(hint)
}

impl DoctorReport {
    pub(super) fn add(&mut self, findings: impl IntoIterator<Item = Finding>) {
        for finding in findings {
            self.faults += usize::from(finding.level.is_fault());
            self.warnings += usize::from(finding.level == FindingLevel::Warning);
            self.lines.push(finding);
        }
    }

    /// Returns the exit code: 0 without problems, 1 with warnings, 2 with faults.
    pub(super) fn code(&self) -> u8 {
        match (self.faults, self.warnings) {
            (0, 0) => exit::OK,
            (0, _) => exit::WARNINGS,
            _ => exit::FAULTS,
        }
    }

    /// Returns the report as JSON, without secrets.
    pub(super) fn json(&self, redactor: &Redactor) -> String {
        redactor.redact(serde_json::to_string_pretty(self).unwrap_or_default()) + "\n"
    }

    /// Returns the report as text, without secrets. With [`Verbosity::Quiet`] it has only the
    /// problems, and is empty without problems.
    pub(super) fn text(
        &self,
        verbosity: Verbosity,
        paper: OutputStyle,
        redactor: &Redactor,
    ) -> String {
        let quiet = verbosity == Verbosity::Quiet;
        if quiet && self.faults + self.warnings == 0 {
            return String::new();
        }
        let is_shown = |line: &&Finding| !quiet || line.level >= FindingLevel::Warning;
        let lines: Vec<&Finding> = self.lines.iter().filter(is_shown).collect();
        let mut text = String::new();
        for (at, Finding { level, subject, message, hint }) in lines.iter().enumerate() {
            let level = match level {
                FindingLevel::Ok => paper.good("ok     "),
                FindingLevel::Note => paper.dim("note   "),
                FindingLevel::Warning => paper.bold("warning"),
                _ => paper.bad("FAULT  "),
            };
            // Messages about a setting begin with its name.
            let message = message.strip_prefix(&format!("{subject}: ")).unwrap_or(message);
            text.push_str(&format!("{level}  {subject}: {}\n", message.replace('\n', "; ")));
            // If consecutive lines have the same hint, it is printed once, after the last of them.
            let next = lines.get(at + 1).and_then(|next| next.hint.as_ref());
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

    fn text(report: &DoctorReport) -> String {
        report.text(Verbosity::Usual, OutputStyle::plain(), &Redactor::default())
    }

    #[test]
    fn the_worst_line_decides_the_exit_code() {
        let mut report = DoctorReport::default();
        report.add([Finding::ok("clock", "right")]);
        report.add([note("cgroups", "none", "add one")]);
        assert_eq!((report.code(), text(&report).lines().last()), (0, Some("no problems found")));
        report.add([warning("user", "root", "use another")]);
        assert_eq!(report.code(), 1);
        report.add([fault("token", "token: refused\nreally", "make a new one")]);
        assert_eq!(report.code(), 2);
        let text = text(&report);
        assert!(text.contains("FAULT    token: refused; really\n         hint: make a new one\n1 fault, 1 warning\n"), "{text}");
    }

    #[test]
    fn a_hint_that_several_lines_share_is_printed_once() {
        let mut report = DoctorReport::default();
        for setting in ["A", "B", "C"] {
            report.add([fault("settings", format!("{setting} is wrong"), "see the manual")]);
        }
        report.add([warning("user", "root", "use another")]);
        let text = text(&report);
        assert_eq!(text.matches("hint: ").count(), 2, "{text}");
        assert!(text.contains("C is wrong\n         hint: see the manual\n"), "{text}");
    }
    #[test]
    fn a_quiet_report_has_only_problems() {
        let quiet = |report: &DoctorReport| {
            report.text(Verbosity::Quiet, OutputStyle::plain(), &Redactor::default())
        };
        let mut report = DoctorReport::default();
        report.add([Finding::ok("clock", "right")]);
        report.add([note("cgroups", "none", "add one")]);
        assert_eq!(quiet(&report), "");
        report.add([warning("user", "root", "use another")]);
        assert_eq!(
            quiet(&report),
            "warning  user: root\n         hint: use another\n0 faults, 1 warning\n"
        );
    }
}
