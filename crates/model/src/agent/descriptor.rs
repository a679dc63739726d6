//! The descriptor of a backend: the typed form of `wit/descriptor.schema.json`.
//!
//! Unknown fields are ignored, so that a newer backend still loads; everything but `name`,
//! `version` and `programs` has a default, so that a small backend stays small.
//! [`Descriptor::parse`] refuses what cannot be meant.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Safety;
pub use super::state::{Access, State};

/// How many turns and sessions share one link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// One-shot: a link, and a process, for every turn.
    #[default]
    Turn,
    /// One link a session.
    Session,
    /// One link for all sessions.
    Link,
}

/// Whether a long-lived backend can also run one process a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OneShot {
    #[default]
    Never,
    /// When the operator chooses it.
    Offered,
    /// Unless the operator chooses otherwise.
    Preferred,
}

/// Something a backend can do. Features not listed are neither offered to people nor sent to the
/// guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feature {
    /// Continues a session by its native id.
    Resume,
    /// Begins a session as a copy of an earlier one.
    Fork,
    /// Text arrives in pieces.
    Streaming,
    Thinking,
    SystemPrompt,
    Model,
    Effort,
    MaxTurns,
    AllowedTools,
    /// Plans without changing anything, when a turn has the mode `plan`.
    Plan,
    /// Asks people for permission.
    Permissions,
    Questions,
    Interrupt,
    Steer,
    Images,
    Files,
    Usage,
    Cost,
    Compact,
    Models,
    Sessions,
    /// A variable among the credentials is not enough: the agent must have been signed in, which
    /// made one of their files.
    OwnSignIn,
    /// A feature of a newer contract; ignored.
    #[serde(other)]
    Unknown,
}

/// Something the agent would expand in a prompt, so that the host has to neutralise it in people's
/// text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expands {
    /// `@path` becomes the file's content.
    AtPath,
    /// A leading `/name` is a command.
    SlashCommand,
    /// A leading `!` runs a shell command.
    Bang,
    /// A leading dash is read as a flag.
    LeadingDash,
}

/// Whether a flag takes a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlagValue {
    #[default]
    None,
    /// The next argument, or what follows `=`.
    One,
    /// All arguments up to the next flag.
    Many,
}

/// A flag a backend may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Flag {
    /// With its dashes, for example `--resume`.
    pub name: String,
    #[serde(default)]
    pub value: FlagValue,
    /// The only values allowed, one ending in `*` for all that begin so; empty: any. One flag may
    /// be listed several times, for different safety levels.
    #[serde(default)]
    pub values: Vec<String>,
    /// The lowest safety level it may be used at.
    #[serde(default = "lowest")]
    pub safety: Safety,
}

fn lowest() -> Safety {
    Safety::Default
}

/// An executable a backend may ask for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Program {
    /// Looked up in `PATH`, unless the operator gave a path (`BACKEND_CLI_PATH`, for the first
    /// program).
    pub name: String,
    /// Arguments that make it print its version, for example `["--version"]`; empty: not asked.
    #[serde(default)]
    pub version_arguments: Vec<String>,
    /// Arguments allowed as they are: sub-commands and the like.
    #[serde(default)]
    pub words: Vec<String>,
    #[serde(default)]
    pub flags: Vec<Flag>,
    /// How messages are told apart on its stdin and stdout.
    #[serde(default)]
    pub framing: Framing,
}

/// How messages are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Framing {
    /// One message on each line.
    #[default]
    Lines,
    /// A `Content-Length` header before each, as language servers have it.
    ContentLength,
}

/// Which environment variables reach the agent beside the host's base list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Environment {
    /// The guest may set these.
    pub set: Vec<String>,
    /// The host passes its own values of these on.
    pub pass: Vec<String>,
}

/// One way of being signed in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Credential {
    /// This variable is set. Its value is a secret: it reaches the agent and nothing else.
    Variable(String),
    /// This file exists; `~/` is the home directory.
    File(String),
}

/// Says that the agent refuses a safety level to the root user unless a variable is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RootRule {
    pub refused_from: Safety,
    pub unless_variable: String,
}

/// A choice to show people: an id the agent knows and a label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Choice {
    pub id: String,
    pub label: String,
}

/// A backend's description of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Descriptor {
    /// Stable id, for example `claude`: lower-case letters, digits and `-`.
    pub name: String,
    /// The name shown to people; empty: none was given.
    #[serde(default)]
    pub label: String,
    /// The version of the backend itself, not that of its agent.
    pub version: String,
    #[serde(default)]
    pub sharing: Sharing,
    /// Says nothing where `sharing` is `turn`.
    #[serde(default)]
    pub one_shot: OneShot,
    pub programs: Vec<Program>,
    /// Agent versions it is made for, as semver requirements: of several components of a name the
    /// one that fits the installed agent serves, and an agent that fits none is warned about.
    #[serde(default)]
    pub understands: Vec<String>,
    #[serde(default)]
    pub environment: Environment,
    /// Any one of them is enough; empty: none needed.
    #[serde(default)]
    pub credentials: Vec<Credential>,
    /// The files the agent keeps below the home folder.
    #[serde(default)]
    pub state: Vec<State>,
    /// It confines its own commands by mounts, which cannot be done under Landlock.
    #[serde(default)]
    pub own_sandbox: bool,
    #[serde(default)]
    pub root: Option<RootRule>,
    #[serde(default)]
    pub features: Vec<Feature>,
    /// Those of `features` that one-shot runs lack.
    #[serde(default)]
    pub live_only: Vec<Feature>,
    #[serde(default)]
    pub expands: Vec<Expands>,
    #[serde(default)]
    pub efforts: Vec<Choice>,
    #[serde(default)]
    pub models: Vec<Choice>,
    /// The agent's own tool names that write files, for the memory instructions (usually `Write`
    /// and `Edit`).
    #[serde(default)]
    pub write_tools: Vec<String>,
    /// The agent's own tool names by unified kind; the operator's list of allowed tools is
    /// translated with it.
    #[serde(default)]
    pub tools: BTreeMap<String, Vec<String>>,
    /// JSON Schema of `settings.options`.
    #[serde(default)]
    pub options: serde_json::Value,
    /// Longest line of output in bytes; capped by the host's own limit.
    #[serde(default)]
    pub line_limit: Option<u32>,
}

/// Why a descriptor cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DescriptorError {
    /// Not JSON, or not of the right shape.
    #[error("descriptor is not valid: {0}")]
    Shape(#[from] serde_json::Error),
    /// Well-formed, but saying something that cannot be meant; all of it, joined by `; `.
    #[error("descriptor is not usable: {0}")]
    Content(String),
}

/// Variables no backend may set or have passed on: they would choose code to run, or are the
/// gateway's own secrets.
const FORBIDDEN_VARIABLES: &[&str] = &[
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    "NODE_OPTIONS",
    "NODE_PATH",
    "BASH_ENV",
    "ENV",
    "PYTHONSTARTUP",
    "PYTHONPATH",
    "PERL5OPT",
    "RUBYOPT",
    "GIT_SSH_COMMAND",
    "PATH",
    "HOME",
    "SHELL",
    "DISCORD_BOT_TOKEN",
    "CREDENTIALS_DIRECTORY",
];

impl Descriptor {
    /// Parses and checks a descriptor.
    ///
    /// # Errors
    /// [`DescriptorError`], naming every fault found.
    pub fn parse(json: &str) -> Result<Self, DescriptorError> {
        let descriptor: Self = serde_json::from_str(json)?;
        let faults = descriptor.faults();
        if faults.is_empty() {
            Ok(descriptor)
        } else {
            Err(DescriptorError::Content(faults.join("; ")))
        }
    }

    /// Whether the backend has a feature.
    #[must_use]
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// The descriptor as it is when the agent runs once a turn.
    #[must_use]
    pub fn as_one_shot(&self) -> Self {
        let features = self
            .features
            .iter()
            .copied()
            .filter(|feature| !self.live_only.contains(feature))
            .collect();
        Self { sharing: Sharing::Turn, features, ..self.clone() }
    }

    /// The label, or the name where there is none.
    #[must_use]
    pub fn label(&self) -> &str {
        if self.label.is_empty() { &self.name } else { &self.label }
    }

    /// Whether the backend was made for an agent of this version; none: it does not say, or that is
    /// no version.
    #[must_use]
    pub fn fits(&self, agent: &str) -> Option<bool> {
        let installed = version(agent)?;
        let mut ranges = self
            .understands
            .iter()
            .filter_map(|range| semver::VersionReq::parse(range).ok())
            .peekable();
        ranges.peek()?;
        Some(ranges.any(|range| range.matches(&installed)))
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !is_name(&self.name) {
            faults.push(format!(
                "`name` {:?} must be 1 to 32 lower-case letters, digits or `-`",
                self.name
            ));
        }
        if self.version.is_empty() || self.version.len() > 64 {
            faults.push("`version` must have 1 to 64 characters".to_owned());
        }
        if self.programs.is_empty() {
            faults.push("`programs` is empty".to_owned());
        }
        for program in &self.programs {
            if program.name.is_empty()
                || program.name.contains(['/', '\0'])
                || program.name.starts_with('-')
            {
                faults.push(format!("program name {:?} must be a plain file name", program.name));
            }
            for flag in &program.flags {
                if flag.name.len() < 2
                    || !flag.name.starts_with('-')
                    || flag.name.contains(['=', ' ', '\0'])
                {
                    faults.push(format!(
                        "flag {:?} of `{}` must be a dash and a name",
                        flag.name, program.name
                    ));
                }
            }
            if let Some(word) =
                program.words.iter().find(|word| word.len() > 1 && word.starts_with('-'))
            {
                faults.push(format!(
                    "word {word:?} of `{}` begins with a dash: list it under `flags`",
                    program.name
                ));
            }
        }
        let credentials = self.credentials.iter().filter_map(|credential| match credential {
            Credential::Variable(name) => Some(name),
            Credential::File(_) => None,
        });
        for name in self.environment.set.iter().chain(&self.environment.pass).chain(credentials) {
            if !is_variable_name(name) {
                faults.push(format!("environment variable {name:?} is not a name"));
            } else if FORBIDDEN_VARIABLES.contains(&name.as_str()) {
                faults
                    .push(format!("environment variable `{name}` may not be touched by a backend"));
            }
        }
        faults.extend(super::state::faults(&self.state, &self.environment.pass));
        faults
    }
}

/// Reads a version, also one of fewer than three numbers.
#[must_use]
pub fn version(text: &str) -> Option<semver::Version> {
    let padded = || semver::Version::parse(&format!("{text}.0")).ok();
    semver::Version::parse(text)
        .ok()
        .or_else(padded)
        .or_else(|| semver::Version::parse(&format!("{text}.0.0")).ok())
}

fn is_name(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
}

fn is_variable_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !text.as_bytes()[0].is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_descriptor_is_enough() {
        let descriptor =
            Descriptor::parse(r#"{"name":"mini","version":"1","programs":[{"name":"mini"}]}"#)
                .expect("valid");
        assert_eq!(descriptor.sharing, Sharing::Turn);
        assert_eq!(descriptor.label(), "mini");
    }

    #[test]
    fn a_one_shot_run_lacks_what_is_live_only() {
        let json = r#"{"name":"x","version":"1","programs":[{"name":"x"}],"sharing":"link","one-shot":"offered",
            "features":["resume","steer"],"live-only":["steer"]}"#;
        let live = Descriptor::parse(json).expect("valid");
        let once = live.as_one_shot();
        assert_eq!((live.sharing, once.sharing), (Sharing::Link, Sharing::Turn));
        assert!(live.has(Feature::Steer) && !once.has(Feature::Steer) && once.has(Feature::Resume));
    }

    #[test]
    fn every_fault_is_named_at_once() {
        let json = r#"{"name":"Bad Name","version":"","programs":[{"name":"/bin/sh","flags":[{"name":"x"}],"words":["--oops"]}],
            "environment":{"set":["LD_PRELOAD"],"pass":["A B"]},"credentials":[{"variable":"DISCORD_BOT_TOKEN"}]}"#;
        let error = Descriptor::parse(json).expect_err("refused").to_string();
        for part in [
            "`name`",
            "`version`",
            "/bin/sh",
            "\"x\"",
            "--oops",
            "LD_PRELOAD",
            "A B",
            "DISCORD_BOT_TOKEN",
        ] {
            assert!(error.contains(part), "{part} is not named in: {error}");
        }
    }

    #[test]
    fn fields_and_features_of_a_newer_contract_are_ignored() {
        let json = r#"{"name":"new","version":"1","programs":[{"name":"new"}],"features":["resume","teleport"],"colour":"blue"}"#;
        let descriptor = Descriptor::parse(json).expect("valid");
        assert!(descriptor.has(Feature::Resume));
    }
}
