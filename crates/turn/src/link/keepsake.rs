//! The data that is stored for a link in addition to its recording: secrets, which a recording must
//! not contain, and the paths and ports of the link. The holder (the process that keeps agents
//! alive while the gateway restarts) stores it.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::processes::Endpoint;
use crate::Survivor;
use aetheel_model::agent::ProcKey;
use aetheel_recording::RecordingTail;

/// The stored data, as JSON. New fields must be optional.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Keepsake {
    /// The path of the recording.
    pub(crate) recording: PathBuf,
    /// The working directory of processes that do not belong to a session.
    pub(crate) cwd: PathBuf,
    /// The private folder with the link's files and the agent's temporary files.
    pub(crate) folder: Option<PathBuf>,
    /// The link's secrets by name.
    pub(super) secrets: HashMap<String, String>,
    /// The link's secret in the address of the MCP server.
    #[serde(default)]
    pub(super) tool_secret: Option<String>,
    /// The ports on which processes listen.
    pub(super) endpoints: BTreeMap<ProcKey, Endpoint>,
}

/// A link that outlived the gateway.
pub(crate) struct FormerLink<'a> {
    /// The part of its recording from which it is rebuilt.
    pub(crate) tail: &'a RecordingTail,
    /// Its processes.
    pub(crate) survivor: &'a Survivor,
    pub(crate) keepsake: Keepsake,
}

impl Keepsake {
    /// Parses a keepsake.
    ///
    /// # Errors
    /// Returns an error if a version with other fields wrote it.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}
