//! Checks of a bot token before Discord is asked.

use base64::Engine as _;

use super::start_error::StartError;

/// Checks that a bot token has three parts, because an obvious mistake should be reported without
/// asking Discord.
pub(crate) fn check_shape(token: &str) -> Result<(), StartError> {
    if token.trim().is_empty() {
        return Err(StartError::NoToken);
    }
    if token.starts_with("Bot ") {
        return Err(StartError::BadToken("leave the word `Bot` out"));
    }
    if token.contains(|c: char| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
        return Err(StartError::BadToken("it contains blanks or unusual characters"));
    }
    let parts: Vec<&str> = token.split('.').collect();
    if parts.len() != 3 || parts.iter().any(|part| part.is_empty()) {
        return Err(StartError::BadToken(
            "it must be three parts with dots between them; a client secret or public key is something else",
        ));
    }
    Ok(())
}

/// Returns the user id of the bot from its token, if the token contains one (Discord's reference,
/// authentication: the first part of a token is that id in base64).
#[must_use]
pub fn bot_id_of(token: &str) -> Option<u64> {
    let id = token.split('.').next()?.trim_end_matches('=');
    let id = base64::engine::general_purpose::STANDARD_NO_PAD.decode(id).ok()?;
    str::from_utf8(&id).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_tokens_are_refused_without_asking_discord() {
        assert_eq!(check_shape("MTIz.Gabc.x-_y"), Ok(()));
        assert_eq!(bot_id_of("MTIz.Gabc.x-_y"), Some(123));
        assert_eq!(bot_id_of("a.b.c"), None);
        assert_eq!(check_shape(" "), Err(StartError::NoToken));
        for bad in ["abc", "Bot a.b.c", "a.b.c d", "a..c", "a.b.c.d"] {
            let error = check_shape(bad).expect_err(bad);
            assert!(
                error.to_string().contains("DISCORD_BOT_TOKEN")
                    && error.to_string().contains("hint:"),
                "{error}"
            );
        }
    }
}
