//! Converts a recorded turn to a transcript: the prompt, everything the agent did and wrote in
//! order, and how the turn ended.
//!
//! [`read`] reads a recording line by line and never keeps more of it than the limits of a
//! transcript allow. [`builder`] builds the transcript from the entries and is pure. No guest
//! is needed, because its actions were recorded. Missing parts of the recording are listed in the
//! transcript ([`Gap`]). `tests/gateway/dashboard/transcripts` also tests this module.

mod builder;
#[cfg(test)]
mod tests;

use std::io::Read as _;
use std::path::Path;

use jiff::Timestamp;
use tokio::sync::Semaphore;

use self::builder::TranscriptBuilder;
use crate::{Header, MAX_READ_BYTES, ReadError, RecordingEntry, RecordingLines, path_in};
use aetheel_model::agent::{
    AgentTask, Ask, AskDecision, FileDiff, PlanEntry, SessionReady, TextForm, ToolStatus,
    TurnOutcome, Usage,
};
use aetheel_model::plain::clean_text;
use aetheel_model::redact::Redactor;
use aetheel_runtime::ordinary::open_ordinary;

/// Maximum length of a line, in bytes. A line of a recording has at most one agent event of about 8
/// MiB.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Limits the number of recordings that are read at the same time.
static READ_SLOTS: Semaphore = Semaphore::const_new(2);

/// The reason why a turn cannot be read from a recording.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    /// The recording no longer exists.
    #[error("its recording is gone")]
    Gone,
    /// The path leads out of the folder of recordings, or has another extension than recordings
    /// have.
    #[error("its recording has an invalid name")]
    Misnamed,
    /// The file is not a recording, or has a later version of the format.
    #[error("its recording is damaged: {}", describe_damage(.0))]
    Damaged(#[from] ReadError),
    /// The recording does not contain the turn.
    #[error("its recording does not contain it")]
    Absent,
    /// The system's error.
    #[error("its recording cannot be read")]
    Io(#[from] std::io::Error),
}

fn describe_damage(error: &ReadError) -> String {
    match error {
        ReadError::Format(version) => {
            format!("it has format {version}, which this program does not support")
        }
        error => error.to_string(),
    }
}

/// Something that is missing in a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gap {
    /// The turn had more agent events than are recorded for one turn.
    Sparse,
    /// This number of lines was lost because the disk was too slow.
    Lost(u64),
    /// The recording was cut, for this reason.
    Cut(String),
    /// The backend had failed, so that it did not interpret the agent's later output.
    Unseen,
    /// This number of lines is damaged or too long.
    Unreadable(u64),
    /// The recording is longer than the part that is read.
    TooLong,
}

/// The transcript of a recorded turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnTranscript {
    /// The name of the backend.
    pub backend: String,
    /// The version of its component.
    pub backend_version: String,
    /// The version of the agent, if it was known.
    pub agent_version: Option<String>,
    /// When the turn began, or `None` if the recording has no valid start time.
    pub began: Option<Timestamp>,
    /// The parts of the prompt, without the system prompt: quoted messages, the person's text,
    /// texts of files.
    pub prompt: Vec<String>,
    /// The names of attached images and files.
    pub attached: Vec<String>,
    /// The requested model.
    pub model: Option<String>,
    /// The events of the turn, in order.
    pub blocks: Vec<Block>,
    /// The last reported usage.
    pub usage: Option<Usage>,
    /// The agent's session.
    pub session: Option<SessionReady>,
    /// The outcome that the guest reported, or `None` if it reported none.
    pub outcome: Option<TurnOutcome>,
    /// The ending as the host recorded it, with the reason after a colon, or `None` if the turn has
    /// not ended.
    pub ending: Option<String>,
    /// The duration of the turn in milliseconds, or `None` if it has not ended.
    pub took_ms: Option<u64>,
    /// The number of agent events that the backend did not understand.
    pub unknown: u32,
    /// The number of blocks that were left out because there were too many.
    pub blocks_left_out: u64,
    /// The gaps in the recording, each kind once.
    pub gaps: Vec<Gap>,
}

/// Something that happened in a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// When it began, in milliseconds since the beginning of the turn.
    pub at_ms: u64,
    /// The content.
    pub kind: BlockKind,
}

/// A text that may have been cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoundedText {
    /// The text.
    pub text: String,
    /// The number of bytes that were left out at its end.
    pub bytes_left_out: u64,
}

/// The content of a block.
#[derive(Clone, Debug, PartialEq)]
pub enum BlockKind {
    /// A part of the answer.
    Text(BoundedText),
    /// A part of the agent's thinking.
    Thinking(BoundedText),
    /// Text of a sub-agent, which is not part of the answer, with the id of the tool use that runs
    /// it.
    SubAgent(String, BoundedText),
    /// The agent used a tool.
    Tool(Box<ToolBlock>),
    /// The latest state of the agent's plan.
    Plan(Vec<PlanEntry>),
    /// The latest state of a sub-agent or a background task.
    Task(AgentTask),
    /// The agent asked people.
    Asked(Box<AskBlock>),
    /// People sent the agent a message.
    Steered(BoundedText),
    /// The turn was asked to stop.
    Stopped,
    /// A notice for people.
    Notice(String),
    /// The agent tries again, for this reason.
    Retry(String),
    /// An image, a file or a link in the answer.
    Artifact(ArtifactBlock),
}

impl BlockKind {
    fn words(&self) -> Option<&BoundedText> {
        match self {
            Self::Text(words) | Self::Thinking(words) | Self::SubAgent(_, words) => Some(words),
            _ => None,
        }
    }

    fn words_mut(&mut self) -> Option<&mut BoundedText> {
        match self {
            Self::Text(words) | Self::Thinking(words) | Self::SubAgent(_, words) => Some(words),
            _ => None,
        }
    }
}

/// A use of a tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolBlock {
    /// The unified kind of the tool, such as `file_edit`.
    pub kind: String,
    /// The agent's name of the tool.
    pub name: String,
    /// A title for people.
    pub title: String,
    /// The target of the tool, for example a path.
    pub target: Option<String>,
    /// The input as JSON text.
    pub input: BoundedText,
    /// The output.
    pub output: BoundedText,
    /// How the tool ended, or `None` if it did not end.
    pub status: Option<ToolStatus>,
    /// The exit code of a command.
    pub exit_code: Option<u32>,
    /// How long the tool ran, in milliseconds, or `None` if it did not end.
    pub took_ms: Option<u64>,
    /// The changes of files.
    pub diffs: Vec<FileDiff>,
}

/// A question to people.
#[derive(Clone, Debug, PartialEq)]
pub struct AskBlock {
    /// The question.
    pub ask: Ask,
    /// The decision, or `None` if there was no decision.
    pub decision: Option<AskDecision>,
    /// Whether the agent withdrew the question.
    pub withdrawn: bool,
    /// The decision of policies, in words for people.
    pub ruling: Option<String>,
}

/// An image, a file or a link in the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactBlock {
    /// The name, if it has one.
    pub name: Option<String>,
    /// The media type, for example `image/png`.
    pub media_type: String,
    /// The address, if it is a link.
    pub link: Option<String>,
}

/// Reads a turn from the recording at the path `recording` within `folder`.
///
/// The redactor's secrets are removed from the transcript, and so are characters that hide or
/// reorder text. Reads on the blocking pool, a few recordings at a time. Dropping the future does
/// not stop a read that has begun.
///
/// # Errors
/// [`TranscriptError`].
pub async fn read(
    folder: &Path,
    recording: &str,
    turn: &str,
    redactor: &Redactor,
) -> Result<TurnTranscript, TranscriptError> {
    let path = path_in(folder, recording).ok_or(TranscriptError::Misnamed)?;
    let (turn, redactor) = (turn.to_owned(), redactor.clone());
    let reading = READ_SLOTS.acquire().await.expect("the semaphore is never closed");
    let transcript = tokio::task::spawn_blocking(move || {
        let _reading = reading;
        let mut transcript = read_blocking(&path, &turn)?;
        transcript.for_each_text(&mut |text| {
            *text = redactor.redact(clean_text(text).into_owned());
        });
        Ok(transcript)
    });
    transcript.await.map_err(std::io::Error::other)?
}

/// Returns whether a recording exists. Blocks briefly.
#[must_use]
pub fn exists(folder: &Path, recording: &str) -> bool {
    path_in(folder, recording).is_some_and(|path| path.is_file())
}

fn read_blocking(path: &Path, turn: &str) -> Result<TurnTranscript, TranscriptError> {
    let file = open_ordinary(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => TranscriptError::Gone,
        _ => TranscriptError::Io(error),
    })?;
    let mut lines = RecordingLines::new(file.take(MAX_READ_BYTES), MAX_LINE_BYTES);
    let header = Header::parse(lines.next_line()?.map_or(&b""[..], |line| line.bytes))?;
    let mut builder = TranscriptBuilder::new(header, turn);
    while let Some(line) = lines.next_line()? {
        if line.is_too_long {
            builder.unreadable();
            continue;
        }
        let text = String::from_utf8_lossy(line.bytes);
        if !builder.is_relevant(&text) {
            continue;
        }
        match serde_json::from_str::<RecordingEntry>(&text) {
            Ok(entry) => builder.add_entry(entry, text.len()),
            Err(_) => builder.unreadable(),
        }
        if builder.is_over() {
            break;
        }
    }
    // The file may be longer than the part that was read.
    if lines.source().limit() == 0 {
        builder.mark_too_long();
    }
    builder.finish().ok_or(TranscriptError::Absent)
}

impl TurnTranscript {
    /// Returns the parts of the answer, separated by blank lines.
    #[must_use]
    pub fn answer(&self) -> String {
        Self::answer_in(&self.blocks)
    }

    fn answer_in(blocks: &[Block]) -> String {
        let texts = blocks.iter().filter_map(|block| match &block.kind {
            BlockKind::Text(words) => Some(words.text.trim_matches('\n')),
            _ => None,
        });
        texts.filter(|text| !text.trim().is_empty()).collect::<Vec<_>>().join("\n\n")
    }

    /// Calls `change` for every text of the transcript, so that redaction misses none.
    pub fn for_each_text(&mut self, change: &mut impl FnMut(&mut String)) {
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
        for gap in gaps {
            if let Gap::Cut(why) = gap {
                change(why);
            }
        }
        let each = &mut |_: TextForm, text: &mut String| change(text);
        usage.iter_mut().for_each(|usage| usage.for_each_text(each));
        session.iter_mut().for_each(|session| session.for_each_text(each));
        outcome.iter_mut().for_each(|outcome| outcome.for_each_text(each));
        blocks.iter_mut().for_each(|block| block.kind.for_each_text(each));
    }
}

impl BlockKind {
    fn for_each_text(&mut self, change: &mut impl FnMut(TextForm, &mut String)) {
        use TextForm::{Block, Data, Line};
        match self {
            Self::Text(words) | Self::Thinking(words) | Self::Steered(words) => {
                change(Block, &mut words.text);
            }
            Self::SubAgent(tool, words) => {
                change(Data, tool);
                change(Block, &mut words.text);
            }
            Self::Tool(tool) => {
                let ToolBlock { name, title, target, input, output, diffs, .. } = &mut **tool;
                let texts = [name, title, &mut input.text, &mut output.text].into_iter();
                texts.chain(target).for_each(|text| change(Block, text));
                diffs.iter_mut().for_each(|diff| diff.for_each_text(change));
            }
            Self::Plan(plan) => plan.iter_mut().for_each(|step| change(Line, &mut step.text)),
            Self::Task(task) => task.for_each_text(change),
            Self::Asked(asked) => {
                let AskBlock { ask, decision, ruling, .. } = &mut **asked;
                ask.for_each_text(change);
                decision.iter_mut().for_each(|decision| decision.for_each_text(change));
                ruling.iter_mut().for_each(|ruling| change(Line, ruling));
            }
            Self::Notice(text) | Self::Retry(text) => change(Line, text),
            Self::Artifact(ArtifactBlock { name, media_type, link }) => {
                let texts = [media_type].into_iter().chain(name).chain(link);
                texts.for_each(|text| change(Line, text));
            }
            Self::Stopped => {}
        }
    }
}
