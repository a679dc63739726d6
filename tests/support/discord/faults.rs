//! The faults that can occur on the way to Discord and there.

use std::time::Duration;

/// The fault that a request meets.
#[derive(Clone, Debug)]
pub enum Fault {
    /// This status, nothing done.
    Status(u16),
    /// This status with one of Discord's codes, nothing done.
    Refuse(u16, u64),
    /// The connection is cut before anything is done.
    CutBefore,
    /// It is done, and then the connection is cut.
    CutAfter,
    /// It is done, and the answer comes so much later.
    Slow(Duration),
    /// 429 for so long.
    Limit { retry_after: f64, global: bool },
}

#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) fault: Fault,
    pub(super) left: usize,
}

/// Takes the first fault meant for a request.
pub(super) fn take(rules: &mut Vec<Rule>, method: &str, path: &str) -> Option<Fault> {
    let at = rules.iter().position(|rule| rule.method == method && path.contains(&rule.path))?;
    rules[at].left -= 1;
    let fault = rules[at].fault.clone();
    if rules[at].left == 0 {
        rules.remove(at);
    }
    Some(fault)
}
