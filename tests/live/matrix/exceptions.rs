//! What cannot pass, and why: the only place where a row is not the same for every column.

use aetheel::agent::descriptor::Feature;

use super::backends::{Backend, name_of};

/// Why a cell is not expected to pass.
#[derive(Clone, Copy, Debug)]
pub enum Exception {
    /// The row makes no sense for this agent.
    NotApplicable(&'static str),
    /// It is run all the same, and must fail; the agent is to blame.
    AgentFault(&'static str),
}

use Exception::AgentFault;

const DROID_PERSISTS: &str = "Droid 0.225.2 tries a failing service again for minutes and has no setting for it; the turn's time ends it";

/// Columns (all of one component: its name and a `*`), row, and what is to be said.
const EXCEPTIONS: &[(&str, &str, Exception)] = &[
    ("droid*", "error-500", AgentFault(DROID_PERSISTS)),
    (
        "droid-one-shot",
        "unknown-session",
        AgentFault("Droid 0.225.2 begins anew under an id that its service does not know, and reports success; a notice says so"),
    ),
    ("droid-one-shot", "error-429", AgentFault(DROID_PERSISTS)),
    ("acp-codex-acp", "error-500", AgentFault("codex-acp 2.6.0 tells the model's errors as its own answer and calls the turn a success")),
];

/// Looks a cell up.
pub fn exception(backend: &Backend, scenario: &str) -> Option<Exception> {
    let slug = super::results::slug(backend.name);
    let fits = |column: &str| column.strip_suffix('*').map_or(column == slug, |component| component == backend.component);
    EXCEPTIONS.iter().find(|(column, row, _)| fits(column) && *row == scenario).map(|(_, _, exception)| *exception)
}

/// Why a backend does not declare a feature.
pub fn lacking(backend: &Backend, feature: Feature) -> String {
    let why = match (backend.one_shot, feature) {
        (true, Feature::Permissions | Feature::Questions | Feature::Steer) => "one-shot runs take nothing in after the prompt",
        (_, Feature::AllowedTools) => "the agent has no such setting",
        (true, Feature::Streaming) => "one-shot runs print whole messages",
        _ => "",
    };
    match why {
        "" => format!("the backend does not declare `{}`", name_of(feature)),
        why => why.to_owned(),
    }
}
