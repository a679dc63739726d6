//! The permissions of a turn as OpenCode's rules. If several rules match, the last one applies
//! (1.18.33).
//!
//! A session's rules follow those of the agent and of the configuration. They can be extended but
//! not replaced, so each set begins with a rule for everything, which overrides all earlier rules.
//! Sub-agents have their own sessions, which inherit only denials. For them, the configuration of
//! the whole server asks about everything, and [`granted`] answers the requests that the level of
//! the turn allows.

use aetheel_backend_sdk::wit::{Mode, Safety, Settings};
use serde_json::{Value, json};

use crate::tool_server;

/// Permissions that do not change anything. Environment files need a question, as in OpenCode's
/// defaults.
const READING: [(&str, &str, &str); 14] = [
    ("read", "*", "allow"),
    ("read", "*.env", "ask"),
    ("read", "*.env.*", "ask"),
    ("read", "*.env.example", "allow"),
    ("glob", "*", "allow"),
    ("grep", "*", "allow"),
    ("list", "*", "allow"),
    ("lsp", "*", "allow"),
    ("skill", "*", "allow"),
    ("todoread", "*", "allow"),
    ("webfetch", "*", "allow"),
    ("websearch", "*", "allow"),
    ("codesearch", "*", "allow"),
    ("todowrite", "*", "allow"),
];

type Rule = (String, &'static str, &'static str);

/// Returns the rules for a turn. `asking` is the action for uses that need a question: `ask` or
/// `deny`.
fn rules(settings: &Settings, asking: &'static str) -> Vec<Rule> {
    let planning = settings.mode == Mode::Plan;
    let mut rules: Vec<Rule> = Vec::new();
    let mut add = |permission: &str, pattern, action: &'static str| {
        rules.push((permission.to_owned(), pattern, if action == "ask" { asking } else { action }));
    };
    if settings.safety == Safety::Danger && !planning {
        add("*", "*", "allow");
    } else {
        add("*", "*", "ask");
        for (permission, pattern, action) in READING {
            add(permission, pattern, action);
        }
        add("task", "*", "allow");
        add("question", "*", if asking == "ask" { "allow" } else { "deny" });
        match (planning, settings.safety) {
            (true, _) => {
                add("edit", "*", "deny");
                add("task", "general", "deny");
            }
            (false, Safety::Edit) => add("edit", "*", "allow"),
            (false, _) => {}
        }
    }
    if settings.allowed_tools.is_empty() {
        return rules;
    }
    let names: Vec<&str> = settings.allowed_tools.iter().map(|tool| permission(tool)).collect();
    let mut limited = vec![("*".to_owned(), "*", "deny")];
    for name in &names {
        let own: Vec<Rule> =
            rules.iter().filter(|(permission, ..)| permission == name).cloned().collect();
        // Without own rules in the level, the level's rule for everything applies.
        limited.extend(if own.is_empty() {
            vec![((*name).to_owned(), "*", rules[0].2)]
        } else {
            own
        });
    }
    // Access outside of the directory is not a tool, but a part of tool uses.
    limited.push(("external_directory".to_owned(), "*", rules[0].2));
    limited
}

/// Returns a session's rules as JSON, for `POST` and `PATCH /session`. `server` is the name of the
/// host's MCP server for this session. Servers of other sessions are denied.
pub(crate) fn of_session(settings: &Settings, server: Option<&str>) -> String {
    let mut rules = rules(settings, "ask");
    rules.push((tool_server::of_all_sessions(), "*", "deny"));
    rules.extend(server.map(|name| (tool_server::tools(name), "*", "allow")));
    let rules = rules.into_iter();
    Value::from_iter(rules.map(|(permission, pattern, action)| json!({"permission": permission, "pattern": pattern, "action": action})))
        .to_string()
}

/// Returns the value of `OPENCODE_PERMISSION` for a one-shot run, or `None` if `--auto` allows
/// everything. `server` is the name of the host's MCP server, if there is one. A one-shot run cannot ask, and an unanswered question would end it. Therefore, uses
/// that need a question are denied.
pub(crate) fn of_run(settings: &Settings, server: Option<&str>) -> Option<String> {
    let all = settings.safety == Safety::Danger
        && settings.mode == Mode::Build
        && settings.allowed_tools.is_empty();
    let mut rules = rules(settings, "deny");
    rules.extend(server.map(|name| (tool_server::tools(name), "*", "allow")));
    (!all).then(|| configuration(rules))
}

/// Returns the value of `OPENCODE_PERMISSION` for the server. Sub-agents must ask about everything,
/// and cannot start other agents.
pub(crate) fn of_server() -> String {
    let reading = READING.iter().filter(|(permission, ..)| *permission != "todowrite");
    let mut rules: Vec<Rule> = vec![("*".to_owned(), "*", "ask")];
    rules.extend(
        reading.map(|(permission, pattern, action)| ((*permission).to_owned(), *pattern, *action)),
    );
    rules.extend(
        ["task", "todowrite", "question"].map(|permission| (permission.to_owned(), "*", "deny")),
    );
    configuration(rules)
}

/// Returns whether the level of the turn allows a permission without a question.
pub(crate) fn granted(settings: &Settings, permission: &str) -> bool {
    settings.mode == Mode::Build
        && match settings.safety {
            Safety::Danger => true,
            Safety::Edit => permission == "edit",
            Safety::Default => false,
        }
}

/// Returns the permission that a tool needs.
fn permission(tool: &str) -> &str {
    match tool {
        "write" | "multiedit" | "apply_patch" | "patch" => "edit",
        other => other,
    }
}

/// Returns rules as a JSON object. The order of its fields matters to OpenCode, so they must not be
/// sorted.
fn configuration(rules: Vec<Rule>) -> String {
    let mut named: Vec<(String, Vec<(&str, &str)>)> = Vec::new();
    for (permission, pattern, action) in rules {
        match named.iter_mut().find(|(name, _)| *name == permission) {
            Some((_, patterns)) => patterns.push((pattern, action)),
            None => named.push((permission, vec![(pattern, action)])),
        }
    }
    let fields = named.into_iter().map(|(permission, patterns)| {
        let value = match patterns[..] {
            [("*", action)] => json!(action).to_string(),
            _ => object(
                patterns
                    .into_iter()
                    .map(|(pattern, action)| format!("{}:{}", json!(pattern), json!(action))),
            ),
        };
        format!("{}:{value}", json!(permission))
    });
    object(fields)
}

fn object(fields: impl Iterator<Item = String>) -> String {
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(safety: Safety, mode: Mode, allowed: &[&str]) -> Settings {
        Settings {
            model: None,
            safety,
            mode,
            effort: None,
            system_prompt: None,
            allowed_tools: allowed.iter().map(|tool| (*tool).to_owned()).collect(),
            max_turns: None,
            options: "{}".to_owned(),
        }
    }

    /// Returns OpenCode's decision, which is the action of the last matching rule.
    fn decided(settings: &Settings, permission: &str) -> &'static str {
        let rules = rules(settings, "ask");
        rules
            .iter()
            .rev()
            .find(|(name, pattern, _)| (name == permission || name == "*") && *pattern == "*")
            .expect("a rule for all")
            .2
    }

    #[test]
    fn levels_allow_their_tools_and_plans_change_nothing() {
        for (safety, mode, edit, bash) in [
            (Safety::Default, Mode::Build, "ask", "ask"),
            (Safety::Edit, Mode::Build, "allow", "ask"),
            (Safety::Danger, Mode::Build, "allow", "allow"),
            (Safety::Default, Mode::Plan, "deny", "ask"),
            (Safety::Danger, Mode::Plan, "deny", "ask"),
        ] {
            let settings = settings(safety, mode, &[]);
            let found = (
                decided(&settings, "edit"),
                decided(&settings, "bash"),
                decided(&settings, "glob"),
            );
            assert_eq!(found, (edit, bash, "allow"), "{safety:?} {mode:?}");
            assert_eq!(
                decided(&settings, "github_create_issue"),
                bash,
                "tools of MCP servers are treated like commands"
            );
        }
    }

    #[test]
    fn allowed_tools_deny_all_other_tools() {
        let some = settings(Safety::Edit, Mode::Build, &["write", "read", "bash"]);
        assert_eq!(
            ["edit", "read", "bash", "glob", "task", "question"].map(|name| decided(&some, name)),
            ["allow", "allow", "ask", "deny", "deny", "deny"]
        );
        let all = settings(Safety::Danger, Mode::Build, &["bash"]);
        assert_eq!(
            ["bash", "edit", "external_directory"].map(|name| decided(&all, name)),
            ["allow", "deny", "allow"]
        );
    }

    #[test]
    fn a_one_shot_run_denies_uses_that_need_a_question() {
        let permission = of_run(&settings(Safety::Default, Mode::Build, &[]), None).expect("rules");
        assert!(
            permission.starts_with(r#"{"*":"deny","read":{"*":"allow","*.env":"deny","#),
            "{permission}"
        );
        assert!(
            permission.contains(r#""question":"deny""#) && !permission.contains(r#":"ask""#),
            "{permission}"
        );
        assert_eq!(of_run(&settings(Safety::Danger, Mode::Build, &[]), None), None);
        let limited =
            of_run(&settings(Safety::Danger, Mode::Build, &["glob"]), None).expect("rules");
        assert_eq!(limited, r#"{"*":"deny","glob":"allow","external_directory":"allow"}"#);
    }

    #[test]
    fn a_session_has_the_tools_of_its_own_server_only() {
        for (safety, mode, allowed) in [
            (Safety::Default, Mode::Plan, &[][..]),
            (Safety::Default, Mode::Build, &["glob"]),
            (Safety::Danger, Mode::Build, &[]),
        ] {
            let settings = settings(safety, mode, allowed);
            let last = |server| {
                let rules: Value =
                    serde_json::from_str(&of_session(&settings, server)).expect("JSON");
                let rules = rules.as_array().expect("a list").iter().rev().take(2);
                rules
                    .map(|rule| format!("{} {}", rule["permission"], rule["action"]))
                    .collect::<Vec<_>>()
            };
            let denied = r#""aetheel-*" "deny""#;
            assert_eq!(last(Some("aetheel-3")), [r#""aetheel-3_*" "allow""#, denied]);
            assert_eq!(last(None)[0], denied);
        }
        let settings = settings(Safety::Default, Mode::Plan, &["glob"]);
        let run = of_run(&settings, Some("aetheel")).expect("rules");
        assert!(run.ends_with(r#","aetheel_*":"allow"}"#), "{run}");
    }

    #[test]
    fn sub_agents_ask_about_every_change() {
        let permission: Value = serde_json::from_str(&of_server()).expect("JSON");
        assert_eq!(
            (&permission["*"], &permission["task"], &permission["glob"]),
            (&json!("ask"), &json!("deny"), &json!("allow"))
        );
        assert!(granted(&settings(Safety::Danger, Mode::Build, &[]), "bash"));
        assert!(granted(&settings(Safety::Edit, Mode::Build, &[]), "edit"));
        assert!(!granted(&settings(Safety::Edit, Mode::Build, &[]), "external_directory"));
        assert!(!granted(&settings(Safety::Danger, Mode::Plan, &[]), "bash"));
    }
}
