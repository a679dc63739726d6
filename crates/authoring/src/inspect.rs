//! `aetheel backend inspect`: shows the properties of a component, and how much of its limits it
//! uses.

use std::path::Path;

use serde_json::json;

use super::guest_output;
use crate::open::{self, OpenedComponent};
use aetheel::cli::{InspectArgs, exit};
use aetheel::commands::kit::{KitError, read_cases};
use aetheel::terminal::{self, OutputStyle};
use aetheel_kit::{describe_versions, proven_versions};
use aetheel_model::agent::descriptor::{
    Credential, DescriptorChoice, Feature, FlagValue, LinkSharing, OneShot, Program,
};
use aetheel_model::agent::{Descriptor, HostCommand, Input, Safety, StartTurn};
use aetheel_model::plain::counted;
use aetheel_recording::replay::{Batches, replay};
use aetheel_recording::{EntryKind, RecordingEntry};
use aetheel_wasm::Engine;

/// Inputs per call, about as many as a busy agent produces at once.
const INPUTS_PER_CALL: usize = 256;

pub(crate) async fn run(args: InspectArgs) -> u8 {
    match inspect(&args.component, args.json).await {
        Ok(()) => exit::OK,
        Err(unable) => unable.report(),
    }
}

async fn inspect(path: &Path, json: bool) -> Result<(), KitError> {
    let (engine, printed) = (open::engine()?, guest_output::capture());
    let opened = open::component(&engine, path).await?;
    let cases = read_cases(open::default_case_folders(path)).await?;
    // The results are not shown: `check` and `test` evaluate them.
    let prompt = EntryKind::In(Input::Command(HostCommand::StartTurn(StartTurn::plain(
        "Hello",
        Safety::Default,
    ))));
    let _ =
        replay(&opened.backend, &[RecordingEntry { t: 0.0, kind: prompt }], Batches::Whole).await;
    for case in &cases {
        let _ = replay(&opened.backend, &case.tape.entries, Batches::Of(INPUTS_PER_CALL)).await;
    }
    let versions = proven_versions(&cases);
    if json {
        let mut form = to_json(path, &engine, &opened, cases.len());
        form["printed"] = printed.lines().into();
        form["cases-by-agent-version"] = json!(versions);
        terminal::json(&form);
    } else {
        print(path, &engine, &opened, cases.len());
        if let Some(versions) = describe_versions(&versions) {
            let page = OutputStyle::for_stdout();
            let what = page.dim(&format!("{:<12}", "cases of"));
            terminal::line(&format!("  {what} agent version {versions}"));
        }
        printed.print();
    }
    Ok(())
}

fn to_json(
    path: &Path,
    engine: &Engine,
    opened: &OpenedComponent,
    recordings: usize,
) -> serde_json::Value {
    let (inspection, used, limits) =
        (&opened.inspection, opened.backend.resource_usage(), engine.limits());
    json!({
        "file": path.display().to_string(),
        "size": inspection.size,
        "sha256": inspection.digest,
        "contract": inspection.contract,
        "imports": inspection.imports,
        "descriptor": inspection.descriptor,
        "used": {
            "memory": used.memory,
            "memory-limit": limits.guest_memory,
            "longest-call-ms": used.call.as_secs_f64() * 1e3,
            "call-limit-ms": limits.guest_call.as_millis() as u64,
            "calls": used.calls,
            "ran-ms": used.ran.as_secs_f64() * 1e3,
            "size-limit": limits.component,
            "recordings": recordings,
        },
    })
}

fn print(path: &Path, engine: &Engine, opened: &OpenedComponent, recordings: usize) {
    let page = OutputStyle::for_stdout();
    let (inspection, used, limits) =
        (&opened.inspection, opened.backend.resource_usage(), engine.limits());
    let descriptor = &inspection.descriptor;
    terminal::line(&format!("{}  {}", page.bold(&open::title(opened)), descriptor.label()));
    let row = |what: &str, text: &str| {
        if !text.is_empty() {
            terminal::line(&format!("  {} {text}", page.dim(&format!("{what:<12}"))));
        }
    };
    row("file", &path.display().to_string());
    row(
        "size",
        &format!(
            "{} of {}",
            terminal::bytes(inspection.size as usize),
            terminal::bytes(limits.component as usize)
        ),
    );
    row("sha-256", &inspection.digest);
    row("contract", &inspection.contract);
    row("imports", &imports(&inspection.imports));
    row("runs", describe_processes(descriptor));
    row("can", &features(&descriptor.features));
    row("live only", &features(&descriptor.live_only));
    row("understands", &descriptor.understands.join(", "));
    row("efforts", &ids(&descriptor.efforts));
    row("models", &ids(&descriptor.models));
    let credentials = descriptor.credentials.iter().map(|credential| match credential {
        Credential::Variable(name) | Credential::File(name) => name.clone(),
    });
    row("signed in by", &credentials.collect::<Vec<_>>().join(" or "));
    row("sets", &descriptor.environment.set.join(", "));
    row("gets", &descriptor.environment.pass.join(", "));
    for program in &descriptor.programs {
        row("program", &program_line(program));
        for flag in flags(program) {
            row("", &flag);
        }
    }
    let tried = if recordings == 0 {
        "its self-test".to_owned()
    } else {
        format!("its self-test and {}", counted(recordings, "recording"))
    };
    row(
        "memory",
        &format!(
            "{} of {} at most, by {tried}",
            terminal::bytes(used.memory),
            terminal::bytes(limits.guest_memory)
        ),
    );
    row(
        "longest call",
        &format!("{} of {}", terminal::time(used.call), terminal::time(limits.guest_call)),
    );
    row("ran for", &format!("{} in {}", terminal::time(used.ran), counted(used.calls, "call")));
}

fn imports(imports: &[String]) -> String {
    match imports.len() {
        0 => "none".to_owned(),
        // Language runtimes import all of WASI. The host provides it, but without any files or
        // network.
        count if count > 4 => format!("{} and {} more of WASI", imports[..2].join(", "), count - 2),
        _ => imports.join(", "),
    }
}

fn describe_processes(descriptor: &Descriptor) -> &'static str {
    match (descriptor.sharing, descriptor.one_shot) {
        (LinkSharing::Turn, _) => "one process a turn",
        (LinkSharing::Session, OneShot::Never) => "one process a conversation",
        (LinkSharing::Session, _) => "one process a conversation, or one a turn",
        (LinkSharing::Link, OneShot::Never) => "one process for all conversations",
        (LinkSharing::Link, _) => "one process for all conversations, or one a turn",
    }
}

fn features(features: &[Feature]) -> String {
    // Names as they are in the contract.
    let named = features.iter().filter(|feature| **feature != Feature::Unknown);
    let names =
        named.filter_map(|feature| Some(serde_json::to_value(feature).ok()?.as_str()?.to_owned()));
    names.collect::<Vec<_>>().join(", ")
}

fn ids(choices: &[DescriptorChoice]) -> String {
    choices.iter().map(|choice| choice.id.clone()).collect::<Vec<_>>().join(", ")
}

fn program_line(program: &Program) -> String {
    let words = if program.words.is_empty() {
        String::new()
    } else {
        format!(", words: {}", program.words.join(" "))
    };
    let version = if program.version_arguments.is_empty() {
        String::new()
    } else {
        format!(", version by {}", program.version_arguments.join(" "))
    };
    format!("{}{version}{words}", program.name)
}

fn flags(program: &Program) -> Vec<String> {
    let line = |flag: &aetheel_model::agent::descriptor::Flag| {
        let value = match (&flag.values[..], flag.value) {
            (_, FlagValue::None) => String::new(),
            ([], FlagValue::One) => " …".to_owned(),
            ([], FlagValue::Many) => " … …".to_owned(),
            (values, _) => format!(" {}", values.join("|")),
        };
        let level = serde_json::to_value(flag.safety)
            .ok()
            .and_then(|level| level.as_str().map(str::to_owned));
        let level = level
            .filter(|level| level != "default")
            .map(|level| format!("  (from {level})"))
            .unwrap_or_default();
        format!("{}{value}{level}", flag.name)
    };
    program.flags.iter().map(line).collect()
}
