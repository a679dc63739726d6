//! Limits of the resources that a guest and its agent may use.

use std::time::Duration;

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
