//! Token usage. Droid has two formats for it.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::Usage;

/// Returns the usage of a turn from `agent_turn_completed`, including its sub-agents.
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
    // An interrupted turn has no counts.
    Some(sum).filter(|sum| sum.input > 0 || sum.cached > 0 || sum.output > 0)
}

/// Returns the usage in a `completion`. For a resumed session, it is the sum of all its turns.
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

/// Adds the usage of another part of the turn.
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
        // Droid reports its own credits instead of a cost.
        ..Usage::default()
    }
}
