//! Token usage and cost of a turn. They are the sum over its model requests (`step-finish`),
//! including those of sub-agents.

use std::collections::BTreeMap;

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::Usage;

/// The token usage and cost of a turn.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    /// The usage by part, so that a repeated part counts once.
    steps: BTreeMap<String, Usage>,
    context: Option<u32>,
}

impl Spent {
    /// Counts a `step-finish` part. `own` is true if it belongs to the agent itself and not to a
    /// sub-agent.
    pub(crate) fn step(&mut self, part: &Value, own: bool) {
        let tokens = &part["tokens"];
        let count = |key| tokens.count(key).unwrap_or_default();
        let cached = tokens["cache"]
            .count("read")
            .unwrap_or_default()
            .saturating_add(tokens["cache"].count("write").unwrap_or_default());
        let (input, output, reasoning) = (count("input"), count("output"), count("reasoning"));
        let usage = Usage {
            input,
            // OpenCode counts reasoning tokens in addition to the output (1.18.33).
            output: output.saturating_add(reasoning),
            cached,
            reasoning,
            cost_usd: part.number("cost"),
            ..Usage::default()
        };
        let used = [input, output, reasoning, cached].into_iter().fold(0, u32::saturating_add);
        if own && used > 0 {
            self.context = Some(used);
        }
        self.steps.insert(part.text("id").unwrap_or_default().to_owned(), usage);
    }

    /// Returns the sum, or `None` before the first request.
    pub(crate) fn usage(&self) -> Option<Usage> {
        let mut steps = self.steps.values();
        let mut sum = steps.next()?.clone();
        for step in steps {
            sum.input = sum.input.saturating_add(step.input);
            sum.output = sum.output.saturating_add(step.output);
            sum.cached = sum.cached.saturating_add(step.cached);
            sum.reasoning = sum.reasoning.saturating_add(step.reasoning);
            sum.cost_usd = match (sum.cost_usd, step.cost_usd) {
                (Some(a), Some(b)) => Some(a + b),
                (a, b) => a.or(b),
            };
        }
        Some(Usage { context_used: self.context, ..sum })
    }
}
