//! Arguments of the commands of backend authors.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Common;
use aetheel_model::agent::{Mode, Safety};
use aetheel_model::id::ChannelId;

/// Parses a value with the name that the contract gives it.
fn word<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_value(text.into())
}

/// The commands of `aetheel backend` that `aetheel-kit` runs.
#[derive(Debug, Subcommand)]
pub enum AuthorCommand {
    /// Describe a backend: descriptor, contract, imports, size, and use of its limits
    Inspect(InspectArgs),
    /// Check that a backend can serve: admission, hostile input, determinism, and all batchings
    /// of its recordings
    Check(CheckArgs),
    /// Compare a backend's actions for recordings with the expected ones beside the recordings
    /// (`NAME.actions.jsonl`)
    Test(TestArgs),
    /// Run an agent by hand and save the recording
    Record(RecordArgs),
    /// Show what an agent did in a recording, as a backend reads it
    Replay(ReplayArgs),
    /// Replay recordings with the backends that serve, and show where their actions differ from the
    /// recorded ones; change nothing. Exit code 0 if no difference is harmful, else 1
    #[command(after_help = "Examples:
  aetheel backend compare
  aetheel backend compare --recordings 200
  BACKENDS_DIR=/path/to/new/backends aetheel backend compare")]
    Compare(CompareArgs),
    /// Build a backend after every change of its sources, and show the effect on its cases and on
    /// recordings
    Dev(DevArgs),
    /// Let an agent change a backend so that it reads lost replies; the change is built and tried
    /// out of its reach, and nothing is installed
    Mend(MendArgs),
    /// Measure a backend with a recording: load, start, throughput, memory
    Bench(BenchArgs),
    /// Show in which functions a backend spends its time while it reads a recording; writes a
    /// profile for profiler.firefox.com
    Profile(ProfileArgs),
    /// Create a new backend that builds and passes its first test
    New(NewArgs),
    /// Write the bindings of the contract for a language: types and glue code
    Bindings(BindingsArgs),
    /// Make a component from the core module that a compiler produced
    Componentize(ComponentizeArgs),
}

/// Arguments of `aetheel backend inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// File of the backend
    #[arg(value_name = "FILE")]
    pub component: PathBuf,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `aetheel backend check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// File of the backend
    #[arg(value_name = "FILE")]
    pub component: PathBuf,
    /// Recordings, or folders of them; by default those in `cases` beside the file or in this
    /// folder
    pub recordings: Vec<PathBuf>,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `aetheel backend test`.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// File of the backend
    #[arg(value_name = "FILE")]
    pub component: PathBuf,
    /// Recordings, or folders of them
    #[arg(required = true)]
    pub cases: Vec<PathBuf>,
    /// Write the expected actions instead of comparing
    #[arg(long)]
    pub update: bool,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `aetheel backend record`.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// File to write; by default named after the program, in this folder
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Prompt of the turn, for the recording
    #[arg(long, default_value = "Hello")]
    pub prompt: String,
    /// Version of the agent, for the recording; by default none
    #[arg(long, value_name = "VERSION")]
    pub agent_version: Option<String>,
    /// Safety level of the turns, for the recording: default, edit or danger
    #[arg(long, default_value = "default", value_name = "LEVEL", value_parser = word::<Safety>)]
    pub safety: Safety,
    /// Mode of the turns, for the recording: build or plan
    #[arg(long, default_value = "build", value_name = "MODE", value_parser = word::<Mode>)]
    pub mode: Mode,
    /// Record several turns of one process: a typed line `/turn PROMPT` begins the next turn
    /// and is not sent to the agent
    #[arg(long)]
    pub live: bool,
    /// Text that a line of the agent contains when a turn has ended; the next turn and the end
    /// of the input wait for it
    #[arg(long, value_name = "TEXT", requires = "live")]
    pub until: Option<String>,
    /// Command of the agent; its output is shown, and it gets the typed input
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Arguments of `aetheel backend replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    pub common: Common,
    /// The backend: a file, or a name
    #[arg(value_name = "BACKEND")]
    pub component: PathBuf,
    /// The recording: a file, or its id
    pub recording: PathBuf,
    /// Show only the differences to another version
    #[arg(long, value_name = "BACKEND")]
    pub diff: Option<PathBuf>,
    /// Print JSON lines, for programs
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `aetheel backend compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    pub common: Common,
    /// Recordings, or folders of them; by default the newest of the gateway (RECORDINGS_DIR)
    pub recordings: Vec<PathBuf>,
    /// Number of the gateway's recordings, the newest first
    #[arg(
        long = "recordings",
        value_name = "N",
        default_value_t = 50,
        id = "most",
        conflicts_with = "recordings"
    )]
    pub most: usize,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `aetheel backend dev`.
#[derive(Debug, Args)]
pub struct DevArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    pub common: Common,
    /// Folder of the project
    #[arg(default_value = ".")]
    pub folder: PathBuf,
    /// Recordings to read, or folders of them, besides `cases` of the project
    pub recordings: Vec<PathBuf>,
    /// Also read this many of the newest recordings of the gateway (RECORDINGS_DIR)
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    pub turns: usize,
    /// Command that builds the component
    #[arg(long, value_name = "COMMAND", default_value = "make")]
    pub build: String,
    /// File that the build writes; by default the only `*.wasm` in the folder
    #[arg(long, value_name = "FILE")]
    pub component: Option<PathBuf>,
    /// Compare with this backend (a file or a name) instead of the first build
    #[arg(long, value_name = "BACKEND")]
    pub against: Option<PathBuf>,
    /// Let the running gateway serve each build in this channel and its threads, until this
    /// command ends
    #[arg(long, value_name = "CHANNEL", conflicts_with = "once", value_parser = ChannelId::parse_nonzero)]
    pub live: Option<ChannelId>,
    /// Build and try once, without waiting for changes
    #[arg(long)]
    pub once: bool,
}

/// Arguments of `aetheel backend mend`.
#[derive(Debug, Args)]
pub struct MendArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    pub common: Common,
    /// The backend
    #[arg(value_name = "BACKEND")]
    pub name: String,
    /// Folder with the sources: `guest-backends` of a checkout, or the project of the backend;
    /// by default BACKEND_SOURCES
    #[arg(long, value_name = "FOLDER")]
    pub source: Option<PathBuf>,
    /// Backend whose agent makes the change, instead of AGENT_BACKEND
    #[arg(long, value_name = "BACKEND", conflicts_with = "candidate")]
    pub with: Option<String>,
    /// Judge this changed copy of the sources instead of asking an agent
    #[arg(long, value_name = "FOLDER")]
    pub candidate: Option<PathBuf>,
    /// Recordings with turns that the backend must read, instead of the gateway's lost replies
    #[arg(long = "recording", value_name = "FILE")]
    pub recordings: Vec<PathBuf>,
    /// More cases that must stay as they are: recordings, or folders of them
    #[arg(long, value_name = "PATH")]
    pub cases: Vec<PathBuf>,
    /// Largest number of attempts of the agent
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    pub rounds: u32,
    /// Longest time for everything
    #[arg(long, value_name = "MINUTES", default_value_t = 60)]
    pub minutes: u32,
    /// Largest cost in US dollars, for agents that report it
    #[arg(long, value_name = "USD")]
    pub max_cost: Option<f64>,
    /// Number of changed recordings with which a change is tried
    #[arg(long, value_name = "NUMBER", default_value_t = 400)]
    pub mutants: usize,
    /// File to write; by default `NAME.mended.wasm`, with the change in `NAME.mended.diff`
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Arguments of `aetheel backend bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// File of the backend
    #[arg(value_name = "FILE")]
    pub component: PathBuf,
    /// The recording
    pub recording: PathBuf,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `aetheel backend profile`.
#[derive(Debug, Args)]
pub struct ProfileArgs {
    /// File of the backend
    #[arg(value_name = "FILE")]
    pub component: PathBuf,
    /// The recording
    pub recording: PathBuf,
    /// File to write; by default named after the backend's file, in this folder
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// How often the recording is read; by default as often as possible within 3 s
    #[arg(long, value_name = "NUMBER")]
    pub rounds: Option<NonZeroU32>,
    /// Accept a recording of another backend
    #[arg(long)]
    pub any_backend: bool,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `aetheel backend new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// Name of the backend: lower-case letters, digits and `-`
    pub name: String,
    /// Programming language
    #[arg(long, value_enum, default_value = "rust")]
    pub lang: Language,
    /// How the agent runs
    #[arg(long, value_enum, default_value = "one-shot")]
    pub kind: AgentRunKind,
    /// Folder to create, which must not exist; by default the name
    #[arg(long, value_name = "FOLDER")]
    pub into: Option<PathBuf>,
}

/// Arguments of `aetheel backend bindings`.
#[derive(Debug, Args)]
pub struct BindingsArgs {
    /// Programming language of the guest
    #[arg(long, value_enum)]
    pub lang: Language,
    /// Folder to write into; created if it is missing
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub out: PathBuf,
}

/// Arguments of `aetheel backend componentize`.
#[derive(Debug, Args)]
pub struct ComponentizeArgs {
    /// The core module
    pub module: PathBuf,
    /// The component to write
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
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
