//! The descriptor of a backend: the typed form of `wit/descriptor.schema.json`.
//!
//! Unknown fields are ignored, so that a newer backend still loads. All fields except `name`,
//! `version` and `programs` have defaults, so that a small backend stays small.
//! [`Descriptor::parse`] refuses invalid descriptors.

mod faults;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(crate) use self::faults::is_name;
use super::Safety;
pub use super::environment::Environment;
pub use super::noise::StderrNoise;
pub use super::state::{StateAccess, StatePath};

/// How many turns and sessions share one link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkSharing {
    /// One-shot: each turn has its own link and process.
    #[default]
    Turn,
    /// One link for each session.
    Session,
    /// One link for all sessions.
    Link,
}

/// Whether a long-lived backend can also run one process for each turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OneShot {
    #[default]
    Never,
    /// One process for each turn is used only if the operator chooses it.
    Offered,
    /// One process for each turn is used unless the operator chooses otherwise.
    Preferred,
}

/// A feature of a backend. Features that a descriptor does not list are neither offered to people
/// nor sent to the guest.
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
    /// A variable among the credentials is not enough: the agent must also have been signed in,
    /// which created one of the credential files.
    OwnSignIn,
    /// Offers the agent the tools of the host.
    HostTools,
    /// A feature of a newer contract; ignored.
    #[serde(other)]
    Unknown,
}

/// A form that the agent would expand in a prompt, so that the host must neutralise it in people's
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

/// A flag that a backend may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Flag {
    /// The name with its dashes, for example `--resume`.
    pub name: String,
    #[serde(default)]
    pub value: FlagValue,
    /// The only allowed values. A value that ends in `*` allows all that begin with the part before
    /// it; an empty list allows any value. A flag can be listed several times, for different safety
    /// levels.
    #[serde(default)]
    pub values: Vec<String>,
    /// The lowest safety level at which the flag may be used.
    #[serde(default = "lowest")]
    pub safety: Safety,
}

fn lowest() -> Safety {
    Safety::Default
}

/// An executable that a backend may start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Program {
    /// Its file name. It is looked up in `PATH`, unless the operator configured a path
    /// (`BACKEND_CLI_PATH`, for the first program).
    pub name: String,
    /// Arguments that make it print its version, for example `["--version"]`; empty if it is not
    /// asked.
    #[serde(default)]
    pub version_arguments: Vec<String>,
    /// Arguments that are allowed unchanged, such as sub-commands.
    #[serde(default)]
    pub words: Vec<String>,
    #[serde(default)]
    pub flags: Vec<Flag>,
    /// How messages are separated on its stdin and stdout.
    #[serde(default)]
    pub framing: Framing,
}

/// How messages are separated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Framing {
    /// One message on each line.
    #[default]
    Lines,
    /// A `Content-Length` header before each message, as in the Language Server Protocol.
    ContentLength,
}

/// A credential that shows that the agent is signed in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Credential {
    /// This variable is set. Its value is a secret that reaches only the agent.
    Variable(String),
    /// This file exists; `~/` is the home directory.
    File(String),
}

/// A rule that the agent refuses a safety level to the root user unless a variable is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RootRule {
    pub refused_from: Safety,
    pub unless_variable: String,
}

/// A choice to show to people: an id that the agent knows, and a label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DescriptorChoice {
    pub id: String,
    pub label: String,
}

/// A backend's description of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Descriptor {
    /// Stable id, for example `claude`: lower-case letters, digits and `-`.
    pub name: String,
    /// The name shown to people, or an empty text.
    #[serde(default)]
    pub label: String,
    /// The version of the backend itself, not that of its agent.
    pub version: String,
    #[serde(default)]
    pub sharing: LinkSharing,
    /// Ignored if `sharing` is `turn`.
    #[serde(default)]
    pub one_shot: OneShot,
    pub programs: Vec<Program>,
    /// Versions of the agent that the backend was made for, as semver requirements. If there are
    /// several components with the same name, the one that fits the installed agent serves. A
    /// warning is logged if no component fits.
    #[serde(default)]
    pub understands: Vec<String>,
    #[serde(default)]
    pub environment: Environment,
    /// Credentials of which one is enough; empty if none is needed.
    #[serde(default)]
    pub credentials: Vec<Credential>,
    /// The paths that the agent keeps below the home folder.
    #[serde(default)]
    pub state: Vec<StatePath>,
    /// Whether the agent confines its own commands with mounts, which is impossible under Landlock.
    #[serde(default)]
    pub own_sandbox: bool,
    #[serde(default)]
    pub root: Option<RootRule>,
    #[serde(default)]
    pub features: Vec<Feature>,
    /// The `features` that one-shot runs lack.
    #[serde(default)]
    pub live_only: Vec<Feature>,
    #[serde(default)]
    pub expands: Vec<Expands>,
    #[serde(default)]
    pub efforts: Vec<DescriptorChoice>,
    #[serde(default)]
    pub models: Vec<DescriptorChoice>,
    /// The agent's own names of tools that write files, for the memory instructions (usually
    /// `Write` and `Edit`).
    #[serde(default)]
    pub write_tools: Vec<String>,
    /// The agent's own names of tools, by unified kind. The operator's list of allowed tools is
    /// translated with them.
    #[serde(default)]
    pub tools: BTreeMap<String, Vec<String>>,
    /// Position in the automatic choice of a backend, the lowest first. Backends without a rank
    /// follow by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Whether the name of the backend is a second name of the command `/ask` where it is the
    /// default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_command: bool,
    /// Whether the component has no agent of its own, and each launch profile of the operator makes
    /// a backend of it. With `None`, its options decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiles: Option<bool>,
    /// Further names that operators may write for the kinds of this agent's tools, by unified kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_aliases: BTreeMap<String, Vec<String>>,
    /// Lines on the agent's stderr that never explain its end.
    #[serde(default, skip_serializing_if = "StderrNoise::is_empty")]
    pub stderr_noise: StderrNoise,
    /// JSON Schema of `settings.options`.
    #[serde(default)]
    pub options: serde_json::Value,
    /// Maximum length of an output line in bytes; the host's own limit also applies.
    #[serde(default)]
    pub line_limit: Option<u32>,
}

/// The reason why a descriptor cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DescriptorError {
    /// The text is not JSON, or does not have the fields of a descriptor.
    #[error("descriptor is not valid: {0}")]
    Shape(#[from] serde_json::Error),
    /// Well-formed, but with invalid content; all faults, joined by `; `.
    #[error("descriptor is not usable: {0}")]
    Content(String),
}

impl Descriptor {
    /// Parses and checks a descriptor.
    ///
    /// # Errors
    /// [`DescriptorError`], which names all faults.
    pub fn parse(json: &str) -> Result<Self, DescriptorError> {
        let descriptor: Self = serde_json::from_str(json)?;
        let faults = descriptor.faults();
        if faults.is_empty() {
            Ok(descriptor)
        } else {
            Err(DescriptorError::Content(faults.join("; ")))
        }
    }

    /// Returns whether the backend has a feature.
    #[must_use]
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// Returns whether launch profiles of the operator make backends of this component. Without the
    /// field, it takes profiles if its options require the program that a profile names.
    #[must_use]
    pub fn takes_profiles(&self) -> bool {
        self.profiles.unwrap_or_else(|| {
            let required = self.options["required"].as_array();
            required.is_some_and(|required| required.iter().any(|name| name == "program"))
        })
    }

    fn credential_variables(&self) -> impl Iterator<Item = &String> {
        self.credentials.iter().filter_map(|credential| match credential {
            Credential::Variable(name) => Some(name),
            Credential::File(_) => None,
        })
    }

    /// Returns the variables whose values may be paths that the agent reads.
    pub fn path_variables(&self) -> impl Iterator<Item = &str> {
        let (listed, others) = match &self.environment.paths {
            Some(paths) => (Some(paths.iter()), None),
            None => (None, Some(self.credential_variables())),
        };
        let all = listed.into_iter().flatten().chain(others.into_iter().flatten());
        all.map(String::as_str)
    }

    /// Returns the descriptor for an agent that runs once for each turn.
    #[must_use]
    pub fn as_one_shot(&self) -> Self {
        let features = self
            .features
            .iter()
            .copied()
            .filter(|feature| !self.live_only.contains(feature))
            .collect();
        Self { sharing: LinkSharing::Turn, features, ..self.clone() }
    }

    /// Returns the label, or the name if there is no label.
    #[must_use]
    pub fn label(&self) -> &str {
        if self.label.is_empty() { &self.name } else { &self.label }
    }

    /// Returns whether the backend was made for this version of the agent, or `None` if the
    /// descriptor lists no versions or this one cannot be parsed.
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
}

/// Parses a version, which may have fewer than three numbers.
#[must_use]
pub fn version(text: &str) -> Option<semver::Version> {
    let padded = || semver::Version::parse(&format!("{text}.0")).ok();
    semver::Version::parse(text)
        .ok()
        .or_else(padded)
        .or_else(|| semver::Version::parse(&format!("{text}.0.0")).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_descriptor_is_enough() {
        let descriptor =
            Descriptor::parse(r#"{"name":"mini","version":"1","programs":[{"name":"mini"}]}"#)
                .expect("valid");
        assert_eq!(descriptor.sharing, LinkSharing::Turn);
        assert_eq!(descriptor.label(), "mini");
    }

    #[test]
    fn a_one_shot_run_lacks_live_only_features() {
        let json = r#"{"name":"x","version":"1","programs":[{"name":"x"}],"sharing":"link","one-shot":"offered",
            "features":["resume","steer"],"live-only":["steer"]}"#;
        let live = Descriptor::parse(json).expect("valid");
        let once = live.as_one_shot();
        assert_eq!((live.sharing, once.sharing), (LinkSharing::Link, LinkSharing::Turn));
        assert!(live.has(Feature::Steer) && !once.has(Feature::Steer) && once.has(Feature::Resume));
    }

    #[test]
    fn a_component_names_the_variables_that_are_paths() {
        let of = |environment: &str| {
            let json = format!(
                r#"{{"name":"x","version":"1","programs":[{{"name":"x"}}],"environment":{environment},
                "credentials":[{{"variable":"X_LOGIN"}},{{"file":"~/.x"}}]}}"#
            );
            Descriptor::parse(&json).map_err(|error| error.to_string())
        };
        let paths = |environment: &str| -> Vec<String> {
            of(environment).expect("valid").path_variables().map(str::to_owned).collect()
        };
        assert_eq!(paths(r#"{"pass":["X_CERT","X_MODE"],"paths":["X_CERT"]}"#), ["X_CERT"]);
        assert_eq!(paths(r#"{"pass":["X_CERT"]}"#), ["X_LOGIN"], "the component does not say");
        assert!(paths(r#"{"paths":[]}"#).is_empty());
        let error = of(r#"{"pass":["X_CERT"],"paths":["X_OTHER"]}"#).expect_err("refused");
        assert!(error.contains("names `X_OTHER`"), "{error}");
    }

    #[test]
    fn a_component_takes_profiles_if_it_says_so_or_requires_a_program() {
        let takes = |more: &str| {
            let json = format!(r#"{{"name":"x","version":"1","programs":[{{"name":"x"}}]{more}}}"#);
            Descriptor::parse(&json).expect("valid").takes_profiles()
        };
        assert!(takes(r#","profiles":true"#));
        assert!(takes(r#","options":{"required":["program"]}"#), "it was built before the field");
        assert!(!takes(r#","profiles":false,"options":{"required":["program"]}"#));
        assert!(!takes(""));
    }

    #[test]
    fn all_faults_are_reported_at_once() {
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
