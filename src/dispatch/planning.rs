//! Planning: whatever an agent asks leave for that does more than look is refused, whoever would
//! allow it. One rule for all backends; what an agent does without asking is held back by its own
//! mode and its sandbox.
//!
//! It ends where a person agrees to the plan: from then on its agent asks as at its level. Pinned
//! by `tests/dispatch/planning.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::agent::{Ask, AskKind, Decision, only_looks};
use crate::plain::one_line;
use crate::redact::Redactor;

/// What the agent is told.
const WORDS: &str = "Only planning is wanted here: nothing may be changed and no command may be run. Work out what is to be done, and tell it.";
/// Refused uses that people are told of by name.
const NAMED: usize = 3;
/// Characters of each.
const BRIEF: usize = 80;

/// Whether a turn only plans, and what of it was refused for that. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Planning {
    on: Arc<AtomicBool>,
    refused: Arc<Mutex<Vec<String>>>,
}

impl Planning {
    /// Of a turn that begins.
    pub(super) fn new(on: bool) -> Self {
        Self { on: Arc::new(AtomicBool::new(on)), ..Self::default() }
    }

    /// What to answer to what an agent asks; none: people are asked.
    pub(super) fn refusal(&self, kind: &AskKind) -> Option<Decision> {
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
        Some(Decision::Deny(Some(WORDS.to_owned())))
    }

    /// A person decided.
    pub(super) fn decided(&self, ask: &Ask, decision: &Decision) {
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

    /// What people are told in the end; none: nothing was refused.
    pub(super) fn notice(&self, redactor: &Redactor) -> Option<String> {
        let mut refused = self.refused.lock().clone();
        refused.dedup();
        let more = refused.len().saturating_sub(NAMED);
        refused.truncate(NAMED);
        // Before it is cut: of a secret no piece may be left.
        let brief = |what: String| {
            redactor.clean(what).replace('`', "'").chars().take(BRIEF).collect::<String>()
        };
        let named: Vec<String> =
            refused.into_iter().map(|what| format!("`{}`", brief(what))).collect();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!named.is_empty()).then(|| {
            format!("Not done while only planning: {}{more}. `/mode build` ends that, where the operator lets you.", named.join(", "))
        })
    }
}
