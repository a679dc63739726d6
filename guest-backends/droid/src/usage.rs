//! Tokens, in the two spellings Droid has for them.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::Usage;

/// Returns what an `agent_turn_completed` says the turn used, that of its sub-agents included.
pub(crate) fn of_turn(completed: &Value) -> Option<Usage> {
    let own = completed.get("tokenUsage")?;
    let mut sum = tokens(
        own,
        "inputTokens",
        "cacheCreationTokens",
        "cacheReadTokens",
        "outputTokens",
        "thinkingTokens",
    );
    if let Some(child) = completed.get("childTokenUsage") {
        add(
            &mut sum,
            &tokens(
                child,
                "inputTokens",
                "cacheCreationTokens",
                "cacheReadTokens",
                "outputTokens",
                "thinkingTokens",
            ),
        );
    }
    // A turn that was cut short tells nothing.
    Some(sum).filter(|sum| sum.input > 0 || sum.cached > 0 || sum.output > 0)
}

/// Reads the usage of a `completion`. A resumed session tells the sum over all its turns, not this
/// one's.
pub(crate) fn of_completion(completion: &Value) -> Option<Usage> {
    let usage = completion.get("usage")?;
    Some(tokens(
        usage,
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "output_tokens",
        "thinking_tokens",
    ))
}

/// Adds what another part of the turn used.
pub(crate) fn add(sum: &mut Usage, more: &Usage) {
    sum.input = sum.input.saturating_add(more.input);
    sum.output = sum.output.saturating_add(more.output);
    sum.cached = sum.cached.saturating_add(more.cached);
    sum.cache_write = sum.cache_write.saturating_add(more.cache_write);
    sum.reasoning = sum.reasoning.saturating_add(more.reasoning);
}

fn tokens(
    usage: &Value,
    input: &str,
    written: &str,
    read: &str,
    output: &str,
    thinking: &str,
) -> Usage {
    let count = |key| usage.count(key).unwrap_or_default();
    Usage {
        input: count(input).saturating_add(count(written)),
        output: count(output),
        cached: count(read),
        cache_write: count(written),
        reasoning: count(thinking),
        // Droid tells credits of its own, which are no money.
        ..Usage::default()
    }
}
