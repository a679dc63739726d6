//! The limits that the operator set for a lane, each with the file and line that says so.

use super::Shared;
use aetheel_model::agent::{AllowedTools, Safety};
use aetheel_model::budget::BudgetSubject;
use aetheel_model::event::Lane;
use aetheel_store::workspace::SettingInForce;

/// Returns the settings of a lane in `channels.md`, the variables that apply instead of missing ones,
/// and the caps that apply to its turns.
pub(super) fn of_lane(
    shared: &Shared,
    lane: &Lane,
    subject: &BudgetSubject,
) -> Vec<SettingInForce> {
    let files = shared.deps.workspace.limit_files();
    let parent = shared.channels.parents.of(lane);
    let mut limits = files.of_lane(lane, parent.as_ref());
    // People see the directory only if they are owners, in a row of its own.
    limits.retain(|limit| limit.name != "directory");
    let choices = &shared.deps.choices;
    let safety = match choices.safety {
        Safety::Default => "ask",
        Safety::Edit => "edit",
        Safety::Danger => "danger",
    };
    let is_set = limits.iter().any(|limit| ["safety", "permission-mode"].contains(&&*limit.name));
    if !is_set {
        limits.push(variable("safety", safety.to_owned(), "PERMISSION_MODE"));
    }
    let tools = match &choices.allowed_tools {
        AllowedTools::All => "*".to_owned(),
        AllowedTools::Only(tools) if tools.is_empty() => "none".to_owned(),
        AllowedTools::Only(tools) => tools.join(", "),
    };
    limits.push(variable("tools", tools, "ALLOWED_TOOLS"));
    let caps = files.caps(subject).into_iter();
    limits.extend(caps.map(|cap| SettingInForce { name: format!("budget {}", cap.name), ..cap }));
    limits
}

fn variable(name: &str, value: String, variable: &str) -> SettingInForce {
    SettingInForce { name: name.to_owned(), value, source: variable.to_owned() }
}
