//! The doctor's report, line by line, and how it is printed.

use serde::Serialize;

use crate::cli::exit;
use crate::redact::Redactor;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Level {
    Ok,
    /// It works, and will surprise somebody.
    Warning,
    /// It does not work.
    Fault,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Line {
    pub level: Level,
    /// The thing that was looked at.
    pub about: String,
    /// The finding, in a sentence.
    pub says: String,
    /// The operator's next step; none: nothing is to be done.
    pub hint: Option<String>,
}

/// All of it. The JSON form only ever grows.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Report {
    pub faults: usize,
    pub warnings: usize,
    pub lines: Vec<Line>,
}

impl Report {
    pub(super) fn ok(&mut self, about: impl Into<String>, says: impl Into<String>) {
        self.lines.push(Line {
            level: Level::Ok,
            about: about.into(),
            says: says.into(),
            hint: None,
        });
    }

    pub(super) fn warning(
        &mut self,
        about: impl Into<String>,
        says: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.warnings += 1;
        self.lines.push(Line {
            level: Level::Warning,
            about: about.into(),
            says: says.into(),
            hint: Some(hint.into()),
        });
    }

    pub(super) fn fault(
        &mut self,
        about: impl Into<String>,
        says: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.faults += 1;
        self.lines.push(Line {
            level: Level::Fault,
            about: about.into(),
            says: says.into(),
            hint: Some(hint.into()),
        });
    }

    /// 0 all is well, 1 there are warnings, 2 something is broken.
    pub(super) fn code(&self) -> u8 {
        match (self.faults, self.warnings) {
            (0, 0) => exit::OK,
            (0, _) => exit::WARNINGS,
            _ => exit::FAULTS,
        }
    }

    /// For people, or for programs; without secrets.
    pub(super) fn text(&self, json: bool, redactor: &Redactor) -> String {
        if json {
            return redactor.clean(serde_json::to_string_pretty(self).unwrap_or_default()) + "\n";
        }
        let mut text = String::new();
        for Line { level, about, says, hint } in &self.lines {
            let level = match level {
                Level::Ok => "ok     ",
                Level::Warning => "warning",
                Level::Fault => "FAULT  ",
            };
            text.push_str(&format!("{level}  {about}: {}\n", says.replace('\n', "; ")));
            if let Some(hint) = hint {
                text.push_str(&format!("         hint: {}\n", hint.replace('\n', "; ")));
            }
        }
        let some = |count: usize, what: &str| {
            format!("{count} {what}{}", if count == 1 { "" } else { "s" })
        };
        let sum = match (self.faults, self.warnings) {
            (0, 0) => "all is well".to_owned(),
            (faults, warnings) => {
                format!("{}, {}", some(faults, "fault"), some(warnings, "warning"))
            }
        };
        redactor.clean(text + &sum + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_line_decides_the_exit_code() {
        let mut report = Report::default();
        report.ok("clock", "right");
        assert_eq!(
            (report.code(), report.text(false, &Redactor::default()).lines().last()),
            (0, Some("all is well"))
        );
        report.warning("user", "root", "use another");
        assert_eq!(report.code(), 1);
        report.fault("token", "refused\nreally", "make a new one");
        assert_eq!(report.code(), 2);
        let text = report.text(false, &Redactor::default());
        assert!(text.contains("FAULT    token: refused; really\n         hint: make a new one\n1 fault, 1 warning\n"), "{text}");
    }
}
