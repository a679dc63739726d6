//! The format of recordings (`docs/recordings.md`), and reading it.

use serde::{Deserialize, Serialize};

use aetheel_model::agent::{Action, Input};

/// Version of the format; a reader refuses a higher one.
pub const FORMAT: u32 = 1;

/// The first line of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Header {
    /// Version of the format: [`FORMAT`].
    pub aetheel_recording: u32,
    /// Id of the link: the correlation id of its first turn.
    pub link: String,
    /// Name of the backend.
    pub backend: String,
    /// Version in the backend's descriptor.
    pub backend_version: String,
    /// Which load of it, and the component's SHA-256.
    pub generation: u32,
    /// SHA-256 of the component.
    pub digest: String,
    /// The output of the agent's version probe.
    pub agent_version: Option<String>,
    /// When the link was opened, RFC 3339.
    pub started: String,
}

/// Any further line. `t` is milliseconds since the link was opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Milliseconds since the link was opened.
    pub t: f64,
    /// The event itself.
    #[serde(flatten)]
    pub what: What,
}

/// The subject of a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// An input, as the guest got it.
    In(Input),
    /// An action, as the guest gave it.
    Out(Action),
    /// The command that the host made of a `spawn`: program and arguments, names of the environment's
    /// variables.
    Launch {
        /// With the wrapper, if any.
        command: Vec<String>,
        /// Names of its variables; values may be secrets.
        environment: Vec<String>,
        /// Working directory.
        cwd: String,
    },
    /// An act of the host by itself, for example stopping the agent.
    Host(String),
    /// A turn begins on the link.
    Turn {
        /// Its correlation id.
        turn: String,
        /// The event's sequence number.
        event: u64,
        /// The event's lane.
        lane: String,
        /// The guest's key of its session.
        session: u32,
        /// The guest's key of it.
        key: u32,
    },
    /// How a turn ended.
    Ending {
        /// Its correlation id.
        turn: String,
        /// In the host's words.
        how: String,
    },
    /// The link went over to another generation: what follows is for a guest that was loaded with
    /// `state`.
    Moved {
        /// Which load of the backend.
        generation: u32,
        /// SHA-256 of its component.
        digest: String,
        /// Version of the descriptor that saved the state.
        saved_by: String,
        /// The state that `save` returned.
        state: String,
    },
    /// Lines lost before this one because the disk was too slow.
    Lost(u64),
    /// The recording ends here, although its link goes on; why.
    Cut(String),
}

/// Reads a recording.
///
/// # Errors
/// Names the line that is not a recording's.
pub fn read(text: &str) -> Result<(Header, Vec<Entry>), String> {
    let (header, entries) = read_numbered(text)?;
    Ok((header, entries.into_iter().map(|(_, entry)| entry).collect()))
}

/// [`read`], with the line each entry stands in, from 1.
pub(crate) fn read_numbered(text: &str) -> Result<(Header, Vec<(usize, Entry)>), String> {
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
