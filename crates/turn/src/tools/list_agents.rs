//! The tool `aetheel_list_agents`, whose calls have no input.

use schemars::JsonSchema;
use serde::Deserialize;

use super::input::HostToolInput;

/// Lists the agents and the channels that you can hand work over to, as far as the person who asked
/// you may see them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct ListAgents {}

impl HostToolInput for ListAgents {
    // An input of any form is accepted.
    fn parse(_: &str) -> serde_json::Result<Self> {
        Ok(Self {})
    }
}
