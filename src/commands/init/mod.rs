//! `aetheel init`: sets up the gateway by asking only for facts that it cannot determine itself.
//!
//! Each question can also be answered by a flag. Nothing is written before the last answer, and a
//! second run changes only the settings that are answered differently. The token is typed without
//! echo, and is neither an argument nor part of any output. Tested by `tests/gateway/init.rs`.

mod agents;
mod answers;
mod arguments;
mod discord;
mod existing;
mod files;
mod folders;
mod questions;
mod unit;

use std::ffi::OsString;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::geteuid;
use secrecy::ExposeSecret as _;

use self::arguments::{AccessArgs, OptionalArgs};
pub(super) use self::arguments::{InitArgs, Then};
use self::existing::{ExistingSetup, TOKEN};
use self::files::SetupPlan;
use self::questions::{SetupAnswers, SetupQuestions};
use self::unit::ServiceUnits;
use crate::cli::exit;
use crate::startup::running::gateway_of;
use crate::startup::settings::xdg_folder;
use crate::startup::{Purpose, surroundings};
use crate::terminal::{fail, line, print_stderr};
use crate::terminal_prompt::{PromptAborted, TerminalPrompt};
use aetheel_model::finding::{Finding, FindingLevel};
use aetheel_model::redact::Redactor;
use aetheel_process::holder::PROGRAM;

/// The reason why the setup was not done.
#[derive(Debug)]
enum SetupError {
    Faults(Vec<String>),
    Aborted,
}

impl From<PromptAborted> for SetupError {
    fn from(_: PromptAborted) -> Self {
        Self::Aborted
    }
}

impl From<Vec<String>> for SetupError {
    fn from(faults: Vec<String>) -> Self {
        Self::Faults(faults)
    }
}

impl From<String> for SetupError {
    fn from(fault: String) -> Self {
        Self::Faults(vec![fault])
    }
}

impl InitArgs {
    /// Runs the setup and the chosen next step. Returns the exit code.
    pub(super) fn run(self) -> u8 {
        let (faults, code) = match set_up(&self) {
            Ok(code) => return code,
            Err(SetupError::Aborted) => (Vec::new(), exit::FAILED),
            Err(SetupError::Faults(faults)) => (faults, exit::CONFIG),
        };
        faults.iter().for_each(|fault| print_stderr(&format!("error: {fault}")));
        print_stderr("nothing was written");
        code
    }
}

fn set_up(args: &InitArgs) -> Result<u8, SetupError> {
    // Called before other threads start, because it changes the environment.
    let existing = ExistingSetup::load(args)?;
    // Only the units are printed to stdout, so that it can be redirected.
    let _ = PRINT_TO_STDERR.set(args.then == Some(Then::PrintUnit));
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            fail(&format!("cannot start the async runtime: {error}"));
            return Ok(exit::SOFTWARE);
        }
    };
    let asking = if args.yes { None } else { TerminalPrompt::at_terminal() };
    let verb = if existing.text.is_some() { "Changing" } else { "Setting up" };
    print(&format!("{verb} {} (folder {})", existing.file.display(), existing.folder.display()));
    if geteuid().is_root() {
        print(
            "warning: you are root, and agents would be root too: they could do everything on this machine. Run this as the user that will run the gateway.",
        );
    }
    let found = folders::find(&existing, args.backends.as_deref());
    let backends_fault = found.as_ref().err().map(ToString::to_string);
    let places = found.unwrap_or_default();
    let (mut setup, mut faults) = SetupQuestions::new(args, &existing, &places, asking);
    faults.extend(backends_fault);
    let chosen = setup.ask(&runtime, faults)?;
    let redactor = Redactor::new([&chosen.token]);
    let settings = settings(&existing, &chosen, places);
    let plan = SetupPlan::new(&existing, &settings).map_err(|faults| clean(&redactor, faults))?;
    for (name, value) in &settings {
        if *name != TOKEN
            && existing.environment_value(name).is_some_and(|outside| outside != value)
        {
            print(&format!(
                "warning: {name} in the environment has another value, which overrides the file"
            ));
        }
    }
    for finding in findings(&existing, &settings, &chosen, &redactor) {
        let kind = if finding.level.is_fault() { "fault" } else { "warning" };
        print(&redactor.redact(format!("{kind}: {finding}")));
    }
    let changes = !plan.changes.is_empty();
    if !changes {
        print("Nothing to change.");
    } else {
        print("Changes to be written:");
        plan.changes.iter().for_each(|says| print(&redactor.redact(says.clone())));
        if !setup.confirm("Write this?")? {
            return Err(SetupError::Aborted);
        }
        if existing.is_outdated() {
            let file = existing.file.display();
            return Err(format!("{file} was changed in the meantime; run this again").into());
        }
        plan.write().map_err(|error| error.to_string())?;
        print("Written.");
    }
    let then = setup.then();
    drop(setup);
    runtime.shutdown_timeout(Duration::from_secs(1));
    run_next_step(&existing, then, changes)
}

static PRINT_TO_STDERR: OnceLock<bool> = OnceLock::new();

fn print(text: &str) {
    if PRINT_TO_STDERR.get() == Some(&true) { print_stderr(text) } else { line(text) }
}

/// Returns the problems that a start with these settings would find.
fn findings(
    existing: &ExistingSetup,
    settings: &[(&'static str, String)],
    chosen: &SetupAnswers,
    redactor: &Redactor,
) -> Vec<Finding> {
    let mut config = existing.config(settings);
    config.discord_bot_token = Some(chosen.token.clone());
    let variables = existing.variables(settings);
    let mut found = surroundings::examine(&config, &variables, redactor, Purpose::Check);
    found.retain(|finding| finding.level != FindingLevel::Ok);
    found
}

fn clean(redactor: &Redactor, faults: Vec<String>) -> Vec<String> {
    faults.into_iter().map(|fault| redactor.redact(fault)).collect()
}

/// Returns the settings for the answers, in the order of a new file. A setting that is not in an
/// existing file is added only if the answer differs from its current value.
fn settings(
    existing: &ExistingSetup,
    chosen: &SetupAnswers,
    places: Vec<(&'static str, String)>,
) -> Vec<(&'static str, String)> {
    let mut settings = vec![
        (TOKEN, chosen.token.expose_secret().to_owned()),
        ("AGENT_BACKEND", chosen.backend.clone()),
        ("PERMISSION_MODE", chosen.permission.mode.clone()),
        ("ALLOWED_TOOLS", chosen.permission.tools.clone()),
    ];
    settings.extend(chosen.access.lists().map(|(name, ids)| (name, answers::format_ids(ids))));
    settings.push(("WORKSPACE_DIR", chosen.workspace.display().to_string()));
    settings.extend(chosen.optional.iter().cloned());
    settings.retain(|(name, value)| {
        existing.file_value(name).is_some() || existing.current_value(name).as_ref() != Some(value)
    });
    settings.extend(places);
    settings
}

/// Runs the chosen next step, or prints how to do it.
fn run_next_step(existing: &ExistingSetup, then: Then, changes: bool) -> Result<u8, SetupError> {
    let running = gateway_of(&existing.config(&[])).filter(|_| changes);
    if let Some(pid) = running {
        print(&format!(
            "The gateway that runs here (process {pid}) still uses the previous settings: restart it."
        ));
    }
    let own = std::env::current_exe()
        .map_err(|error| format!("cannot find the path of this program: {error}"))?;
    let holder = Some(own.with_file_name(PROGRAM)).filter(|holder| holder.is_file());
    let service = ServiceUnits {
        program: &own,
        holder: holder.as_deref(),
        file: &existing.file,
        folder: &existing.folder,
        path: existing.environment_value("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin"),
    };
    match then {
        Then::Nothing => {
            let file = match existing.is_default_location {
                true => String::new(),
                false => format!(" --env-file {}", existing.file.display()),
            };
            print(&format!("Check:   aetheel doctor{file}"));
            if running.is_none() {
                print(&format!("Start:   aetheel run{file}"));
            }
        }
        Then::Start => {
            let arguments: [OsString; 3] =
                ["run".into(), "--env-file".into(), existing.file.clone().into()];
            let error = aetheel_process::exec_program(&own, &arguments);
            print_stderr(&format!(
                "error: written, but {} cannot be started: {error}",
                own.display()
            ));
            return Ok(exit::FAILED);
        }
        Then::PrintUnit => {
            for (name, text) in service.units() {
                line(&format!("# {name}\n{text}"));
            }
        }
        Then::InstallUnit => {
            let variable = |name: &str| existing.environment_value(name).map(str::to_owned);
            let Some(folder) = xdg_folder(variable, "XDG_CONFIG_HOME", ".config") else {
                print_stderr("error: written, but no units: there is no home folder (HOME)");
                return Ok(exit::FAILED);
            };
            match service.install(&folder.join("systemd/user")) {
                Ok(files) => {
                    files.iter().for_each(|file| print(&format!("Written: {}", file.display())));
                    print(
                        "Start:   systemctl --user daemon-reload && systemctl --user enable --now aetheel-hold aetheel",
                    );
                    print("Let it run while you are not logged in: loginctl enable-linger");
                }
                Err(error) => {
                    print_stderr(&format!("error: written, but no units: {error}"));
                    return Ok(exit::FAILED);
                }
            }
        }
    }
    Ok(exit::OK)
}
