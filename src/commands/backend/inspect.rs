//! `aetheel backend inspect`: shows the properties of a component, and how much of its limits it
//! uses.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::open::{self, Opened, Unable};
use super::printed;
use crate::agent::descriptor::{Choice, Credential, Feature, FlagValue, OneShot, Program, Sharing};
use crate::agent::{Command, Descriptor, Input, Safety, StartTurn};
use crate::backend::Engine;
use crate::cli::exit;
use crate::terminal::{self, Paper};
use crate::turn::recording::{Entry, What};
use crate::turn::replay::{Batches, replay};

/// Inputs per call, about as many as a busy agent produces at once.
const BATCH: usize = 256;

pub(in crate::commands) async fn run(component: PathBuf, json: bool) -> u8 {
    match inspect(&component, json).await {
        Ok(()) => exit::OK,
        Err(unable) => unable.tell(),
    }
}

async fn inspect(path: &Path, json: bool) -> Result<(), Unable> {
    let (engine, printed) = (open::engine(true)?, printed::listen());
    let opened = open::component(&engine, path).await?;
    let cases = open::cases(open::nearby(path)).await?;
    // The results are not shown: `check` and `test` evaluate them.
    let prompt =
        What::In(Input::Command(Command::StartTurn(StartTurn::plain("Hello", Safety::Default))));
    let _ = replay(&opened.backend, &[Entry { t: 0.0, what: prompt }], Batches::Whole).await;
    for case in &cases {
        let _ = replay(&opened.backend, &case.tape.entries, Batches::Of(BATCH)).await;
    }
    if json {
        let mut form = form(path, &engine, &opened, cases.len());
        form["printed"] = printed.lines().into();
        terminal::json(&form);
    } else {
        print(path, &engine, &opened, cases.len());
        printed.print();
    }
    Ok(())
}

fn form(path: &Path, engine: &Engine, opened: &Opened, recordings: usize) -> serde_json::Value {
    let (inspection, used, limits) = (&opened.inspection, opened.backend.used(), engine.limits());
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
            "size-limit": limits.component,
            "recordings": recordings,
        },
    })
}

fn print(path: &Path, engine: &Engine, opened: &Opened, recordings: usize) {
    let page = Paper::of_stdout();
    let (inspection, used, limits) = (&opened.inspection, opened.backend.used(), engine.limits());
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
    row("runs", runs(descriptor));
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
        format!("its self-test and {recordings} recordings")
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

fn runs(descriptor: &Descriptor) -> &'static str {
    match (descriptor.sharing, descriptor.one_shot) {
        (Sharing::Turn, _) => "one process a turn",
        (Sharing::Session, OneShot::Never) => "one process a conversation",
        (Sharing::Session, _) => "one process a conversation, or one a turn",
        (Sharing::Link, OneShot::Never) => "one process for all conversations",
        (Sharing::Link, _) => "one process for all conversations, or one a turn",
    }
}

fn features(features: &[Feature]) -> String {
    // Names as they are in the contract.
    let named = features.iter().filter(|feature| **feature != Feature::Unknown);
    let names =
        named.filter_map(|feature| Some(serde_json::to_value(feature).ok()?.as_str()?.to_owned()));
    names.collect::<Vec<_>>().join(", ")
}

fn ids(choices: &[Choice]) -> String {
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
    let line = |flag: &crate::agent::descriptor::Flag| {
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
