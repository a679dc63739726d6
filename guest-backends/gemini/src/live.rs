//! Gemini CLI's differences within the Agent Client Protocol.

use aetheel_acp_client::{Agent, Launch, Modes};
use aetheel_backend_sdk::wit::{EventKind, Failure, StartTurn};

use crate::{RETRY_PAUSE_MS, failure, plan, policy};

/// `gemini --acp`.
///
/// The system prompt precedes the first prompt of a session, because Gemini CLI 0.61.0 has no other
/// place for it that keeps its own system prompt. `GEMINI_SYSTEM_MD` would replace that one,
/// `GEMINI_CLI_HOME` would move the sign-in and the sessions, and settings files in variables are
/// read only if root owns them and all parent folders.
#[derive(Debug)]
pub struct Live {
    modes: Modes,
    /// The rules of the latest process: for the allowed tools, and for the tools of the host.
    policies: (Option<String>, Option<String>),
}

impl Default for Live {
    fn default() -> Self {
        let mode = |id: &str| Some(id.to_owned());
        Self {
            modes: Modes {
                default: mode("default"),
                edit: mode("autoEdit"),
                danger: mode("yolo"),
                plan: mode("plan"),
            },
            policies: (None, None),
        }
    }
}

impl Agent for Live {
    fn describe() -> String {
        include_str!("descriptor.json").to_owned()
    }

    fn launch(&mut self, start: Option<&StartTurn>) -> Result<Launch, Failure> {
        self.policies = (
            start.and_then(|start| policy::of(&start.settings)),
            start.and_then(|start| policy::of_host_tools(&start.tools)),
        );
        let allowed = self.policies.0.iter().map(|rules| (policy::FLAG, policy::FILE, rules));
        let host =
            self.policies.1.iter().map(|rules| (policy::HOST_FLAG, policy::HOST_FILE, rules));
        let files =
            allowed.chain(host).map(|(flag, file, rules)| (flag, file, rules.clone())).collect();
        let environment = plan::ENVIRONMENT
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Ok(Launch {
            program: "gemini".to_owned(),
            arguments: vec!["--acp".to_owned()],
            environment,
            files,
        })
    }

    fn fits(&self, start: &StartTurn) -> bool {
        let host = policy::of_host_tools(&start.tools);
        self.policies.0 == policy::of(&start.settings)
            && (host.is_none() || self.policies.1 == host)
    }

    fn modes(&self) -> &Modes {
        &self.modes
    }

    fn aside(&self, text: &str) -> Option<EventKind> {
        text.strip_prefix("[MODE_UPDATE] ").map(|mode| EventKind::Mode(mode.to_owned()))
    }

    fn retry_pause_ms(&self) -> Option<f64> {
        Some(RETRY_PAUSE_MS)
    }

    fn start_failure(&self, code: u32, stderr: &str) -> Option<Failure> {
        (code != 0).then(|| failure::at_exit(Some(code), stderr))
    }
}
