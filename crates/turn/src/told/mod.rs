//! One turn as its recording tells it: what was asked, what the agent did and said, in order, and
//! how it ended.
//!
//! [`read`] reads a recording line by line ([`lines`]) and never holds more of it than a turn may
//! show; the fold of its entries is [`teller`], which is pure. The guest is not needed: what it
//! made of the agent's output was recorded. Where the recording says that something is missing, so
//! does the turn ([`Gap`]). Pinned by the tests of each file, and by
//! `tests/gateway/dashboard/transcripts`.

mod lines;
mod teller;
#[cfg(test)]
mod tests;

use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;
use tokio::sync::Semaphore;

use self::lines::Lines;
use self::teller::Teller;
use super::recording::{Entry, FORMAT, Header};
use aetheel_model::agent::{
    Ask, AskKind, Decision, FileDiff, Outcome, PlanEntry, SessionReady, Task, ToolStatus, Usage,
};
use aetheel_model::plain::clean_text;
use aetheel_model::redact::Redactor;
use aetheel_store::disk::open_ordinary;

/// Recordings that are read at the same time, over all who look.
static READING: Semaphore = Semaphore::const_new(2);

/// Why a turn cannot be told from a recording.
#[derive(Debug, thiserror::Error)]
pub enum Untold {
    /// There is no such recording any more.
    #[error("its recording is gone")]
    Gone,
    /// The path leads out of the folder of recordings, or is no recording's.
    #[error("its recording has a name that no recording has")]
    Misnamed,
    /// It is no recording, or of a later version.
    #[error("its recording is damaged: {0}")]
    Damaged(String),
    /// The recording says nothing of that turn.
    #[error("its recording does not tell of it")]
    Absent,
    /// The system's error.
    #[error("its recording cannot be read")]
    Io(#[from] std::io::Error),
}

/// Something that is missing in a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gap {
    /// The turn had more agent-events than are written down of one.
    Sparse,
    /// So many lines were lost because the disk was too slow.
    Lost(u64),
    /// The recording was cut, and why.
    Cut(String),
    /// The backend had failed: what the agent said after that nobody understood.
    Unseen,
    /// So many lines are damaged, or longer than is read.
    Unreadable(u64),
    /// So much of the recording was read, and it goes on.
    Endless,
}

/// A turn as its recording tells it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// Name of the backend.
    pub backend: String,
    /// Version of its component.
    pub backend_version: String,
    /// Version of the agent, where it told one.
    pub agent_version: Option<String>,
    /// When the turn began; none: the recording does not say.
    pub began: Option<Timestamp>,
    /// What the agent was asked, piece by piece: what was quoted, the person's words, texts of
    /// files. Without the system prompt.
    pub prompt: Vec<String>,
    /// Names of images and files that came with it.
    pub attached: Vec<String>,
    /// The model that was asked for.
    pub model: Option<String>,
    /// What happened, in order.
    pub blocks: Vec<Block>,
    /// The last usage told.
    pub usage: Option<Usage>,
    /// The agent's session.
    pub session: Option<SessionReady>,
    /// How the turn ended in the agent's words; none: it did not say.
    pub outcome: Option<Outcome>,
    /// How it ended in the host's words, with the reason after a colon; none: it has not ended.
    pub ending: Option<String>,
    /// How long it took, milliseconds; none: it has not ended.
    pub took_ms: Option<u64>,
    /// Agent-events that no backend of that version understood.
    pub unknown: u32,
    /// Blocks that were left out, because there were too many.
    pub blocks_left_out: u64,
    /// What is missing in the recording, each once.
    pub gaps: Vec<Gap>,
}

/// Something that happened in a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// When it began, milliseconds since the turn did.
    pub at_ms: u64,
    /// What it is.
    pub what: Happened,
}

/// A text that may have been cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// The text.
    pub text: String,
    /// Bytes that were left out at its end.
    pub left_out: u64,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Happened {
    /// A piece of the answer.
    Text(Words),
    /// A piece of thinking.
    Thinking(Words),
    /// Words of a sub-agent, which are no part of the answer; the tool use that it is.
    Aside(String, Words),
    /// The agent used a tool.
    Tool(Box<Tool>),
    /// The agent's plan, as it stood last.
    Plan(Vec<PlanEntry>),
    /// A sub-agent or something in the background, as it stood last.
    Task(Task),
    /// The agent asked people.
    Asked(Box<Asked>),
    /// People told the agent something.
    Steered(Words),
    /// The turn was asked to stop.
    Stopped,
    /// A notice for people.
    Notice(String),
    /// The agent tries again; why.
    Retry(String),
    /// An image, a file or an address of the answer.
    Made(Made),
}

/// A use of a tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tool {
    /// The agent's name of it.
    pub name: String,
    /// A title for people.
    pub title: String,
    /// What it works on.
    pub target: Option<String>,
    /// Its input, JSON text.
    pub input: Words,
    /// Its output.
    pub output: Words,
    /// How it ended; none: it did not.
    pub status: Option<ToolStatus>,
    /// The exit code of a command.
    pub exit_code: Option<u32>,
    /// How long it ran, milliseconds; none: it did not end.
    pub took_ms: Option<u64>,
    /// The files it changed.
    pub diffs: Vec<FileDiff>,
}

/// A question to people.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The question.
    pub ask: Ask,
    /// What was decided; none: nothing was.
    pub decision: Option<Decision>,
    /// The agent no longer wanted to know.
    pub withdrawn: bool,
}

/// An image, a file or an address of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its name, where it has one.
    pub name: Option<String>,
    /// For example `image/png`.
    pub media_type: String,
    /// Where it is, if it is an address.
    pub link: Option<String>,
}

/// Tells a turn from a recording, `recording` being its path below `folder`. What it tells has no
/// secrets that the redactor knows, and nothing in it hides or reorders what is read. Reads off the
/// async workers, a few recordings at a time; dropping the future does not end a reading that began.
///
/// # Errors
/// [`Untold`].
pub async fn read(
    folder: &Path,
    recording: &str,
    turn: &str,
    redactor: &Redactor,
) -> Result<Told, Untold> {
    let path = path_of(folder, recording).ok_or(Untold::Misnamed)?;
    let (turn, redactor) = (turn.to_owned(), redactor.clone());
    let reading = READING.acquire().await.expect("it is never closed");
    let told = tokio::task::spawn_blocking(move || {
        let _reading = reading;
        let mut told = tell(&path, &turn)?;
        told.each_text(&mut |text| {
            *text = redactor.clean(clean_text(text).into_owned());
        });
        Ok(told)
    });
    told.await.map_err(std::io::Error::other)?
}

/// Whether there is such a recording. Blocks for a moment.
#[must_use]
pub fn is_there(folder: &Path, recording: &str) -> bool {
    path_of(folder, recording).is_some_and(|path| path.is_file())
}

/// The path of a recording, if its name is one.
fn path_of(folder: &Path, recording: &str) -> Option<PathBuf> {
    let name = Path::new(recording);
    let plain = name.components().all(|part| matches!(part, Component::Normal(_)));
    let named = name.extension().is_some_and(|extension| extension == "jsonl");
    if !plain || !named || recording.contains('\0') {
        return None;
    }
    let path = folder.join(name);
    // A link must not lead elsewhere either. What is not there leads nowhere.
    match (path.canonicalize(), folder.canonicalize()) {
        (Ok(real), Ok(folder)) if !real.starts_with(&folder) => None,
        _ => Some(path),
    }
}

fn tell(path: &Path, turn: &str) -> Result<Told, Untold> {
    let file = open_ordinary(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Untold::Gone,
        _ => Untold::Io(error),
    })?;
    let mut lines = Lines::of(file);
    let first = lines.line()?.flatten().unwrap_or_default();
    let header: Header = serde_json::from_str(&first)
        .map_err(|error| Untold::Damaged(format!("line 1 is no recording's header: {error}")))?;
    if header.aetheel_recording > FORMAT {
        let version = header.aetheel_recording;
        return Err(Untold::Damaged(format!("it has format {version}, which is a later one")));
    }
    let mut teller = Teller::new(header, turn);
    while let Some(line) = lines.line()? {
        let Some(line) = line else {
            teller.unreadable();
            continue;
        };
        if line.trim().is_empty() || !teller.wants(&line) {
            continue;
        }
        match serde_json::from_str::<Entry>(&line) {
            Ok(entry) => teller.take(entry, line.len()),
            Err(_) => teller.unreadable(),
        }
        if teller.is_over() {
            break;
        }
    }
    if lines.is_cut() {
        teller.endless();
    }
    teller.told().ok_or(Untold::Absent)
}

impl Told {
    /// The answer: its pieces, a blank line between them.
    #[must_use]
    pub fn answer(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match &block.what {
            Happened::Text(words) => Some(words.text.trim_matches('\n')),
            _ => None,
        });
        texts.filter(|text| !text.trim().is_empty()).collect::<Vec<_>>().join("\n\n")
    }

    /// Hands on every text of the turn, so that it can be changed: whoever blanks something out
    /// misses none.
    pub fn each_text(&mut self, change: &mut impl FnMut(&mut String)) {
        let Self {
            backend,
            backend_version,
            agent_version,
            began: _,
            prompt,
            attached,
            model,
            blocks,
            usage,
            session,
            outcome,
            ending,
            took_ms: _,
            unknown: _,
            blocks_left_out: _,
            gaps,
        } = self;
        [backend, backend_version].into_iter().for_each(&mut *change);
        agent_version.iter_mut().chain(model).chain(ending).for_each(&mut *change);
        prompt.iter_mut().chain(attached).for_each(&mut *change);
        if let Some(usage) = usage {
            usage.models.iter_mut().for_each(|model| change(&mut model.model));
        }
        if let Some(SessionReady { session: _, native_id, model, title }) = session {
            change(native_id);
            model.iter_mut().chain(title).for_each(&mut *change);
        }
        match outcome {
            Some(Outcome::Failed(failure) | Outcome::Lost(failure)) => change(&mut failure.message),
            Some(Outcome::Limit(limit)) => change(limit),
            Some(Outcome::Completed | Outcome::Interrupted) | None => {}
        }
        for gap in gaps {
            if let Gap::Cut(why) = gap {
                change(why);
            }
        }
        blocks.iter_mut().for_each(|block| block.what.each_text(change));
    }
}

impl Happened {
    fn each_text(&mut self, change: &mut impl FnMut(&mut String)) {
        match self {
            Self::Text(words) | Self::Thinking(words) | Self::Steered(words) => {
                change(&mut words.text)
            }
            Self::Aside(tool, words) => [tool, &mut words.text].into_iter().for_each(change),
            Self::Tool(tool) => {
                let Tool { name, title, target, input, output, diffs, .. } = &mut **tool;
                [name, title, &mut input.text, &mut output.text]
                    .into_iter()
                    .chain(target)
                    .for_each(&mut *change);
                each_text_of_diffs(diffs, change);
            }
            Self::Plan(plan) => plan.iter_mut().for_each(|step| change(&mut step.text)),
            Self::Task(Task { id, title, tool, summary, .. }) => {
                [id, title].into_iter().chain(tool).chain(summary).for_each(change)
            }
            Self::Asked(asked) => asked.each_text(change),
            Self::Notice(text) | Self::Retry(text) => change(text),
            Self::Made(Made { name, media_type, link }) => {
                [media_type].into_iter().chain(name).chain(link).for_each(change)
            }
            Self::Stopped => {}
        }
    }
}

fn each_text_of_diffs(diffs: &mut [FileDiff], change: &mut impl FnMut(&mut String)) {
    for FileDiff { path, old_path, old_text, new_text, unified, .. } in diffs {
        let texts = [path].into_iter().chain(old_path).chain(old_text).chain(new_text);
        texts.chain(unified).for_each(&mut *change);
    }
}

impl Asked {
    fn each_text(&mut self, change: &mut impl FnMut(&mut String)) {
        let Ask { title, kind, always_label, options, diffs, .. } = &mut self.ask;
        [title].into_iter().chain(always_label).for_each(&mut *change);
        options.iter_mut().for_each(|option| change(&mut option.label));
        each_text_of_diffs(diffs, change);
        match kind {
            AskKind::Permission(tool) => {
                let texts = [&mut tool.id, &mut tool.kind, &mut tool.native_name, &mut tool.title];
                let texts = texts.into_iter().chain([&mut tool.input]).chain(&mut tool.parent);
                texts.chain(&mut tool.target).for_each(&mut *change);
            }
            AskKind::PlanApproval(text) | AskKind::SignIn(text) => change(text),
            AskKind::Questions(questions) => {
                for question in questions {
                    let texts = [&mut question.text].into_iter().chain(&mut question.description);
                    texts.chain(&mut question.preset).for_each(&mut *change);
                    for option in &mut question.options {
                        let texts = [&mut option.label].into_iter();
                        texts.chain(&mut option.description).for_each(&mut *change);
                    }
                }
            }
        }
        match &mut self.decision {
            Some(Decision::AllowChanged(text) | Decision::Chosen(text)) => change(text),
            Some(Decision::Deny(words)) => words.iter_mut().for_each(change),
            Some(Decision::Answers(answers)) => {
                answers.iter_mut().flat_map(|(_, values)| values).for_each(change)
            }
            Some(
                Decision::AllowOnce
                | Decision::AllowAlways
                | Decision::DenyAndStop
                | Decision::Declined
                | Decision::Dismissed,
            )
            | None => {}
        }
    }
}
