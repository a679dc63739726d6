//! Tokens and cost of a turn.

use aetheel_backend_sdk::json::{Object, Value};
use aetheel_backend_sdk::wit::{ModelUsage, Usage};
use aetheel_backend_sdk::{Emit, figures};

/// Adds up the tokens and cost of a turn while it runs.
///
/// Result lines count from the start of the process (2.1.197) or of the session, over all its
/// processes (2.1.330). The sums at the start of the turn are therefore subtracted. Since 2.1.330 a
/// result also reports its own share, which is preferred to that difference.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    /// Whether the process resumed a session and has reported no result yet, so that its sums may
    /// be those of the session.
    unknown_before: bool,
    before: Tokens,
    message: Tokens,
    /// Sums in the last result, counted from the start of the process.
    reported: Tokens,
    reported_usd: f64,
    /// The same sums at the start of the turn.
    start: Tokens,
    start_usd: f64,
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
    /// Starts counting for a new process. `resumed` is true if it resumed a session.
    pub(crate) fn of_process(resumed: bool) -> Self {
        Self { unknown_before: resumed, ..Self::default() }
    }

    /// Begins another turn of the same process.
    pub(crate) fn begin_turn(&mut self) {
        let Self { unknown_before, reported, reported_usd, .. } = *self;
        *self = Self {
            unknown_before,
            reported,
            reported_usd,
            start: reported,
            start_usd: reported_usd,
            ..Self::default()
        };
    }

    /// Returns the sums of the process as JSON, for another instance.
    pub(crate) fn save_state(&self) -> serde_json::Value {
        let Tokens { input, output, cached, written } = self.reported;
        serde_json::json!({ "input": input, "output": output, "cached": cached, "written": written, "usd": self.reported_usd })
    }

    /// Reads the sums that another instance saved.
    pub(crate) fn restore(saved: &Value) -> Option<Self> {
        let reported = Tokens {
            input: saved.count("input")?,
            output: saved.count("output")?,
            cached: saved.count("cached")?,
            written: saved.count("written").unwrap_or_default(),
        };
        Some(Self { reported, reported_usd: saved.number("usd")?, ..Self::default() })
    }

    /// Begins a message with its first count.
    pub(crate) fn begin(&mut self, usage: Option<&Value>) {
        self.before = self.before.and(self.message);
        self.message = usage.map(Tokens::of).unwrap_or_default();
    }

    /// Ends a message with its last count. Returns the sum of the turn so far.
    pub(crate) fn end(&mut self, usage: &Value) -> Usage {
        let end = Tokens::of(usage);
        // The last count may omit values of the first one.
        self.message = Tokens {
            input: end.input.max(self.message.input),
            output: end.output.max(self.message.output),
            cached: end.cached.max(self.message.cached),
            written: end.written.max(self.message.written),
        };
        let sum = self.before.and(self.message);
        Usage { context_used: self.context_used(), ..sum.usage() }
    }

    /// Returns the usage of the whole turn from a `result` line. `model` is the name of the main
    /// model. `aside` is true if anything besides the model's messages may have used tokens.
    ///
    /// `modelUsage` and the cost include sub-agents and requests repeated without streaming;
    /// `usage` does not.
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
                .map(|added| self.reported_usd + added),
            None => result.number("total_cost_usd"),
        };
        let first = std::mem::take(&mut self.unknown_before);
        let before = self.reported;
        self.reported = match (added, models) {
            (Some(models), _) => self.reported.and(total(models)),
            (None, Some(models)) => total(models),
            // Without sums by model, only the usage of this result is known.
            (None, None) => self.reported.and(Tokens::of(result.get("usage")?)),
        };
        self.reported_usd = cost.unwrap_or(self.reported_usd);
        let seen = self.before.and(self.message);
        let mut turn_cost = cost.map(|cost| since(self.start_usd, cost));
        if first
            && added.is_none()
            && !aside
            && !figures::fits(&self.reported.without(before).usage(), &seen.usage())
        {
            emit.unrecognised(
                "more tokens than the turn used: possibly those of the whole session",
                Some("modelUsage".to_owned()),
                &result.to_string(),
            );
            // Later results are counted from these sums.
            (self.start, self.start_usd) = (self.reported.without(seen), self.reported_usd);
            turn_cost = None;
        }
        let sum = self.reported.without(self.start);
        if sum.input == 0 && sum.output == 0 && sum.cached == 0 {
            return None;
        }
        let main = models.and_then(|models| models.get(model?).or_else(|| models.values().next()));
        // Earlier turns and earlier results of this turn are not broken down by model.
        let whole = if added.is_some() {
            before == self.start
        } else {
            self.start == Tokens::default() && !first
        };
        let by_model = models.filter(|_| whole).map(|models| {
            models
                .fields()
                .map(|(name, model)| Tokens::of_model(model).named(name, model))
                .collect()
        });
        Some(Usage {
            cost_usd: turn_cost,
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

/// Returns the difference of two amounts, rounded to remove floating-point errors.
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

    fn named(self, model: &str, reported: &Value) -> ModelUsage {
        let Self { input, output, cached, written } = self;
        ModelUsage {
            model: model.to_owned(),
            input,
            output,
            cached,
            cache_write: written,
            cost_usd: reported.number("costUSD"),
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
