//! The token, as Discord sees it.

use std::time::Duration;

use secrecy::SecretString;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::config::Config;
use crate::discord::{Checkup, Known, Options, StartError};
use crate::redact::Redactor;

/// Longest wait for Discord.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Why a token is not taken as it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// It cannot be the right one.
    Wrong(String),
    /// Discord could not be asked.
    Unasked(String),
}

/// Asks Discord whose token it is; none: it is not to be asked, and the token has the form of one.
///
/// # Errors
/// [`Doubt`], without the token.
pub(super) fn check(
    runtime: &Runtime,
    mut config: Config,
    token: &SecretString,
    offline: bool,
) -> Result<Option<Known>, Doubt> {
    config.discord_bot_token = Some(token.clone());
    let redactor = Redactor::new([token]);
    let tell = |error: StartError| {
        let text = redactor.clean(error.to_string()).replace("\nhint: ", "; hint: ");
        match error {
            StartError::Unreachable { .. } | StartError::Untrusted { .. } => Doubt::Unasked(text),
            _ => Doubt::Wrong(text),
        }
    };
    let options = Options::from_config(&config, redactor.clone()).map_err(tell)?;
    let checkup = Checkup::new(&options).map_err(tell)?;
    if offline {
        return Ok(None);
    }
    match runtime.block_on(async { timeout(ANSWER_TIMEOUT, checkup.bot(&options)).await }) {
        Ok(asked) => asked.map(Some).map_err(tell),
        Err(_) => Err(Doubt::Unasked(format!(
            "discord at {} does not answer within {} s",
            options.api_base,
            ANSWER_TIMEOUT.as_secs()
        ))),
    }
}

/// What the operator does next in Discord, line by line.
pub(super) fn next_steps(known: &Known) -> Vec<String> {
    let intent = match known.message_content {
        true => vec![
            "Message Content Intent is on: inside its own threads the bot needs no mention."
                .to_owned(),
        ],
        false => vec![
            "Message Content Intent, the one privileged intent it can use, is off. It works without: it reads what mentions it, replies to it,"
                .to_owned(),
            "direct messages and commands. To be understood in its own threads without a mention, switch the intent on (Privileged Gateway Intents):"
                .to_owned(),
            format!("  {}", known.page()),
        ],
    };
    let mut lines = vec![
        format!("The token is that of {} ({}).", known.name, known.id),
        "Invite the bot to your server (its scopes are `bot` and `applications.commands`; it asks for the permissions it uses, and no others):"
            .to_owned(),
        format!("  {}", known.invite()),
    ];
    lines.extend(intent);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_invite_has_the_scopes_and_the_intent_that_is_missing_is_named_with_its_page() {
        let known = |message_content| Known {
            name: "helper".to_owned(),
            id: 7,
            application: 8,
            message_content,
            logins: (1, 1),
            shards: 1,
        };
        let off = next_steps(&known(false)).join("\n");
        assert!(off.contains("client_id=8&scope=bot+applications.commands&permissions="), "{off}");
        assert!(off.contains("is off") && off.contains("/applications/8/bot"), "{off}");
        let on = next_steps(&known(true)).join("\n");
        assert!(on.contains("is on") && !on.contains("/applications/8/bot"), "{on}");
    }
}
