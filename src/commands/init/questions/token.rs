//! Asks for the bot's token, which is never shown.

use std::io::{self, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};
use tokio::runtime::Runtime;

use super::super::discord::{TokenCheckError, check_token, next_steps};
use super::super::existing::TOKEN;
use super::super::{SetupError, print};
use super::SetupQuestions;
use aetheel_runtime::ordinary::read_ordinary;

const MAX_TOKEN_FILE_BYTES: u64 = 4 << 10;

/// The reason why the token cannot be read from a file.
#[derive(Debug, thiserror::Error)]
pub(super) enum TokenFileError {
    #[error(
        "stdin is a terminal, which would show the token; run this without the flag to be asked for it"
    )]
    Terminal,
    #[error("cannot read stdin: {0}")]
    Stdin(#[source] io::Error),
    #[error("cannot read {}: {error}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    #[error("{} is not UTF-8", .0.display())]
    NotUtf8(PathBuf),
    #[error("{} is empty", .0.display())]
    Empty(PathBuf),
}

impl SetupQuestions<'_> {
    pub(super) fn ask_token(&mut self, runtime: &Runtime) -> Result<SecretString, SetupError> {
        if self.token_is_unreadable {
            return Err(Vec::new().into());
        }
        let stands =
            self.existing.file_value(TOKEN).map(|token| SecretString::from(token.to_owned()));
        if self.args.token_file.is_none() && self.existing.token.is_some() {
            print("Using the token from $DISCORD_BOT_TOKEN.");
        }
        if self.asking.is_some() && self.token.is_none() {
            print(
                "The bot's token: Discord's developer portal (https://discord.com/developers/applications), your application, page Bot.",
            );
        }
        loop {
            let token = match (self.token.take(), &mut self.asking, &stands) {
                (Some(token), _, _) => token,
                (None, Some(asking), Some(stands)) => {
                    let typed = asking.ask_secret("Token; Enter keeps the current one")?;
                    if typed.expose_secret().is_empty() { stands.clone() } else { typed }
                }
                (None, Some(asking), None) => {
                    let typed = asking.ask_secret("Token")?;
                    if typed.expose_secret().is_empty() {
                        print("Nothing was entered. Copy the token from that page.");
                        continue;
                    }
                    typed
                }
                (None, None, Some(stands)) => stands.clone(),
                (None, None, None) => {
                    let fault = "the bot's token is missing: give `--token-file PATH` (`-` for stdin), or set DISCORD_BOT_TOKEN";
                    return Err(fault.to_owned().into());
                }
            };
            match check_token(runtime, self.existing.config(&[]), &token, self.args.offline) {
                Ok(Some(known)) => {
                    next_steps(&known).iter().for_each(|text| print(text));
                    self.owner = known.owner;
                    return Ok(token);
                }
                Ok(None) => {
                    print(
                        "Discord was not asked (--offline); the token is checked at the next start.",
                    );
                    return Ok(token);
                }
                Err(TokenCheckError::Unreachable(why)) => match &mut self.asking {
                    Some(asking) => {
                        print(&why);
                        if asking.confirm("Write the token without asking Discord?", false)? {
                            return Ok(token);
                        }
                    }
                    None => {
                        return Err(
                            format!("{why}; or give --offline to write without asking").into()
                        );
                    }
                },
                Err(TokenCheckError::Wrong(why)) => match self.asking {
                    Some(_) => print(&why),
                    None => return Err(why.into()),
                },
            }
        }
    }
}

/// Reads the token from a file, or from stdin.
///
/// # Errors
/// The file cannot be read, or is empty.
pub(super) fn read(path: &Path) -> Result<SecretString, TokenFileError> {
    let bytes = if path == Path::new("-") {
        if std::io::stdin().is_terminal() {
            return Err(TokenFileError::Terminal);
        }
        let mut bytes = Vec::new();
        let read = std::io::stdin().take(MAX_TOKEN_FILE_BYTES).read_to_end(&mut bytes);
        read.map_err(TokenFileError::Stdin)?;
        bytes
    } else {
        read_ordinary(path, MAX_TOKEN_FILE_BYTES)
            .map_err(|error| TokenFileError::Read { path: path.to_owned(), error })?
    };
    let text = String::from_utf8(bytes).map_err(|_| TokenFileError::NotUtf8(path.to_owned()))?;
    match text.trim() {
        "" => Err(TokenFileError::Empty(path.to_owned())),
        token => Ok(token.to_owned().into()),
    }
}
