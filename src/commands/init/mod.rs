//! `aetheel init`: sets everything up by asking for what only the operator knows.
//!
//! Every question is a flag as well. Nothing is written before the last one is answered, and a
//! second run changes only what it is told. The token is asked for without being shown, comes in no
//! argument, and stands in no output. Pinned by `tests/gateway/init.rs`.

mod agents;
mod answers;
mod asked;
mod discord;
mod files;
mod standing;
mod unit;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use secrecy::ExposeSecret as _;

use self::asked::{Chosen, Setup};
use self::files::Plan;
pub(super) use self::files::STARTERS;
use self::standing::{Standing, TOKEN};
use self::unit::Service;
use crate::access;
use crate::agent::Safety;
use crate::cli::{Init, Then, exit};
use crate::config::AllowLists;
use crate::console::{Asking, Left};
use crate::process;
use crate::redact::Redactor;
use crate::startup::settings::base;
use crate::terminal::{fail, line, say};

/// Why nothing is set up.
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

/// Asks, writes, and goes on as wished; returns the exit code.
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
    // Before there is a second thread.
    let standing = Standing::look(wish)?;
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            fail(&format!("cannot start the async runtime: {error}"));
            return Ok(exit::SOFTWARE);
        }
    };
    let asking = if wish.yes { None } else { Asking::at_terminal() };
    let mut setup = Setup::new(wish, &standing, asking)?;
    let begun = if standing.text.is_some() { "Changing" } else { "Setting up" };
    line(&format!("{begun} {} (folder {})", standing.file.display(), standing.folder.display()));
    let chosen = setup.ask(&runtime)?;
    let redactor = Redactor::new([&chosen.token]);
    let settings = settings(&standing, &chosen);
    let plan = Plan::new(&standing, &settings).map_err(|faults| clean(&redactor, faults))?;
    for (name, value) in &settings {
        if *name != TOKEN && standing.outside(name).is_some_and(|outside| outside != value) {
            line(&format!(
                "warning: {name} in the environment is another one, and wins over the file"
            ));
        }
    }
    if let Some(warning) = access::warning(&lists(&chosen), safety(&chosen)) {
        line(&format!("warning: {}", warning.replace("; hint: ", "; ")));
    }
    if plan.says.is_empty() {
        line("Everything stands as wished; nothing is to be written.");
    } else {
        line("To be written:");
        plan.says.iter().for_each(|says| line(&redactor.clean(says.clone())));
        if !setup.agrees("Write this?")? {
            return Err(Stop::Left);
        }
        if standing.is_outdated() {
            let file = standing.file.display();
            return Err(format!("{file} was changed meanwhile; run this again").into());
        }
        plan.write()?;
        line("Written.");
    }
    let then = setup.then();
    drop(setup);
    runtime.shutdown_timeout(Duration::from_secs(1));
    go_on(&standing, then)
}

fn clean(redactor: &Redactor, faults: Vec<String>) -> Vec<String> {
    faults.into_iter().map(|fault| redactor.clean(fault)).collect()
}

/// The settings that follow from the answers, in the order of a new file.
fn settings(standing: &Standing, chosen: &Chosen) -> Vec<(&'static str, String)> {
    let mut settings = vec![
        (TOKEN, chosen.token.expose_secret().to_owned()),
        ("AGENT_BACKEND", chosen.backend.clone()),
        ("PERMISSION_MODE", chosen.safety.to_owned()),
    ];
    settings.extend(chosen.access.lists().map(|(name, ids)| (name, answers::shown(ids))));
    settings.extend(places(standing));
    settings.push(("WORKSPACE_DIR", chosen.workspace.display().to_string()));
    settings
}

/// Folders that must not depend on where the program is started; those that stand stay.
fn places(standing: &Standing) -> Vec<(&'static str, String)> {
    let stands = |name: &str| standing.value(name).or_else(|| standing.outside(name)).is_some();
    let mut places = Vec::new();
    if !standing.is_found && standing.value("CONFIG_DIR").is_none() {
        places.push(("CONFIG_DIR", standing.folder.display().to_string()));
    }
    if !stands("BACKENDS_DIR") {
        let here = std::path::absolute("backends").ok().filter(|folder| has_components(folder));
        let own = || standing.own("XDG_DATA_HOME", ".local/share", "backends");
        places.push(("BACKENDS_DIR", here.unwrap_or_else(own).display().to_string()));
    }
    if !stands("RECORDINGS_DIR") {
        let own = standing.own("XDG_STATE_HOME", ".local/state", "recordings");
        places.push(("RECORDINGS_DIR", own.display().to_string()));
    }
    places
}

fn has_components(folder: &Path) -> bool {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.map(|file| file.path()).any(|path| path.extension().is_some_and(|end| end == "wasm"))
}

fn lists(chosen: &Chosen) -> AllowLists {
    let access = chosen.access.clone();
    AllowLists {
        users: access.users,
        roles: access.roles,
        channels: access.channels,
        guilds: access.guilds,
    }
}

fn safety(chosen: &Chosen) -> Safety {
    match chosen.safety {
        "bypassPermissions" => Safety::Danger,
        "acceptEdits" => Safety::Edit,
        _ => Safety::Default,
    }
}

/// Starts, or says how.
fn go_on(standing: &Standing, then: Then) -> Result<u8, Stop> {
    let own = std::env::current_exe().map_err(|error| format!("no program: {error}"))?;
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
            line(&format!("Look whether all is well: aetheel doctor{file}"));
            line(&format!("Start:                    aetheel run{file}"));
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
                    files.iter().for_each(|file| line(&format!("Written: {}", file.display())));
                    line(
                        "Start:                   systemctl --user daemon-reload && systemctl --user enable --now aetheel-hold aetheel",
                    );
                    line("Without being logged in: loginctl enable-linger");
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
