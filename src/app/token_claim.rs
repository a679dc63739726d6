//! Notices that another gateway of this machine uses the same bot token.
//!
//! Discord sends each message to both gateways, so both answer. A gateway binds an abstract socket
//! with a name made from the token, which the system removes when the process ends. Agents may use
//! the name, too, so it causes only a warning.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::OnceLock;

use secrecy::ExposeSecret as _;
use sha2::{Digest as _, Sha256};

use aetheel_settings::Config;

/// The socket of this process. Nothing is sent through it.
static CLAIM: OnceLock<UnixListener> = OnceLock::new();

/// Claims the bot token for this process. Logs a warning if another process has it. Nodes of a
/// cluster share their token, so they claim nothing.
pub(super) fn claim(config: &Config) {
    let Some(token) = config.discord_bot_token.as_ref().filter(|_| config.cluster_url.is_none())
    else {
        return;
    };
    let secret = format!("aetheel {} {}", config.discord.api_base, token.expose_secret());
    let name = format!("aetheel-bot-{:x}", Sha256::digest(secret));
    let name = SocketAddr::from_abstract_name(name);
    match name.and_then(|name| UnixListener::bind_addr(&name)) {
        Ok(socket) => drop(CLAIM.set(socket)),
        Err(error) if error.kind() == ErrorKind::AddrInUse => tracing::warn!(
            "another gateway on this machine uses the same bot token, so people get two answers to each message; hint: stop one of them, or give it the token of another bot"
        ),
        Err(error) => tracing::debug!(%error, "cannot check who else uses the bot token"),
    }
}
