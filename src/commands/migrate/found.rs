//! The data that was read from another app, in terms of this program. It is untrusted: texts are
//! unchanged.

use super::secrets::Secrets;
use crate::prompt::Document;

#[derive(Debug, Default)]
pub(super) struct Found {
    /// Name of the app.
    pub called: &'static str,
    /// Version of the app that wrote the files, if they name it.
    pub version: Option<String>,
    pub texts: Vec<Text>,
    pub jobs: Vec<Job>,
    pub channels: Vec<Channel>,
    pub projects: Vec<Project>,
    /// Items that are not imported, each with the reason and the next step.
    pub left_out: Vec<String>,
    pub secrets: Secrets,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub into: Document,
    /// The source file, relative to the app's folder.
    pub from: String,
    pub text: String,
}

/// A job that runs repeatedly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub name: String,
    pub when: When,
    pub instruction: String,
    /// Channel for the answers, or `None` for the operator's output channel.
    pub channel: Option<u64>,
    /// IANA name of the time zone, or `None` for the operator's.
    pub zone: Option<String>,
}

/// When a job runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// A cron expression that this program supports.
    Cron(String),
    /// An interval, which may be limited to some hours of the day.
    Every { seconds: u64, active: Option<String> },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Channel {
    pub id: u64,
    pub name: Option<String>,
    pub directory: Option<String>,
    /// Whether the app answered in this channel without being mentioned.
    pub needs_no_mention: bool,
}

/// A directory with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Project {
    pub name: String,
    pub directory: String,
}

impl Found {
    pub(super) fn of(called: &'static str) -> Self {
        Self { called, ..Self::default() }
    }

    pub(super) fn leave(&mut self, what: impl Into<String>) {
        self.left_out.push(what.into());
    }
}
