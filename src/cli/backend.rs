//! `aetheel backend …`: the kit.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use super::Common;
use crate::agent::{Mode, Safety};

/// Reads a word of the contract.
fn word<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}

/// What to do with backends.
#[derive(Debug, Subcommand)]
pub enum BackendCommand {
    /// List them: what each can do, how it runs, and why one cannot work here
    List {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// As JSON, for programs: everything
        #[arg(long)]
        json: bool,
        /// Agents that are not installed, too, each with what is missing
        #[arg(long)]
        all: bool,
    },
    /// Ask a backend's agent whether it can work; may start it
    Ping {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Backend to ask, instead of AGENT_BACKEND
        name: Option<String>,
    },
    /// Say what a component is: descriptor, contract, imports, size, what it uses of its limits
    Inspect {
        /// The component
        component: PathBuf,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Prove that a component can serve: admission, hostile input, determinism, and any batching of
    /// its recordings
    Check {
        /// The component
        component: PathBuf,
        /// Recordings, or folders of them; without any, those in `cases` beside the component or in
        /// this folder
        recordings: Vec<PathBuf>,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Compare what a component makes of recordings with what stands beside them
    /// (`NAME.actions.jsonl`)
    Test {
        /// The component
        component: PathBuf,
        /// Recordings, or folders of them
        #[arg(required = true)]
        cases: Vec<PathBuf>,
        /// Write what it makes of them instead of comparing
        #[arg(long)]
        update: bool,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Run an agent by hand and keep the recording
    Record {
        /// Where to write it; without, to a file named after the program in this folder
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// The prompt the recording says the turn began with
        #[arg(long, default_value = "Hello")]
        prompt: String,
        /// The agent's version the recording names; without, none
        #[arg(long, value_name = "VERSION")]
        agent_version: Option<String>,
        /// How much the recording says the agent may do without asking: default, edit or danger
        #[arg(long, default_value = "default", value_name = "LEVEL", value_parser = word::<Safety>)]
        safety: Safety,
        /// What the recording says the turns are for: build or plan
        #[arg(long, default_value = "build", value_name = "MODE", value_parser = word::<Mode>)]
        mode: Mode,
        /// The process serves many turns: a typed line `/turn PROMPT` is not handed on, but begins
        /// the next one
        #[arg(long)]
        live: bool,
        /// What a line of the agent contains when a turn is over; the next turn, and the end of
        /// what is typed, wait for it
        #[arg(long, value_name = "TEXT", requires = "live")]
        until: Option<String>,
        /// The agent's command; what it prints is shown, what is typed it gets
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// Read a recording with a component: what the agent did, as a person reads it
    Replay {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// The component: a file, or the name of a backend
        component: PathBuf,
        /// The recording: a file, or its id
        recording: PathBuf,
        /// Show only where another component makes something else of it
        #[arg(long, value_name = "COMPONENT")]
        diff: Option<PathBuf>,
        /// As JSON lines, for programs
        #[arg(long)]
        json: bool,
    },
    /// Measure a component with a recording: load, start, throughput, memory
    Bench {
        /// The component
        component: PathBuf,
        /// The recording
        recording: PathBuf,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Write a new backend that builds and passes its first test
    New {
        /// Its name: lower-case letters, digits and `-`
        name: String,
        /// What to write it in
        #[arg(long, value_enum, default_value = "rust")]
        lang: Language,
        /// How its agent runs
        #[arg(long, value_enum, default_value = "one-shot")]
        kind: Kind,
        /// Folder to write, which must not exist; without, the name
        #[arg(long, value_name = "FOLDER")]
        into: Option<PathBuf>,
    },
    /// Write what a guest in this language needs of the contract: types and glue
    Bindings {
        /// What the guest is written in
        #[arg(long, value_enum)]
        lang: Language,
        /// Folder to write into; made when missing
        #[arg(long, value_name = "FOLDER", default_value = ".")]
        out: PathBuf,
    },
    /// Make a component of the core module a compiler made
    Componentize {
        /// The core module
        module: PathBuf,
        /// The component to write
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
    },
    /// Check a component and put it in place, in one step; a running gateway takes it up at once
    Install {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// The component
        component: PathBuf,
        /// Trust it from now on: add its SHA-256 to backends.md
        #[arg(long)]
        pin: bool,
        /// Accept what it may do without being asked
        #[arg(long, short)]
        yes: bool,
        /// Hand it to all machines of the cluster, too; each takes it by its own rules
        #[arg(long)]
        all_nodes: bool,
    },
    /// Show what a component may do that was not accepted yet, and accept it; a running gateway
    /// then takes it up
    Approve {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// The backend
        name: String,
        /// Accept it without being asked
        #[arg(long, short)]
        yes: bool,
    },
    /// Put the component back that served before
    Rollback {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// The backend
        name: String,
    },
}

/// Languages that a backend can be started in.
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
    /// C++, likewise.
    Cpp,
    /// Zig.
    Zig,
    /// Go, the standard compiler.
    Go,
    /// AssemblyScript.
    Assemblyscript,
}

/// How an agent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A process for every turn.
    OneShot,
    /// A process for many turns.
    Live,
    /// Either, as the operator chooses; with permission asks and a file for the agent. In rust and
    /// python.
    Both,
}
