//! Converts the allowed tools and the tools of the host to rules of Gemini CLI's policy engine.
//!
//! As observed with 0.61.0, also in `yolo` mode: a tool that the last rule denies is not offered to
//! the model, including tools of MCP servers, and a call of it fails as "not found". An exception
//! from that rule must state, for each mode, the decision that would apply without it.

use aetheel_backend_sdk::TOOL_SERVER;
use aetheel_backend_sdk::wit::{HostTool, Settings};

/// Name of the file on the link.
pub(crate) const FILE: &str = "tools.toml";
/// The flag that passes the file to Gemini CLI.
pub(crate) const FLAG: &str = "--policy";
/// Name of the file with the rules for the tools of the host.
pub(crate) const HOST_FILE: &str = "host-tools.toml";
/// The flag that passes this file. Its rules come before those of [`FLAG`], and it does not replace
/// the rules in the user's own folder.
pub(crate) const HOST_FLAG: &str = "--admin-policy";

/// Tools that change nothing.
const READING: [&str; 8] = [
    "read_file",
    "read_many_files",
    "glob",
    "list_directory",
    "grep_search",
    "google_web_search",
    "write_todos",
    "activate_skill",
];
const EDITING: [&str; 2] = ["write_file", "replace"];

/// Highest priority of a rule, above the user's own files and settings.
const EXCEPTION: u32 = 999;

/// Returns the content of the file, or `None` if all tools are allowed.
pub(crate) fn of(settings: &Settings) -> Option<String> {
    if settings.allowed_tools.is_empty() {
        return None;
    }
    // A rule such as `run_shell_command(git)` must not allow the whole tool.
    let plain = |name: &&String| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
    };
    let mut rules = String::new();
    for name in settings.allowed_tools.iter().filter(plain) {
        match name.as_str() {
            name if READING.contains(&name) => rule(&mut rules, name, "allow", &[], EXCEPTION),
            name => {
                let (free, asking): (&[&str], &[&str]) = if EDITING.contains(&name) {
                    (&["autoEdit", "yolo"], &["default"])
                } else {
                    (&["yolo"], &["default", "autoEdit"])
                };
                rule(&mut rules, name, "allow", free, EXCEPTION);
                rule(&mut rules, name, "ask_user", asking, EXCEPTION);
            }
        }
    }
    rule(&mut rules, "*", "deny", &[], EXCEPTION - 1);
    Some(rules)
}

/// Returns rules that allow these tools of the host in every mode, or `None` for an empty list.
/// Without them, Gemini CLI would ask for permission, and only plan without the tools. Rules with
/// `mcpName` match no call over ACP.
pub(crate) fn of_host_tools(tools: &[HostTool]) -> Option<String> {
    let mut rules = String::new();
    for HostTool { name, .. } in tools {
        rule(&mut rules, &format!("mcp_{TOOL_SERVER}_{name}"), "allow", &[], EXCEPTION);
    }
    (!rules.is_empty()).then_some(rules)
}

fn rule(rules: &mut String, tool: &str, decision: &str, modes: &[&str], priority: u32) {
    let modes = if modes.is_empty() { String::new() } else { format!("modes = {modes:?}\n") };
    rules.push_str(&format!("[[rule]]\ntoolName = \"{tool}\"\n{modes}decision = \"{decision}\"\npriority = {priority}\n\n"));
}

#[cfg(test)]
mod tests {
    use aetheel_backend_sdk::fixture::start;

    use super::*;

    fn with(tools: &[&str]) -> Option<String> {
        let mut settings = start("x").settings;
        settings.allowed_tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
        of(&settings)
    }

    #[test]
    fn all_other_tools_are_denied() {
        assert_eq!(with(&[]), None);
        let denied = "[[rule]]\ntoolName = \"*\"\ndecision = \"deny\"\npriority = 998\n\n";
        for nothing in [&["none\"\n"][..], &["run_shell_command(git)"], &["*"], &["mcp_x_*"]] {
            assert_eq!(with(nothing).as_deref(), Some(denied), "{nothing:?}");
        }
        let read = "[[rule]]\ntoolName = \"read_file\"\ndecision = \"allow\"\npriority = 999\n\n";
        assert_eq!(with(&["read_file"]), Some(format!("{read}{denied}")));
        let shell = with(&["run_shell_command"]).expect("rules");
        let wanted = "modes = [\"yolo\"]\ndecision = \"allow\"\npriority = 999\n\n[[rule]]\ntoolName = \"run_shell_command\"\nmodes = [\"default\", \"autoEdit\"]\ndecision = \"ask_user\"";
        assert!(shell.contains(wanted), "{shell}");
    }
}
