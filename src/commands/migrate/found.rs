//! What was found with a neighbour, in our words. Nothing here is trusted: texts are as they stood.

use super::secrets::Secrets;
use crate::prompt::Document;

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// What people call the neighbour.
    pub called: &'static str,
    /// The version that wrote the files, as it says itself.
    pub version: Option<String>,
    pub texts: Vec<Text>,
    pub jobs: Vec<Job>,
    pub channels: Vec<Channel>,
    pub projects: Vec<Project>,
    /// What is not taken over, each with why and what to do.
    pub left_out: Vec<String>,
    pub secrets: Secrets,
}

/// A document for a person's or an agent's eyes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub into: Document,
    /// The file it stood in, relative to the neighbour's folder.
    pub from: String,
    pub text: String,
}

/// Something to be done again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub name: String,
    pub when: When,
    pub instruction: String,
    /// Where answers go; none: the operator's output channel.
    pub channel: Option<u64>,
    /// IANA name; none: the operator's.
    pub zone: Option<String>,
}

/// When a job runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// An expression that we read.
    Cron(String),
    /// Every so many seconds, perhaps in a part of the day only.
    Every { seconds: u64, active: Option<String> },
}

/// A Discord channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Channel {
    pub id: u64,
    pub name: Option<String>,
    pub directory: Option<String>,
    /// It answered there without being mentioned.
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
