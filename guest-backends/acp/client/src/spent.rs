//! Tokens and money of a turn.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::Usage;

/// The figures an agent told of a session: cost counts from the session's beginning (OpenCode) or
/// the process' (claude-agent-acp).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    cost: Option<f64>,
    context: Option<(u32, Option<u32>)>,
    /// The cost when the turn began; none where it is not known, as in the first turn of a resumed
    /// session.
    before: Option<f64>,
}

impl Meter {
    /// The meter of a session that begins now.
    pub(crate) fn new() -> Self {
        Self { cost: Some(0.0), ..Self::default() }
    }

    /// Begins a turn: the cost so far belongs to those before.
    pub(crate) fn begin(&mut self) {
        self.before = self.cost;
    }

    /// Takes in the session update `usage_update`: context window and cost.
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

    /// Returns the usage of the turn from what its prompts' answers told; none where no tokens are
    /// told (Droid 0.225.2).
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

/// Tokens told with the answer to a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    input: u32,
    output: u32,
    cached: u32,
    reasoning: u32,
}

impl Spent {
    /// Reads the answer to a prompt.
    pub(crate) fn of(result: &Value) -> Option<Self> {
        let usage = &result["usage"];
        if let Some(input) = usage.count("inputTokens") {
            let count = |key| usage.count(key).unwrap_or_default();
            let (output, thought) = (count("outputTokens"), count("thoughtTokens"));
            let (read, written) = (count("cachedReadTokens"), count("cachedWriteTokens"));
            // OpenCode counts thinking beside the output, codex-acp as a part of it: the sum says
            // which.
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
