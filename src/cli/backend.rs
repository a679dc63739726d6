//! Arguments of `aetheel backend …`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use super::Common;
use aetheel_model::agent::{Mode, Safety};
use aetheel_model::id::ChannelId;

/// Parses a value with the name that the contract gives it.
fn word<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_value(text.into())
}

/// The commands of `aetheel backend`.
#[derive(Debug, Subcommand)]
pub enum BackendCommand {
    /// List the backends: features, how each runs, and why some cannot work here
    List {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Print everything as JSON, for programs
        #[arg(long)]
        json: bool,
        /// Include agents that are not installed, each with the reason
        #[arg(long)]
        all: bool,
    },
    /// Check whether a backend's agent can work; may start the agent
    Ping {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Backend to check, instead of AGENT_BACKEND
        #[arg(value_name = "BACKEND")]
        name: Option<String>,
    },
    /// Describe a backend: descriptor, contract, imports, size, and use of its limits
    Inspect {
        /// File of the backend
        #[arg(value_name = "FILE")]
        component: PathBuf,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Check that a backend can serve: admission, hostile input, determinism, and all batchings
    /// of its recordings
    Check {
        /// File of the backend
        #[arg(value_name = "FILE")]
        component: PathBuf,
        /// Recordings, or folders of them; by default those in `cases` beside the file or in this
        /// folder
        recordings: Vec<PathBuf>,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Compare a backend's actions for recordings with the expected ones beside the recordings
    /// (`NAME.actions.jsonl`)
    Test {
        /// File of the backend
        #[arg(value_name = "FILE")]
        component: PathBuf,
        /// Recordings, or folders of them
        #[arg(required = true)]
        cases: Vec<PathBuf>,
        /// Write the expected actions instead of comparing
        #[arg(long)]
        update: bool,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Run an agent by hand and save the recording
    Record {
        /// File to write; by default named after the program, in this folder
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Prompt of the turn, for the recording
        #[arg(long, default_value = "Hello")]
        prompt: String,
        /// Version of the agent, for the recording; by default none
        #[arg(long, value_name = "VERSION")]
        agent_version: Option<String>,
        /// Safety level of the turns, for the recording: default, edit or danger
        #[arg(long, default_value = "default", value_name = "LEVEL", value_parser = word::<Safety>)]
        safety: Safety,
        /// Mode of the turns, for the recording: build or plan
        #[arg(long, default_value = "build", value_name = "MODE", value_parser = word::<Mode>)]
        mode: Mode,
        /// Record several turns of one process: a typed line `/turn PROMPT` begins the next turn
        /// and is not sent to the agent
        #[arg(long)]
        live: bool,
        /// Text that a line of the agent contains when a turn has ended; the next turn and the end
        /// of the input wait for it
        #[arg(long, value_name = "TEXT", requires = "live")]
        until: Option<String>,
        /// Command of the agent; its output is shown, and it gets the typed input
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// Show what an agent did in a recording, as a backend reads it
    Replay {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// The backend: a file, or a name
        #[arg(value_name = "BACKEND")]
        component: PathBuf,
        /// The recording: a file, or its id
        recording: PathBuf,
        /// Show only the differences to another version
        #[arg(long, value_name = "BACKEND")]
        diff: Option<PathBuf>,
        /// Print JSON lines, for programs
        #[arg(long)]
        json: bool,
    },
    /// Replay recordings with the backends that serve, and show where their actions differ from the
    /// recorded ones; change nothing. Exit code 0 if no difference is harmful, else 1
    #[command(after_help = "Examples:
  aetheel backend compare
  aetheel backend compare --recordings 200
  BACKENDS_DIR=/path/to/new/backends aetheel backend compare")]
    Compare {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Recordings, or folders of them; by default the newest of the gateway (RECORDINGS_DIR)
        recordings: Vec<PathBuf>,
        /// Number of the gateway's recordings, the newest first
        #[arg(
            long = "recordings",
            value_name = "N",
            default_value_t = 50,
            id = "most",
            conflicts_with = "recordings"
        )]
        most: usize,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Build a backend after every change of its sources, and show the effect on its cases and on
    /// recordings
    Dev {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Folder of the project
        #[arg(default_value = ".")]
        folder: PathBuf,
        /// Recordings to read, or folders of them, besides `cases` of the project
        recordings: Vec<PathBuf>,
        /// Also read this many of the newest recordings of the gateway (RECORDINGS_DIR)
        #[arg(long, value_name = "NUMBER", default_value_t = 20)]
        turns: usize,
        /// Command that builds the component
        #[arg(long, value_name = "COMMAND", default_value = "make")]
        build: String,
        /// File that the build writes; by default the only `*.wasm` in the folder
        #[arg(long, value_name = "FILE")]
        component: Option<PathBuf>,
        /// Compare with this backend (a file or a name) instead of the first build
        #[arg(long, value_name = "BACKEND")]
        against: Option<PathBuf>,
        /// Let the running gateway serve each build in this channel and its threads, until this
        /// command ends
        #[arg(long, value_name = "CHANNEL", conflicts_with = "once", value_parser = ChannelId::parse_nonzero)]
        live: Option<ChannelId>,
        /// Build and try once, without waiting for changes
        #[arg(long)]
        once: bool,
    },
    /// Let an agent change a backend so that it reads lost replies; the change is built and tried
    /// out of its reach, and nothing is installed
    Mend {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// The backend
        #[arg(value_name = "BACKEND")]
        name: String,
        /// Folder with the sources: `guest-backends` of a checkout, or the project of the backend;
        /// by default BACKEND_SOURCES
        #[arg(long, value_name = "FOLDER")]
        source: Option<PathBuf>,
        /// Backend whose agent makes the change, instead of AGENT_BACKEND
        #[arg(long, value_name = "BACKEND", conflicts_with = "candidate")]
        with: Option<String>,
        /// Judge this changed copy of the sources instead of asking an agent
        #[arg(long, value_name = "FOLDER")]
        candidate: Option<PathBuf>,
        /// Recordings with turns that the backend must read, instead of the gateway's lost replies
        #[arg(long = "recording", value_name = "FILE")]
        recordings: Vec<PathBuf>,
        /// More cases that must stay as they are: recordings, or folders of them
        #[arg(long, value_name = "PATH")]
        cases: Vec<PathBuf>,
        /// Largest number of attempts of the agent
        #[arg(long, value_name = "NUMBER", default_value_t = 3)]
        rounds: u32,
        /// Longest time for everything
        #[arg(long, value_name = "MINUTES", default_value_t = 60)]
        minutes: u32,
        /// Largest cost in US dollars, for agents that report it
        #[arg(long, value_name = "USD")]
        max_cost: Option<f64>,
        /// Number of changed recordings with which a change is tried
        #[arg(long, value_name = "NUMBER", default_value_t = 400)]
        mutants: usize,
        /// File to write; by default `NAME.mended.wasm`, with the change in `NAME.mended.diff`
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Measure a backend with a recording: load, start, throughput, memory
    Bench {
        /// File of the backend
        #[arg(value_name = "FILE")]
        component: PathBuf,
        /// The recording
        recording: PathBuf,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Show in which functions a backend spends its time while it reads a recording; writes a
    /// profile for profiler.firefox.com
    Profile {
        /// File of the backend
        #[arg(value_name = "FILE")]
        component: PathBuf,
        /// The recording
        recording: PathBuf,
        /// File to write; by default named after the backend's file, in this folder
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// How often the recording is read; by default as often as possible within 3 s
        #[arg(long, value_name = "NUMBER")]
        rounds: Option<NonZeroU32>,
        /// Accept a recording of another backend
        #[arg(long)]
        any_backend: bool,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Create a new backend that builds and passes its first test
    New {
        /// Name of the backend: lower-case letters, digits and `-`
        name: String,
        /// Programming language
        #[arg(long, value_enum, default_value = "rust")]
        lang: Language,
        /// How the agent runs
        #[arg(long, value_enum, default_value = "one-shot")]
        kind: AgentRunKind,
        /// Folder to create, which must not exist; by default the name
        #[arg(long, value_name = "FOLDER")]
        into: Option<PathBuf>,
    },
    /// Write the bindings of the contract for a language: types and glue code
    Bindings {
        /// Programming language of the guest
        #[arg(long, value_enum)]
        lang: Language,
        /// Folder to write into; created if it is missing
        #[arg(long, value_name = "FOLDER", default_value = ".")]
        out: PathBuf,
    },
    /// Make a component from the core module that a compiler produced
    Componentize {
        /// The core module
        module: PathBuf,
        /// The component to write
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
    },
    /// Check and install a version of a backend; a running gateway loads it at once
    Install {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// File of the backend, or its reference in a registry (`oci://HOST/NAME:TAG`)
        #[arg(value_name = "FILE", required_unless_present = "locked")]
        component: Option<PathBuf>,
        /// Install exactly the versions that backends.lock.md names
        #[arg(long, conflicts_with = "component")]
        locked: bool,
        /// Read from a folder with the OCI image layout instead of a registry
        #[arg(long, value_name = "FOLDER")]
        from: Option<PathBuf>,
        /// Install what a tag names now, although backends.lock.md has another version of it
        #[arg(long, conflicts_with = "locked")]
        follow_tag: bool,
        /// Trust the file from now on: add its SHA-256 to backends.md
        #[arg(long)]
        pin: bool,
        /// Accept its capabilities without a question
        #[arg(long, short)]
        yes: bool,
    },
    /// Show the capabilities of a backend that were not accepted yet, and accept them; a running
    /// gateway then loads it
    Approve {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// The backend
        #[arg(value_name = "BACKEND")]
        name: String,
        /// Accept them without a question
        #[arg(long, short)]
        yes: bool,
    },
    /// Restore the version that served before
    Rollback {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// The backend
        #[arg(value_name = "BACKEND")]
        name: String,
    },
    /// Show how a new version on rollout reads turns, compared with the serving one
    Rollout {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// The backend
        #[arg(value_name = "BACKEND")]
        name: String,
    },
    /// Show the rollouts that have ended, with the differences that were found
    History {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// The backend; without it, all backends are shown
        #[arg(value_name = "BACKEND")]
        name: Option<String>,
    },
    /// Let a new version on rollout serve now
    Promote {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// The backend
        #[arg(value_name = "BACKEND")]
        name: String,
    },
    /// Drop a new version on rollout; its file is renamed
    Withdraw {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// The backend
        #[arg(value_name = "BACKEND")]
        name: String,
    },
}

/// Programming languages for new backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// Rust, with the SDK.
    Rust,
    /// Python, by componentize-py.
    Python,
    /// JavaScript, by componentize-qjs.
    Javascript,
    /// TypeScript, by componentize-qjs.
    Typescript,
    /// C, by Zig's or any other clang.
    C,
    /// C++, by Zig's or any other clang.
    Cpp,
    /// Zig.
    Zig,
    /// Go, by the standard compiler.
    Go,
    /// AssemblyScript.
    Assemblyscript,
}

/// How an agent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AgentRunKind {
    /// A process for every turn.
    OneShot,
    /// A process for many turns.
    Live,
    /// Either, as the operator chooses; with permission requests and a file for the agent. Only in
    /// Rust and Python.
    Both,
}
