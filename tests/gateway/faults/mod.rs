//! What can break between the program and Discord, plain and over TLS: whatever it is, every
//! message is answered once, and those of a channel in their order.

mod connection;
mod requests;
mod soak;

use std::collections::BTreeMap;
use std::time::Duration;

use super::serving;
use crate::support::discord::{ANN, LIMIT, LocalDiscord};
use crate::support::program::Installation;

/// What people wrote to the bot, and what they must read in the end: nothing else, nothing twice,
/// nothing before its time.
#[derive(Default)]
struct Talk {
    answers: BTreeMap<u64, Vec<String>>,
}

impl Talk {
    /// Somebody writes something the agent repeats; returns the message's id.
    fn ask(&mut self, local: &LocalDiscord, channel: u64) -> u64 {
        let number = self.answers.get(&channel).map_or(0, Vec::len) + 1;
        let prompt = format!("prompt {number} of {channel}");
        let answer = format!("You said: {prompt}\n\nThis is message {number} of our conversation.");
        self.ask_for(local, channel, &prompt, answer)
    }

    /// Somebody writes a prompt with this answer.
    fn ask_for(&mut self, local: &LocalDiscord, channel: u64, prompt: &str, answer: String) -> u64 {
        self.answers.entry(channel).or_default().push(answer);
        local.mention(channel, ANN, prompt)
    }

    /// How many were not answered to the end.
    fn open(&self, local: &LocalDiscord) -> usize {
        let open = |(channel, answers): (&u64, &Vec<String>)| {
            let texts = local.texts(*channel);
            answers.iter().filter(|answer| !texts.contains(answer)).count()
        };
        self.answers.iter().map(open).sum()
    }

    /// Waits until every channel reads as it must.
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
        local.wait_within(LIMIT * 2, &format!("all answers in spite of {what}"), found).await;
    }
}

/// An installation in which one person may ask as much as they like.
fn installed(local: &LocalDiscord) -> Installation {
    super::installed(local).with("USER_PROMPTS_PER_MINUTE", "0")
}

/// A Discord whose heart beats fast and which takes many messages, so that nothing has to be waited
/// for for long.
async fn discord(tls: bool) -> LocalDiscord {
    let local =
        if tls { LocalDiscord::start_with_tls().await } else { LocalDiscord::start().await };
    local.faults().heartbeat(Duration::from_secs(1));
    local.faults().limit("POST messages", 50, Duration::from_secs(1));
    local
}
