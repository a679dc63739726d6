//! The reason why an import, or a part of it, is not possible.

use std::io;
use std::path::PathBuf;

use serde_json::Value;

use super::formats::Invalid;

/// The reason why nothing can be imported.
#[derive(Debug, thiserror::Error)]
pub(super) enum MigrateError {
    #[error("there is no home folder (HOME); name the folder with --from")]
    NoHome,
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The folder belongs to another app. `files` says which files are missing.
    #[error("{}: there is {files}; name its folder with --from", folder.display())]
    OtherApp { folder: PathBuf, files: &'static str },
    #[error(
        "{database} is a database, which is not read directly; run this, then repeat the command (these tables contain no tokens):\n  {export}"
    )]
    Database { database: &'static str, export: String },
    #[error("{file}: {error}")]
    Syntax {
        file: &'static str,
        #[source]
        error: Invalid,
    },
    /// The parser's message, which does not quote the file.
    #[error("config.toml: {0}")]
    Toml(String),
    /// The file can be parsed, but has other fields.
    #[error("{file} has an unknown format: {reason}")]
    UnknownFormat { file: &'static str, reason: String },
    #[error("{file}: {missing}")]
    NoJobs { file: &'static str, missing: &'static str },
    #[error("config.yaml: timezone: {0}")]
    TimeZone(#[source] ScheduleError),
    #[error(
        "openclaw.json has version {0:?}: only versions of 2026 are supported; run `openclaw doctor --fix` of such a version first"
    )]
    AppVersion(String),
    #[error("{file} has version {version}: only version 1 is supported")]
    StoreVersion { file: &'static str, version: Value },
    #[error("{table}.json is not what `sqlite3 -json` prints for the table `{table}`: {error}")]
    Table {
        table: &'static str,
        #[source]
        error: serde_json::Error,
    },
    /// A file of the operator cannot be read.
    #[error("cannot read {}: {error}", file.display())]
    Read {
        file: PathBuf,
        #[source]
        error: io::Error,
    },
    /// A file of the operator cannot be written.
    #[error("cannot write {}: {error}", file.display())]
    Write {
        file: PathBuf,
        #[source]
        error: io::Error,
    },
    /// A file of the operator differs from the one that the plan is based on.
    #[error("{0} was changed in the meantime; run this again")]
    Changed(&'static str),
}

/// The reason why a file or folder of the other app cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceError {
    #[error("cannot open the folder {}: {error}", path.display())]
    Folder {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    /// `name` is the path below the app's folder.
    #[error("{name} is not read: {error}")]
    Read {
        name: String,
        #[source]
        error: io::Error,
    },
}

/// The reason why a schedule is not supported.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ScheduleError {
    #[error("`{0}`: weekdays together with seconds are not supported")]
    WeekdayWithSeconds(String),
    #[error("`{0}`: expressions with six fields are not supported")]
    SixFields(String),
    #[error("`{text}`: {reason}")]
    Cron { text: String, reason: String },
    /// The number of seconds.
    #[error(
        "an interval of {0} seconds: only {least} seconds to a year are supported",
        least = crate::schedule::MINIMUM
    )]
    Interval(u64),
    #[error("{0:?} is not a time zone of the IANA database")]
    Zone(String),
    #[error("{0:?} is not a supported duration")]
    Duration(String),
}

/// The reason why a job is not imported.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnsupportedJob {
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// The job does not have the expected fields.
    #[error(transparent)]
    Format(#[from] serde_json::Error),
    #[error("it is switched off")]
    SwitchedOff,
    #[error("it is paused")]
    Paused,
    #[error("it runs once; such jobs are not supported")]
    RunsOnce,
    #[error("it ends after a number of runs; such jobs are not supported")]
    LimitedRuns,
    #[error("its kind of schedule is unknown")]
    UnknownSchedule,
    #[error("it does not run an agent")]
    NoAgent,
    #[error("it runs a command without an agent")]
    OnlyCommand,
    #[error("it runs a script without an agent")]
    OnlyScript,
    #[error("it needs a command to run before it, which is not supported")]
    CommandBefore,
}
