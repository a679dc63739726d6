//! Tokens and money of the turn.

use aetheel_backend_sdk::json::{Object, Value};
use aetheel_backend_sdk::wit::{ModelUsage, Usage};
use aetheel_backend_sdk::{Emit, figures};

/// The tokens and money of a turn so far, as the model's messages tell them.
///
/// Results count from the start of the process (2.1.197) or of the session, over all its processes
/// (2.1.330), so what was told before the turn is taken off. Since 2.1.330 a result also tells its
/// own share, which is believed before that difference.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    /// The process continues a session and told no result yet: its sums may be the session's.
    unknown_before: bool,
    before: Tokens,
    message: Tokens,
    /// Told by the last result: since the start of the process.
    told: Tokens,
    told_usd: f64,
    /// The same at the beginning of the turn.
    paid: Tokens,
    paid_usd: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Tokens {
    input: u32,
    output: u32,
    cached: u32,
    /// Tokens of the input that were written to the cache.
    written: u32,
}

impl Spent {
    /// A process begins. `resumed`: it continues a session.
    pub(crate) fn of_process(resumed: bool) -> Self {
        Self { unknown_before: resumed, ..Self::default() }
    }

    /// Another turn of the same process begins.
    pub(crate) fn begin_turn(&mut self) {
        let Self { unknown_before, told, told_usd, .. } = *self;
        *self = Self {
            unknown_before,
            told,
            told_usd,
            paid: told,
            paid_usd: told_usd,
            ..Self::default()
        };
    }

    /// The figures of the process so far, as JSON for another instance.
    pub(crate) fn kept(&self) -> serde_json::Value {
        let Tokens { input, output, cached, written } = self.told;
        serde_json::json!({ "input": input, "output": output, "cached": cached, "written": written, "usd": self.told_usd })
    }

    /// Reads the figures that another instance kept.
    pub(crate) fn taken_over(kept: &Value) -> Option<Self> {
        let told = Tokens {
            input: kept.count("input")?,
            output: kept.count("output")?,
            cached: kept.count("cached")?,
            written: kept.count("written").unwrap_or_default(),
        };
        Some(Self { told, told_usd: kept.number("usd")?, ..Self::default() })
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
            written: end.written.max(self.message.written),
        };
        let sum = self.before.and(self.message);
        Usage { context_used: self.context_used(), ..sum.usage() }
    }

    /// Returns what a `result` line says of the whole turn. `model` is the main model's name;
    /// `aside`: something beside the model's messages may have used tokens.
    ///
    /// `modelUsage` counts sub-agents and requests that were made again without streaming, as the
    /// cost does; `usage` leaves both out.
    pub(crate) fn of_result(
        &mut self,
        result: &Value,
        model: Option<&str>,
        aside: bool,
        emit: &mut Emit,
    ) -> Option<Usage> {
        let added = result
            .get("model_usage_since_last_result")
            .and_then(Value::as_object)
            .filter(|models| !models.is_empty());
        let models = added
            .or_else(|| result.get("modelUsage").and_then(Value::as_object))
            .filter(|models| !models.is_empty());
        let total = |models: &Object| {
            models.values().map(Tokens::of_model).fold(Tokens::default(), Tokens::and)
        };
        let cost = match added {
            Some(models) => models
                .values()
                .map(|model| model.number("costUSD"))
                .sum::<Option<f64>>()
                .map(|added| self.told_usd + added),
            None => result.number("total_cost_usd"),
        };
        let first = std::mem::take(&mut self.unknown_before);
        let before = self.told;
        self.told = match (added, models) {
            (Some(models), _) => self.told.and(total(models)),
            (None, Some(models)) => total(models),
            // Without them there is only what this one result used.
            (None, None) => self.told.and(Tokens::of(result.get("usage")?)),
        };
        self.told_usd = cost.unwrap_or(self.told_usd);
        let seen = self.before.and(self.message);
        let mut told_cost = cost.map(|cost| since(self.paid_usd, cost));
        if first
            && added.is_none()
            && !aside
            && !figures::fits(&self.told.without(before).usage(), &seen.usage())
        {
            emit.unrecognised(
                "tokens that the turn did not use: those of the whole session?",
                Some("modelUsage".to_owned()),
                &result.to_string(),
            );
            // Later results are counted from these sums.
            (self.paid, self.paid_usd) = (self.told.without(seen), self.told_usd);
            told_cost = None;
        }
        let sum = self.told.without(self.paid);
        if sum.input == 0 && sum.output == 0 && sum.cached == 0 {
            return None;
        }
        let main = models.and_then(|models| models.get(model?).or_else(|| models.values().next()));
        // Sums of earlier turns, or of another result of this one, are not told model by model.
        let whole = if added.is_some() {
            before == self.paid
        } else {
            self.paid == Tokens::default() && !first
        };
        let by_model = models.filter(|_| whole).map(|models| {
            models.fields().map(|(name, told)| Tokens::of_model(told).named(name, told)).collect()
        });
        Some(Usage {
            cost_usd: told_cost,
            models: by_model.unwrap_or_default(),
            context_used: self.context_used(),
            context_size: main.and_then(|main| main.count("contextWindow")),
            ..sum.usage()
        })
    }

    fn context_used(&self) -> Option<u32> {
        let Tokens { input, output, cached, .. } = self.message;
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
            written: count("cache_creation_input_tokens"),
        }
    }

    fn of_model(usage: &Value) -> Self {
        let count = |key| usage.count(key).unwrap_or_default();
        Self {
            input: count("inputTokens").saturating_add(count("cacheCreationInputTokens")),
            output: count("outputTokens"),
            cached: count("cacheReadInputTokens"),
            written: count("cacheCreationInputTokens"),
        }
    }

    fn and(self, more: Self) -> Self {
        Self {
            input: self.input.saturating_add(more.input),
            output: self.output.saturating_add(more.output),
            cached: self.cached.saturating_add(more.cached),
            written: self.written.saturating_add(more.written),
        }
    }

    fn without(self, less: Self) -> Self {
        Self {
            input: self.input.saturating_sub(less.input),
            output: self.output.saturating_sub(less.output),
            cached: self.cached.saturating_sub(less.cached),
            written: self.written.saturating_sub(less.written),
        }
    }

    fn named(self, model: &str, told: &Value) -> ModelUsage {
        let Self { input, output, cached, written } = self;
        ModelUsage {
            model: model.to_owned(),
            input,
            output,
            cached,
            cache_write: written,
            cost_usd: told.number("costUSD"),
        }
    }

    fn usage(self) -> Usage {
        Usage {
            input: self.input,
            output: self.output,
            cached: self.cached,
            cache_write: self.written,
            ..Usage::default()
        }
    }
}
