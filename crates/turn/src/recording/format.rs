//! The format of recordings (`docs/recordings.md`), and its parser.

use serde::{Deserialize, Serialize};

use aetheel_model::agent::{Action, Input};

/// The version of the format. A reader refuses higher versions.
pub const FORMAT: u32 = 1;

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
    /// The number of lines lost before this one because the disk was too slow.
    Lost(u64),
    /// The recording ends here although its link continues. Contains the reason.
    Cut(String),
}

/// Parses a recording.
///
/// # Errors
/// Names the line that cannot be parsed.
pub fn read(text: &str) -> Result<(Header, Vec<RecordingEntry>), String> {
    let (header, entries) = read_numbered(text)?;
    Ok((header, entries.into_iter().map(|(_, entry)| entry).collect()))
}

/// Like [`read`], with the line number of each entry, from 1.
pub(crate) fn read_numbered(text: &str) -> Result<(Header, Vec<(usize, RecordingEntry)>), String> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (_, first) = lines.next().ok_or("the recording is empty")?;
    let header: Header = serde_json::from_str(first)
        .map_err(|error| format!("line 1 is not a recording's header: {error}"))?;
    if header.aetheel_recording > FORMAT {
        return Err(format!(
            "the recording has format {}, this program reads up to {FORMAT}",
            header.aetheel_recording
        ));
    }
    let numbered = |(number, line)| match serde_json::from_str(line) {
        Ok(entry) => Ok((number + 1, entry)),
        Err(error) => Err(format!("line {}: {error}", number + 1)),
    };
    Ok((header, lines.map(numbered).collect::<Result<_, _>>()?))
}
