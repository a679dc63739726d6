//! The message that another one replies to or forwards, for the agent.

use crate::text::mention::{self, Name};
use crate::text::quote;
use crate::wire::{Message, ReferencedMessage};
use aetheel_model::event::{AttachedFile, QuotedMessage};

/// Maximum number of characters of a message of the bot. The agent has the rest in its
/// conversation.
const MAX_OWN_CHARS: usize = 300;
/// Maximum number of characters of other messages; Discord allows no longer ones (Discord's
/// documentation of messages, 2026-08).
const MAX_OTHER_CHARS: usize = 4_000;

/// Returns the message that `message` replies to, or else the messages that it forwards.
pub(super) fn quoted(message: &Message, me: u64, names: &[Name]) -> Option<QuotedMessage> {
    if let Some(referenced) = &message.referenced_message {
        return reply(referenced, me, names);
    }
    let words: Vec<&str> =
        message.message_snapshots.iter().map(|forwarded| forwarded.content.trim()).collect();
    if message.message_snapshots.is_empty() {
        return None;
    }
    Some(QuotedMessage {
        author: None,
        text: aetheel_model::plain::cut(
            mention::readable(&words.join("\n\n"), names).trim(),
            MAX_OTHER_CHARS,
        )
        .into_owned(),
    })
}

fn reply(referenced: &ReferencedMessage, me: u64, names: &[Name]) -> Option<QuotedMessage> {
    let ours = referenced.author.id == me;
    if ours && referenced.content.trim().is_empty() {
        return None;
    }
    let own: Vec<Name> = referenced
        .mentions
        .iter()
        .flat_map(|user| mention::user_names(user.id, user.display_name()))
        .collect();
    let content = if ours { quote::strip_quote(&referenced.content) } else { &referenced.content };
    let text = mention::readable(&mention::readable(content, &own), names);
    let author = if ours {
        "you".to_owned()
    } else {
        aetheel_model::plain::short_line(referenced.author.display_name(), 64)
    };
    Some(QuotedMessage {
        author: Some(author),
        text: aetheel_model::plain::cut(
            text.trim(),
            if ours { MAX_OWN_CHARS } else { MAX_OTHER_CHARS },
        )
        .into_owned(),
    })
}

/// Returns the files of a message and of the messages that it replies to or forwards, except files
/// that the bot sent.
pub(super) fn attached(message: &Message, me: u64) -> Vec<AttachedFile> {
    let replied = message
        .referenced_message
        .iter()
        .filter(|referenced| referenced.author.id != me)
        .flat_map(|referenced| &referenced.attachments);
    let forwarded = message.message_snapshots.iter().flat_map(|forwarded| &forwarded.attachments);
    message
        .attachments
        .iter()
        .chain(replied)
        .chain(forwarded)
        .cloned()
        .map(AttachedFile::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize as _;
    use serde_json::{Value, json};

    use super::*;

    const ME: u64 = 1;

    fn message(more: &Value) -> Message {
        let mut message = json!({"id": "5", "channel_id": "6", "author": {"id": "7", "username": "ann"}, "content": "look"});
        for (name, value) in more.as_object().expect("an object") {
            message[name] = value.clone();
        }
        Message::deserialize(&message).expect("a message")
    }

    fn said(by: u64, content: &str) -> Value {
        let file =
            json!({"id": "1", "filename": "log.txt", "size": 3, "url": "http://127.0.0.1/log.txt"});
        let mentions = json!([{"id": "9", "username": "cy"}]);
        json!({"author": {"id": by.to_string(), "username": "bob"}, "content": content, "attachments": [file], "mentions": mentions})
    }

    #[test]
    fn quoted_messages_of_others_include_their_files() {
        let reply =
            message(&json!({"type": 19, "referenced_message": said(8, "ask <@9> in <#4>")}));
        let names = [("<#4>".to_owned(), "#general".to_owned())];
        let expected = QuotedMessage {
            author: Some("bob".to_owned()),
            text: "ask @cy in #general".to_owned(),
        };
        assert_eq!(quoted(&reply, ME, &names), Some(expected));
        assert_eq!(
            attached(&reply, ME).iter().map(|file| file.name.as_str()).collect::<Vec<_>>(),
            ["log.txt"]
        );
    }

    #[test]
    fn quoted_messages_of_the_bot_are_shortened() {
        let reply = message(&json!({"type": 19, "referenced_message": said(ME, &"x".repeat(900))}));
        let text = quoted(&reply, ME, &[]).expect("a quotation").text;
        assert_eq!((text.chars().count(), text.ends_with('…')), (MAX_OWN_CHARS, true));
        assert_eq!(attached(&reply, ME), []);
        assert_eq!(quoted(&message(&json!({"referenced_message": said(ME, "")})), ME, &[]), None);
        let asked =
            message(&json!({"referenced_message": said(ME, "> 💬 the prompt\nThe answer")}));
        assert_eq!(
            quoted(&asked, ME, &[]).expect("a quotation").text,
            "The answer",
            "the quoted prompt is removed"
        );
    }

    #[test]
    fn forwarded_messages_have_no_author() {
        let forward = message(
            &json!({"content": "", "message_snapshots": [{"message": {"content": "news", "attachments": said(8, "")["attachments"]}}]}),
        );
        assert_eq!(
            quoted(&forward, ME, &[]),
            Some(QuotedMessage { author: None, text: "news".to_owned() })
        );
        assert_eq!(attached(&forward, ME).len(), 1);
        assert_eq!(quoted(&message(&json!({})), ME, &[]), None);
    }
}
