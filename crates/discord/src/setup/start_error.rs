//! The reasons why a bot cannot start.

/// Why the bot cannot work. Each reason needs an action of the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// No token was configured.
    #[error(
        "`DISCORD_BOT_TOKEN` is not set\nhint: copy the token from https://discord.com/developers/applications, your application, page Bot"
    )]
    NoToken,
    /// The configured text cannot be a token, with the reason.
    #[error(
        "`DISCORD_BOT_TOKEN` does not look like a bot token: {0}\nhint: copy the token from https://discord.com/developers/applications, your application, page Bot"
    )]
    BadToken(&'static str),
    /// Discord does not accept the token.
    #[error(
        "discord refused `DISCORD_BOT_TOKEN`: it is wrong or was reset\nhint: make a new one at https://discord.com/developers/applications, your application, page Bot"
    )]
    TokenRefused,
    /// Discord refused the intents, with close code 4013 or 4014.
    #[error(
        "discord refused the gateway intents (close code {0})\nhint: the bot asks for guilds, guild messages and direct messages, and for message content if it is switched on; see https://discord.com/developers/applications, your application, page Bot, Privileged Gateway Intents"
    )]
    Intents(u16),
    /// The certificate of the server is not trusted.
    #[error(
        "cannot trust discord at {base}: {why}\nhint: if a proxy or firewall inspects TLS, set `SSL_CERT_FILE` to a PEM file with its certificate authority; otherwise check the clock of this machine"
    )]
    Untrusted {
        /// The address, as configured in `DISCORD_API_BASE`.
        base: String,
        /// The fault of the certificate.
        why: String,
    },
    /// Discord did not answer within a minute.
    #[error(
        "cannot reach discord at {base}: {why}\nhint: check the network and `DISCORD_API_BASE`"
    )]
    Unreachable {
        /// The address, as configured in `DISCORD_API_BASE`.
        base: String,
        /// The error of the last attempt.
        why: String,
    },
}
