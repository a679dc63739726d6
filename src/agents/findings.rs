//! Examines agents before they are used: program, version, credentials, and settings that they do
//! not support.

use std::collections::HashMap;
use std::error::Error as _;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::version::{missing_version, untested_version, version_in};
use aetheel_model::agent::descriptor::{Credential, Feature};
use aetheel_model::agent::{AllowedTools, Descriptor, Mode};
use aetheel_model::finding::{Finding, FindingLevel};
use aetheel_model::plain::{one_line, with_causes};
use aetheel_process::{Custody, ProbeError, ProgramError, find_program};
use aetheel_settings::Config;
use aetheel_turn::ReachPolicy;

/// Time limit for a program to print its version; `QUERY_TIMEOUT_MS` if that is less. Some programs
/// take seconds on a busy machine.
const VERSION_TIMEOUT: Duration = Duration::from_secs(20);

/// Largest length of a quotation of a program's stderr, in bytes.
const MAX_STDERR_BYTES: usize = 300;

/// Result of the examination of a backend's agent on this machine.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The path of its program, or `None` if it was not found.
    pub program: Option<PathBuf>,
    /// The version that its program reports, for example `2.1.197`.
    pub version: Option<String>,
    /// Reasons why it cannot work.
    pub faults: Vec<AgentFault>,
    /// Warnings about its version and about settings that have another effect.
    pub warnings: Vec<Finding>,
}

impl Findings {
    /// Returns all reasons as one line. Empty if the agent can work.
    pub fn reasons(&self) -> String {
        let reasons: Vec<String> =
            self.faults.iter().map(|fault| fault.finding.to_string()).collect();
        reasons.join("; ")
    }

    /// Returns the problems of the default backend for the report of a start.
    pub fn of_default<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Finding> + 'a {
        self.faults.iter().map(move |AgentFault { finding, .. }| {
            let message = match finding.level {
                FindingLevel::Warning => {
                    return Finding::warning(
                        finding.subject.as_str(),
                        format!("backend `{name}`: {finding}; prompts still go to it"),
                    );
                }
                _ => format!("backend `{name}`: {}", finding.message),
            };
            Finding { message, ..finding.clone() }
        })
    }
}

/// A reason why an agent cannot work here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentFault {
    /// A few words without paths, for people who want to use the agent.
    pub brief: &'static str,
    /// The problem and the next step, for the operator. It is a warning if it may be temporary, so
    /// that it does not prevent a start.
    pub finding: Finding,
}

impl AgentFault {
    fn new(brief: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { brief, finding: Finding::unavailable("agent", message).with_hint(hint) }
    }
}

/// Examines agents on this machine.
pub struct Examiner {
    /// The operator's settings.
    pub config: Config,
    /// The gateway's own environment.
    pub variables: HashMap<String, String>,
    /// Starts programs to ask them for their version.
    pub custody: Custody,
    /// The paths that confined agents may access, or `None` if agents are not confined.
    pub fence: Option<ReachPolicy>,
}

/// Where to find a backend's first program.
#[derive(Clone, Debug, Default)]
pub struct ProgramLocation {
    /// Path of the program. Without one, it is searched for in `PATH`.
    pub path: Option<PathBuf>,
    /// How the operator can set another path.
    pub hint: Option<&'static str>,
    /// Whether it is the default backend, to which settings such as `BACKEND_MODEL` apply.
    pub default: bool,
}

impl Examiner {
    /// Inspects an agent without starting it.
    pub fn inspect(&self, descriptor: &Descriptor, place: &ProgramLocation) -> Findings {
        let mut findings = Findings {
            warnings: ignored_settings(descriptor, &self.config, &self.variables, place.default),
            ..Findings::default()
        };
        match descriptor
            .programs
            .first()
            .map(|program| locate(&program.name, place.path.as_deref(), &self.variables))
        {
            Some(Ok(path)) => findings.program = Some(path),
            Some(Err(error)) => {
                let or = place.hint.map(|hint| format!(", or {hint}")).unwrap_or_default();
                findings.faults.push(AgentFault::new(
                    "its program is not installed",
                    error.to_string(),
                    format!("install it or add its folder to PATH{or}"),
                ));
            }
            None => {}
        }
        if descriptor.own_sandbox && !self.custody.sandbox().allows_mounts() {
            findings.warnings.push(warning(format!(
                "backend `{}`: its agent confines its commands with mounts, which is impossible under Landlock; below full rights they fail \
                 until bubblewrap is installed and user namespaces are allowed",
                descriptor.name
            )));
        }
        let seen = descriptor.environment.seen_by_agent(&self.variables);
        findings.faults.extend(missing_credentials(descriptor, &seen));
        findings.faults.extend(root_fault(descriptor, &self.config, &seen));
        findings
    }

    /// Inspects an agent and runs its program to get its version, for at most [`VERSION_TIMEOUT`].
    /// A program that fails or does not respond is a reason why the agent cannot work.
    pub async fn examine(&self, descriptor: &Descriptor, place: &ProgramLocation) -> Findings {
        let mut findings = self.inspect(descriptor, place);
        let arguments = descriptor
            .programs
            .first()
            .map(|program| program.version_arguments.as_slice())
            .unwrap_or_default();
        if let (Some(path), false) = (&findings.program, arguments.is_empty()) {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let environment = self
                .variables
                .iter()
                .filter(|(name, _)| aetheel_turn::BASE_VARIABLES.contains(&name.as_str()));
            let environment =
                environment.map(|(name, value)| (name.clone(), value.clone())).collect();
            let seen = descriptor.environment.seen_by_agent(&self.variables);
            let variable = |name: &str| seen.get(name).cloned();
            let reach = self
                .fence
                .as_ref()
                .map(|fence| fence.reach(descriptor, variable))
                .unwrap_or_default();
            let limit = self.config.agents.query_timeout.min(VERSION_TIMEOUT);
            match self.custody.probe(path, &arguments, environment, reach, limit).await {
                Ok(said) => {
                    let version = version_in(&said);
                    return Self::with_version(descriptor, findings, version);
                }
                Err(error) => findings.faults.push(probe_fault(path, &arguments, &error, place)),
            }
        }
        findings
    }

    /// Completes the findings about an agent whose program ran, with the version in its output.
    pub fn with_version(
        descriptor: &Descriptor,
        mut findings: Findings,
        version: Option<String>,
    ) -> Findings {
        findings.version = version;
        findings.warnings.extend(missing_version(descriptor, findings.version.as_deref()));
        findings.warnings.extend(untested_version(descriptor, findings.version.as_deref()));
        findings
    }
}

/// Returns the problem of a program that failed when it was asked for its version.
fn probe_fault(
    path: &Path,
    arguments: &[&str],
    error: &ProbeError,
    place: &ProgramLocation,
) -> AgentFault {
    let what = match error {
        ProbeError::Launch(error) => format!(
            "cannot be started: {}",
            error.source().map_or_else(|| error.to_string(), with_causes)
        ),
        ProbeError::Timeout { limit, .. } => {
            format!("did not answer within {} s", limit.as_secs_f32())
        }
        ProbeError::Failed { code, stderr, .. } => {
            let how = code.map_or("was ended by a signal".to_owned(), |code| {
                format!("ended with code {code}")
            });
            // The last line of stderr is most likely to contain the reason.
            let last =
                stderr.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(one_line);
            let last = last
                .map(|last| format!(": {}", &last[..last.floor_char_boundary(MAX_STDERR_BYTES)]));
            how + &last.unwrap_or_default()
        }
    };
    let asked = std::iter::once(path.display().to_string())
        .chain(arguments.iter().map(|word| (*word).to_owned()));
    let asked = asked.collect::<Vec<_>>().join(" ");
    let or = place.hint.map(|hint| format!(", or {hint}")).unwrap_or_default();
    let mut fault = AgentFault::new(
        "its program does not run",
        format!("`{asked}` {what}"),
        format!("run it by hand, and reinstall the agent{or}"),
    );
    if matches!(error, ProbeError::Timeout { .. }) {
        fault.finding.level = FindingLevel::Warning;
    }
    fault
}

/// The reason why a backend's program is not found.
#[derive(Debug, thiserror::Error)]
enum LocateError {
    #[error("cannot find this program: {0}")]
    Own(#[source] std::io::Error),
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// Finds a backend's program: at the operator's path, or in `PATH`. A program named `aetheel` is
/// this one.
fn locate(
    name: &str,
    operators: Option<&Path>,
    variables: &HashMap<String, String>,
) -> Result<PathBuf, LocateError> {
    let path = variables.get("PATH").map_or("", String::as_str);
    let wanted = match operators {
        Some(path) => path.to_owned(),
        None if name == env!("CARGO_PKG_NAME") => {
            std::env::current_exe().map_err(LocateError::Own)?
        }
        None => PathBuf::from(name),
    };
    Ok(find_program(&wanted, OsStr::new(path))?)
}

/// Returns whether a credential exists on this machine.
pub fn is_present(credential: &Credential, variables: &HashMap<String, String>) -> bool {
    let home = || variables.get("HOME").map(PathBuf::from).unwrap_or_default();
    match credential {
        Credential::Variable(name) => {
            variables.get(name).is_some_and(|value| !value.trim().is_empty())
        }
        Credential::File(path) => path
            .strip_prefix("~/")
            .map_or_else(|| PathBuf::from(path), |rest| home().join(rest))
            .is_file(),
    }
}

fn missing_credentials(
    descriptor: &Descriptor,
    variables: &HashMap<String, String>,
) -> Option<AgentFault> {
    let found = descriptor.credentials.iter().any(|credential| is_present(credential, variables));
    if found || descriptor.credentials.is_empty() {
        return None;
    }
    let variables = descriptor.credentials.iter().filter_map(|credential| match credential {
        Credential::Variable(name) => Some(name.as_str()),
        Credential::File(_) => None,
    });
    let files = descriptor.credentials.iter().filter_map(|credential| match credential {
        Credential::File(path) => Some(path.as_str()),
        Credential::Variable(_) => None,
    });
    let ways = [("set ", one_of(variables)), ("sign in, which creates ", one_of(files))];
    let ways: Vec<String> =
        ways.into_iter().filter_map(|(how, what)| Some(format!("{how}{}", what?))).collect();
    Some(AgentFault::new("it is not signed in", "no credentials found", ways.join(", or ")))
}

/// Joins names as `a, b or c`. Returns `None` without names.
fn one_of<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut names: Vec<&str> = names.collect();
    let last = names.pop()?;
    Some(if names.is_empty() { last.to_owned() } else { format!("{} or {last}", names.join(", ")) })
}

fn root_fault(
    descriptor: &Descriptor,
    config: &Config,
    variables: &HashMap<String, String>,
) -> Option<AgentFault> {
    let rule = descriptor.root.as_ref()?;
    let applies = rustix::process::geteuid().is_root()
        && config.mode == Mode::Build
        && config.safety >= rule.refused_from;
    (applies && !variables.contains_key(&rule.unless_variable)).then(|| {
        AgentFault::new(
            "it refuses to run with these rights",
            "it refuses this PERMISSION_MODE to the root user",
            format!(
                "run as another user, choose a lower mode, or set {}=1 in a container you trust",
                rule.unless_variable
            ),
        )
    })
}

/// Lists the operator's settings that the backend will ignore. Models and efforts are set for the
/// default backend only.
fn ignored_settings(
    descriptor: &Descriptor,
    config: &Config,
    variables: &HashMap<String, String>,
    default: bool,
) -> Vec<Finding> {
    let (name, effort) = (&descriptor.name, config.backend_effort.as_ref().filter(|_| default));
    let lacks = |feature| !descriptor.has(feature);
    let ignored = |setting: &str| {
        warning(format!("backend `{name}` does not support {setting}; it is ignored"))
    };
    // The scripted agent has no tools.
    let is_demo =
        descriptor.programs.first().is_some_and(|first| first.name == env!("CARGO_PKG_NAME"));
    let unlimited = config.allowed_tools != AllowedTools::All && lacks(Feature::AllowedTools);
    let mut warnings = Vec::new();
    if default && config.backend_model.is_some() && lacks(Feature::Model) {
        warnings.push(ignored("BACKEND_MODEL"));
    }
    if effort.is_some() && lacks(Feature::Effort) {
        warnings.push(ignored("BACKEND_EFFORT"));
    }
    if unlimited && !is_demo {
        warnings.push(warning(format!(
            "`{name}` cannot limit its own tools, so Aetheel does it: the agent asks before each change, and anything not in ALLOWED_TOOLS is refused"
        )));
    }
    if variables.contains_key("BACKEND_MAX_TURNS") && lacks(Feature::MaxTurns) {
        warnings.push(warning(format!(
            "`{name}` cannot limit its own rounds, so Aetheel does it: the turn is stopped after BACKEND_MAX_TURNS tool uses"
        )));
    }
    if config.mode == Mode::Plan && lacks(Feature::Plan) {
        warnings.push(ignored("PERMISSION_MODE=plan"));
    }
    if let Some(effort) = effort.filter(|_| descriptor.has(Feature::Effort))
        && !descriptor.efforts.iter().any(|choice| {
            choice.id.eq_ignore_ascii_case(effort) || choice.label.eq_ignore_ascii_case(effort)
        })
    {
        let known: Vec<&str> = descriptor.efforts.iter().map(|choice| choice.id.as_str()).collect();
        warnings.push(warning(format!("BACKEND_EFFORT {effort:?} is not a level of backend `{name}`, which has {}; it is ignored", known.join(", "))));
    }
    warnings
}

fn warning(message: String) -> Finding {
    Finding::warning("agent", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(more: &str) -> Descriptor {
        Descriptor::parse(&format!(
            r#"{{"name":"x","version":"1","programs":[{{"name":"x"}}]{more}}}"#
        ))
        .expect("valid")
    }

    #[test]
    fn versions_are_found_in_what_agents_print() {
        for (said, version) in [
            ("2.1.197 (Claude Code)", "2.1.197"),
            ("codex-cli 0.169.0\n", "0.169.0"),
            ("v1.2.3-beta.1", "1.2.3-beta.1"),
        ] {
            assert_eq!(version_in(said).as_deref(), Some(version));
        }
        assert_eq!(version_in("no version here"), None);
        assert_eq!(version_in("tool 1.2\u{1b}[2J\u{202e}.3").as_deref(), Some("1.2"));
    }

    #[test]
    fn missing_credentials_list_every_way() {
        let many = descriptor(
            r#","credentials":[{"file":"~/.x/a"},{"variable":"A"},{"variable":"B"},{"variable":"C"}]"#,
        );
        let fault =
            missing_credentials(&many, &HashMap::new()).expect("missing").finding.to_string();
        assert_eq!(fault, "no credentials found; set A, B or C, or sign in, which creates ~/.x/a");
        let descriptor =
            descriptor(r#","credentials":[{"variable":"X_KEY"},{"file":"~/.x/login"}]"#);
        let fault =
            missing_credentials(&descriptor, &HashMap::new()).expect("missing").finding.to_string();
        assert!(fault.contains("set X_KEY") && fault.contains("~/.x/login"), "{fault}");
        assert_eq!(
            missing_credentials(&descriptor, &HashMap::from([("X_KEY".into(), "1".into())])),
            None
        );
        let home = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(home.path().join(".x")).expect("made");
        std::fs::write(home.path().join(".x/login"), "").expect("written");
        assert_eq!(
            missing_credentials(
                &descriptor,
                &HashMap::from([("HOME".into(), home.path().display().to_string())])
            ),
            None
        );
    }

    #[test]
    fn untested_and_missing_agent_versions_cause_warnings() {
        let descriptor = descriptor(r#","understands":[">=2.0.0, <3.0.0"]"#);
        assert_eq!(untested_version(&descriptor, Some("2.1.197")), None);
        assert!(
            untested_version(&descriptor, Some("3.0.1"))
                .expect("a warning")
                .message
                .contains("3.0.1")
        );
        assert_eq!(untested_version(&descriptor, None), None);
        assert_eq!(missing_version(&descriptor, Some("2.1.197")), None);
        let told = missing_version(&descriptor, version_in("a development build").as_deref())
            .expect("a warning");
        assert!(
            told.message.contains("no version number") && told.message.contains(">=2.0.0"),
            "{told}"
        );
        assert_eq!(
            missing_version(&self::descriptor(""), None),
            None,
            "the backend declares no versions"
        );
    }

    fn warnings(set: &[(&str, &str)], descriptor: &Descriptor, default: bool) -> Vec<Finding> {
        let variables: HashMap<String, String> =
            set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let config = Config::read(|name| variables.get(name).cloned()).expect("valid");
        ignored_settings(descriptor, &config, &variables, default)
    }

    #[test]
    fn options_the_backend_ignores_are_named() {
        let set = [("ALLOWED_TOOLS", "Read"), ("BACKEND_MODEL", "m"), ("BACKEND_EFFORT", "high")];
        let told = warnings(&set, &descriptor(""), true);
        assert_eq!(told.len(), 3, "{told:?}");
        let told = warnings(&set, &descriptor(""), false);
        assert_eq!(told.len(), 1, "BACKEND_MODEL is for the default backend only: {told:?}");
        let able = descriptor(
            r#","features":["model","allowed-tools","max-turns","effort"],"efforts":[{"id":"high","label":"High"}]"#,
        );
        assert!(warnings(&set, &able, true).is_empty());
    }

    #[test]
    fn an_unknown_level_of_effort_is_ignored_and_the_known_ones_are_listed() {
        let able = descriptor(
            r#","features":["effort","allowed-tools"],"efforts":[{"id":"low","label":"Low"},{"id":"high","label":"High"}]"#,
        );
        let told = warnings(&[("BACKEND_EFFORT", "extreme")], &able, true);
        assert!(told.len() == 1 && told[0].message.contains("low, high"), "{told:?}");
        assert!(warnings(&[("BACKEND_EFFORT", "HIGH")], &able, true).is_empty());
    }
}
