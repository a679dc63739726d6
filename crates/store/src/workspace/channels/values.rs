//! Reads the values of entries in `channels.md`. Pure.

use aetheel_model::agent::{Mode, Safety};
use aetheel_model::host_tool::HostToolKind;
use aetheel_model::suggest::suggestion;

/// Returns whether a text can be a label of a cluster's node.
#[must_use]
pub fn is_label(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Splits names at commas; `none` is an empty list.
pub(super) fn names(text: &str) -> Vec<String> {
    let names = text.split(',').map(|name| name.trim().trim_matches('`').to_lowercase());
    names.filter(|name| !name.is_empty() && name != "none").collect()
}

/// Reads the names of tools, separated by commas; `all` and `none` work too. An unknown name is left
/// out.
pub(super) fn host_tools(text: &str, strange: &mut impl FnMut(&str)) -> Vec<HostToolKind> {
    if text.trim() == "all" {
        return HostToolKind::ALL.into();
    }
    let mut tools = Vec::new();
    for name in names(text) {
        match HostToolKind::parse(&name) {
            Some(tool) if tools.contains(&tool) => {}
            Some(tool) => tools.push(tool),
            None => {
                let known = HostToolKind::ALL.map(HostToolKind::name);
                let meant = suggestion(&name, known);
                strange(&format!(
                    "`host-tools`: {name:?} is not a tool{meant}; it is ignored. The tools are {}",
                    known.join(", ")
                ));
            }
        }
    }
    tools
}

/// Reads a safety level by its own name or by its name in `PERMISSION_MODE`.
pub(super) fn safety(text: &str) -> Option<(Safety, Option<Mode>)> {
    Some(match text {
        "ask" | "default" => (Safety::Default, None),
        "edit" | "acceptEdits" => (Safety::Edit, None),
        "danger" | "bypassPermissions" => (Safety::Danger, None),
        "plan" => (Safety::Default, Some(Mode::Plan)),
        _ => return None,
    })
}

/// Returns whether a text can be the name of a model.
#[must_use]
pub fn plain(text: &str) -> bool {
    (1..=200).contains(&text.len())
        && !text.starts_with('-')
        && !text.contains(|c: char| c.is_control() || c.is_whitespace())
}
