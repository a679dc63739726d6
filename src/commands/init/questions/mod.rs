//! Asks the questions of the setup. Flags answer some of them; a person at the terminal answers the
//! others. If nobody can be asked, the current settings are kept.

mod access;
mod backend;
mod optional;
mod permission;
mod token;

use std::error::Error;
use std::path::PathBuf;

use secrecy::SecretString;
use tokio::runtime::Runtime;

pub(super) use self::permission::PermissionSettings;
use super::answers::{self, AccessLists};
use super::existing::ExistingSetup;
use super::{InitArgs, Then};
use super::{SetupError, print};
use crate::terminal_prompt::TerminalPrompt;
use aetheel_discord::ApplicationOwner;
use aetheel_model::permission::PermissionChoice;

pub(super) struct SetupAnswers {
    pub token: SecretString,
    pub backend: String,
    pub access: AccessLists,
    pub permission: PermissionSettings,
    pub workspace: PathBuf,
    /// Settings that may be empty.
    pub optional: Vec<(&'static str, String)>,
}

/// The questions, with the answers given by flags.
pub(super) struct SetupQuestions<'a> {
    args: &'a InitArgs,
    existing: &'a ExistingSetup,
    /// Settings for folders.
    places: Vec<(&'static str, String)>,
    /// `None` if nobody can be asked.
    asking: Option<TerminalPrompt>,
    token: Option<SecretString>,
    /// Whether the token file could not be read.
    token_is_unreadable: bool,
    /// Owner of the bot's application, as reported by Discord.
    owner: Option<ApplicationOwner>,
    /// The current access lists, overridden by flags.
    access: AccessLists,
    permission: Option<PermissionChoice>,
    workspace: Option<PathBuf>,
}

impl<'a> SetupQuestions<'a> {
    /// Reads the flags. Also returns their faults and, if nobody can be asked, missing answers.
    /// Each fault names its flag.
    pub(super) fn new(
        args: &'a InitArgs,
        existing: &'a ExistingSetup,
        places: &[(&'static str, String)],
        asking: Option<TerminalPrompt>,
    ) -> (Self, Vec<String>) {
        let (given, mut faults) = (&args.access, Vec::new());
        let mut list = |flag: &str, text: Option<&String>, variable: &str| {
            let stands = answers::ids(existing.file_value(variable).unwrap_or_default());
            let ids = match text {
                Some(text) => answers::new_ids(text).map_err(|fault| format!("{flag}: {fault}")),
                None if given.allow_everybody => Ok(Vec::new()),
                None => stands.map_err(|fault| {
                    format!("{variable} in {}: {fault}; or give {flag}", existing.file.display())
                }),
            };
            ids.unwrap_or_else(|fault| {
                faults.push(fault);
                Vec::new()
            })
        };
        let access = AccessLists {
            users: list("--users", given.users.as_ref(), "ALLOWED_USERS"),
            roles: list("--roles", given.roles.as_ref(), "ALLOWED_ROLES"),
            channels: list("--channels", given.channels.as_ref(), "ALLOWED_CHANNELS"),
            guilds: list("--servers", given.servers.as_ref(), "ALLOWED_GUILDS"),
        };
        let mut add_fault = |flag: &str, error: &dyn Error| faults.push(format!("{flag}: {error}"));
        let permission = args.safety.as_deref().and_then(|text| {
            answers::permission(text).map_err(|error| add_fault("--safety", &error)).ok()
        });
        let workspace = args.workspace.as_deref().and_then(|path| {
            let text = path.display().to_string();
            let meant = answers::workspace(&text, &existing.folder, existing.home().as_deref());
            meant.map_err(|error| add_fault("--workspace", &error)).ok()
        });
        let (token, token_is_unreadable) =
            match args.token_file.as_deref().map(token::read).transpose() {
                Ok(token) => (token.or_else(|| existing.token.clone()), false),
                Err(error) => {
                    add_fault("--token-file", &error);
                    (None, true)
                }
            };
        if asking.is_none() {
            // An invalid list is already reported.
            let lists_are_wrong = faults.iter().any(|fault| fault.contains("Discord id"));
            if access.is_everybody() && !given.allow_everybody && !lists_are_wrong {
                faults
                    .push(format!("who may use the bot is missing: {}", access::ACCESS_FLAGS_HINT));
            }
        }
        let setup = Self {
            args,
            existing,
            places: places.to_vec(),
            asking,
            token,
            token_is_unreadable,
            owner: None,
            access,
            permission,
            workspace,
        };
        (setup, faults)
    }

    /// Asks the questions that no flag answered. `faults` are the faults of the flags.
    ///
    /// # Errors
    /// The person aborted the setup. If nobody can be asked, returns all faults.
    pub(super) fn ask(
        &mut self,
        runtime: &Runtime,
        mut faults: Vec<String>,
    ) -> Result<SetupAnswers, SetupError> {
        if self.asking.is_some() && !faults.is_empty() {
            return Err(faults.into());
        }
        let token = self.ask_token(runtime);
        let token = self.collect_faults(token, &mut faults)?;
        let backend = self.ask_backend(runtime);
        let backend = self.collect_faults(backend, &mut faults)?;
        self.ask_access()?;
        let permission = self.ask_permission()?;
        let workspace = self.ask_workspace();
        let workspace = self.collect_faults(workspace, &mut faults)?;
        let optional = self.ask_optional();
        let optional = self.collect_faults(optional, &mut faults)?;
        match (token, backend, workspace, optional) {
            (Some(token), Some(backend), Some(workspace), Some(optional)) if faults.is_empty() => {
                let access = self.access.clone();
                Ok(SetupAnswers { token, backend, access, permission, workspace, optional })
            }
            _ => Err(faults.into()),
        }
    }

    /// Collects the faults of an answer if nobody can be asked again, so that one run reports all
    /// of them.
    fn collect_faults<T>(
        &self,
        answer: Result<T, SetupError>,
        faults: &mut Vec<String>,
    ) -> Result<Option<T>, SetupError> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(SetupError::Faults(more)) if self.asking.is_none() => {
                faults.extend(more);
                Ok(None)
            }
            Err(stop) => Err(stop),
        }
    }

    fn ask_workspace(&mut self) -> Result<PathBuf, SetupError> {
        let own = self.existing.user_folder("XDG_DATA_HOME", ".local/share", "workspace");
        let stands = self.existing.file_value("WORKSPACE_DIR").map(str::to_owned);
        let stands = stands.or_else(|| self.existing.current_value("WORKSPACE_DIR"));
        let stands = stands.unwrap_or_else(|| own.display().to_string());
        let (folder, home) = (&self.existing.folder, self.existing.home());
        let meant = |text: &str| answers::workspace(text, folder, home.as_deref());
        match (self.workspace.take(), &mut self.asking) {
            (Some(path), _) => Ok(path),
            (None, None) => {
                meant(&stands).map_err(|fault| format!("{fault}; give --workspace").into())
            }
            (None, Some(asking)) => loop {
                match meant(&asking.ask("Working directory of the agent", &stands)?) {
                    Ok(path) => return Ok(path),
                    Err(error) => print(&error.to_string()),
                }
            },
        }
    }

    /// Asks the person to confirm. Returns `true` if nobody can be asked.
    ///
    /// # Errors
    /// The person aborted the setup.
    pub(super) fn confirm(&mut self, question: &str) -> Result<bool, SetupError> {
        let Some(asking) = &mut self.asking else { return Ok(true) };
        Ok(asking.confirm(question, true)?)
    }

    /// Asks for the step after the setup. The files are already written, so an aborted question
    /// means [`Then::Nothing`].
    pub(super) fn then(&mut self) -> Then {
        let Some(asking) = self.asking.as_mut().filter(|_| self.args.then.is_none()) else {
            return self.args.then.unwrap_or(Then::Nothing);
        };
        print("What next?");
        for (word, means) in [
            ("start", "run the gateway here, now"),
            ("install", "have systemd run it as a service"),
            ("print", "print the files of that service"),
            ("nothing", "end here"),
        ] {
            print(&format!("  {word:<10} {means}"));
        }
        loop {
            match asking.ask("Next", "nothing").as_deref() {
                Ok("start") => return Then::Start,
                Ok("print") => return Then::PrintUnit,
                Ok("install") => return Then::InstallUnit,
                Ok("nothing") | Err(_) => return Then::Nothing,
                Ok(_) => print("Answer start, install, print or nothing."),
            }
        }
    }
}
