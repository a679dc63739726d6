//! The data that was read from another app, in terms of this program. It is untrusted: texts are
//! unchanged.

use super::secrets::SourceSecrets;
use crate::id::ChannelId;
use crate::prompt::Document;

#[derive(Debug, Default)]
pub(super) struct ImportedConfig {
    /// Name of the app.
    pub app_name: &'static str,
    /// Version of the app that wrote the files, if they name it.
    pub version: Option<String>,
    pub texts: Vec<ImportedDocument>,
    pub jobs: Vec<ImportedJob>,
    pub channels: Vec<ImportedChannel>,
    pub projects: Vec<ImportedProject>,
    /// Items that are not imported, each with the reason and the next step.
    pub skipped: Vec<String>,
    pub secrets: SourceSecrets,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImportedDocument {
    pub into: Document,
    /// The source file, relative to the app's folder.
    pub from: String,
    pub text: String,
}

/// A job that runs repeatedly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImportedJob {
    pub name: String,
    pub when: JobSchedule,
    pub instruction: String,
    /// Channel for the answers, or `None` for the operator's output channel.
    pub channel: Option<ChannelId>,
    /// IANA name of the time zone, or `None` for the operator's.
    pub zone: Option<String>,
}

/// When a job runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JobSchedule {
    /// A cron expression that this program supports.
    Cron(String),
    /// An interval, which may be limited to some hours of the day.
    Every { seconds: u64, active: Option<String> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImportedChannel {
    pub id: ChannelId,
    pub name: Option<String>,
    pub directory: Option<String>,
    /// Whether the app answered in this channel without being mentioned.
    pub needs_no_mention: bool,
}

impl ImportedChannel {
    /// Returns a channel in which the app answered without being mentioned.
    pub(super) fn without_mention(id: ChannelId) -> Self {
        Self { id, name: None, directory: None, needs_no_mention: true }
    }
}

/// A directory with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImportedProject {
    pub name: String,
    pub directory: String,
}

impl ImportedConfig {
    pub(super) fn of(app_name: &'static str) -> Self {
        Self { app_name, ..Self::default() }
    }

    pub(super) fn skip(&mut self, what: impl Into<String>) {
        self.skipped.push(what.into());
    }
}
