//! The tool `aetheel_handoff`: work for another agent, another channel, or both.

use schemars::JsonSchema;
use serde::Deserialize;

use super::input::{HostToolInput, check_text, check_words};

/// Hands work over to another agent, to another channel, or both. The work is done and answered
/// there; you do not get the answer. People are asked first.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct HandOffRequest {
    /// The id of the channel. The default is this channel.
    pub channel: Option<String>,
    /// The name of the agent. The default is the agent of the channel.
    pub agent: Option<String>,
    /// The task, understandable without further context.
    pub text: String,
}

impl HostToolInput for HandOffRequest {
    fn check(&self) -> Result<(), &'static str> {
        if self.channel.is_none() && self.agent.is_none() {
            return Err("give `channel`, `agent` or both");
        }
        check_text(&self.text)?;
        check_words(self.channel.iter().chain(&self.agent))
    }
}
