//! Checks the bot's token with Discord.

use std::time::Duration;

use secrecy::SecretString;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use aetheel_discord::{BotProfile, Checkup, StartError};
use aetheel_model::redact::Redactor;
use aetheel_settings::Config;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// The reason why a token is not accepted without a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TokenCheckError {
    Wrong(String),
    /// Discord could not be asked.
    Unreachable(String),
}

/// Asks Discord to which bot a token belongs. Returns `None` if `offline` is set and the token is
/// well-formed.
///
/// # Errors
/// [`TokenCheckError`]; its text does not contain the token.
pub(super) fn check_token(
    runtime: &Runtime,
    mut config: Config,
    token: &SecretString,
    offline: bool,
) -> Result<Option<BotProfile>, TokenCheckError> {
    config.discord_bot_token = Some(token.clone());
    let redactor = Redactor::new([token]);
    let classify = |error: StartError| {
        let finding = error.finding("discord token");
        let hint = finding.hint.unwrap_or_default();
        let text = redactor.redact(format!("{}; hint: {hint}", finding.message));
        match error {
            StartError::Unreachable { .. } | StartError::Untrusted { .. } => {
                TokenCheckError::Unreachable(text)
            }
            _ => TokenCheckError::Wrong(text),
        }
    };
    let options = crate::startup::discord_options(&config, redactor.clone()).map_err(classify)?;
    let checkup = Checkup::new(&options).map_err(classify)?;
    if offline {
        return Ok(None);
    }
    match runtime.block_on(async { timeout(ANSWER_TIMEOUT, checkup.bot(&options)).await }) {
        Ok(asked) => asked.map(Some).map_err(classify),
        Err(_) => Err(TokenCheckError::Unreachable(format!(
            "discord at {} does not answer within {} s",
            options.settings.api_base,
            ANSWER_TIMEOUT.as_secs()
        ))),
    }
}

/// Returns the operator's next steps in Discord, as lines.
pub(super) fn next_steps(known: &BotProfile) -> Vec<String> {
    let invited = match known.servers.as_slice() {
        [] => "It is in no server yet. Invite it; the link asks only for the permissions it uses:"
            .to_owned(),
        servers => {
            let names: Vec<&str> = servers.iter().take(5).map(|(_, name)| name.as_str()).collect();
            format!(
                "It is in {} already. The link that invites it to more servers:",
                names.join(", ")
            )
        }
    };
    let mut lines = vec![
        format!("The token belongs to the bot \"{}\" ({}).", known.name, known.id),
        invited,
        format!("  {}", known.invite_url()),
    ];
    if known.message_content {
        lines.push(
            "Message Content Intent is on: inside its own threads the bot needs no mention."
                .to_owned(),
        );
    } else {
        lines.push(
            "Message Content Intent is off, which is fine: the bot reads messages that mention it, replies to it, direct messages and commands."
                .to_owned(),
        );
        lines.push(
            "Without a mention, in its own threads or with `require-mention: no`, it reads only with the intent (Privileged Gateway Intents):"
                .to_owned(),
        );
        lines.push(format!("  {}", known.settings_page()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_steps_have_the_invite_link_and_the_page_of_a_missing_intent() {
        let known = |message_content| BotProfile {
            name: "helper".to_owned(),
            id: 7,
            application: 8,
            message_content,
            logins: (1, 1),
            shards: 1,
            owner: None,
            servers: Vec::new(),
        };
        let off = next_steps(&known(false)).join("\n");
        assert!(off.contains("client_id=8&scope=bot+applications.commands&permissions="), "{off}");
        assert!(off.contains("is off") && off.contains("/applications/8/bot"), "{off}");
        let on = next_steps(&known(true)).join("\n");
        assert!(on.contains("is on") && !on.contains("/applications/8/bot"), "{on}");
    }
}
