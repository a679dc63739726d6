//! What is kept of a link beside its recording, by whoever holds its processes: what no recording may
//! have in it, and where the rest is.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::processes::Endpoint;
use aetheel_model::agent::ProcKey;

/// See the module. JSON; fields may be added, and are then optional.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Keepsake {
    /// Where the recording is.
    pub(crate) recording: PathBuf,
    /// Where processes work that belong to no session.
    pub(crate) cwd: PathBuf,
    /// The private folder of files and of the agent's temporary ones.
    pub(crate) folder: Option<PathBuf>,
    /// The link's secrets by name.
    pub(super) secrets: HashMap<String, String>,
    /// Where processes listen.
    pub(super) endpoints: BTreeMap<ProcKey, Endpoint>,
}

impl Keepsake {
    /// Reads one.
    ///
    /// # Errors
    /// It is of a version that kept something else.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}
