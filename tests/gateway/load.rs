//! Generates prompts in many channels, and checks that each was answered once and in order.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::support::discord::{ANN, CROWD, LocalDiscord, Message};

/// The largest number of unanswered prompts. More would be refused, or would take too long to
/// finish.
const UNDER_WAY: usize = 40;
/// After this time without an answer, something is lost.
const PROGRESS: Duration = Duration::from_secs(60);
/// How long a user waits before pressing a button again that had no effect. Discord shows that an
/// interaction failed after three seconds. Presses without a pause would queue up faster than a
/// busy machine reads them, and a press that is read late is ignored.
const PRESS_INTERVAL: Duration = Duration::from_secs(4);
/// The ends of the demo agent's answers.
const ENDS: [&str; 3] =
    ["of our conversation.", "One tool worked, one did not.", "Second 8. There."];

/// The note below the text of an interrupted turn.
const CUT: &str = "This is not finished: I was interrupted here.";

/// Returns a number from the environment.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect(name))
}

/// Repeatable random numbers (SplitMix64).
pub struct Random(pub u64);

impl Random {
    /// Returns a number below `most`.
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % most
    }
}

/// The prompts of users and their state.
pub struct Prompts {
    pub local: LocalDiscord,
    pub random: Random,
    /// How many prompts are written in all, and in how many channels.
    pub events: usize,
    pub channels: u64,
    /// The channel and the id of every prompt.
    pub sent: Vec<(u64, u64)>,
    /// How many prompts may have been sent by now. They are spread over all faults.
    pub allowed: usize,
    /// The texts of the offers to repeat a prompt. Such a prompt may be answered out of order.
    pub offered: HashMap<u64, String>,
    /// When the button of each offer was last pressed.
    pressed: HashMap<u64, Instant>,
    /// One prompt in this many uses a tool.
    pub tools_one_in: u64,
    /// When the prompts without a reply were written, and how long the others waited for one.
    written: HashMap<u64, Instant>,
    pub waits: Vec<Duration>,
}

/// How many prompts were lost, answered twice or answered out of order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub lost: usize,
    pub twice: usize,
    pub reordered: usize,
}

impl Prompts {
    pub async fn new(seed: u64, events: usize, channels: u64) -> Self {
        Self {
            local: LocalDiscord::start().await,
            random: Random(seed),
            events,
            channels,
            sent: Vec::new(),
            allowed: 0,
            offered: HashMap::new(),
            pressed: HashMap::new(),
            tools_one_in: 20,
            written: HashMap::new(),
            waits: Vec::new(),
        }
    }

    /// Writes a prompt.
    pub fn send(&mut self, channel: u64) {
        let number = self.sent.len();
        // Some prompts use tools. Such turns are not repeated automatically.
        let prompt = if self.random.below(self.tools_one_in) == 0 {
            format!("tool number {number} in c{channel}")
        } else {
            format!("number {number} in c{channel}")
        };
        let question = self.local.mention(channel, ANN, &prompt);
        self.written.insert(question, Instant::now());
        self.sent.push((channel, question));
    }

    /// Writes a prompt in a random channel, if more may be sent. Returns whether it did.
    pub fn send_somewhere(&mut self) -> bool {
        if self.sent.len() >= self.allowed.min(self.events) {
            return false;
        }
        let channel = CROWD + self.random.below(self.channels);
        self.send(channel);
        true
    }

    /// Keeps prompts in progress and accepts offers as users do: they press again after a while if
    /// there was no effect. Counts the answered prompts.
    pub fn load(&mut self, answered: &mut usize) {
        let replies = self.local.replies();
        let waits = self.written.extract_if(|question, _| replies.contains_key(question));
        self.waits.extend(waits.map(|(_, written)| written.elapsed()));
        *answered = replies.values().filter(|replies| replies.iter().any(is_final)).count();
        for _ in 0..4 {
            if self.sent.len() - *answered < UNDER_WAY {
                self.send_somewhere();
            }
        }
        for (question, replies) in replies {
            for offer in
                replies.iter().filter(|reply| self.local.button(reply.id, "Try again").is_some())
            {
                self.offered.insert(question, offer.content.clone());
                let pause = |at: &Instant| at.elapsed() < PRESS_INTERVAL;
                if !self.pressed.get(&offer.id).is_some_and(pause) {
                    self.pressed.insert(offer.id, Instant::now());
                    self.local.press(offer.id, ANN, "Try again");
                }
            }
        }
    }

    /// Waits until everything is answered.
    pub async fn settle(&mut self, answered: &mut usize) -> Result<(), String> {
        let mut progress = (Instant::now(), 0);
        loop {
            self.load(answered);
            if *answered >= self.sent.len() {
                return Ok(());
            }
            if *answered > progress.1 {
                progress = (Instant::now(), *answered);
            }
            if progress.0.elapsed() > PROGRESS {
                self.check()?;
                return Err(format!("only {answered} of {} are answered", self.sent.len()));
            }
            self.local.wait_a_moment().await;
        }
    }

    /// Checks that each prompt has exactly one answer and each channel is in order. Returns the
    /// violations.
    pub fn check(&self) -> Result<(), String> {
        let (_, faults) = self.counts();
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    /// Counts the violations and describes each.
    pub fn counts(&self) -> (Counts, String) {
        let (mut faults, mut counts) = (String::new(), Counts::default());
        let replies = self.local.replies();
        let mut channels: BTreeMap<u64, u64> = BTreeMap::new();
        for (channel, question) in &self.sent {
            let replies = replies.get(question).map_or(&[][..], Vec::as_slice);
            let offered = self.offered.contains_key(question);
            let answers: Vec<&Message> = replies.iter().filter(|reply| is_final(reply)).collect();
            // A second attempt continues in the messages of the first, so no text appears twice.
            if let Some(other) = replies.iter().find(|reply| !is_final(reply) && !is_notice(reply))
            {
                let _ = writeln!(
                    faults,
                    "{question} in {channel} has something beside its answer: {:?}",
                    other.content
                );
            }
            let [answer] = answers[..] else {
                if answers.is_empty() {
                    counts.lost += 1;
                } else {
                    counts.twice += 1;
                }
                let _ = writeln!(
                    faults,
                    "{question} in {channel} has {} answers: {:?}",
                    answers.len(),
                    texts(replies)
                );
                continue;
            };
            let number = replies.iter().filter(|reply| !is_delay(reply)).count();
            if !offered && number > 1 {
                let _ = writeln!(
                    faults,
                    "{question} in {channel} has more than its answer: {:?}",
                    texts(replies)
                );
            }
            if !offered {
                let last = channels.entry(*channel).or_default();
                if *last > answer.id {
                    counts.reordered += 1;
                    let _ = writeln!(
                        faults,
                        "{question} in {channel} was answered before an older prompt"
                    );
                }
                *last = answer.id;
            }
        }
        (counts, faults)
    }
}

fn is_final(message: &Message) -> bool {
    // Notes of the bot follow the answer.
    let answer = message.content.split("\n-# ").next().unwrap_or_default();
    !is_cut(message) && ENDS.iter().any(|end| answer.ends_with(end))
}

fn is_notice(message: &Message) -> bool {
    let kinds = ["(interrupted)", "(set aside)", "Started again by"];
    kinds.iter().any(|kind| message.content.contains(kind)) || is_delay(message) || is_cut(message)
}

fn texts(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.content.as_str()).collect()
}

/// Returns whether the turn of this message was interrupted, so that the user was asked whether to
/// repeat it.
fn is_cut(message: &Message) -> bool {
    message.content.contains(CUT)
}

/// Returns whether this is the notice that a prompt waits for the database or for a machine.
fn is_delay(message: &Message) -> bool {
    let kinds = ["as soon as I can. (storage)", "(machine)"];
    kinds.iter().any(|kind| message.content.contains(kind))
}
