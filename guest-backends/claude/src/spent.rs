//! Tokens and money of the turn.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::Usage;

/// What the turn used so far, as the model's messages tell it.
///
/// Results count from the start of the process, so what was told before the turn is taken off.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    before: Tokens,
    message: Tokens,
    /// Told by the last result: since the start of the process.
    told: Tokens,
    told_usd: f64,
    /// The same at the beginning of the turn.
    paid: Tokens,
    paid_usd: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tokens {
    input: u32,
    output: u32,
    cached: u32,
}

impl Spent {
    /// Another turn of the same process begins.
    pub(crate) fn begin_turn(&mut self) {
        let Self { told, told_usd, .. } = *self;
        *self = Self { told, told_usd, paid: told, paid_usd: told_usd, ..Self::default() };
    }

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
    pub(crate) fn of_result(&mut self, result: &Value, model: Option<&str>) -> Option<Usage> {
        let models = result.get("modelUsage").and_then(Value::as_object);
        self.told = match models.filter(|models| !models.is_empty()) {
            Some(models) => models.values().map(Tokens::of_model).fold(Tokens::default(), Tokens::and),
            // Without them there is only what this one result used.
            None => self.told.and(Tokens::of(result.get("usage")?)),
        };
        let cost = result.number("total_cost_usd");
        self.told_usd = cost.unwrap_or(self.told_usd);
        let sum = self.told.without(self.paid);
        if sum.input == 0 && sum.output == 0 && sum.cached == 0 {
            return None;
        }
        let main = models.and_then(|models| models.get(model?).or_else(|| models.values().next()));
        Some(Usage {
            cost_usd: cost.map(|cost| since(self.paid_usd, cost)),
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

/// The difference of two sums of money, without the dust of binary fractions.
fn since(before: f64, now: f64) -> f64 {
    if before > 0.0 { ((now - before).max(0.0) * 1e9).round() / 1e9 } else { now }
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

    fn without(self, less: Self) -> Self {
        Self {
            input: self.input.saturating_sub(less.input),
            output: self.output.saturating_sub(less.output),
            cached: self.cached.saturating_sub(less.cached),
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
