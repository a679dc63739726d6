//! The reasons why a bot cannot start.

use std::error::Error;
use std::fmt;

use aetheel_model::finding::Finding;

const TOKEN_PAGE: &str = "https://discord.com/developers/applications, your application, page Bot";

/// The reason why the bot cannot work. Each reason needs an action of the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartError {
    /// No token was configured.
    NoToken,
    /// The configured text cannot be a token, with the reason.
    BadToken(&'static str),
    /// Discord does not accept the token.
    TokenRefused,
    /// Discord refused the intents, with close code 4013 or 4014.
    Intents(u16),
    /// The certificate of the server is not trusted.
    Untrusted {
        /// The address, as configured in `DISCORD_API_BASE`.
        base: String,
        /// The fault of the certificate.
        why: String,
    },
    /// Discord did not answer within a minute.
    Unreachable {
        /// The address, as configured in `DISCORD_API_BASE`.
        base: String,
        /// The error of the last attempt.
        why: String,
    },
}

impl StartError {
    /// Returns the error as a finding about `subject`.
    #[must_use]
    pub fn finding(&self, subject: &str) -> Finding {
        Finding::invalid(subject, self.problem()).with_hint(self.hint())
    }

    fn problem(&self) -> String {
        match self {
            Self::NoToken => "`DISCORD_BOT_TOKEN` is not set".to_owned(),
            Self::BadToken(why) => {
                format!("`DISCORD_BOT_TOKEN` does not look like a bot token: {why}")
            }
            Self::TokenRefused => {
                "discord refused `DISCORD_BOT_TOKEN`: it is wrong or was reset".to_owned()
            }
            Self::Intents(code) => {
                format!("discord refused the gateway intents (close code {code})")
            }
            Self::Untrusted { base, why } => format!("cannot trust discord at {base}: {why}"),
            Self::Unreachable { base, why } => format!("cannot reach discord at {base}: {why}"),
        }
    }

    fn hint(&self) -> String {
        match self {
            Self::NoToken | Self::BadToken(_) => format!("copy the token from {TOKEN_PAGE}"),
            Self::TokenRefused => format!("make a new one at {TOKEN_PAGE}"),
            Self::Intents(_) => format!(
                "the bot asks for guilds, guild messages and direct messages, and for message content if it is switched on; see {TOKEN_PAGE}, Privileged Gateway Intents"
            ),
            Self::Untrusted { .. } => "if a proxy or firewall inspects TLS, set `SSL_CERT_FILE` to a PEM file with its certificate authority; otherwise check the clock of this machine".to_owned(),
            Self::Unreachable { .. } => "check the network and `DISCORD_API_BASE`".to_owned(),
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nhint: {}", self.problem(), self.hint())
    }
}

impl Error for StartError {}
