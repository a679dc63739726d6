//! Limits of agents, and of the resources that a guest and its agent may use.

use std::time::Duration;

/// Limits of the time of agents, and of the number that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentLimits {
    /// Maximum duration of a turn, without the time in which people are asked.
    pub query_timeout: Duration,
    /// Maximum time without output of an agent while none of its tools runs.
    pub idle_timeout: Option<Duration>,
    /// How long a question to people stays open.
    pub ask_timeout: Duration,
    /// How long a long-lived agent is kept without a turn.
    pub link_idle: Duration,
    /// Maximum number of long-lived agents that are kept without a turn.
    pub links_warm: usize,
    /// The time between the steps of stopping an agent.
    pub stop_grace: Duration,
}

/// Limits of the resources that a guest and its agent may use. The default values are also the
/// smallest that settings accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Maximum length of a line that is kept completely, in bytes.
    pub line: usize,
    /// Maximum output of a run, in bytes.
    pub output: u64,
    /// Maximum text of a prompt, in bytes.
    pub prompt: usize,
    /// Maximum size of all memories of one guest together, in bytes.
    pub guest_memory: usize,
    /// Number of guests whose memory is reserved and reused, or `None` for no such pool.
    pub guest_pool: Option<u32>,
    /// Maximum run time of one call into a guest.
    pub guest_call: Duration,
    /// Maximum size of a component, in bytes.
    pub component: u64,
    /// Maximum time to compile a component.
    pub compile: Duration,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self {
            line: 8 << 20,
            output: 64 << 20,
            prompt: 256 << 10,
            guest_memory: 128 << 20,
            guest_pool: Some(64),
            guest_call: Duration::from_millis(1_000),
            component: 48 << 20,
            compile: Duration::from_millis(120_000),
        }
    }
}
