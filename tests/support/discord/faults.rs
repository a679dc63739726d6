//! Faults that can occur between the program and Discord, and at Discord.

use std::time::Duration;

/// A fault of one request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Answers with this status and does nothing.
    Status(u16),
    /// Answers with this status and one of Discord's error codes, and does nothing.
    Refuse(u16, u64),
    /// Cuts the connection before the request is done.
    CutBefore,
    /// Does the request, then cuts the connection.
    CutAfter,
    /// Does the request and answers this much later.
    Slow(Duration),
    /// Answers with 429.
    Limit { retry_after: f64, global: bool },
}

#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) fault: Fault,
    pub(super) left: usize,
}

/// Takes the first fault that matches a request.
pub(super) fn take(rules: &mut Vec<Rule>, method: &str, path: &str) -> Option<Fault> {
    let at = rules.iter().position(|rule| rule.method == method && path.contains(&rule.path))?;
    rules[at].left -= 1;
    let fault = rules[at].fault.clone();
    if rules[at].left == 0 {
        rules.remove(at);
    }
    Some(fault)
}
