//! The settings of agents on this machine.

use std::collections::HashMap;

use super::confinement;
use crate::agents::AgentRegistry;
use aetheel_process::Sandbox;
use aetheel_settings::Config;
use aetheel_turn::{AgentFolders, Host, ToolLimits};

/// Returns the settings of agents, from those of the operator.
#[must_use]
pub fn host_of(
    config: &Config,
    variables: &HashMap<String, String>,
    agents: &AgentRegistry,
    sandbox: &Sandbox,
) -> Host {
    Host {
        variables: variables.clone(),
        further_variables: config.agent_env.clone(),
        agents: agents.agents(),
        sandbox: sandbox.describe(),
        mounts: sandbox.allows_mounts(),
        reach_policy: confinement::fence(config, sandbox),
        wrapper: config.agent_wrapper.clone(),
        // The operator's links are resolved once. Later, none is followed.
        cwd: AgentFolders::resolve(&config.project_roots)
            .path_without_links(&config.workspace_dir)
            .or_else(|_| std::path::absolute(&config.workspace_dir))
            .unwrap_or_else(|_| config.workspace_dir.clone()),
        limits: config.agents.clone(),
        max_turns: config.backend_max_turns,
        tool_limits: ToolLimits {
            per_turn: config.host_tools_per_turn,
            per_hour: config.host_tools_per_hour,
        },
        resources: config.limits.clone(),
    }
}
