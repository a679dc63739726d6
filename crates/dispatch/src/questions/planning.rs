//! Turns that only plan. Requests of the agent for tools that do more than read are refused,
//! without asking people.
//!
//! The rule is the same for all backends. Tools that an agent uses without a request are limited
//! by its own mode and by its sandbox. Planning ends when a person approves the plan; after that,
//! the agent's safety level applies. Tested by `tests/dispatch/planning.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use aetheel_model::agent::{Ask, AskDecision, AskKind, ToolStart, is_read_only};
use aetheel_model::plain::one_line;
use aetheel_model::redact::Redactor;

/// The reason for the refusal, which the agent receives.
pub(crate) const REFUSAL: &str = "Only planning is allowed here: do not change anything and do not run commands. Work out a plan and describe it.";
/// The maximum number of refused requests that the notice names.
const NAMED_LIMIT: usize = 3;
/// The maximum length of each name, in characters.
const NAME_LIMIT: usize = 80;

/// Whether a turn only plans, and the requests that were refused for that reason. Cheap to clone;
/// clones share the state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planning {
    enabled: Arc<AtomicBool>,
    refused: Arc<Mutex<Vec<String>>>,
}

impl Planning {
    pub(crate) fn new(on: bool) -> Self {
        Self { enabled: Arc::new(AtomicBool::new(on)), ..Self::default() }
    }

    /// Returns whether a request for a tool is refused.
    pub(crate) fn refuses(&self, tool: &ToolStart) -> bool {
        self.enabled.load(Ordering::SeqCst) && !is_read_only(tool)
    }

    /// Returns the refusal of an agent's request, or `None` if people are asked.
    pub(crate) fn refusal(&self, kind: &AskKind) -> Option<AskDecision> {
        let AskKind::Permission(tool) = kind else { return None };
        if !self.refuses(tool) {
            return None;
        }
        let what = tool
            .target
            .as_deref()
            .filter(|target| !target.trim().is_empty())
            .unwrap_or(&tool.title);
        self.refused.lock().push(one_line(if what.trim().is_empty() {
            &tool.native_name
        } else {
            what
        }));
        Some(AskDecision::Deny(Some(REFUSAL.to_owned())))
    }

    /// Ends planning if the decision approves a plan.
    pub(crate) fn on_decision(&self, ask: &Ask, decision: &AskDecision) {
        let agreed = match decision {
            AskDecision::AllowOnce | AskDecision::AllowAlways | AskDecision::AllowChanged(_) => {
                true
            }
            AskDecision::Chosen(id) => {
                ask.options.iter().any(|option| option.id == *id && option.allows)
            }
            _ => false,
        };
        if agreed && matches!(ask.kind, AskKind::PlanApproval(_)) {
            self.enabled.store(false, Ordering::SeqCst);
        }
    }

    /// Returns the notice below the answer, or `None` if nothing was refused.
    pub(crate) fn notice(&self, redactor: &Redactor) -> Option<String> {
        let mut refused = self.refused.lock().clone();
        refused.dedup();
        let more = refused.len().saturating_sub(NAMED_LIMIT);
        refused.truncate(NAMED_LIMIT);
        // The text is redacted before it is cut, so that no part of a secret remains.
        let brief = |what: String| {
            redactor.redact(what).replace('`', "'").chars().take(NAME_LIMIT).collect::<String>()
        };
        let named: Vec<String> =
            refused.into_iter().map(|what| format!("`{}`", brief(what))).collect();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!named.is_empty()).then(|| {
            format!("Refused in plan mode: {}{more}. `/settings mode:build` ends it, if the operator allows that.", named.join(", "))
        })
    }
}
