//! Parses Discord ids in the notations of `OpenClaw`. Pure.

use serde_json::Value;

use aetheel_model::id::ChannelId;

/// Parses a channel's Discord id, which consists of digits only.
pub(crate) fn snowflake(text: &str) -> Option<ChannelId> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    // Discord's ids are longer. Some people write 0 or 1 for "nobody".
    let number = text.parse().ok().filter(|number| digits && *number > 9_999_999_999_u64);
    number.map(ChannelId::discord)
}

/// Returns the channel id in a value such as `channel:123`, `<#123>` or 123.
pub(crate) fn channel_id(value: &Value) -> Option<ChannelId> {
    match value {
        Value::Number(number) => snowflake(&number.to_string()),
        Value::String(text) => {
            let text = text.trim().trim_start_matches("discord:").trim_start_matches("channel:");
            snowflake(text.trim_start_matches("<#").trim_end_matches('>'))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_are_parsed_with_their_prefixes_and_marks() {
        let wanted = Some(ChannelId::discord(123_456_789_012_345_678));
        for value in [
            json!("123456789012345678"),
            json!(123_456_789_012_345_678_u64),
            json!("channel:123456789012345678"),
            json!("discord:123456789012345678"),
            json!("<#123456789012345678>"),
        ] {
            assert_eq!(channel_id(&value), wanted, "{value}");
        }
        for value in [
            json!("user:123456789012345678"),
            json!("#general"),
            json!("+15551234567"),
            json!(7),
            json!(null),
            json!("99999999999999999999999"),
        ] {
            assert_eq!(channel_id(&value), None, "{value}");
        }
    }
}
