//! `aetheel report`: writes a small recording with which anybody can reproduce a fault of a turn.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::resolve;
use crate::open;
use aetheel::cli::{ReportArgs, exit};
use aetheel::commands::kit::KitError;
use aetheel::progress;
use aetheel::startup::settings::OperatorSettings;
use aetheel::terminal::{self, OutputStyle, print_stderr};
use aetheel_kit::report::{
    FaultReport, ReportError, ReportLimits, ReportOptions, ReportOrigin, ReportedLimits,
    make_report,
};
use aetheel_model::limits::ResourceLimits;
use aetheel_model::plain::counted;
use aetheel_recording::case::Case;

/// Variables that contain the name of the user or of the machine.
const NAME_VARIABLES: [&str; 5] = ["USER", "LOGNAME", "SUDO_USER", "HOSTNAME", "HOST"];
const HOST_NAME_FILE: &str = "/etc/hostname";

pub(crate) async fn run(settings: OperatorSettings, args: &ReportArgs) -> u8 {
    let done = write_report(settings, args).await;
    done.unwrap_or_else(|unable| unable.report())
}

async fn write_report(settings: OperatorSettings, args: &ReportArgs) -> Result<u8, KitError> {
    let config = &settings.config;
    let case = resolve::turn_case(&args.turn, config).await?;
    let header = &case.tape.header;
    let component = match &args.backend {
        Some(given) => resolve::component_path(given, config)?,
        None => resolve::component_by_digest(&header.backend, &header.digest, config)
            .map_err(|error| KitError { hint: Some(PROFILE_HINT), ..error })?,
    };
    let output = match &args.output {
        Some(path) => path.clone(),
        None => default_output(&case.path),
    };
    refuse_existing(&output)?;
    let opened = open::component(&open::limited_engine(&config.limits)?, &component).await?;
    if opened.inspection.digest != header.digest && args.backend.is_none() {
        print_stderr(&format!(
            "note: {} did not make the recording. The component that made it has the SHA-256 {} and is neither in {} (BACKENDS_DIR) nor among the kept ones in CONFIG_DIR/state; pass its file with `--backend`",
            component.display(),
            aetheel_model::plain::shortened(&header.digest, 64),
            config.backends_dir.display(),
        ));
    }
    let origin = ReportOrigin {
        aetheel: env!("CARGO_PKG_VERSION").to_owned(),
        contract: opened.inspection.contract.clone(),
        limits: guest_limits(&config.limits),
    };
    let options = ReportOptions {
        turn: turn_of(&case, &args.turn),
        kind: args.fault,
        expected: args.expect.clone(),
        keep_text: args.keep_text,
        limits: ReportLimits { replays: args.replays, time: Duration::from_secs(args.seconds) },
        private: private_names(&settings),
        component: std::fs::read(&component).map_err(|error| {
            KitError::usage(format!("cannot read {}: {error}", component.display()))
        })?,
        redactor: settings.redactor.clone(),
    };
    let made = make_report(&opened.backend, &case.tape, &origin, &options);
    let made = progress::with_spinner("shrinking the recording", made).await;
    let report = made.map_err(|error| refusal(&case, &error))?;
    write_new(&output, &report.text)?;
    if args.json {
        terminal::json(&json!({
            "output": output.display().to_string(),
            "lines": report.lines,
            "of": case.tape.entries.len() + 1,
            "replays": report.replays,
            "complete": !report.is_cut_short,
            "report": report.facts,
        }));
    } else {
        print(&report, &case, &output);
    }
    Ok(exit::OK)
}

/// The next step if the recording's backend has no component of its own.
const PROFILE_HINT: &str =
    "pass the component with `--backend`; for a profile of acp.md it is `--backend acp`";

/// Returns the id of the turn if the argument is one. Otherwise the whole recording is searched.
fn turn_of(case: &Case, wanted: &Path) -> Option<String> {
    let id = wanted.to_str()?;
    case.tape.beginning_of(id).map(|_| id.to_owned())
}

/// Returns `NAME.report.jsonl` in the current folder.
fn default_output(recording: &Path) -> PathBuf {
    let name = recording.file_stem().unwrap_or_default().to_string_lossy();
    PathBuf::from(format!("{name}.report.jsonl"))
}

fn refuse_existing(output: &Path) -> Result<(), KitError> {
    if output.exists() {
        let text = format!("{} exists already; choose another file with `-o`", output.display());
        return Err(KitError::usage(text));
    }
    Ok(())
}

/// Writes a file that only its owner can read, until the owner shares it.
fn write_new(output: &Path, text: &str) -> Result<(), KitError> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(output);
    let written = opened.and_then(|mut file| {
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        if written.is_err() {
            // An incomplete report is of no use. If this fails too, the error below names the file.
            let _ = std::fs::remove_file(output);
        }
        written
    });
    written.map_err(|error| KitError::usage(format!("cannot write {}: {error}", output.display())))
}

fn guest_limits(limits: &ResourceLimits) -> ReportedLimits {
    let call_ms = u64::try_from(limits.guest_call.as_millis()).unwrap_or(u64::MAX);
    ReportedLimits { memory: limits.guest_memory as u64, call_ms }
}

/// Returns the names of the user and of the machine, and the folders of the user's home.
fn private_names(settings: &OperatorSettings) -> Vec<String> {
    let variable =
        |name: &str| settings.variables.get(name).cloned().or_else(|| std::env::var(name).ok());
    let named = NAME_VARIABLES.into_iter().filter_map(variable);
    let host = std::fs::read_to_string(HOST_NAME_FILE).ok();
    let texts: Vec<String> = named.chain(host).chain(variable("HOME")).collect();
    let words =
        texts.iter().flat_map(|text| text.split(|c: char| !c.is_alphanumeric() && c != '_'));
    words.filter(|word| word.len() >= 3 && *word != "home").map(str::to_owned).collect()
}

/// Describes why there is no report, with the next step.
fn refusal(case: &Case, error: &ReportError) -> KitError {
    let hint = match error {
        ReportError::NoFault(_) => Some(
            "if the answer lacks a text that the agent printed, name it with `--expect`; `aetheel backend replay` shows how the backend reads the recording",
        ),
        ReportError::NeedsText(_) => {
            Some("read these words; if they may be published, pass `--keep-text`")
        }
        ReportError::Exhausted(_) => Some("raise `--replays` and `--seconds`"),
        ReportError::NotMissing => {
            Some("`aetheel backend replay` shows the answer; name a part that is on one line")
        }
        ReportError::Guest(_) => Some("`aetheel backend check` shows what is wrong with it"),
        ReportError::NoTurn(_) | ReportError::OtherFaults(..) | ReportError::Unstable => None,
    };
    let code = match error {
        ReportError::NoTurn(_) => exit::USAGE,
        _ => exit::FAILED,
    };
    KitError { code, text: format!("{}: {error}", case.path.display()), hint }
}

fn print(report: &FaultReport, case: &Case, output: &Path) {
    let page = OutputStyle::for_stdout();
    let fault = &report.facts.fault;
    let place = aetheel_model::plain::shortened(&fault.place, 300);
    terminal::line(&format!(
        "{}:{}  {}",
        output.display(),
        fault.line,
        page.bad(fault.kind.word())
    ));
    terminal::line(&format!("  {place}"));
    terminal::line(&format!(
        "{} of {}, found with {}",
        counted(report.lines, "line"),
        terminal::count(case.tape.entries.len() + 1),
        counted(report.replays, "replay")
    ));
    if report.is_cut_short {
        terminal::line(
            "note: the limit was reached before the report was as small as possible; raise `--replays` and `--seconds`",
        );
    }
    if report.facts.kept_text {
        terminal::line(
            &page.bad("note: the report contains words that may come from people (`--keep-text`)"),
        );
    }
    if !report.others.is_empty() {
        let mut kinds: Vec<&str> = report.others.iter().map(|fault| fault.kind.word()).collect();
        kinds.dedup();
        let kinds = kinds.join(", ");
        terminal::line(&format!("note: there are other faults ({kinds}); `--fault` chooses"));
    }
    terminal::line(&format!(
        "next: read the file, then share it; `aetheel reproduce {}` shows the fault",
        output.display()
    ));
}
