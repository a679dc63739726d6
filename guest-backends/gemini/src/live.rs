//! Gemini CLI's differences within the Agent Client Protocol.

use aetheel_acp_client::{Agent, Launch, Modes};
use aetheel_backend_sdk::wit::{EventKind, Failure, Settings};

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
    /// The allowed tools of the latest process, as rules.
    policy: Option<String>,
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
            policy: None,
        }
    }
}

impl Agent for Live {
    fn describe() -> String {
        include_str!("descriptor.json").to_owned()
    }

    fn launch(&mut self, settings: Option<&Settings>) -> Result<Launch, Failure> {
        self.policy = settings.and_then(policy::of);
        let files =
            self.policy.iter().map(|policy| (policy::FLAG, policy::FILE, policy.clone())).collect();
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

    fn fits(&self, settings: &Settings) -> bool {
        self.policy == policy::of(settings)
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
