//! Planning: a request of an agent for anything that does more than look is refused, whoever would
//! allow it. One rule for all backends; what an agent does without asking is held back by its own
//! mode and its sandbox.
//!
//! It ends where a person agrees to the plan: from then on its agent asks as at its level. Pinned
//! by `tests/dispatch/planning.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use aetheel_model::agent::{Ask, AskKind, Decision, only_looks};
use aetheel_model::plain::one_line;
use aetheel_model::redact::Redactor;

/// The answer to the agent.
const REFUSAL: &str = "Only planning is wanted here: nothing may be changed and no command may be run. Work out what is to be done, and tell it.";
/// Most refused uses that the notice names.
const NAMED_LIMIT: usize = 3;
/// Most characters of each.
const NAME_LIMIT: usize = 80;

/// Whether a turn only plans, and what of it was refused for that. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planning {
    on: Arc<AtomicBool>,
    refused: Arc<Mutex<Vec<String>>>,
}

impl Planning {
    /// Makes that of a turn that begins.
    pub(crate) fn new(on: bool) -> Self {
        Self { on: Arc::new(AtomicBool::new(on)), ..Self::default() }
    }

    /// The answer to a request of an agent; none: people are asked.
    pub(crate) fn refusal(&self, kind: &AskKind) -> Option<Decision> {
        let AskKind::Permission(tool) = kind else { return None };
        if !self.on.load(Ordering::SeqCst) || only_looks(tool) {
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
        Some(Decision::Deny(Some(REFUSAL.to_owned())))
    }

    /// A person decided.
    pub(crate) fn decided(&self, ask: &Ask, decision: &Decision) {
        let agreed = match decision {
            Decision::AllowOnce | Decision::AllowAlways | Decision::AllowChanged(_) => true,
            Decision::Chosen(id) => {
                ask.options.iter().any(|option| option.id == *id && option.allows)
            }
            _ => false,
        };
        if agreed && matches!(ask.kind, AskKind::PlanApproval(_)) {
            self.on.store(false, Ordering::SeqCst);
        }
    }

    /// The notice below the answer; none: nothing was refused.
    pub(crate) fn notice(&self, redactor: &Redactor) -> Option<String> {
        let mut refused = self.refused.lock().clone();
        refused.dedup();
        let more = refused.len().saturating_sub(NAMED_LIMIT);
        refused.truncate(NAMED_LIMIT);
        // Before it is cut: of a secret no piece may be left.
        let brief = |what: String| {
            redactor.clean(what).replace('`', "'").chars().take(NAME_LIMIT).collect::<String>()
        };
        let named: Vec<String> =
            refused.into_iter().map(|what| format!("`{}`", brief(what))).collect();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!named.is_empty()).then(|| {
            format!("Not done while only planning: {}{more}. `/mode build` ends that, where the operator lets you.", named.join(", "))
        })
    }
}
