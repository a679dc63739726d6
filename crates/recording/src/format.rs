//! The format of recordings (`docs/recordings.md`), and its parser.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::checkpoint::Checkpoint;
use aetheel_model::agent::{
    Action, Artifact, HostCommand, Input, StartTurn, TimedInput, ToolRequest, ToolResult, TurnKey,
};
use aetheel_model::plain::shortened;
use aetheel_model::policy::PolicyRuling;

/// The version of the format. A reader refuses higher versions.
pub const FORMAT: u32 = 1;

/// Maximum size of a recording that is read for people, in bytes.
pub const MAX_READ_BYTES: u64 = 256 << 20;
/// Marks a recording in which a secret was removed from an input: a guest that replays it does not
/// get the input of the first guest.
pub const MASKED: &str = "a secret was blanked out in an input above";
/// Marks the point in a recording after which no guest received the inputs.
pub const UNSEEN: &str = "no guest sees what follows: the agent is heard to its end";
/// Marks the point at which a turn had 8 MiB of agent events.
pub const SPARSE: &str =
    "events are not written down any more: 8 MiB of them were; the inputs give them again";

/// The first line of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Header {
    /// The version of the format ([`FORMAT`]).
    pub aetheel_recording: u32,
    /// The id of the link, which is the correlation id of its first turn.
    pub link: String,
    /// The name of the backend.
    pub backend: String,
    /// The version in the backend's descriptor.
    pub backend_version: String,
    /// The number of the backend's generation.
    pub generation: u32,
    /// The SHA-256 of the component.
    pub digest: String,
    /// The output of the agent's version probe.
    pub agent_version: Option<String>,
    /// When the link was opened, in RFC 3339 format.
    pub started: String,
}

/// Any further line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordingEntry {
    /// Milliseconds since the link was opened.
    pub t: f64,
    /// The content of the line.
    #[serde(flatten)]
    pub kind: EntryKind,
}

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntryKind {
    /// An input of the guest.
    In(Input),
    /// An action of the guest.
    Out(Action),
    /// The command that the host made of a `spawn` action: program and arguments, and the names of
    /// the environment variables.
    Launch {
        /// The command, including the wrapper if there is one.
        command: Vec<String>,
        /// The names of its variables. Values may be secrets.
        environment: Vec<String>,
        /// The working directory.
        cwd: String,
    },
    /// A note about what the host did by itself, for example stopping the agent.
    Host(String),
    /// The host attached a file to the answer of a turn, because the agent called a tool.
    Attached {
        /// The guest's key of the call.
        call: u32,
        /// The guest's key of the turn.
        turn: u32,
        /// The file.
        artifact: Artifact,
    },
    /// An agent called a tool of the host through the MCP server, without its guest.
    Called(ToolRequest),
    /// The result of such a call.
    Returned(ToolResult),
    /// The policies decided about a question of the agent. An answer follows if people are not
    /// asked.
    Ruled(PolicyRuling),
    /// A turn begins on the link.
    Turn {
        /// Its correlation id.
        turn: String,
        /// The event's sequence number.
        event: u64,
        /// The event's lane.
        lane: String,
        /// The guest's key of the session.
        session: u32,
        /// The guest's key of the turn.
        key: u32,
    },
    /// A turn ended.
    Ending {
        /// Its correlation id.
        turn: String,
        /// The ending, as the host describes it.
        how: String,
    },
    /// The link moved to another generation. The lines after this one are for a guest that was
    /// loaded with `state`.
    Moved {
        /// The number of the generation.
        generation: u32,
        /// The SHA-256 of its component.
        digest: String,
        /// The descriptor version of the guest that saved the state.
        saved_by: String,
        /// The state that `save` returned.
        state: String,
    },
    /// The state of the link between two turns. After a crash, a guest can continue from here.
    Checkpoint(Box<Checkpoint>),
    /// The number of lines lost before this one because the disk was too slow.
    Lost(u64),
    /// The recording ends here although its link continues. Contains the reason.
    Cut(String),
}

impl RecordingEntry {
    /// Returns the input, if the entry is one.
    #[must_use]
    pub fn input(&self) -> Option<&Input> {
        if let EntryKind::In(input) = &self.kind { Some(input) } else { None }
    }

    /// Returns the action, if the entry is one.
    #[must_use]
    pub fn action(&self) -> Option<&Action> {
        if let EntryKind::Out(action) = &self.kind { Some(action) } else { None }
    }

    /// Returns the agent's output, if the entry is a line, a response or an event of a stream.
    #[must_use]
    pub fn output(&self) -> Option<&str> {
        match self.input()? {
            Input::Line(line) => Some(&line.text),
            Input::HttpResponse(response) => Some(&response.body),
            Input::StreamEvent(event) => Some(&event.data),
            _ => None,
        }
    }

    /// Returns whether the entry is a note of the host with this text.
    #[must_use]
    pub fn is_note(&self, text: &str) -> bool {
        matches!(&self.kind, EntryKind::Host(note) if note == text)
    }

    /// Returns whether the entry is the end of the turn with a correlation id.
    #[must_use]
    pub fn is_end_of(&self, turn: &str) -> bool {
        matches!(&self.kind, EntryKind::Ending { turn: id, .. } if id == turn)
    }

    /// Returns the command that starts a turn, if the entry is one.
    #[must_use]
    pub fn turn_start(&self) -> Option<&StartTurn> {
        match self.input()? {
            Input::Command(HostCommand::StartTurn(start)) => Some(start),
            _ => None,
        }
    }
}

/// Returns the correlation ids of the turns whose end is not recorded.
pub fn open_turns(entries: &[RecordingEntry]) -> impl Iterator<Item = &str> {
    let ended = entries.iter().filter_map(|entry| match &entry.kind {
        EntryKind::Ending { turn, .. } => Some(turn.as_str()),
        _ => None,
    });
    let ended: BTreeSet<&str> = ended.collect();
    entries.iter().filter_map(move |entry| match &entry.kind {
        EntryKind::Turn { turn, .. } => Some(turn.as_str()).filter(|turn| !ended.contains(turn)),
        _ => None,
    })
}

/// A parsed recording.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedRecording {
    /// The first line, which identifies the link.
    pub header: Header,
    /// The entries after the header.
    pub entries: Vec<RecordingEntry>,
    /// The line number of each entry, from 1.
    pub lines: Vec<usize>,
}

/// The reason why a recording cannot be parsed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The recording has no lines.
    #[error("the recording is empty")]
    Empty,
    /// The first line cannot be parsed.
    #[error("line 1 is not a recording's header: {0}")]
    Header(serde_json::Error),
    /// The recording has this format, which is newer than this program.
    #[error("the recording has format {0}, this program reads up to {FORMAT}")]
    Format(u32),
    /// A later line cannot be parsed.
    #[error("line {line}: {error}")]
    Entry {
        /// The number of the line, from 1.
        line: usize,
        /// The parser's error.
        error: serde_json::Error,
    },
}

/// Returns the JSON of an input, short enough for a line of text.
#[must_use]
pub fn brief(input: &Input) -> String {
    shortened(&serde_json::to_string(input).unwrap_or_default(), 200)
}

impl Header {
    /// Parses the first line of a recording.
    ///
    /// # Errors
    /// [`ReadError::Header`] or [`ReadError::Format`].
    pub fn parse(line: &[u8]) -> Result<Self, ReadError> {
        let header: Self = serde_json::from_slice(line).map_err(ReadError::Header)?;
        match header.aetheel_recording {
            0..=FORMAT => Ok(header),
            newer => Err(ReadError::Format(newer)),
        }
    }
}

impl ParsedRecording {
    /// Parses a recording.
    ///
    /// # Errors
    /// [`ReadError`], at the first line that cannot be parsed.
    pub fn read(text: &str) -> Result<Self, ReadError> {
        let mut all = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let (_, first) = all.next().ok_or(ReadError::Empty)?;
        let header = Header::parse(first.as_bytes())?;
        let (mut entries, mut lines) = (Vec::new(), Vec::new());
        for (line, text) in all.map(|(index, text)| (index + 1, text)) {
            let entry = serde_json::from_str(text);
            entries.push(entry.map_err(|error| ReadError::Entry { line, error })?);
            lines.push(line);
        }
        Ok(Self { header, entries, lines })
    }

    /// Parses a recording that may still be written, without its last line if that is incomplete.
    ///
    /// # Errors
    /// [`ReadError`], at the first line that cannot be parsed.
    pub fn read_unfinished(bytes: &[u8]) -> Result<Self, ReadError> {
        let text = String::from_utf8_lossy(bytes);
        Self::read(text.rfind('\n').map_or("", |end| &text[..=end]))
    }

    /// Returns why the recording was cut before its link ended, if it was.
    #[must_use]
    pub fn cut(&self) -> Option<&str> {
        self.entries.iter().find_map(|entry| {
            if let EntryKind::Cut(why) = &entry.kind { Some(why.as_str()) } else { None }
        })
    }

    /// Returns the inputs with their line numbers, up to the point where the link moved to another
    /// guest. Later inputs contain that guest's keys.
    pub fn inputs_of_first_guest(&self) -> impl Iterator<Item = (usize, TimedInput)> {
        let moves = |entry: &RecordingEntry| matches!(entry.kind, EntryKind::Moved { .. });
        let entries = self.entries.iter().take_while(move |entry| !moves(entry));
        entries.zip(&self.lines).filter_map(|(entry, line)| {
            Some((*line, TimedInput { at_ms: entry.t, input: entry.input()?.clone() }))
        })
    }

    /// Returns the guest's key of the turn with a correlation id, and when the turn began in
    /// milliseconds since the link was opened.
    #[must_use]
    pub fn beginning_of(&self, id: &str) -> Option<(TurnKey, f64)> {
        self.entries.iter().find_map(|entry| match &entry.kind {
            EntryKind::Turn { turn, key, .. } if turn == id => Some((*key, entry.t)),
            _ => None,
        })
    }
}
