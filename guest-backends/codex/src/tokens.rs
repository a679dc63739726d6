//! The tokens of a turn. Codex reports sums over the whole conversation and counts cached input as
//! input.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::Usage;

/// Tokens as Codex counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    /// Tokens of the input, including `cached`.
    pub(crate) input: u32,
    pub(crate) cached: u32,
    /// Tokens of the output, including `reasoning`.
    pub(crate) output: u32,
    pub(crate) reasoning: u32,
}

impl Tokens {
    /// Reads the counts of `exec` (`input_tokens`) or of `app-server` (`inputTokens`).
    pub(crate) fn read(counts: &Value) -> Self {
        let count = |exec: &str, server: &str| {
            counts.count(exec).or_else(|| counts.count(server)).unwrap_or(0)
        };
        Self {
            input: count("input_tokens", "inputTokens"),
            cached: count("cached_input_tokens", "cachedInputTokens"),
            output: count("output_tokens", "outputTokens"),
            reasoning: count("reasoning_output_tokens", "reasoningOutputTokens"),
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cached: self.cached.saturating_add(other.cached),
            output: self.output.saturating_add(other.output),
            reasoning: self.reasoning.saturating_add(other.reasoning),
        }
    }

    /// Returns the tokens since `before`, or `None` if the sums went down because they belong to
    /// different conversations.
    pub(crate) fn since(self, before: Self) -> Option<Self> {
        Some(Self {
            input: self.input.checked_sub(before.input)?,
            cached: self.cached.checked_sub(before.cached)?,
            output: self.output.checked_sub(before.output)?,
            reasoning: self.reasoning.checked_sub(before.reasoning)?,
        })
    }

    pub(crate) fn usage(self) -> Usage {
        Usage {
            input: self.input.saturating_sub(self.cached),
            output: self.output,
            cached: self.cached,
            reasoning: self.reasoning,
            ..Usage::default()
        }
    }
}
