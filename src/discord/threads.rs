//! Threads, each a conversation of its own: opening one for a prompt, and knowing which of them are ours.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::{info, warn};

use super::api::{Posted, nonce};
use super::asks::escape;
use super::mention;
use super::reception::{CLOSING, Parent, Reception};
use super::rest::RestError;
use super::wire::{Channel, Message, Slash};
use crate::event::{EventKind, Lane, NewEvent, Origin};

/// Characters of a thread's name (Discord's documentation of threads, 2026-08).
const NAME: usize = 100;
/// Characters of a prompt that are shown in its thread.
const SHOWN: usize = 1_500;
/// Lines of it.
const LINES: usize = 20;

const ELSEWHERE: &str = "A thread cannot be opened here. Begin a new conversation in this place with `/reset`. (no threads)";
const FORBIDDEN: &str = "I may not open threads here: I need the permissions Create Public Threads and Send Messages in Threads. Use `/reset` to begin a new conversation in this channel. (permission)";
const UNREACHABLE: &str = "Discord did not open the thread. Please try again. (discord)";
const MENTION_ME: &str = "-# In this thread I read only what mentions or answers me.";

impl Reception {
    /// Whether a message that does not name the bot is for it all the same: in a thread that the bot opened or was
    /// spoken to in, unless it answers or names somebody else.
    ///
    /// # Errors
    /// When Discord cannot say that now.
    pub(super) async fn belongs_to_us(&mut self, message: &Message, parent: Parent) -> Result<bool, RestError> {
        let to_others = !message.mentions.is_empty() || message.referenced_message.is_some();
        if !self.identity.reads || message.guild_id.is_none() || to_others || parent == Parent::Known(None) {
            return Ok(false);
        }
        let (channel, me) = (message.channel_id, self.identity.id);
        if parent == Parent::Unknown && self.seen_channel(channel).await?.and_then(|channel| channel.thread_parent()).is_none() {
            return Ok(false);
        }
        if self.desk.intake.knows(&Lane::Channel(channel)).await {
            return Ok(true);
        }
        Ok(self.seen_channel(channel).await?.is_some_and(|channel| channel.owner_id == Some(me)))
    }

    /// A channel; none: it is gone, or not for us to see.
    async fn seen_channel(&mut self, channel: u64) -> Result<Option<Channel>, RestError> {
        match self.channel(channel).await {
            Ok(channel) => Ok(Some(channel)),
            Err(error) if error.is_passing() => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Opens a thread for a prompt and has the prompt answered there. What comes of it is told in the command's message.
    pub(super) fn open_thread(&self, slash: Slash) {
        let (api, identity, interactions) = (self.api.clone(), Arc::clone(&self.identity), Arc::clone(&self.interactions));
        let (desk, closing, patience) = (self.desk.clone(), Arc::clone(&self.closing), self.patience);
        tokio::spawn(async move {
            let channel = slash.channel;
            let mut door = interactions.take(slash.interaction);
            if let Some(found) = &mut door
                && !found.is_open().await
            {
                door = None;
            }
            let say = async |text: &str| match &door {
                Some(door) => api.edit_original(identity.application, door.interaction, &door.token, text, patience).await,
                None => api.post(channel, None, &nonce(), text, patience).await,
            };
            let refuse = async |text: &str| {
                if let Err(error) = say(text).await {
                    warn!(channel, length = text.chars().count(), %error, "cannot answer a command");
                }
            };
            if slash.guild.is_none() || slash.parent.is_some() {
                return refuse(ELSEWHERE).await;
            }
            if closing.load(Ordering::SeqCst) {
                return refuse(CLOSING).await;
            }
            let name = thread_name(&slash.prompt);
            let begun = match say(&format!("🧵 New conversation: **{}**", escape(&name))).await {
                Ok(begun) => begun,
                Err(error) => return warn!(channel, %error, "cannot answer a command"),
            };
            // A thread has the id of the message it hangs on.
            let thread = match api.thread(channel, begun.id, &name, patience).await {
                Ok(()) => begun.id,
                Err(error) => {
                    warn!(channel, %error, "cannot open a thread{}", if error.is_forbidden() { "\nhint: the bot needs Create Public Threads there" } else { "" });
                    let why = match &error {
                        error if error.is_passing() => UNREACHABLE,
                        RestError::Refused { status: 403 | 404, .. } => FORBIDDEN,
                        _ => ELSEWHERE,
                    };
                    return refuse(why).await;
                }
            };
            info!(channel, thread, user = slash.user.id, "opened a thread for a new conversation");
            desk.intake.learn(thread, channel);
            let author = mention::one_line(slash.nick.as_deref().unwrap_or(slash.user.shown()), 64);
            let first = match api.post(thread, None, &nonce(), &opening(&author, &slash.prompt, identity.reads), patience).await {
                Ok(Posted { id, .. }) => id,
                Err(error) => {
                    warn!(thread, %error, "cannot write into a new thread{}", if error.is_forbidden() { "\nhint: the bot needs Send Messages in Threads there" } else { "" });
                    return refuse(if error.is_passing() { UNREACHABLE } else { FORBIDDEN }).await;
                }
            };
            let event = NewEvent {
                author: Some(author),
                asker: Some(slash.user.id),
                parent: Some(channel),
                key: Some(super::reception::key(slash.interaction)),
                ..NewEvent::new(
                    EventKind::Message,
                    Lane::Channel(thread),
                    Origin::Message { channel: thread, message: first },
                    slash.prompt.trim(),
                )
            };
            match desk.intake.submit(event) {
                // Taken back, it was visibly refused.
                Ok(accepted) => drop(accepted.safe().await),
                Err(why) => {
                    if let Err(error) = api.post(thread, Some(first), &nonce(), &why, patience).await {
                        warn!(thread, %error, "cannot send a message to discord");
                    }
                }
            }
            desk.seen.saw(thread, first);
        });
    }
}

/// The first message of a thread: who asked what.
fn opening(author: &str, prompt: &str, reads: bool) -> String {
    let prompt = prompt.trim();
    let mut shown: String = prompt.chars().take(SHOWN).collect();
    if shown.len() < prompt.len() || shown.lines().count() > LINES {
        shown = shown.lines().take(LINES).collect::<Vec<_>>().join("\n") + "…";
    }
    let quoted: Vec<String> = shown.lines().map(|line| format!("> {line}")).collect();
    let note = if reads { String::new() } else { format!("\n{MENTION_ME}") };
    format!("**{}**:\n{}{note}", escape(author), quoted.join("\n"))
}

/// The first line of a prompt as a name: without mentions and marks, 1 to 100 characters.
fn thread_name(prompt: &str) -> String {
    let line = prompt.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let mut plain = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('<') {
        plain.push_str(&rest[..at]);
        let Some((word, length)) = token(&rest[at..]) else {
            plain.push('<');
            rest = &rest[at + 1..];
            continue;
        };
        plain.push_str(word);
        rest = &rest[at + length..];
    }
    plain.push_str(rest);
    for mark in ["**", "__", "~~", "||", "`", "*"] {
        plain = plain.replace(mark, "");
    }
    let plain = mention::one_line(plain.trim_start_matches(['#', '>', '-', ' ']), NAME);
    if plain.is_empty() { "New conversation".to_owned() } else { plain }
}

/// What a mention or emoji at the beginning of a text says in words, and its length in bytes.
fn token(text: &str) -> Option<(&str, usize)> {
    let end = text.find('>')?;
    let inner = &text[1..end];
    let digits = |id: &str| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit());
    let word = if let Some(id) = inner.strip_prefix("@&").filter(|id| digits(id)) {
        (!id.is_empty()).then_some("@role")
    } else if let Some(id) = inner.strip_prefix('@') {
        digits(id.trim_start_matches('!')).then_some("@somebody")
    } else if let Some(id) = inner.strip_prefix('#') {
        digits(id).then_some("#channel")
    } else {
        let (name, id) = inner.strip_prefix("a:").or_else(|| inner.strip_prefix(':'))?.split_once(':')?;
        digits(id).then_some(name)
    };
    word.map(|word| (word, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_named_after_the_first_line_in_plain_words() {
        for (prompt, name) in [
            ("fix the build", "fix the build"),
            ("\n  ## Fix **the** `build`\nand then", "Fix the build"),
            ("ask <@123> and <@!4> in <#9> of <@&7> <:wave:55>", "ask @somebody and @somebody in #channel of @role wave"),
            ("is a < b, <@x> or <b>?", "is a < b, <@x> or <b>?"),
            ("my_function and __init__", "my_function and init"),
            ("@everyone", "@everyone"),
            ("***", "New conversation"),
            ("", "New conversation"),
        ] {
            assert_eq!(thread_name(prompt), name, "{prompt:?}");
        }
        let long = thread_name(&"wörter ".repeat(40));
        assert_eq!((long.chars().count(), long.ends_with('…')), (NAME, true));
    }

    #[test]
    fn a_thread_begins_with_who_asked_what() {
        assert_eq!(opening("An*n", "one\ntwo", true), "**An\\*n**:\n> one\n> two");
        assert!(opening("Ann", "one", false).ends_with(MENTION_ME));
        assert!(opening("Ann", &"x\n".repeat(900), false).chars().count() <= 2_000);
        assert!(opening(&"*".repeat(64), &"x".repeat(9_000), false).chars().count() <= 2_000);
    }
}
