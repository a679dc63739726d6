//! `aetheel reproduce`: shows the fault of a report.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::resolve;
use crate::open::{self, OpenedComponent};
use aetheel::cli::{ReproduceArgs, exit};
use aetheel::commands::kit::KitError;
use aetheel::startup::settings::OperatorSettings;
use aetheel::terminal::{self, OutputStyle, print_stderr};
use aetheel_kit::report::{Fault, ReportFacts, ReportedLimits, Reproduction, reproduce};
use aetheel_kit::summary;
use aetheel_model::limits::ResourceLimits;
use aetheel_recording::case::Case;

/// Highest limits that a report may ask for. Its author may be a stranger.
const MAX_MEMORY: u64 = 1 << 30;
const MAX_CALL_MS: u64 = 10_000;
/// Largest number of characters of a text from a report that is shown.
const MAX_SHOWN: usize = 300;

pub(crate) async fn run(settings: OperatorSettings, args: &ReproduceArgs) -> u8 {
    let done = show(&settings, args).await;
    done.unwrap_or_else(|unable| unable.report())
}

async fn show(settings: &OperatorSettings, args: &ReproduceArgs) -> Result<u8, KitError> {
    let case = open::case(args.file.clone()).await?;
    let facts = read_facts(&case.path)?;
    let header = &case.tape.header;
    let component = match &args.backend {
        Some(given) => resolve::component_path(given, &settings.config)?,
        None => resolve::component_by_digest(&header.backend, &header.digest, &settings.config)
            .map_err(|error| KitError {
                hint: Some("pass a component with `--backend`"),
                ..error
            })?,
    };
    let engine = open::limited_engine(&limits_of(facts.limits))?;
    let opened = open::component(&engine, &component).await?;
    let same = opened.inspection.digest == header.digest;
    let result = reproduce(&opened.backend, &case.tape, &facts.fault).await.map_err(|failure| {
        KitError::failed(format!("{}: no guest can be opened: {failure}", component.display()))
    })?;
    if args.json {
        print_json(&case, &facts, &result, same);
    } else {
        print(&case, &facts, &result, &opened, &component);
    }
    Ok(if result.fault.is_some() { exit::OK } else { exit::FAILED })
}

fn read_facts(path: &Path) -> Result<ReportFacts, KitError> {
    let unusable =
        |error: &dyn std::fmt::Display| KitError::usage(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| unusable(&error))?;
    ReportFacts::read(&text).map_err(|error| unusable(&error))
}

fn limits_of(limits: ReportedLimits) -> ResourceLimits {
    let usual = ResourceLimits::default();
    let memory = usize::try_from(limits.memory.min(MAX_MEMORY)).unwrap_or(usual.guest_memory);
    let call = Duration::from_millis(limits.call_ms.min(MAX_CALL_MS));
    ResourceLimits {
        guest_memory: memory.max(usual.guest_memory),
        guest_call: call.max(usual.guest_call),
        ..usual
    }
}

fn print_json(case: &Case, facts: &ReportFacts, result: &Reproduction, same: bool) {
    let line = |fault: &Fault| case.tape.lines.get(fault.entry).copied();
    let others: Vec<_> = result
        .others
        .iter()
        .map(|fault| json!({ "kind": fault.kind, "place": fault.place, "line": line(fault) }))
        .collect();
    let endings: Vec<_> = result
        .endings
        .iter()
        .map(|(turn, ending)| json!({ "turn": turn, "ending": ending.word() }))
        .collect();
    terminal::json(&json!({
        "reproduced": result.fault.is_some(),
        "line": result.fault.as_ref().and_then(line),
        "same-component": same,
        "report": facts,
        "others": others,
        "endings": endings,
    }));
}

fn print(
    case: &Case,
    facts: &ReportFacts,
    result: &Reproduction,
    opened: &OpenedComponent,
    component: &Path,
) {
    let page = OutputStyle::for_stdout();
    let header = &case.tape.header;
    if opened.inspection.digest != header.digest {
        print_stderr(&format!(
            "note: the report is about {} {} ({}), this is {} ({}): {}",
            aetheel_model::plain::shortened(&header.backend, 60),
            aetheel_model::plain::shortened(&header.backend_version, 60),
            aetheel_model::plain::shortened(&header.digest, 12),
            open::title(opened),
            aetheel_model::plain::shortened(&opened.inspection.digest, 12),
            component.display(),
        ));
    }
    let fault = &facts.fault;
    let wanted =
        format!("{}: {}", fault.kind, aetheel_model::plain::shortened(&fault.place, MAX_SHOWN));
    match &result.fault {
        Some(found) => {
            print_step(page, case, result, found.entry);
            terminal::line(&page.good(&format!("reproduced: {wanted}")));
        }
        None => {
            terminal::line(&page.bad(&format!("not reproduced: {wanted}")));
            for (turn, ending) in &result.endings {
                terminal::line(&format!("  turn {turn} ended as {}", ending.word()));
            }
            for other in &result.others {
                let place = aetheel_model::plain::shortened(&other.place, MAX_SHOWN);
                terminal::line(&format!(
                    "  {} {}: {place}",
                    case.position(other.entry),
                    other.kind
                ));
            }
            if let Some((at, failure)) = &result.replayed.failure {
                let failure = aetheel_model::plain::shortened(&failure.to_string(), MAX_SHOWN);
                terminal::line(&format!("  {} {failure}", case.position(*at)));
            }
        }
    }
}

fn print_step(page: OutputStyle, case: &Case, result: &Reproduction, at: usize) {
    let input = case.tape.entries.get(at).and_then(|entry| entry.input());
    let input = input.map(aetheel_recording::brief).unwrap_or_default();
    terminal::line(&format!("{} {}", page.bold(&case.position(at)), page.dim(&input)));
    let steps = result.replayed.steps.iter().filter(|step| step.entry == at);
    for action in steps.flat_map(|step| &step.actions) {
        let (what, text) = summary::line(action);
        terminal::line(&format!("  {} {text}", page.bold(&format!("{what:<11}"))));
    }
    if let Some((_, failure)) = result.replayed.failure.as_ref().filter(|(entry, _)| *entry == at) {
        let failure = aetheel_model::plain::shortened(&failure.to_string(), 2_000);
        terminal::line(&format!("  {}", page.bad(&failure)));
    }
}
