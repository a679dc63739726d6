//! The data that was read from `OpenClaw`, in terms of Aetheel. It is untrusted: texts are unchanged.

use aetheel_model::id::ChannelId;
use aetheel_model::prompt::Document;

use crate::secrets::SourceSecrets;

#[derive(Debug, Default)]
pub(crate) struct ImportedConfig {
    /// Version of `OpenClaw` that wrote the files, if they name it.
    pub version: Option<String>,
    pub texts: Vec<ImportedDocument>,
    pub jobs: Vec<ImportedJob>,
    /// Channels in which `OpenClaw` answered without being mentioned.
    pub channels: Vec<ChannelId>,
    /// Items that are not imported, each with the reason and the next step.
    pub skipped: Vec<String>,
    pub secrets: SourceSecrets,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImportedDocument {
    pub into: Document,
    /// The source file, relative to the workspace.
    pub from: String,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImportedJob {
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
pub(crate) enum JobSchedule {
    /// A cron expression that Aetheel supports.
    Cron(String),
    /// An interval, which may be limited to some hours of the day.
    Every { seconds: u64, active: Option<String> },
}

impl ImportedConfig {
    pub(crate) fn skip(&mut self, what: impl Into<String>) {
        self.skipped.push(what.into());
    }
}
