//! Opens a thread for a prompt, as a conversation of its own.

use std::sync::Arc;

use tracing::{info, warn};

use super::context::BotContext;
use super::live::Live;
use crate::ids::{self, DiscordOrigin};
use crate::rest::RestError;
use crate::text::markdown::escape;
use crate::text::mention;
use aetheel_dispatch::{OpenedThread, PriorDelivery};
use aetheel_model::event::Event;
use aetheel_model::id::{ChannelId, MessageId, UserId};

/// Maximum number of characters of a thread's name (Discord's documentation of threads, 2026-08).
const MAX_NAME_CHARS: usize = 100;
const MAX_PROMPT_CHARS: usize = 1_500;
const MAX_PROMPT_LINES: usize = 20;

const MENTION_ME: &str = "-# In this thread I read only messages that mention me or reply to me.";

/// The reason why no thread was opened, worded for the person who asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ThreadError {
    #[error("A thread cannot be opened here. Use `/reset` to begin a new conversation here.")]
    NoThreadsHere,
    /// The bot lacks a permission.
    #[error(
        "I may not open threads here: I need the permissions Create Public Threads and Send Messages in Threads. Use `/reset` to begin a new conversation in this channel."
    )]
    Forbidden,
    /// Discord did not answer in time.
    #[error("Discord did not open the thread. Please try again.")]
    Unreachable,
}

/// Opens the thread of a prompt and posts the prompt in it. Each step finds the result of an
/// earlier attempt or process: the command's message by its token, its id or its nonce; the thread
/// by that message; and the first message of the thread by reading the thread.
pub(crate) async fn open(
    inner: &Arc<BotContext>,
    event: &Event,
    traces: PriorDelivery,
) -> Result<OpenedThread, ThreadError> {
    let DiscordOrigin::Interaction { channel, .. } = ids::origin(&event.origin) else {
        return Err(ThreadError::NoThreadsHere);
    };
    let (api, timeouts) = (&inner.api, inner.options.time_limits.send);
    let name = thread_name(&event.prompt);
    let nonce = format!("{}.t", traces.stem);
    let mut live = Live::new(Arc::clone(inner), inner.command_target(channel, event), traces, None);
    let shown =
        live.show(&[format!("🧵 New conversation: **{}**", escape(&name))], true, timeouts).await;
    // A thread has the id of its message.
    let thread = match (shown, live.first()) {
        (Ok(_), Some(thread)) => thread,
        (Err(error), _) => {
            warn!(channel, %error, "cannot answer a command");
            return Err(if error.is_temporary() {
                ThreadError::Unreachable
            } else {
                ThreadError::NoThreadsHere
            });
        }
        (Ok(_), None) => return Err(ThreadError::Unreachable),
    };
    let new = match api.thread(channel, thread, &name, timeouts).await {
        Ok(new) => new,
        Err(error) => {
            warn!(channel, %error, "cannot open a thread{}", if error.is_forbidden() { "; hint: the bot needs Create Public Threads there" } else { "" });
            return Err(match &error {
                error if error.is_temporary() => ThreadError::Unreachable,
                RestError::Refused { status: 403 | 404, .. } => ThreadError::Forbidden,
                _ => ThreadError::NoThreadsHere,
            });
        }
    };
    let sent = if new { None } else { find_first_message(inner, thread).await };
    let first = match sent {
        Some(first) => Ok(first),
        None => {
            let author = event.author.as_deref().unwrap_or_default();
            let text = first_message(author, &event.prompt, inner.identity.reads_all);
            api.post(thread, None, &nonce, &text, timeouts).await.map(|posted| posted.id)
        }
    };
    match first {
        Ok(first) => {
            info!(
                channel,
                thread,
                user = event.asker.map(UserId::to_field),
                "opened a thread for a new conversation"
            );
            inner.notes.mark_handled(thread, first);
            Ok(OpenedThread {
                thread: ChannelId::discord(thread),
                first: MessageId::discord(first),
            })
        }
        Err(error) => {
            warn!(thread, %error, "cannot write into a new thread{}", if error.is_forbidden() { "; hint: the bot needs Send Messages in Threads there" } else { "" });
            Err(if error.is_temporary() {
                ThreadError::Unreachable
            } else {
                ThreadError::Forbidden
            })
        }
    }
}

/// Returns the first message that an earlier attempt posted in a thread, if it can be read.
async fn find_first_message(inner: &BotContext, thread: u64) -> Option<u64> {
    let (page, _) =
        inner.api.messages_after(thread, thread, inner.options.time_limits.send).await.ok()?;
    page.into_iter()
        .find(|message| message.author.id == inner.identity.id && message.kind == 0)
        .map(|message| message.id)
}

fn first_message(author: &str, prompt: &str, reads: bool) -> String {
    let prompt = prompt.trim();
    let mut shown: String = prompt.chars().take(MAX_PROMPT_CHARS).collect();
    if shown.len() < prompt.len() || shown.lines().count() > MAX_PROMPT_LINES {
        shown = shown.lines().take(MAX_PROMPT_LINES).collect::<Vec<_>>().join("\n") + "…";
    }
    let quoted: Vec<String> = shown.lines().map(|line| format!("> {line}")).collect();
    let note = if reads { String::new() } else { format!("\n{MENTION_ME}") };
    format!("**{}**:\n{}{note}", escape(author), quoted.join("\n"))
}

/// Returns the first line of a prompt as a name of 1 to 100 characters, without mentions and
/// formatting.
fn thread_name(prompt: &str) -> String {
    let line = prompt.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let mut plain = mention::generic_mentions(line);
    for mark in ["**", "__", "~~", "||", "`", "*"] {
        plain = plain.replace(mark, "");
    }
    let plain = aetheel_model::plain::short_line(
        plain.trim_start_matches(['#', '>', '-', ' ']),
        MAX_NAME_CHARS,
    );
    if plain.is_empty() { "New conversation".to_owned() } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_named_after_the_first_line_without_formatting() {
        for (prompt, name) in [
            ("fix the build", "fix the build"),
            ("\n  ## Fix **the** `build`\nand then", "Fix the build"),
            (
                "ask <@123> and <@!4> in <#9> of <@&7> <:wave:55>",
                "ask @somebody and @somebody in #channel of @role wave",
            ),
            ("is a < b, <@x> or <b>?", "is a < b, <@x> or <b>?"),
            ("my_function and __init__", "my_function and init"),
            ("@everyone", "@everyone"),
            ("***", "New conversation"),
            ("", "New conversation"),
        ] {
            assert_eq!(thread_name(prompt), name, "{prompt:?}");
        }
        let long = thread_name(&"wörter ".repeat(40));
        assert_eq!((long.chars().count(), long.ends_with('…')), (MAX_NAME_CHARS, true));
    }

    #[test]
    fn a_thread_begins_with_the_author_and_the_prompt() {
        assert_eq!(first_message("An*n", "one\ntwo", true), "**An\\*n**:\n> one\n> two");
        assert!(first_message("Ann", "one", false).ends_with(MENTION_ME));
        assert!(first_message("Ann", &"x\n".repeat(900), false).chars().count() <= 2_000);
        assert!(first_message(&"*".repeat(64), &"x".repeat(9_000), false).chars().count() <= 2_000);
    }
}
