//! The configuration with which agents run in benches.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use aetheel_model::limits::{AgentLimits, ResourceLimits};
use aetheel_turn::{Agents, Host, ToolLimits};

/// Returns the host as `aetheel run` configures it without any settings, with this working
/// directory.
pub fn host(cwd: &Path) -> Host {
    Host {
        variables: HashMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap_or_default())]),
        further_variables: Vec::new(),
        agents: Agents::default(),
        sandbox: String::new(),
        mounts: true,
        reach_policy: None,
        wrapper: Vec::new(),
        cwd: cwd.to_owned(),
        limits: AgentLimits {
            query_timeout: Duration::from_secs(120),
            idle_timeout: None,
            ask_timeout: Duration::from_secs(600),
            link_idle: Duration::from_secs(900),
            links_warm: 5,
            stop_grace: Duration::from_secs(5),
        },
        max_turns: 25,
        tool_limits: ToolLimits::default(),
        resources: ResourceLimits::default(),
    }
}
