//! The reason why an import, or a part of it, is not possible.

use std::io;
use std::path::PathBuf;

use serde_json::Value;

/// The reason why nothing can be imported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MigrateError {
    #[error("there is no home folder (HOME); name the folder of OpenClaw with --from")]
    NoHome,
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("{}: there is no openclaw.json; name the folder of OpenClaw with --from", .0.display())]
    OtherApp(PathBuf),
    #[error("{file}: it is not JSON5: {error}")]
    Syntax {
        file: &'static str,
        #[source]
        error: json5::Error,
    },
    #[error("{0}: there are no `jobs` in it")]
    NoJobs(&'static str),
    #[error(
        "openclaw.json has version {0:?}: only versions of 2026 are supported; run `openclaw doctor --fix` of such a version first"
    )]
    AppVersion(String),
    #[error("{file} has version {version}: only version 1 is supported")]
    StoreVersion { file: &'static str, version: Value },
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

/// The reason why a file or folder of `OpenClaw` cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("cannot open the folder {}: {error}", path.display())]
    Folder {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    /// `name` is the path below that folder.
    #[error("{name} is not read: {error}")]
    Read {
        name: String,
        #[source]
        error: io::Error,
    },
}

/// The reason why a schedule is not supported.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScheduleError {
    #[error("`{0}`: weekdays together with seconds are not supported")]
    WeekdayWithSeconds(String),
    #[error("`{text}`: {reason}")]
    Cron { text: String, reason: String },
    #[error(
        "an interval of {0} seconds: only {least} seconds to a year are supported",
        least = aetheel_model::schedule::MINIMUM
    )]
    Interval(u64),
    #[error("{0:?} is not a time zone of the IANA database")]
    Zone(String),
    #[error("{0:?} is not a supported duration")]
    Duration(String),
}

/// The reason why a job is not imported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnsupportedJob {
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// The job does not have the expected fields.
    #[error(transparent)]
    Format(#[from] serde_json::Error),
    #[error("it is switched off")]
    SwitchedOff,
    #[error("it runs once; such jobs are not supported")]
    RunsOnce,
    #[error("its kind of schedule is unknown")]
    UnknownSchedule,
    #[error("it does not run an agent")]
    NoAgent,
}
