//! The operator's settings for running agents.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;

use super::tools::ToolLimits;
use super::{Reach, ReachPolicy};
use aetheel_model::agent::Descriptor;
use aetheel_model::agent::descriptor::Credential;
use aetheel_model::baseline::Baselines;
use aetheel_model::limits::{AgentLimits, ResourceLimits};

/// Variables that every agent gets if the gateway has them: enough to find programs, home
/// directories, certificates and proxies.
pub const BASE_VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// The known agents of this machine, by backend. Clones share the data, because backends are added
/// while turns run.
#[derive(Clone, Debug, Default)]
pub struct Agents {
    known: Arc<RwLock<HashMap<String, InstalledAgent>>>,
    baselines: Baselines,
}

/// The known facts about one backend's agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstalledAgent {
    /// The paths of its programs, by declared name. Other programs are looked up in `PATH`.
    pub programs: HashMap<String, PathBuf>,
    /// The output of its version probe, for example `2.1.197`.
    pub version: Option<String>,
}

impl Agents {
    /// Replaces the facts about a backend's agent.
    pub fn set(&self, backend: &str, agent: InstalledAgent) {
        self.known.write().insert(backend.to_owned(), agent);
    }

    /// Sets the path of a program.
    pub fn set_program(&self, backend: &str, name: &str, path: &Path) {
        let mut known = self.known.write();
        known
            .entry(backend.to_owned())
            .or_default()
            .programs
            .insert(name.to_owned(), path.to_owned());
    }

    /// Returns the usual output of the agents.
    #[must_use]
    pub fn baselines(&self) -> &Baselines {
        &self.baselines
    }

    /// Returns the facts about a backend's agent. They are empty before the agent is examined.
    #[must_use]
    pub fn get(&self, backend: &str) -> InstalledAgent {
        self.known.read().get(backend).cloned().unwrap_or_default()
    }
}

/// How agents are run on this machine.
#[derive(Clone, Debug)]
pub struct Host {
    /// The gateway's environment at its start, without its own secrets.
    pub variables: HashMap<String, String>,
    /// Names of further variables that agents get.
    pub further_variables: Vec<String>,
    /// The known agents of this machine.
    pub agents: Agents,
    /// A description for people of how agents are confined.
    pub sandbox: String,
    /// Whether agents that confine their own commands by mounts can do so here.
    pub mounts: bool,
    /// The operator's rules for confined agents, or `None` if agents are not confined.
    pub reach_policy: Option<ReachPolicy>,
    /// Arguments that are put before the program.
    pub wrapper: Vec<String>,
    /// The working directory of agents that do not belong to a session.
    pub cwd: PathBuf,
    /// The limits of their time.
    pub limits: AgentLimits,
    /// Maximum number of tool uses in a turn, for agents that have no such limit of their own.
    pub max_turns: u32,
    /// Maximum number of calls of the host's tools.
    pub tool_limits: ToolLimits,
    /// The limits of their output, in lines and as a whole.
    pub resources: ResourceLimits,
}

impl Host {
    /// Returns the environment of an agent, before the variables that its guest sets: the base
    /// list, the operator's further names, and the variables that the descriptor declares
    /// (credentials and `environment.pass`).
    #[must_use]
    pub fn environment(&self, descriptor: &Descriptor) -> Vec<(String, String)> {
        let credentials = descriptor.credentials.iter().filter_map(|credential| match credential {
            Credential::Variable(name) => Some(name.as_str()),
            Credential::File(_) => None,
        });
        let declared = descriptor.environment.pass.iter().map(String::as_str).chain(credentials);
        // These variables are about the gateway's own traces. Only the operator passes them on.
        let declared = declared.filter(|name| {
            !name.starts_with("OTEL_") || descriptor.environment.sources.contains_key(*name)
        });
        let mut names: Vec<&str> = BASE_VARIABLES
            .iter()
            .copied()
            .chain(self.further_variables.iter().map(String::as_str))
            .chain(declared)
            .collect();
        names.sort_unstable();
        names.dedup();
        let variables = descriptor.environment.seen_by_agent(&self.variables);
        names
            .into_iter()
            .filter_map(|name| variables.get(name).map(|value| (name.to_owned(), value.clone())))
            .collect()
    }

    /// Returns the reach of a backend's agent, without its working directory and temporary folder.
    #[must_use]
    pub fn reach(&self, descriptor: &Descriptor, environment: &[(String, String)]) -> Reach {
        let variable = |name: &str| {
            environment.iter().find(|(set, _)| set == name).map(|(_, value)| value.clone())
        };
        self.reach_policy
            .as_ref()
            .map(|fence| fence.reach(descriptor, variable))
            .unwrap_or_default()
    }

    /// Returns the path of a program that a backend declares, or its name if the path is not known.
    #[must_use]
    pub fn program(&self, backend: &str, name: &str) -> PathBuf {
        self.agents.get(backend).programs.remove(name).unwrap_or_else(|| PathBuf::from(name))
    }

    /// Returns the version of a backend's agent, if it is known.
    #[must_use]
    pub fn agent_version(&self, backend: &str) -> Option<String> {
        self.agents.get(backend).version
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_listed_variables_reach_an_agent() {
        let descriptor = Descriptor::parse(
            r#"{"name":"x","version":"1","programs":[{"name":"x"}],"environment":{"pass":["X_URL","OTEL_SERVICE_NAME","OTEL_RESOURCE_ATTRIBUTES"]},"credentials":[{"variable":"X_KEY"},{"variable":"OTEL_X_HEADERS"}]}"#,
        )
        .expect("valid");
        let variables = [
            "PATH",
            "X_URL",
            "X_KEY",
            "EXTRA",
            "DISCORD_BOT_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "OTEL_SERVICE_NAME",
            "OTEL_RESOURCE_ATTRIBUTES",
            "OTEL_X_HEADERS",
        ];
        let host = Host {
            variables: variables
                .iter()
                .map(|name| ((*name).to_owned(), format!("value of {name}")))
                .collect(),
            further_variables: vec!["EXTRA".into(), "OTEL_RESOURCE_ATTRIBUTES".into()],
            agents: Agents::default(),
            sandbox: String::new(),
            mounts: true,
            reach_policy: None,
            wrapper: vec![],
            cwd: "/".into(),
            limits: AgentLimits {
                query_timeout: Duration::ZERO,
                idle_timeout: None,
                ask_timeout: Duration::ZERO,
                link_idle: Duration::ZERO,
                links_warm: 0,
                stop_grace: Duration::ZERO,
            },
            max_turns: 1,
            tool_limits: ToolLimits::default(),
            resources: ResourceLimits::default(),
        };
        let names: Vec<String> =
            host.environment(&descriptor).into_iter().map(|(name, _)| name).collect();
        // The operator names one of the variables for traces, and the backend the others.
        assert_eq!(names, ["EXTRA", "OTEL_RESOURCE_ATTRIBUTES", "PATH", "X_KEY", "X_URL"]);
    }
}
