//! The report of a rehearsal, as text and as JSON.

use serde::Serialize;

use super::facts::FactDifference;
use super::recordings::{RehearsalOutcome, RehearsedRecording};
use crate::cli::exit;
use crate::finding::Finding;
use crate::kit::shortened;
use crate::plain::counted;
use crate::terminal::OutputStyle;
use crate::workspace::StateFile;

/// Largest number of characters of a text that are shown.
const MAX_SHOWN_CHARS: usize = 160;

/// All findings. Fields may be added, but never change or disappear.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct RehearsalReport {
    pub(super) version: &'static str,
    /// Whether it can take over.
    pub(super) fit: bool,
    /// Settings that a start would refuse or ignore.
    #[serde(serialize_with = "Finding::serialize_lines")]
    pub(super) faults: Vec<Finding>,
    /// Settings that may be mistakes.
    #[serde(serialize_with = "Finding::serialize_lines")]
    pub(super) warnings: Vec<Finding>,
    pub(super) state: Vec<StateFile>,
    /// The recordings, newest first.
    pub(super) recordings: Vec<RehearsedRecording>,
    pub(super) counts: RecordingCounts,
}

/// Numbers of recordings by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct RecordingCounts {
    /// Compared recordings.
    pub(super) read: usize,
    pub(super) as_before: usize,
    pub(super) otherwise: usize,
    pub(super) unreadable: usize,
    /// Recordings that could not be compared.
    pub(super) skipped: usize,
}

impl RecordingCounts {
    fn of(rows: &[RehearsedRecording]) -> Self {
        let mut counts = Self::default();
        for row in rows {
            match row.reading {
                RehearsalOutcome::AsBefore => counts.as_before += 1,
                RehearsalOutcome::Otherwise { .. } => counts.otherwise += 1,
                RehearsalOutcome::Unreadable { .. } => counts.unreadable += 1,
                RehearsalOutcome::Skipped { .. } => counts.skipped += 1,
            }
        }
        counts.read = counts.as_before + counts.otherwise + counts.unreadable;
        counts
    }
}

impl RehearsalReport {
    /// Makes a report from the findings.
    pub(super) fn new(
        faults: Vec<Finding>,
        warnings: Vec<Finding>,
        state: Vec<StateFile>,
        recordings: Vec<RehearsedRecording>,
    ) -> Self {
        let fit = faults.is_empty()
            && state.iter().all(|file| file.faults.is_empty())
            && !recordings.iter().any(RehearsedRecording::fails);
        let (version, counts) = (env!("CARGO_PKG_VERSION"), RecordingCounts::of(&recordings));
        Self { version, fit, faults, warnings, state, recordings, counts }
    }

    pub(super) fn code(&self) -> u8 {
        if self.fit { exit::OK } else { exit::FAILED }
    }

    /// Formats the report as text.
    pub(super) fn page(&self, paper: OutputStyle) -> String {
        let mut lines: Vec<String> = self
            .warnings
            .iter()
            .map(|warning| format!("warning: {}", warning.one_line()))
            .collect();
        lines.extend(
            self.faults.iter().map(|fault| paper.bad(&format!("fault: {}", fault.one_line()))),
        );
        let damaged = self.state.iter().flat_map(|file| &file.faults);
        lines.extend(damaged.map(|fault| paper.bad(&format!("state: {fault}"))));
        for row in &self.recordings {
            lines.extend(describe_recording(row, paper));
        }
        let RecordingCounts { read, as_before, otherwise, unreadable, skipped } = self.counts;
        if skipped > 0 {
            lines.push(format!("{} not compared", counted(skipped, "recording")));
        }
        lines.push(format!(
            "{} read: {as_before} as before, {otherwise} read differently, {unreadable} could not be read",
            counted(read, "recording")
        ));
        if self.fit {
            lines.push(paper.good(&format!("Safe to upgrade to version {}.", self.version)));
            return lines.join("\n") + "\n";
        }
        let why = self.reasons().join(", ");
        lines.push(paper.bad(&format!("Not safe to upgrade to version {}: {why}", self.version)));
        if self.recordings.iter().any(RehearsedRecording::fails) {
            lines.push(
                "hint: `aetheel upgrade --ignore-recordings` skips the recordings".to_owned(),
            );
        }
        lines.join("\n") + "\n"
    }

    /// Returns short reasons against an upgrade.
    fn reasons(&self) -> Vec<String> {
        let damaged = self.state.iter().filter(|file| !file.faults.is_empty()).count();
        let failing = self.recordings.iter().filter(|row| row.fails()).count();
        let reasons = [
            (self.faults.len(), "fault", " in the settings"),
            (damaged, "damaged state file", ""),
            (failing, "recorded answer", " with differences or errors"),
        ];
        let some = reasons.into_iter().filter(|(count, ..)| *count > 0);
        some.map(|(count, what, rest)| format!("{}{rest} (above)", counted(count, what))).collect()
    }
}

/// Describes a recording, unless it was read without differences.
fn describe_recording(row: &RehearsedRecording, paper: OutputStyle) -> Vec<String> {
    let mut name = row.recording.clone();
    if let Some(backend) = &row.backend {
        name.push_str(&format!(" of {backend}"));
    }
    if row.by_another_component {
        name.push_str(", by another version of the backend");
    }
    if row.serves_now {
        name.push_str(", as in the running gateway");
    }
    if row.goes_on {
        name.push_str(", its turn has not ended");
    }
    let (what, differences): (String, &[FactDifference]) = match &row.reading {
        RehearsalOutcome::AsBefore => return Vec::new(),
        RehearsalOutcome::Otherwise { differences } => {
            ("reads differently".to_owned(), differences)
        }
        RehearsalOutcome::Unreadable { why, differences } => {
            (format!("could not be read: {}", shortened(why, MAX_SHOWN_CHARS)), differences)
        }
        RehearsalOutcome::Skipped { why } => {
            (format!("not compared: {}", shortened(why, MAX_SHOWN_CHARS)), &[])
        }
    };
    let head = format!("{name}: {what}");
    let mut lines = vec![if row.fails() { paper.bad(&head) } else { head }];
    for difference in differences {
        let turn = difference.turn.map(|turn| format!(" of turn {turn}")).unwrap_or_default();
        lines.push(format!("  {}{turn}", difference.about.word()));
        let side = |sign: char, text: &Option<String>| {
            let text = text
                .as_deref()
                .map_or_else(|| "(none)".to_owned(), |text| shortened(text, MAX_SHOWN_CHARS));
            format!("    {sign} {text}")
        };
        let [before, now] = around(&difference.before, &difference.now);
        lines.push(paper.bad(&side('-', &before)));
        lines.push(paper.good(&side('+', &now)));
    }
    lines
}

/// Cuts the common beginning of two texts, so that the first difference is visible.
fn around(before: &Option<String>, now: &Option<String>) -> [Option<String>; 2] {
    let (Some(one), Some(other)) = (before, now) else { return [before.clone(), now.clone()] };
    let same = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let skipped = same.saturating_sub(MAX_SHOWN_CHARS / 4);
    let from = |text: &str| match skipped {
        0 => text.to_owned(),
        _ => format!("… {}", text.chars().skip(skipped).collect::<String>()),
    };
    [Some(from(one)), Some(from(other))]
}

#[cfg(test)]
mod tests {
    use super::super::facts::DifferenceKind;
    use super::*;

    fn row(reading: RehearsalOutcome, by_another_component: bool) -> RehearsedRecording {
        let (recording, backend) = ("2026-01-02/a.jsonl".to_owned(), Some("demo".to_owned()));
        let (goes_on, serves_now) = (false, false);
        RehearsedRecording {
            recording,
            backend,
            by_another_component,
            serves_now,
            goes_on,
            reading,
        }
    }

    fn otherwise(before: &str, now: &str) -> RehearsalOutcome {
        let (before, now) = (Some(before.to_owned()), Some(now.to_owned()));
        let about = DifferenceKind::Answer;
        RehearsalOutcome::Otherwise {
            differences: vec![FactDifference { about, turn: Some(1), before, now }],
        }
    }

    fn report(rows: Vec<RehearsedRecording>) -> RehearsalReport {
        RehearsalReport::new(Vec::new(), Vec::new(), Vec::new(), rows)
    }

    #[test]
    fn another_component_may_read_differently_but_must_be_able_to_read() {
        let skipped = || row(RehearsalOutcome::Skipped { why: "damaged".to_owned() }, false);
        let unreadable =
            RehearsalOutcome::Unreadable { why: "gave up".to_owned(), differences: Vec::new() };
        assert!(report(vec![row(RehearsalOutcome::AsBefore, false), skipped()]).fit);
        assert!(report(vec![row(otherwise("a", "b"), true)]).fit);
        assert!(!report(vec![row(otherwise("a", "b"), false)]).fit);
        let report = report(vec![row(unreadable, true), skipped()]);
        assert_eq!((report.code(), report.counts.read, report.counts.skipped), (1, 1, 1));
    }

    #[test]
    fn a_recording_that_the_running_gateway_cannot_read_either_does_not_prevent_an_upgrade() {
        let unreadable =
            || RehearsalOutcome::Unreadable { why: "gave up".to_owned(), differences: vec![] };
        let page = report(vec![row(unreadable(), true)]).page(OutputStyle::plain());
        assert!(
            page.contains("Not safe to upgrade") && page.contains("1 recorded answer with"),
            "{page}"
        );
        assert!(page.contains("--ignore-recordings"), "{page}");
        let known = RehearsedRecording { serves_now: true, ..row(unreadable(), true) };
        assert!(report(vec![known]).fit);
        let own = RehearsedRecording { serves_now: true, ..row(unreadable(), false) };
        assert!(!report(vec![own]).fit, "the current component made it");
    }

    #[test]
    fn a_long_text_is_shown_from_the_first_difference() {
        let long = "x".repeat(1_000);
        let report =
            report(vec![row(otherwise(&format!("{long}one"), &format!("{long}two")), false)]);
        let page = report.page(OutputStyle::plain());
        assert!(page.contains("xone\n") && page.contains("xtwo\n"), "{page}");
        assert!(
            page.contains("1 recording read: 0 as before, 1 read differently, 0 could not"),
            "{page}"
        );
    }
}
