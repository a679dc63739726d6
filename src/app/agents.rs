//! Looking at an agent before anything starts: its program, version, credentials, and what it cannot do here.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::agent::descriptor::{Credential, Feature};
use crate::agent::{Descriptor, Mode};
use crate::config::Config;
use crate::process::{Custody, find_program};

/// What was found out about the agent of a backend.
#[derive(Debug, Default)]
pub struct Findings {
    /// Its program.
    pub program: Option<PathBuf>,
    /// For example `2.1.197`.
    pub version: Option<String>,
    /// Reasons why it cannot work; each says what to do.
    pub faults: Vec<String>,
    /// What works otherwise than set.
    pub warnings: Vec<String>,
}

/// Looks at the agent of the backend that will answer.
pub async fn examine(descriptor: &Descriptor, config: &Config, variables: &HashMap<String, String>, custody: &Custody) -> Findings {
    let mut findings = Findings { warnings: unsupported(descriptor, config, variables), ..Findings::default() };
    findings.faults.extend(missing_credentials(descriptor, variables));
    findings.faults.extend(root_fault(descriptor, config, variables));
    let Some(program) = descriptor.programs.first() else { return findings };
    match locate(&program.name, config.backend_cli_path.as_deref(), variables) {
        Ok(path) => {
            if !program.version_arguments.is_empty() {
                let arguments: Vec<&str> = program.version_arguments.iter().map(String::as_str).collect();
                let environment = variables.iter().filter(|(name, _)| crate::turn::BASE_VARIABLES.contains(&name.as_str()));
                let environment = environment.map(|(name, value)| (name.clone(), value.clone())).collect();
                match custody.probe(&path, &arguments, environment, Duration::from_secs(10)).await {
                    Ok(said) => findings.version = version_in(&said),
                    Err(error) => findings.warnings.push(format!("the version of {} is unknown: {error}", path.display())),
                }
            }
            findings.program = Some(path);
        }
        Err(error) => findings
            .faults
            .push(format!("backend `{}`: {error}; install it, add its folder to PATH or set BACKEND_CLI_PATH", descriptor.name)),
    }
    findings.warnings.extend(untested(descriptor, findings.version.as_deref()));
    findings
}

/// Finds a backend's program: the operator's path, ourselves, or `PATH`.
fn locate(name: &str, operators: Option<&Path>, variables: &HashMap<String, String>) -> Result<PathBuf, String> {
    let path = variables.get("PATH").map_or("", String::as_str);
    let wanted = match operators {
        Some(path) => path.to_owned(),
        None if name == env!("CARGO_PKG_NAME") => std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?,
        None => PathBuf::from(name),
    };
    find_program(&wanted, OsStr::new(path)).map_err(|error| error.to_string())
}

fn missing_credentials(descriptor: &Descriptor, variables: &HashMap<String, String>) -> Option<String> {
    let home = variables.get("HOME").map(PathBuf::from).unwrap_or_default();
    let found = descriptor.credentials.iter().any(|credential| match credential {
        Credential::Variable(name) => variables.get(name).is_some_and(|value| !value.trim().is_empty()),
        Credential::File(path) => path.strip_prefix("~/").map_or_else(|| PathBuf::from(path), |rest| home.join(rest)).is_file(),
    });
    if found || descriptor.credentials.is_empty() {
        return None;
    }
    let ways: Vec<String> = descriptor
        .credentials
        .iter()
        .map(|credential| match credential {
            Credential::Variable(name) => format!("set {name}"),
            Credential::File(path) => format!("sign in, which makes {path}"),
        })
        .collect();
    Some(format!("backend `{}`: no credentials found; {}", descriptor.name, ways.join(", or ")))
}

fn root_fault(descriptor: &Descriptor, config: &Config, variables: &HashMap<String, String>) -> Option<String> {
    let rule = descriptor.root.as_ref()?;
    let applies = rustix::process::geteuid().is_root() && config.mode == Mode::Build && config.safety >= rule.refused_from;
    (applies && !variables.contains_key(&rule.unless_variable)).then(|| {
        format!(
            "backend `{}` refuses this PERMISSION_MODE to the root user; run as another user, choose a lower mode, or set {}=1 in a container you trust",
            descriptor.name, rule.unless_variable
        )
    })
}

/// What the operator set and the backend will ignore.
fn unsupported(descriptor: &Descriptor, config: &Config, variables: &HashMap<String, String>) -> Vec<String> {
    let ignored = [
        ("BACKEND_MODEL", config.backend_model.is_some() && !descriptor.has(Feature::Model), "ignored"),
        ("ALLOWED_TOOLS", variables.contains_key("ALLOWED_TOOLS") && !descriptor.has(Feature::AllowedTools), "ignored"),
        (
            "BACKEND_MAX_TURNS",
            variables.contains_key("BACKEND_MAX_TURNS") && !descriptor.has(Feature::MaxTurns),
            "replaced by a limit of tool uses kept by the gateway",
        ),
        ("PERMISSION_MODE=plan", config.mode == Mode::Plan && !descriptor.has(Feature::Plan), "ignored"),
    ];
    ignored
        .into_iter()
        .filter(|(_, applies, _)| *applies)
        .map(|(name, _, what)| format!("backend `{}` does not support {name}; it is {what}", descriptor.name))
        .collect()
}

/// Whether the installed version is one the backend was made for.
fn untested(descriptor: &Descriptor, version: Option<&str>) -> Option<String> {
    let installed = semver::Version::parse(version?).ok()?;
    let ranges: Vec<semver::VersionReq> = descriptor.understands.iter().filter_map(|range| semver::VersionReq::parse(range).ok()).collect();
    (!ranges.is_empty() && !ranges.iter().any(|range| range.matches(&installed))).then(|| {
        format!(
            "backend `{}` was made for agent versions {}, installed is {installed}; if answers are lost, look for a newer backend",
            descriptor.name,
            descriptor.understands.join(" or ")
        )
    })
}

/// The first `number.number.number…` in what a program said.
fn version_in(said: &str) -> Option<String> {
    let said = said.split(|c: char| c.is_whitespace() || "(),/@".contains(c));
    said.map(|word| word.trim_start_matches('v'))
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))
        .map(|word| word.chars().take(64).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(more: &str) -> Descriptor {
        Descriptor::parse(&format!(r#"{{"name":"x","version":"1","programs":[{{"name":"x"}}]{more}}}"#)).expect("valid")
    }

    #[test]
    fn versions_are_found_in_what_agents_print() {
        for (said, version) in [("2.1.197 (Claude Code)", "2.1.197"), ("codex-cli 0.169.0\n", "0.169.0"), ("v1.2.3-beta.1", "1.2.3-beta.1")]
        {
            assert_eq!(version_in(said).as_deref(), Some(version));
        }
        assert_eq!(version_in("no version here"), None);
    }

    #[test]
    fn missing_credentials_list_every_way() {
        let descriptor = descriptor(r#","credentials":[{"variable":"X_KEY"},{"file":"~/.x/login"}]"#);
        let fault = missing_credentials(&descriptor, &HashMap::new()).expect("missing");
        assert!(fault.contains("set X_KEY") && fault.contains("~/.x/login"), "{fault}");
        assert_eq!(missing_credentials(&descriptor, &HashMap::from([("X_KEY".into(), "1".into())])), None);
        let home = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(home.path().join(".x")).expect("made");
        std::fs::write(home.path().join(".x/login"), "").expect("written");
        assert_eq!(missing_credentials(&descriptor, &HashMap::from([("HOME".into(), home.path().display().to_string())])), None);
    }

    #[test]
    fn an_agent_version_nobody_tried_is_warned_about() {
        let descriptor = descriptor(r#","understands":[">=2.0.0, <3.0.0"]"#);
        assert_eq!(untested(&descriptor, Some("2.1.197")), None);
        assert!(untested(&descriptor, Some("3.0.1")).expect("a warning").contains("3.0.1"));
        assert_eq!(untested(&descriptor, None), None);
    }

    #[test]
    fn options_the_backend_ignores_are_named() {
        let variables = HashMap::from([("ALLOWED_TOOLS".to_owned(), "Read".to_owned()), ("BACKEND_MODEL".to_owned(), "m".to_owned())]);
        let config = Config::read(|name| variables.get(name).cloned()).expect("valid");
        let warnings = unsupported(&descriptor(""), &config, &variables);
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(unsupported(&descriptor(r#","features":["model","allowed-tools","max-turns"]"#), &config, &variables).is_empty());
    }
}
