//! Tokens and money of the turn.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::Usage;

/// What the turn used so far, as the model's messages tell it.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    before: Tokens,
    message: Tokens,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tokens {
    input: u32,
    output: u32,
    cached: u32,
}

impl Spent {
    /// A message begins; takes its first count.
    pub(crate) fn begin(&mut self, usage: Option<&Value>) {
        self.before = self.before.and(self.message);
        self.message = usage.map(Tokens::of).unwrap_or_default();
    }

    /// A message ends; takes its last count and returns the sum.
    pub(crate) fn end(&mut self, usage: &Value) -> Usage {
        let end = Tokens::of(usage);
        // The last count may leave out what the first one told.
        self.message = Tokens {
            input: end.input.max(self.message.input),
            output: end.output.max(self.message.output),
            cached: end.cached.max(self.message.cached),
        };
        let sum = self.before.and(self.message);
        Usage { context_used: self.context_used(), ..sum.usage() }
    }

    /// Returns what a `result` line says of the whole turn. `model` is the main model's name.
    ///
    /// `modelUsage` counts sub-agents and requests that were made again without streaming, as the cost does; `usage`
    /// leaves both out.
    pub(crate) fn of_result(&self, result: &Value, model: Option<&str>) -> Option<Usage> {
        let models = result.get("modelUsage").and_then(Value::as_object);
        let sum = match models.filter(|models| !models.is_empty()) {
            Some(models) => models.values().map(Tokens::of_model).fold(Tokens::default(), Tokens::and),
            None => Tokens::of(result.get("usage")?),
        };
        if sum.input == 0 && sum.output == 0 && sum.cached == 0 {
            return None;
        }
        let main = models.and_then(|models| models.get(model?).or_else(|| models.values().next()));
        Some(Usage {
            cost_usd: result.number("total_cost_usd"),
            context_used: self.context_used(),
            context_size: main.and_then(|main| main.count("contextWindow")),
            ..sum.usage()
        })
    }

    fn context_used(&self) -> Option<u32> {
        let Tokens { input, output, cached } = self.message;
        Some(input.saturating_add(cached).saturating_add(output)).filter(|&tokens| tokens > 0)
    }
}

impl Tokens {
    fn of(usage: &Value) -> Self {
        let count = |key| usage.count(key).unwrap_or_default();
        Self {
            input: count("input_tokens").saturating_add(count("cache_creation_input_tokens")),
            output: count("output_tokens"),
            cached: count("cache_read_input_tokens"),
        }
    }

    fn of_model(usage: &Value) -> Self {
        let count = |key| usage.count(key).unwrap_or_default();
        Self {
            input: count("inputTokens").saturating_add(count("cacheCreationInputTokens")),
            output: count("outputTokens"),
            cached: count("cacheReadInputTokens"),
        }
    }

    fn and(self, more: Self) -> Self {
        Self {
            input: self.input.saturating_add(more.input),
            output: self.output.saturating_add(more.output),
            cached: self.cached.saturating_add(more.cached),
        }
    }

    fn usage(self) -> Usage {
        Usage {
            input: self.input,
            output: self.output,
            cached: self.cached,
            reasoning: 0,
            cost_usd: None,
            context_used: None,
            context_size: None,
        }
    }
}
