//! The questions: a flag answers one beforehand, a person at the terminal the others, and what
//! stands counts where nobody is asked.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};
use tokio::runtime::Runtime;

use super::answers::{self, Access, SAFETY};
use super::discord::{Doubt, check, next_steps};
use super::standing::{Standing, TOKEN};
use super::{Stop, agents};
use crate::cli::{Init, Then};
use crate::console::Asking;
use crate::disk::read_ordinary;
use crate::terminal::line;

/// Largest file with a token, bytes.
const TOKEN_FILE: u64 = 4 << 10;
/// The answer by which a bot is opened to everybody.
const EVERYBODY: &str = "everybody";

/// All answers.
pub(super) struct Chosen {
    pub token: SecretString,
    pub backend: String,
    pub access: Access,
    /// A word of `PERMISSION_MODE`.
    pub safety: &'static str,
    pub workspace: PathBuf,
}

/// The questions, with the answers that were given beforehand.
pub(super) struct Setup<'a> {
    standing: &'a Standing,
    /// None: nobody is asked.
    asking: Option<Asking>,
    token: Option<SecretString>,
    /// It is the environment's.
    token_is_outside: bool,
    backend: Option<String>,
    /// The lists that stand, and in their place those that were given.
    access: Access,
    access_is_given: bool,
    everybody: bool,
    safety: Option<&'static str>,
    workspace: Option<PathBuf>,
    offline: bool,
    then: Option<Then>,
}

impl<'a> Setup<'a> {
    /// Takes the flags, and sees to it that nothing is missing where nobody can be asked.
    ///
    /// # Errors
    /// All that is wrong or missing, each with its flag.
    pub(super) fn new(
        wish: &Init,
        standing: &'a Standing,
        asking: Option<Asking>,
    ) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        let mut list = |flag: &str, given: Option<&String>, variable: &str| {
            let stands = answers::ids(standing.value(variable).unwrap_or_default());
            let taken = match given {
                Some(text) => answers::ids(text).map_err(|fault| format!("{flag}: {fault}")),
                None if wish.allow_everybody => Ok(Vec::new()),
                None => stands.map_err(|fault| {
                    format!("{variable} in {}: {fault}; or give {flag}", standing.file.display())
                }),
            };
            taken.unwrap_or_else(|fault| {
                faults.push(fault);
                Vec::new()
            })
        };
        let access = Access {
            users: list("--users", wish.users.as_ref(), "ALLOWED_USERS"),
            roles: list("--roles", wish.roles.as_ref(), "ALLOWED_ROLES"),
            channels: list("--channels", wish.channels.as_ref(), "ALLOWED_CHANNELS"),
            guilds: list("--servers", wish.servers.as_ref(), "ALLOWED_GUILDS"),
        };
        let given = [&wish.users, &wish.roles, &wish.channels, &wish.servers];
        let mut told = |flag: &str, fault: String| faults.push(format!("{flag}: {fault}"));
        let safety = wish
            .safety
            .as_deref()
            .and_then(|text| answers::safety(text).map_err(|fault| told("--safety", fault)).ok());
        let workspace = wish.workspace.as_deref().and_then(|path| {
            let text = path.display().to_string();
            let meant = answers::workspace(&text, &standing.folder, standing.home().as_deref());
            meant.map_err(|fault| told("--workspace", fault)).ok()
        });
        let token = match wish.token_file.as_deref().map(token_of).transpose() {
            Ok(token) => token.or_else(|| standing.token.clone()),
            Err(fault) => {
                told("--token-file", fault);
                None
            }
        };
        if asking.is_none() {
            if token.is_none() && wish.token_file.is_none() && standing.value(TOKEN).is_none() {
                faults.push("the bot's token is missing: give `--token-file PATH` (`-` for stdin), or set DISCORD_BOT_TOKEN".to_owned());
            }
            // A list that cannot be read is told of already.
            let lists_are_wrong = faults.iter().any(|fault| fault.contains("Discord id"));
            if access.is_everybody() && !wish.allow_everybody && !lists_are_wrong {
                faults.push(format!("who may use the bot is missing: {WHO}"));
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self {
            standing,
            asking,
            token,
            token_is_outside: wish.token_file.is_none() && standing.token.is_some(),
            backend: wish.backend.clone(),
            access,
            access_is_given: wish.allow_everybody || given.iter().any(|list| list.is_some()),
            everybody: wish.allow_everybody,
            safety,
            workspace,
            offline: wish.offline,
            then: wish.then,
        })
    }

    /// Asks for what was not given.
    ///
    /// # Errors
    /// Whatever is wrong where nobody can be asked again; or the person left.
    pub(super) fn ask(&mut self, runtime: &Runtime) -> Result<Chosen, Stop> {
        let token = self.ask_token(runtime)?;
        let backend = self.ask_backend(runtime)?;
        self.ask_access()?;
        let safety = self.ask_safety()?;
        let workspace = self.ask_workspace()?;
        Ok(Chosen { token, backend, access: self.access.clone(), safety, workspace })
    }

    fn ask_token(&mut self, runtime: &Runtime) -> Result<SecretString, Stop> {
        let stands = self.standing.value(TOKEN).map(|token| SecretString::from(token.to_owned()));
        if self.token_is_outside {
            line("The token is that of DISCORD_BOT_TOKEN in the environment.");
        }
        if self.asking.is_some() && self.token.is_none() {
            line(
                "The bot's token: Discord's developer portal (https://discord.com/developers/applications), your application, page Bot.",
            );
        }
        loop {
            let token = match (self.token.take(), &mut self.asking, &stands) {
                (Some(token), _, _) => token,
                (None, Some(asking), Some(stands)) => {
                    let typed = asking.hidden("Token; Enter keeps the one that stands")?;
                    if typed.expose_secret().is_empty() { stands.clone() } else { typed }
                }
                (None, Some(asking), None) => asking.hidden("Token")?,
                (None, None, Some(stands)) => stands.clone(),
                (None, None, None) => return Err("the bot's token is missing".to_owned().into()),
            };
            match check(runtime, self.standing.config(&[]), &token, self.offline) {
                Ok(Some(known)) => {
                    next_steps(&known).iter().for_each(|text| line(text));
                    return Ok(token);
                }
                Ok(None) => {
                    line(
                        "Discord is not asked (--offline): whether the token is right, the start will tell.",
                    );
                    return Ok(token);
                }
                Err(Doubt::Unasked(why)) => match &mut self.asking {
                    Some(asking) => {
                        line(&why);
                        if asking.agrees("Write the token without asking Discord?", false)? {
                            return Ok(token);
                        }
                    }
                    None => {
                        return Err(
                            format!("{why}; or give --offline to write without asking").into()
                        );
                    }
                },
                Err(Doubt::Wrong(why)) => match self.asking {
                    Some(_) => line(&why),
                    None => return Err(why.into()),
                },
            }
        }
    }

    fn ask_backend(&mut self, runtime: &Runtime) -> Result<String, Stop> {
        let mut answers = super::places(self.standing);
        let named = self.backend.take();
        // Nothing is refused for want of the one that stands.
        answers.push(("AGENT_BACKEND", "auto".to_owned()));
        let config = self.standing.config(&answers);
        let variables = self.standing.variables(&answers);
        let (rows, unknown) = match super::has_components(&config.backends_dir) {
            true => match agents::look(runtime, config, &variables) {
                Ok(rows) => (rows, None),
                Err(why) => (Vec::new(), Some(why)),
            },
            false => {
                let folder = config.backends_dir.display();
                let why = format!("{folder} has no backends yet; copy components (`*.wasm`) there");
                (Vec::new(), Some(why))
            }
        };
        if let Some(why) = &unknown {
            line(&format!("warning: no agent can be looked at: {why}"));
        } else if named.is_none() {
            line("Agents on this machine:");
            agents::table(&rows).iter().for_each(|text| line(text));
        }
        let known = |name: &str| -> Result<(), String> {
            let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
            if rows.is_empty() || names.contains(&name) {
                return Ok(());
            }
            Err(format!("there is no backend {name:?}, but {}", names.join(", ")))
        };
        let stands = self.standing.value("AGENT_BACKEND").filter(|name| known(name).is_ok());
        let proposed = stands.or_else(|| agents::proposed(&rows)).unwrap_or_default();
        let name = match (named, &mut self.asking) {
            (Some(name), _) => {
                known(&name).map_err(|fault| format!("--backend: {fault}"))?;
                name
            }
            (None, Some(asking)) => loop {
                let name = asking.ask("Which one answers", proposed)?;
                match known(&name) {
                    Ok(()) if !name.is_empty() => break name,
                    Ok(()) => line("Name one, for example claude."),
                    Err(fault) => line(&fault),
                }
            },
            (None, None) if !proposed.is_empty() => proposed.to_owned(),
            (None, None) => {
                return Err("no agent can work here: install one, or give --backend NAME"
                    .to_owned()
                    .into());
            }
        };
        if let Some(row) = rows.iter().find(|row| row.name == name && !row.available) {
            line(&format!("warning: {name} cannot work yet: {}", row.reasons.join("; ")));
        }
        Ok(name)
    }

    fn ask_access(&mut self) -> Result<(), Stop> {
        let Some(asking) = &mut self.asking else { return Ok(()) };
        if self.access_is_given && (self.everybody || !self.access.is_everybody()) {
            return Ok(());
        }
        line(
            "Who may use the bot? Discord ids, separated by commas: switch on the developer mode (user settings, Advanced), right-click, Copy ID.",
        );
        line(&format!(
            "People and roles let somebody in; servers and channels say where. `none` empties a list; `{EVERYBODY}` opens the bot to all who share a server with it."
        ));
        loop {
            let Access { users, roles, channels, guilds } = &mut self.access;
            let lists = [
                ("People", users),
                ("Roles", roles),
                ("Servers it answers in (empty: all)", guilds),
                ("Channels it answers in (empty: all)", channels),
            ];
            let mut everybody = false;
            for (question, list) in lists {
                match ask_list(asking, question, list)? {
                    Some(ids) => *list = ids,
                    None => {
                        everybody = true;
                        break;
                    }
                }
            }
            if everybody {
                self.access = Access::default();
            }
            if everybody || !self.access.is_everybody() {
                return Ok(());
            }
            line(&format!(
                "With all lists empty everybody could use it: name somebody, or answer `{EVERYBODY}`."
            ));
        }
    }

    fn ask_safety(&mut self) -> Result<&'static str, Stop> {
        let stands = self.standing.value("PERMISSION_MODE");
        let stands = stands.and_then(|mode| answers::safety(mode).ok()).unwrap_or("default");
        match (self.safety, &mut self.asking) {
            (Some(safety), _) => Ok(safety),
            (None, None) => Ok(stands),
            (None, Some(asking)) => {
                line(
                    "What may the agent do without asking? Channels and people can only choose less.",
                );
                for (mode, _, means) in SAFETY {
                    line(&format!("  {mode:<18} {means}"));
                }
                loop {
                    match answers::safety(&asking.ask("Mode", stands)?) {
                        Ok(safety) => return Ok(safety),
                        Err(fault) => line(&fault),
                    }
                }
            }
        }
    }

    fn ask_workspace(&mut self) -> Result<PathBuf, Stop> {
        let own = self.standing.own("XDG_DATA_HOME", ".local/share", "workspace");
        let stands = self.standing.value("WORKSPACE_DIR").map(str::to_owned);
        let stands = stands.unwrap_or_else(|| own.display().to_string());
        let (folder, home) = (&self.standing.folder, self.standing.home());
        let meant = |text: &str| answers::workspace(text, folder, home.as_deref());
        match (self.workspace.take(), &mut self.asking) {
            (Some(path), _) => Ok(path),
            (None, None) => {
                meant(&stands).map_err(|fault| format!("{fault}; give --workspace").into())
            }
            (None, Some(asking)) => loop {
                match meant(&asking.ask("Working directory of the agent", &stands)?) {
                    Ok(path) => return Ok(path),
                    Err(fault) => line(&fault),
                }
            },
        }
    }

    /// Whether the person agrees; nobody is asked: yes.
    ///
    /// # Errors
    /// The person left.
    pub(super) fn agrees(&mut self, question: &str) -> Result<bool, Stop> {
        match &mut self.asking {
            Some(asking) => Ok(asking.agrees(question, true)?),
            None => Ok(true),
        }
    }

    /// What is to follow. Once the files are written, somebody who leaves wants nothing more.
    pub(super) fn then(&mut self) -> Then {
        let Some(asking) = self.asking.as_mut().filter(|_| self.then.is_none()) else {
            return self.then.unwrap_or(Then::Nothing);
        };
        line(
            "And now? `start` the gateway here, `print` or `install` units for systemd, or `nothing`.",
        );
        loop {
            match asking.ask("Now", "nothing").as_deref() {
                Ok("start") => return Then::Start,
                Ok("print") => return Then::PrintUnit,
                Ok("install") => return Then::InstallUnit,
                Ok("nothing") | Err(_) => return Then::Nothing,
                Ok(_) => line("Answer start, print, install or nothing."),
            }
        }
    }
}

/// Asks for one list; none: everybody, and that is meant.
fn ask_list(asking: &mut Asking, question: &str, stands: &[u64]) -> Result<Option<Vec<u64>>, Stop> {
    loop {
        let answer = asking.ask(question, &answers::shown(stands))?;
        if answer == EVERYBODY {
            let sure = "Everybody in its servers may use the bot, and the agent behind it?";
            if asking.agrees(sure, false)? {
                return Ok(None);
            }
            continue;
        }
        match answers::ids(&answer) {
            Ok(ids) => return Ok(Some(ids)),
            Err(fault) => line(&fault),
        }
    }
}

/// How somebody says who may use the bot.
const WHO: &str = "give --users, --roles, --servers or --channels with Discord ids, or --allow-everybody if all who share a server with it may";

/// The token in a file, or on stdin.
fn token_of(path: &Path) -> Result<SecretString, String> {
    let shown = path.display();
    let bytes = if path == Path::new("-") {
        if std::io::stdin().is_terminal() {
            return Err(
                "stdin is the terminal, which would show it; without the flag it is asked for"
                    .to_owned(),
            );
        }
        let mut bytes = Vec::new();
        let read = std::io::stdin().take(TOKEN_FILE).read_to_end(&mut bytes);
        read.map_err(|error| format!("cannot read stdin: {error}"))?;
        bytes
    } else {
        read_ordinary(path, TOKEN_FILE).map_err(|error| format!("cannot read {shown}: {error}"))?
    };
    let text = String::from_utf8(bytes).map_err(|_| format!("{shown} is not UTF-8"))?;
    match text.trim() {
        "" => Err(format!("{shown} is empty")),
        token => Ok(token.to_owned().into()),
    }
}
