//! The program is killed while agents call its tools. Each file is posted once, each question is
//! answered once, and the agent gets each result once.
//!
//! `OPEN_KILLS` is the number of kills for which a call must be open: the recording contains it
//! without its result.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::ops::AddAssign;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::Value;

use super::super::load::{Random, number};
use super::super::{installed, prompt_count, serving};
use super::forget_logins;
use crate::support::discord::{ANN, LocalDiscord, Message, room};
use crate::support::program::{Installation, Program};

/// The number of prompts in progress.
const UNDER_WAY: usize = 12;
const CHANNELS: u64 = 40;
/// After this time without an answer, something is lost.
const PROGRESS: Duration = Duration::from_secs(60);
/// How long a person waits before pressing a button again that had no effect.
const PRESS_INTERVAL: Duration = Duration::from_secs(4);
/// After this time a process is killed, even if the wanted moment did not come.
const PATIENCE: Duration = Duration::from_secs(6);
const FILE: &str = "remember the milk";

#[tokio::test]
async fn killed_during_tool_calls_it_posts_each_file_and_asks_each_question_once() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let (seed, kills) = (number("SEED", now), number("OPEN_KILLS", 10));
    println!("SEED={seed} OPEN_KILLS={kills}");
    let report = run(seed, kills).await.unwrap_or_else(|fault| panic!("SEED={seed}: {fault}"));
    println!("{report}");
}

async fn run(seed: u64, wanted: u64) -> Result<String, String> {
    let began = Instant::now();
    let local = LocalDiscord::start().await;
    // A process does not know the limits that its predecessor has used.
    for route in ["POST messages", "PATCH message", "guilds", "channels"] {
        local.faults().limit(route, 1_000, Duration::from_secs(1));
    }
    let installation = installed(&local)
        .with("BUSY_POLICY", "queue")
        .with("MAX_CONCURRENT_QUERIES", "8")
        .with("AGENT_HOLDER", "require");
    std::fs::write(installation.path("workspace").join("notes.txt"), FILE).unwrap();
    let mut callers = Callers::new(local, seed);
    let mut recorded = RecordedCalls::default();
    let mut program = serving(&installation).await;
    // Missed messages are fetched only in channels where the bot was addressed before.
    for channel in 0..CHANNELS {
        callers.send(room(channel));
    }
    callers.settle(&mut recorded, &installation).await?;
    let (mut kills, mut unready, mut tally) = (0, 0, Tally::default());
    while tally.open < wanted {
        if kills >= 3 * wanted {
            return Err(format!("only {} of {kills} kills met an open call", tally.open));
        }
        if kills % 2 == 0 {
            // A prompt whose process was killed three times is set aside.
            callers.settle(&mut recorded, &installation).await?;
        }
        let moment = Moment::of(kills, &mut callers.random);
        callers.reach(&moment, &program, &installation, &mut recorded).await;
        program.signal(Signal::KILL);
        program.ended().await;
        kills += 1;
        let log = program.log();
        unready += usize::from(!log.iter().any(|line| line["message"] == "aetheel is ready"));
        tally += Tally::of(&recorded.open(&installation)?, &moment);
        forget_logins(&installation);
        program = installation.start(&["run"]);
    }
    callers.settle(&mut recorded, &installation).await?;
    program.logs("aetheel is ready").await;
    program.signal(Signal::TERM);
    let ended = program.ended().await;
    recorded.open(&installation)?;
    callers.check()?;
    let (prompts, asked) = (callers.prompts.len(), prompt_count(&installation));
    if (ended.code, recorded.complete.len(), asked) != (0, prompts, prompts) {
        return Err(format!(
            "{prompts} prompts, {asked} times an agent was asked, {} turns with all calls recorded; the last process ended with {}",
            recorded.complete.len(),
            ended.code
        ));
    }
    Ok(format!(
        "{kills} kills ({unready} before the start was complete), {} while a call was open ({} of a file, {} of a question, {} within 30 ms after a person pressed an answer); \
         {} files posted once, {prompts} questions answered once, {} results given to an agent once; {:.0} s",
        tally.open,
        tally.files,
        tally.questions,
        tally.answered,
        2 * prompts,
        3 * prompts,
        began.elapsed().as_secs_f64()
    ))
}

/// When a process is killed.
enum Moment {
    /// After this time.
    After(Duration),
    /// While a file is read or attached.
    FileOpen,
    /// This long after a person answered a question.
    Answered(Duration),
}

impl Moment {
    /// Every second process is killed soon, while it starts or carries out the calls that the
    /// previous one left.
    fn of(kill: u64, random: &mut Random) -> Self {
        match (kill % 2, random.below(4)) {
            (1, _) => Self::After(Duration::from_millis(20 + random.below(600))),
            (_, 0) => Self::After(Duration::from_millis(300 + random.below(1_500))),
            (_, 1 | 2) => Self::FileOpen,
            _ => Self::Answered(Duration::from_millis(random.below(30))),
        }
    }
}

/// How many kills met open calls.
#[derive(Default)]
struct Tally {
    open: u64,
    files: u64,
    questions: u64,
    answered: u64,
}

impl Tally {
    fn of(open: &OpenCalls, moment: &Moment) -> Self {
        let is_answered = matches!(moment, Moment::Answered(_)) && open.questions > 0;
        Self {
            open: u64::from(open.files + open.questions > 0),
            files: u64::from(open.files > 0),
            questions: u64::from(open.questions > 0),
            answered: u64::from(is_answered),
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.open += other.open;
        self.files += other.files;
        self.questions += other.questions;
        self.answered += other.answered;
    }
}

/// The open calls of all turns.
#[derive(Default)]
struct OpenCalls {
    files: usize,
    questions: usize,
}

/// The calls in recordings.
#[derive(Default)]
struct RecordedCalls {
    /// The recordings of finished turns whose calls are complete.
    complete: HashSet<PathBuf>,
}

impl RecordedCalls {
    /// Counts the open calls.
    ///
    /// # Errors
    /// Returns what is missing or repeated in the recording of a finished turn.
    fn open(&mut self, installation: &Installation) -> Result<OpenCalls, String> {
        let days = std::fs::read_dir(installation.path("recordings")).into_iter().flatten();
        // The gateway also writes files beside the folders of the days.
        let files = days.flatten().filter_map(|day| std::fs::read_dir(day.path()).ok()).flatten();
        let mut open = OpenCalls::default();
        for path in files.map(|file| file.unwrap().path()) {
            if self.complete.contains(&path) {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let (mut calls, mut results, mut attached) = (HashMap::new(), HashMap::new(), 0);
            let mut unfinished = HashMap::new();
            // The last line may be incomplete.
            for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
                if let Some(request) = line["out"].get("tool-request") {
                    let call = request["call"].to_string();
                    *calls.entry(call.clone()).or_insert(0) += 1;
                    unfinished.insert(call, request["name"] == "aetheel_post_file");
                } else if let Some(result) = line["in"].get("tool-result") {
                    let call = result["call"].to_string();
                    unfinished.remove(&call);
                    *results.entry(call).or_insert(0) += 1;
                }
                attached += usize::from(line.get("attached").is_some());
            }
            let files = unfinished.values().filter(|is_file| **is_file).count();
            open.files += files;
            open.questions += unfinished.len() - files;
            if text.contains("\"ending\"") {
                let is_once = |counts: &HashMap<String, i32>| {
                    counts.len() == 3 && counts.values().all(|count| *count == 1)
                };
                if !is_once(&calls) || !is_once(&results) || attached != 2 {
                    return Err(format!("calls are missing or repeated in a recording:\n{text}"));
                }
                self.complete.insert(path);
            }
        }
        Ok(open)
    }
}

/// A prompt whose agent posts a file, asks a question, and posts another file.
struct CallPrompt {
    channel: u64,
    message: u64,
}

/// The people whose agents call tools.
struct Callers {
    local: LocalDiscord,
    random: Random,
    prompts: Vec<CallPrompt>,
    /// The numbers of the prompts without a complete answer. No two are in the same channel, because
    /// the second would answer the question of the first.
    active: Vec<usize>,
    /// When a person next presses a button of each question.
    presses: HashMap<usize, Instant>,
}

impl Callers {
    fn new(local: LocalDiscord, seed: u64) -> Self {
        let (prompts, active, presses) = Default::default();
        Self { local, random: Random(seed), prompts, active, presses }
    }

    fn send(&mut self, channel: u64) {
        let number = self.prompts.len();
        let text = format!(
            "call aetheel_post_file {{\"path\":\"notes.txt\",\"name\":\"{number}-a.txt\"}}\n\
             aetheel_ask {{\"question\":\"Question {number}?\",\"options\":[\"red\",\"blue\"]}}\n\
             aetheel_post_file {{\"path\":\"notes.txt\",\"name\":\"{number}-b.txt\"}}"
        );
        let message = self.local.mention(channel, ANN, &text);
        self.prompts.push(CallPrompt { channel, message });
        self.active.push(number);
    }

    /// Waits for the moment of a kill. The program is stopped while its calls are counted, so it is
    /// killed in the state that was seen.
    async fn reach(
        &mut self,
        moment: &Moment,
        program: &Program,
        installation: &Installation,
        recorded: &mut RecordedCalls,
    ) {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let has_pressed = self.step();
            match moment {
                Moment::After(time) if began.elapsed() >= *time => return,
                Moment::Answered(delay) if has_pressed => {
                    return tokio::time::sleep(*delay).await;
                }
                Moment::FileOpen => {
                    program.signal(Signal::STOP);
                    // A fault in a recording is reported after the kill.
                    if recorded.open(installation).is_ok_and(|open| open.files > 0) {
                        return;
                    }
                    program.signal(Signal::CONT);
                    let pause = self.random.below(15_000);
                    tokio::time::sleep(Duration::from_micros(pause)).await;
                }
                _ => self.local.wait_a_moment().await,
            }
            self.send_more();
        }
    }

    /// Starts further prompts in channels in which none is active.
    fn send_more(&mut self) {
        while self.active.len() < UNDER_WAY {
            let channel = room(self.random.below(CHANNELS));
            if self.active.iter().all(|number| self.prompts[*number].channel != channel) {
                self.send(channel);
            }
        }
    }

    /// Answers questions after a while, and removes the prompts with a complete answer. Returns
    /// whether a person pressed a button.
    fn step(&mut self) -> bool {
        let mut has_pressed = false;
        for number in self.active.clone() {
            let messages = self.messages_of(number);
            let (texts, files) = content(&messages);
            // The question is edited beside the answer, and perhaps after it.
            let is_complete = texts.trim_end().ends_with(&tool_text(number, 'b'))
                && files.len() > 1
                && is_question_closed(&messages, number);
            if is_complete {
                self.active.retain(|active| *active != number);
            }
            let question = messages.iter().find(|message| self.local.asks(message.id));
            let Some(question) = question.map(|message| message.id) else { continue };
            let now = Instant::now();
            let wait = Duration::from_millis(self.random.below(1_500));
            let at = self.presses.entry(number).or_insert(now + wait);
            if now >= *at {
                *at = now + PRESS_INTERVAL;
                self.local.press(question, ANN, colour(number));
                has_pressed = true;
            }
        }
        has_pressed
    }

    /// Waits until each prompt has a complete answer.
    async fn settle(
        &mut self,
        recorded: &mut RecordedCalls,
        installation: &Installation,
    ) -> Result<(), String> {
        let mut progress = (Instant::now(), self.active.len());
        while !self.active.is_empty() {
            self.step();
            if self.active.len() < progress.1 {
                progress = (Instant::now(), self.active.len());
            }
            if progress.0.elapsed() > PROGRESS {
                recorded.open(installation)?;
                self.check()?;
                return Err(format!("{} prompts have no complete answer", self.active.len()));
            }
            self.local.wait_a_moment().await;
        }
        Ok(())
    }

    /// Returns the bot's messages after a prompt and before the next one in its channel.
    fn messages_of(&self, number: usize) -> Vec<Message> {
        let CallPrompt { channel, message } = self.prompts[number];
        let next = self.prompts[number + 1..].iter().find(|next| next.channel == channel);
        let end = next.map_or(u64::MAX, |next| next.message);
        let mut messages = self.local.messages(channel);
        // A press on a question that is closed meanwhile gets a private reply.
        messages.retain(|reply| (message..end).contains(&reply.id) && !reply.ephemeral);
        messages
    }

    /// Checks that each prompt has its files, its question and its answer, and nothing else.
    ///
    /// # Errors
    /// Returns all violations.
    fn check(&self) -> Result<(), String> {
        let (mut faults, mut names) = (String::new(), BTreeMap::new());
        for number in 0..self.prompts.len() {
            let messages = self.messages_of(number);
            let (text, files) = content(&messages);
            for (name, bytes) in &files {
                *names.entry(name.clone()).or_insert(0) += 1;
                if bytes != FILE.as_bytes() {
                    let _ = writeln!(faults, "{name} has another content");
                }
            }
            let first = tool_text(number, 'a');
            let expected = format!(
                "{first}\n\nThe tool returned: {}\n\n{}",
                colour(number),
                tool_text(number, 'b')
            );
            let is_closed = is_question_closed(&messages, number);
            if words(&text) != words(&expected) || !is_closed || files.len() != 2 {
                let texts: Vec<&str> = messages.iter().map(|m| m.content.as_str()).collect();
                let _ = writeln!(faults, "prompt {number} has {} files and {texts:?}", files.len());
            }
        }
        for name in
            (0..self.prompts.len()).flat_map(|n| [format!("{n}-a.txt"), format!("{n}-b.txt")])
        {
            match names.get(&name) {
                Some(1) => {}
                count => {
                    let _ = writeln!(faults, "{name} was posted {} times", count.unwrap_or(&0));
                }
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }
}

fn colour(number: usize) -> &'static str {
    ["red", "blue"][number % 2]
}

/// Returns the text of the agent for a posted file.
fn tool_text(number: usize, file: char) -> String {
    format!(
        "The tool returned: The file `{number}-{file}.txt` ({} bytes) is attached to your answer.",
        FILE.len()
    )
}

fn is_question(message: &Message) -> bool {
    message.content.contains("The agent asks")
}

/// Returns whether there is exactly one question, the one of this prompt, and it is closed.
fn is_question_closed(messages: &[Message], number: usize) -> bool {
    let mut questions = messages.iter().filter(|message| is_question(message));
    let (Some(question), None) = (questions.next(), questions.next()) else { return false };
    // A gateway that is killed before it can show the answer leaves that to the next one, which only
    // knows that the question is closed.
    let answered = format!("Answered by ann: {}", colour(number));
    question.content.contains(&format!("Question {number}?"))
        && [answered.as_str(), "No longer open"].iter().any(|note| question.content.contains(note))
}

/// Returns the text and the files of an answer, which a question splits into several messages.
fn content(messages: &[Message]) -> (String, Vec<(String, Vec<u8>)>) {
    let texts: Vec<&str> = messages
        .iter()
        .filter(|message| !is_question(message))
        .map(|message| message.content.as_str())
        .collect();
    let files = messages.iter().flat_map(|message| message.files.clone()).collect();
    (texts.join("\n"), files)
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}
