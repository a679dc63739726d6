//! The operator's decisions about running agents, in the form a turn needs it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;

use super::{Fence, Reach};
use aetheel_model::agent::Descriptor;
use aetheel_model::agent::descriptor::Credential;
use aetheel_model::baseline::Baselines;

/// Variables every agent gets where the gateway has them: enough to find programs, homes,
/// certificates and proxies.
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

/// The agents on this machine as far as they are known, by backend. Clones share it, because backends come
/// while turns run.
#[derive(Clone, Debug, Default)]
pub struct Agents {
    known: Arc<RwLock<HashMap<String, Agent>>>,
    baselines: Baselines,
}

/// One backend's agent as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agent {
    /// Where its programs are, by declared name; others are looked up in `PATH`.
    pub programs: HashMap<String, PathBuf>,
    /// The output of its version probe, for example `2.1.197`.
    pub version: Option<String>,
}

impl Agents {
    /// Remembers what was found, in place of what was known before.
    pub fn set(&self, backend: &str, agent: Agent) {
        self.known.write().insert(backend.to_owned(), agent);
    }

    /// Says where a program is.
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

    /// A backend's agent; nothing is known of it before it was looked at.
    #[must_use]
    pub fn get(&self, backend: &str) -> Agent {
        self.known.read().get(backend).cloned().unwrap_or_default()
    }
}

/// How agents are run here.
#[derive(Clone, Debug)]
pub struct Host {
    /// The gateway's own environment at start, secrets of its own removed.
    pub variables: HashMap<String, String>,
    /// Names of further variables agents get.
    pub further_variables: Vec<String>,
    /// The agents here as far as they are known.
    pub agents: Agents,
    /// How agents are confined, for people.
    pub sandbox: String,
    /// Whether agents that confine their own commands by mounts can do so here.
    pub mounts: bool,
    /// The reach of confined agents; none: they are not confined.
    pub fence: Option<Fence>,
    /// Put before the program.
    pub wrapper: Vec<String>,
    /// Working directory of agents that belong to no session.
    pub cwd: PathBuf,
    /// Longest turn, without the time in which people are asked.
    pub query_timeout: Duration,
    /// Longest time an agent may say nothing while none of its tools runs.
    pub idle_timeout: Option<Duration>,
    /// Time a question to people stays open.
    pub ask_timeout: Duration,
    /// Time a long-lived agent is kept without a turn.
    pub link_idle: Duration,
    /// Long-lived agents kept at most without a turn.
    pub links_warm: usize,
    /// Between the steps of the stop ladder.
    pub stop_grace: Duration,
    /// Tool rounds of agents that have no limit of their own.
    pub max_turns: u32,
    /// Longest line of output, bytes; the rest of a longer one is dropped.
    pub line_limit: usize,
    /// Output of a run, bytes.
    pub output_limit: u64,
}

impl Host {
    /// The environment an agent gets before what its guest sets: base list, the operator's further
    /// names, and what the descriptor declares (credentials, `environment.pass`).
    #[must_use]
    pub fn environment(&self, descriptor: &Descriptor) -> Vec<(String, String)> {
        let credentials = descriptor.credentials.iter().filter_map(|credential| match credential {
            Credential::Variable(name) => Some(name.as_str()),
            Credential::File(_) => None,
        });
        let mut names: Vec<&str> = BASE_VARIABLES
            .iter()
            .copied()
            .chain(self.further_variables.iter().map(String::as_str))
            .chain(descriptor.environment.pass.iter().map(String::as_str))
            .chain(credentials)
            .collect();
        names.sort_unstable();
        names.dedup();
        names
            .into_iter()
            .filter_map(|name| {
                self.variables.get(name).map(|value| (name.to_owned(), value.clone()))
            })
            .collect()
    }

    /// The reach of a backend's agent, before its working directory and temporary folder.
    #[must_use]
    pub fn reach(&self, descriptor: &Descriptor, environment: &[(String, String)]) -> Reach {
        let variable = |name: &str| {
            environment.iter().find(|(set, _)| set == name).map(|(_, value)| value.clone())
        };
        self.fence.as_ref().map(|fence| fence.reach(descriptor, variable)).unwrap_or_default()
    }

    /// The program a backend's declared name stands for.
    #[must_use]
    pub fn program(&self, backend: &str, name: &str) -> PathBuf {
        self.agents.get(backend).programs.remove(name).unwrap_or_else(|| PathBuf::from(name))
    }

    /// The version of a backend's agent, where it is known.
    #[must_use]
    pub fn agent_version(&self, backend: &str) -> Option<String> {
        self.agents.get(backend).version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_variables_reach_an_agent() {
        let descriptor = Descriptor::parse(
            r#"{"name":"x","version":"1","programs":[{"name":"x"}],"environment":{"pass":["X_URL"]},"credentials":[{"variable":"X_KEY"}]}"#,
        )
        .expect("valid");
        let variables =
            ["PATH", "X_URL", "X_KEY", "EXTRA", "DISCORD_BOT_TOKEN", "AWS_SECRET_ACCESS_KEY"];
        let host = Host {
            variables: variables
                .iter()
                .map(|name| ((*name).to_owned(), format!("value of {name}")))
                .collect(),
            further_variables: vec!["EXTRA".into()],
            agents: Agents::default(),
            sandbox: String::new(),
            mounts: true,
            fence: None,
            wrapper: vec![],
            cwd: "/".into(),
            query_timeout: Duration::ZERO,
            idle_timeout: None,
            ask_timeout: Duration::ZERO,
            link_idle: Duration::ZERO,
            links_warm: 0,
            stop_grace: Duration::ZERO,
            max_turns: 1,
            line_limit: 1,
            output_limit: 1,
        };
        let names: Vec<String> =
            host.environment(&descriptor).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["EXTRA", "PATH", "X_KEY", "X_URL"]);
    }
}
