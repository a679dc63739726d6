//! `aetheel backend check`: tests whether a component follows the rules of the contract.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::guest_output::{self, GuestOutput};
use crate::open::{self, OpenedComponent};
use aetheel::cli::{CheckArgs, exit};
use aetheel::commands::kit::{KitError, read_cases};
use aetheel::terminal::{self, OutputStyle};
use aetheel_kit::CheckFinding;
use aetheel_kit::check::{self, Area};
use aetheel_model::plain::counted;

pub(crate) async fn run(args: CheckArgs) -> u8 {
    let CheckArgs { component, recordings, json } = args;
    let tried = examine(&component, recordings).await;
    match tried {
        Ok(checked) if json => checked.json(&component),
        Ok(checked) => checked.print(&component),
        Err(unable) => {
            if json && unable.code == exit::FAILED {
                terminal::json(&json!({
                    "component": component.display().to_string(),
                    "passed": false,
                    "refused": unable.text,
                    "hint": unable.hint,
                    "recordings": 0,
                    "areas": [],
                }));
                return unable.code;
            }
            unable.report()
        }
    }
}

struct CheckResult {
    opened: OpenedComponent,
    recordings: usize,
    areas: Vec<Area>,
    printed: GuestOutput,
}

async fn examine(component: &Path, recordings: Vec<PathBuf>) -> Result<CheckResult, KitError> {
    let (engine, printed) = (open::explaining_engine()?, guest_output::capture());
    let named =
        if recordings.is_empty() { open::default_case_folders(component) } else { recordings };
    let cases = read_cases(named).await?;
    let opened = open::component(&engine, component).await?;
    let areas = check::check(&opened.backend, &cases)
        .await
        .map_err(|failure| KitError::failed(format!("no guest can be opened: {failure}")))?;
    Ok(CheckResult { opened, recordings: cases.len(), areas, printed })
}

impl CheckResult {
    fn passed(&self) -> bool {
        self.areas.iter().all(|area| area.findings.is_empty())
    }

    fn code(&self) -> u8 {
        if self.passed() { exit::OK } else { exit::FAILED }
    }

    fn json(&self, component: &Path) -> u8 {
        let used = self.opened.backend.resource_usage();
        terminal::json(&json!({
            "component": component.display().to_string(),
            "name": self.opened.inspection.descriptor.name,
            "version": self.opened.inspection.descriptor.version,
            "sha256": self.opened.inspection.digest,
            "passed": self.passed(),
            "recordings": self.recordings,
            "areas": self.areas,
            "printed": self.printed.lines(),
            "used": { "memory": used.memory, "longest-call-ms": used.call.as_secs_f64() * 1e3 },
        }));
        self.code()
    }

    fn print(&self, component: &Path) -> u8 {
        let page = OutputStyle::for_stdout();
        let inspection = &self.opened.inspection;
        terminal::line(&format!(
            "{}  {}",
            page.bold(&open::title(&self.opened)),
            page.dim(&component.display().to_string())
        ));
        let imports = match inspection.imports.len() {
            0 => "no imports".to_owned(),
            some => format!("{}, all allowed", counted(some, "import")),
        };
        let admission = format!("{}, {imports}", inspection.contract);
        terminal::line(&format!(
            "  {}  {:<14} {}",
            page.good("ok  "),
            "admission",
            page.dim(&admission)
        ));
        self.areas.iter().for_each(|area| print_area(page, area));
        self.printed.print();
        if self.recordings == 0 {
            terminal::line(
                "note: without recordings of its agent, many checks were skipped; make a recording with `aetheel backend record -- COMMAND`",
            );
        }
        let found: usize = self.areas.iter().map(|area| area.findings.len()).sum();
        terminal::line(&match found {
            0 => page.good("no problems found"),
            some => page.bad(&counted(some, "finding")),
        });
        self.code()
    }
}

pub(super) fn print_area(page: OutputStyle, area: &Area) {
    let mark = match (area.findings.is_empty(), area.trials) {
        (false, _) => page.bad("FAIL"),
        (true, 0) => page.dim("–   "),
        (true, _) => page.good("ok  "),
    };
    let tried = match (area.trials, &area.why) {
        (0, Some(why)) => format!("nothing to try: {why}"),
        (0, None) => "nothing to try".to_owned(),
        (trials, _) => format!("{} {}", terminal::count(trials), area.of),
    };
    terminal::line(&format!("  {mark}  {:<14} {}", area.name, page.dim(&tried)));
    for finding in &area.findings {
        print_finding(page, finding);
    }
    for note in &area.notes {
        let place = match (&note.recording, note.line) {
            (Some(path), Some(line)) => format!("{path}:{line}"),
            _ => String::new(),
        };
        let text = format!("note: {}: {} ({place})", note.trial, note.got);
        terminal::line(&format!("        {}", page.dim(&text)));
    }
    if let Some(note) = area.notes.first() {
        terminal::line(&format!("        {}", page.dim(&format!("hint: {}", note.advice))));
    }
}

fn print_finding(page: OutputStyle, finding: &CheckFinding) {
    let rule = serde_json::to_value(finding.rule)
        .ok()
        .and_then(|rule| rule.as_str().map(str::to_owned))
        .unwrap_or_default();
    let place = match (&finding.recording, finding.line) {
        (Some(path), Some(line)) => format!("{path}:{line}"),
        (Some(path), None) => path.clone(),
        (None, _) => "made from the descriptor".to_owned(),
    };
    let times = if finding.times > 1 {
        format!(" (and {})", counted(finding.times - 1, "more time"))
    } else {
        String::new()
    };
    terminal::line(&format!("        {} {place}{times}", page.bold(&rule)));
    for (what, text) in [
        ("tried", finding.trial.as_str()),
        ("input", &finding.input),
        ("got", &finding.got),
        ("expected", &finding.expected),
        ("hint", finding.advice),
    ] {
        if !text.is_empty() {
            terminal::line(&format!("          {} {text}", page.dim(&format!("{what:<9}"))));
        }
    }
}
