//! The allowed tools as rules of Gemini CLI's policy engine.
//!
//! Seen with 0.61.0, in `yolo` too: what the last rule denies is not offered to the model, MCP
//! servers' tools included, and a call of it all the same is "not found". An exception from that
//! rule has to say what would hold without it, mode by mode.

use aetheel_backend_sdk::wit::Settings;

/// The file's name on the link.
pub(crate) const FILE: &str = "tools.toml";
/// The argument that names the file to Gemini CLI.
pub(crate) const FLAG: &str = "--policy";

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

/// The most a rule can have: above everything the user's own files and settings say.
const EXCEPTION: u32 = 999;

/// Returns the text of the file; none: all tools are allowed.
pub(crate) fn of(settings: &Settings) -> Option<String> {
    if settings.allowed_tools.is_empty() {
        return None;
    }
    // A rule such as `run_shell_command(git)` must not come to allow all of the tool.
    let plain = |name: &&String| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
    };
    let mut rules = String::new();
    for name in settings.allowed_tools.iter().filter(plain) {
        match name.as_str() {
            name if READING.contains(&name) => rule(&mut rules, name, "allow", &[], EXCEPTION),
            name => {
                let (free, asked): (&[&str], &[&str]) = if EDITING.contains(&name) {
                    (&["autoEdit", "yolo"], &["default"])
                } else {
                    (&["yolo"], &["default", "autoEdit"])
                };
                rule(&mut rules, name, "allow", free, EXCEPTION);
                rule(&mut rules, name, "ask_user", asked, EXCEPTION);
            }
        }
    }
    rule(&mut rules, "*", "deny", &[], EXCEPTION - 1);
    Some(rules)
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
    fn everything_is_denied_but_what_is_allowed() {
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
