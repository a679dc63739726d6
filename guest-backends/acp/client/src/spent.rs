//! Token usage and cost of a turn.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::Usage;

/// The usage figures of a session. The cost is counted from the beginning of the session (OpenCode)
/// or of the process (claude-agent-acp).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    cost: Option<f64>,
    context: Option<(u32, Option<u32>)>,
    /// The cost at the beginning of the turn, or `None` if it is unknown, as in the first turn of a
    /// resumed session.
    before: Option<f64>,
}

impl Meter {
    /// Returns the meter of a new session.
    pub(crate) fn new() -> Self {
        Self { cost: Some(0.0), ..Self::default() }
    }

    /// Begins a turn. The current cost belongs to earlier turns.
    pub(crate) fn begin(&mut self) {
        self.before = self.cost;
    }

    /// Handles the session update `usage_update`, which reports the context window and the cost.
    pub(crate) fn update(&mut self, update: &Value) {
        if let Some(used) = update.count("used") {
            self.context = Some((used, update.count("size").filter(|size| *size > 0)));
        }
        let cost = &update["cost"];
        if cost.text("currency").is_none_or(|currency| currency == "USD")
            && let Some(amount) = cost.number("amount")
        {
            self.cost = Some(amount);
        }
    }

    /// Returns the usage of a turn. Returns `None` if the agent did not report tokens (Droid
    /// 0.225.2).
    pub(crate) fn usage(&self, spent: Option<Spent>) -> Option<Usage> {
        let spent = spent?;
        let cost = match (self.cost, self.before) {
            (Some(now), Some(before)) if now >= before => Some(now - before),
            _ => None,
        };
        Some(Usage {
            input: spent.input,
            output: spent.output,
            cached: spent.cached,
            reasoning: spent.reasoning,
            cost_usd: cost.filter(|cost| *cost > 0.0),
            cache_write: 0,
            models: Vec::new(),
            context_used: self.context.map(|(used, _)| used),
            context_size: self.context.and_then(|(_, size)| size),
        })
    }
}

/// The token counts in the answer to a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    input: u32,
    output: u32,
    cached: u32,
    reasoning: u32,
}

impl Spent {
    /// Reads the token counts from the answer to a prompt.
    pub(crate) fn of(result: &Value) -> Option<Self> {
        let usage = &result["usage"];
        if let Some(input) = usage.count("inputTokens") {
            let count = |key| usage.count(key).unwrap_or_default();
            let (output, thought) = (count("outputTokens"), count("thoughtTokens"));
            let (read, written) = (count("cachedReadTokens"), count("cachedWriteTokens"));
            // OpenCode counts thinking tokens in addition to the output, codex-acp as part of it.
            // The total shows which.
            let beside = usage.number("totalTokens")
                == Some([input, output, thought, read, written].map(f64::from).iter().sum());
            let output = if beside { output.saturating_add(thought) } else { output };
            return Some(Self {
                input: input.saturating_add(written),
                output,
                cached: read,
                reasoning: thought,
            });
        }
        // Gemini CLI 0.61.0.
        let tokens = &result["_meta"]["quota"]["token_count"];
        Some(Self {
            input: tokens.count("input_tokens")?,
            output: tokens.count("output_tokens").unwrap_or_default(),
            ..Self::default()
        })
    }

    /// Adds the tokens of another prompt of the turn.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cached: self.cached.saturating_add(other.cached),
            reasoning: self.reasoning.saturating_add(other.reasoning),
        }
    }
}
