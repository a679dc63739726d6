//! `aetheel init`: sets up the gateway by asking only for facts that it cannot determine itself.
//!
//! Each question can also be answered by a flag. Nothing is written before the last answer, and a
//! second run changes only the settings that are answered differently. The token is typed without
//! echo, and is neither an argument nor part of any output. Pinned by `tests/gateway/init.rs`.

mod agents;
mod answers;
mod asked;
mod discord;
mod files;
mod places;
mod standing;
mod unit;

use std::ffi::OsString;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::geteuid;
use secrecy::ExposeSecret as _;

use self::asked::{Chosen, Setup};
use self::files::Plan;
pub(super) use self::files::STARTERS;
use self::standing::{Standing, TOKEN};
use self::unit::Service;
use crate::cli::{Init, Then, exit};
use crate::console::{Asking, Left};
use crate::process;
use crate::redact::Redactor;
use crate::startup::finding::{Finding, Level};
use crate::startup::running::gateway_of;
use crate::startup::settings::base;
use crate::startup::{Purpose, surroundings};
use crate::terminal::{fail, line, say};

/// Why the setup was not done.
#[derive(Debug)]
enum Stop {
    Faults(Vec<String>),
    Left,
}

impl From<Left> for Stop {
    fn from(_: Left) -> Self {
        Self::Left
    }
}

impl From<Vec<String>> for Stop {
    fn from(faults: Vec<String>) -> Self {
        Self::Faults(faults)
    }
}

impl From<String> for Stop {
    fn from(fault: String) -> Self {
        Self::Faults(vec![fault])
    }
}

/// Runs the setup and the chosen next step. Returns the exit code.
pub(super) fn run(wish: Init) -> u8 {
    match set_up(&wish) {
        Ok(code) => code,
        Err(Stop::Left) => {
            say("nothing was written");
            exit::FAILED
        }
        Err(Stop::Faults(faults)) => {
            faults.iter().for_each(|fault| say(&format!("error: {fault}")));
            say("nothing was written");
            exit::CONFIG
        }
    }
}

fn set_up(wish: &Init) -> Result<u8, Stop> {
    // Called before other threads start, because it changes the environment.
    let standing = Standing::look(wish)?;
    // Only the units are printed to stdout, so that it can be redirected.
    let _ = ASIDE.set(wish.then == Some(Then::PrintUnit));
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            fail(&format!("cannot start the async runtime: {error}"));
            return Ok(exit::SOFTWARE);
        }
    };
    let asking = if wish.yes { None } else { Asking::at_terminal() };
    let begun = if standing.text.is_some() { "Changing" } else { "Setting up" };
    tell(&format!("{begun} {} (folder {})", standing.file.display(), standing.folder.display()));
    if geteuid().is_root() {
        tell(
            "warning: you are root, and agents would be root too: they could do everything on this machine. Run this as the user that will run the gateway.",
        );
    }
    let places = places::find(&standing, wish.backends.as_deref());
    let (places, backends_fault) = match places {
        Ok(places) => (places, None),
        Err(fault) => (Vec::new(), Some(fault)),
    };
    let (mut setup, mut faults) = Setup::new(wish, &standing, &places, asking);
    faults.extend(backends_fault);
    let chosen = setup.ask(&runtime, faults)?;
    let redactor = Redactor::new([&chosen.token]);
    let settings = settings(&standing, &chosen, places);
    let plan = Plan::new(&standing, &settings).map_err(|faults| clean(&redactor, faults))?;
    for (name, value) in &settings {
        if *name != TOKEN && standing.outside(name).is_some_and(|outside| outside != value) {
            tell(&format!(
                "warning: {name} in the environment has another value, which overrides the file"
            ));
        }
    }
    for finding in findings(&standing, &settings, &chosen, &redactor) {
        let kind = if finding.level.is_fault() { "fault" } else { "warning" };
        tell(&redactor.clean(format!("{kind}: {finding}")));
    }
    let changes = !plan.says.is_empty();
    if !changes {
        tell("Nothing to change.");
    } else {
        tell("Changes to be written:");
        plan.says.iter().for_each(|says| tell(&redactor.clean(says.clone())));
        if !setup.agrees("Write this?")? {
            return Err(Stop::Left);
        }
        if standing.is_outdated() {
            let file = standing.file.display();
            return Err(format!("{file} was changed in the meantime; run this again").into());
        }
        plan.write()?;
        tell("Written.");
    }
    let then = setup.then();
    drop(setup);
    runtime.shutdown_timeout(Duration::from_secs(1));
    go_on(&standing, then, changes)
}

/// Whether the conversation is printed to stderr.
static ASIDE: OnceLock<bool> = OnceLock::new();

/// Prints a line of the conversation.
fn tell(text: &str) {
    if ASIDE.get() == Some(&true) { say(text) } else { line(text) }
}

/// Returns the problems that a start with these settings would find.
fn findings(
    standing: &Standing,
    settings: &[(&'static str, String)],
    chosen: &Chosen,
    redactor: &Redactor,
) -> Vec<Finding> {
    let mut config = standing.config(settings);
    config.discord_bot_token = Some(chosen.token.clone());
    let variables = standing.variables(settings);
    let mut found = surroundings::examine(&config, &variables, redactor, Purpose::Look);
    found.retain(|finding| finding.level != Level::Ok);
    found
}

fn clean(redactor: &Redactor, faults: Vec<String>) -> Vec<String> {
    faults.into_iter().map(|fault| redactor.clean(fault)).collect()
}

/// Returns the settings for the answers, in the order of a new file. A setting that is not in an
/// existing file is added only if the answer differs from its current value.
fn settings(
    standing: &Standing,
    chosen: &Chosen,
    places: Vec<(&'static str, String)>,
) -> Vec<(&'static str, String)> {
    let mut settings = vec![
        (TOKEN, chosen.token.expose_secret().to_owned()),
        ("AGENT_BACKEND", chosen.backend.clone()),
        ("PERMISSION_MODE", chosen.safety.to_owned()),
    ];
    settings.extend(chosen.access.lists().map(|(name, ids)| (name, answers::shown(ids))));
    settings.push(("WORKSPACE_DIR", chosen.workspace.display().to_string()));
    settings.retain(|(name, value)| {
        standing.value(name).is_some() || standing.today(name).as_ref() != Some(value)
    });
    settings.extend(places);
    settings
}

/// Runs the chosen next step, or prints how to do it.
fn go_on(standing: &Standing, then: Then, changes: bool) -> Result<u8, Stop> {
    let running = gateway_of(&standing.config(&[])).filter(|_| changes);
    if let Some(pid) = running {
        tell(&format!(
            "The gateway that runs here (process {pid}) still uses the previous settings: restart it."
        ));
    }
    let own = std::env::current_exe()
        .map_err(|error| format!("cannot find the path of this program: {error}"))?;
    let service = Service {
        program: &own,
        file: &standing.file,
        folder: &standing.folder,
        path: standing.outside("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin"),
    };
    match then {
        Then::Nothing => {
            let file = match standing.is_found {
                true => String::new(),
                false => format!(" --env-file {}", standing.file.display()),
            };
            tell(&format!("Check:   aetheel doctor{file}"));
            if running.is_none() {
                tell(&format!("Start:   aetheel run{file}"));
            }
        }
        Then::Start => {
            let arguments: [OsString; 3] =
                ["run".into(), "--env-file".into(), standing.file.clone().into()];
            let error = process::become_program(&own, &arguments);
            say(&format!("error: written, but {} cannot be started: {error}", own.display()));
            return Ok(exit::FAILED);
        }
        Then::PrintUnit => {
            for (name, text) in service.units() {
                line(&format!("# {name}\n{text}"));
            }
        }
        Then::InstallUnit => {
            let variable = |name: &str| standing.outside(name).map(str::to_owned);
            let Some(folder) = base(variable, "XDG_CONFIG_HOME", ".config") else {
                say("error: written, but no units: there is no home folder (HOME)");
                return Ok(exit::FAILED);
            };
            match service.install(&folder.join("systemd/user")) {
                Ok(files) => {
                    files.iter().for_each(|file| tell(&format!("Written: {}", file.display())));
                    tell(
                        "Start:   systemctl --user daemon-reload && systemctl --user enable --now aetheel-hold aetheel",
                    );
                    tell("Let it run while you are not logged in: loginctl enable-linger");
                }
                Err(fault) => {
                    say(&format!("error: written, but no units: {fault}"));
                    return Ok(exit::FAILED);
                }
            }
        }
    }
    Ok(exit::OK)
}
