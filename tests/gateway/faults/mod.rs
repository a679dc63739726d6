//! Faults between the program and Discord, with and without TLS. Every message is answered once,
//! and those of a channel in order.

mod connection;
mod requests;
mod soak;

use std::collections::BTreeMap;
use std::time::Duration;

use super::{installed, serving};
use crate::support::discord::{ANN, LIMIT, LocalDiscord};
use crate::support::program::Installation;

/// Prompts to the bot, and the expected answers of each channel in order, without anything else.
#[derive(Default)]
struct Talk {
    answers: BTreeMap<u64, Vec<String>>,
}

impl Talk {
    /// A user writes a prompt that the agent repeats. Returns the id of the message.
    fn ask(&mut self, local: &LocalDiscord, channel: u64) -> u64 {
        let number = self.answers.get(&channel).map_or(0, Vec::len) + 1;
        let prompt = format!("prompt {number} of {channel}");
        let answer = format!("You said: {prompt}\n\nThis is message {number} of our conversation.");
        self.ask_for(local, channel, &prompt, answer)
    }

    /// A user writes a prompt with this expected answer.
    fn ask_for(&mut self, local: &LocalDiscord, channel: u64, prompt: &str, answer: String) -> u64 {
        self.answers.entry(channel).or_default().push(answer);
        local.mention(channel, ANN, prompt)
    }

    /// Returns how many prompts have no complete answer yet.
    fn open(&self, local: &LocalDiscord) -> usize {
        let open = |(channel, answers): (&u64, &Vec<String>)| {
            let texts = local.texts(*channel);
            answers.iter().filter(|answer| !texts.contains(answer)).count()
        };
        self.answers.iter().map(open).sum()
    }

    /// Waits until every channel contains exactly the expected answers.
    async fn settled(&self, local: &LocalDiscord, what: &str) {
        let wrong = |local: &LocalDiscord| {
            self.answers
                .iter()
                .find(|(channel, answers)| local.texts(**channel) != **answers)
                .map(|(channel, _)| *channel)
        };
        let mut last = None;
        let found = |local: &LocalDiscord| {
            last = wrong(local);
            last.is_none().then_some(())
        };
        local.wait_within(LIMIT * 2, &format!("all answers despite {what}"), found).await;
    }
}

/// Returns an installation for a test in which one person sends more than 20 prompts in a minute.
fn without_prompt_limit(local: &LocalDiscord) -> Installation {
    installed(local).with("USER_PROMPTS_PER_MINUTE", "0")
}

/// Returns a Discord with a short heartbeat interval and a high limit of messages, so that the
/// tests need not wait long.
async fn discord(tls: bool) -> LocalDiscord {
    let local =
        if tls { LocalDiscord::start_with_tls().await } else { LocalDiscord::start().await };
    local.faults().heartbeat(Duration::from_secs(1));
    local.faults().limit("POST messages", 50, Duration::from_secs(1));
    local
}
