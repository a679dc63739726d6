//! Lines that the serving version reports as unknown. A new version may read or report them. It must
//! neither show them as they are, nor drop text of the agent that people then never see.

use super::{Readings, TurnDifference, shortened};
use crate::conservation::hidden_text;
use aetheel_model::agent::{Action, AgentEventKind, TurnKey};

impl Readings<'_> {
    /// Returns the lines that only the serving version reports, and what became of them.
    pub(super) fn unreported_lines(&self) -> Vec<TurnDifference> {
        let before = &self.before.replayed.steps;
        let reported = before.iter().filter(|step| reports(&step.actions, self.turn));
        let differences = reported.filter_map(|step| {
            let line = self.tape.entries.get(step.entry)?.output()?.trim();
            let now = self.now.replayed.steps.iter().filter(|now| now.entry == step.entry);
            let now: Vec<&Action> = now.flat_map(|step| &step.actions).collect();
            if reports(now.iter().copied(), self.turn) {
                return None;
            }
            let (what, harmful) = match () {
                () if shows(&now, line) => ("unknown output, shown as it is", true),
                () if !now.is_empty() => return None,
                () => {
                    let hidden = hidden_text(self.start(), line, self.now.replayed.actions());
                    ("unknown output, dropped without a report", hidden.is_some())
                }
            };
            Some(TurnDifference {
                line: self.line(step.entry),
                what,
                before: Some("reported as unknown".to_owned()),
                now: Some(shortened(line)),
                harmful,
            })
        });
        differences.collect()
    }
}

fn reports<'a>(actions: impl IntoIterator<Item = &'a Action>, turn: TurnKey) -> bool {
    actions.into_iter().any(|action| action.unrecognised(Some(turn)).is_some())
}

/// Returns whether people see a line of the agent's output word for word, although it is JSON.
fn shows(actions: &[&Action], line: &str) -> bool {
    line.starts_with(['{', '['])
        && actions.iter().any(|action| match action {
            Action::Event(event) => match &event.kind {
                AgentEventKind::Text(text) | AgentEventKind::Thinking(text) => {
                    text.text.contains(line)
                }
                AgentEventKind::Notice(notice) => notice.text.contains(line),
                _ => false,
            },
            _ => false,
        })
}
