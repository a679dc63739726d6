//! The operator's list of allowed tools in each agent's own words.

use super::Descriptor;

/// Names the operator may use for kinds of tools: those of Claude Code, in which `ALLOWED_TOOLS` has its default.
const KINDS: [(&str, &str); 12] = [
    ("Bash", "bash"),
    ("Read", "file_read"),
    ("Write", "file_write"),
    ("Edit", "file_edit"),
    ("Glob", "file_search"),
    ("Grep", "content_search"),
    ("WebSearch", "web_search"),
    ("WebFetch", "web_fetch"),
    ("Agent", "agent_spawn"),
    ("TodoWrite", "todo"),
    ("AskUserQuestion", "ask_user"),
    ("Skill", "skill"),
];

/// Translates a list of allowed tools for a backend. An entry is one of the agent's own names, a unified kind such as
/// `file_read`, or a name from Claude Code; of the last two, what the agent has nothing for is left out. A backend that does not say what
/// its tools are called gets the list as it is, and so does one that has nothing for any entry: an empty list would
/// allow everything.
#[must_use]
pub fn allowed_for(list: &[String], descriptor: &Descriptor) -> Vec<String> {
    let own = &descriptor.tools;
    if own.is_empty() {
        return list.to_vec();
    }
    let mut names: Vec<String> = Vec::new();
    for entry in list {
        // A rule such as `Bash(git:*)` is the agent's own affair.
        let name = entry.split('(').next().unwrap_or_default().trim();
        let kind = KINDS.iter().find(|(theirs, kind)| *theirs == name || *kind == name);
        match kind {
            Some((_, kind)) if !own.values().flatten().any(|own| own == name) => {
                names.extend(own.get(*kind).into_iter().flatten().cloned())
            }
            // Its own, or a name nobody here knows, as of an MCP server's tool.
            _ => names.push(entry.clone()),
        }
    }
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    if names.is_empty() { list.to_vec() } else { names }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(tools: &str, list: &[&str]) -> Vec<String> {
        let json = format!(r#"{{"name":"x","version":"1","programs":[{{"name":"x"}}],"tools":{tools}}}"#);
        let descriptor = Descriptor::parse(&json).expect("valid");
        allowed_for(&list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), &descriptor)
    }

    #[test]
    fn names_of_claude_code_kinds_and_the_agents_own_names_are_understood() {
        let opencode = r#"{"bash":["bash"],"file_read":["read"],"file_search":["glob","list"],"web_fetch":["webfetch"]}"#;
        assert_eq!(translated(opencode, &["Read", "Glob", "Grep", "WebFetch"]), ["read", "glob", "list", "webfetch"]);
        assert_eq!(translated(opencode, &["file_search", "webfetch", "glob"]), ["glob", "list", "webfetch"]);
        assert_eq!(translated(opencode, &["Read", "docs_search"]), ["read", "docs_search"], "of a server's tool nothing is known");
        assert_eq!(translated(r#"{"bash":["Bash"]}"#, &["Bash(git log:*)"]), ["Bash(git log:*)"]);
    }

    #[test]
    fn a_list_is_never_lost() {
        assert_eq!(translated("{}", &["Read", "odd"]), ["Read", "odd"]);
        assert_eq!(translated(r#"{"bash":["bash"]}"#, &["Read"]), ["Read"], "nothing is allowed then, and not everything");
        assert!(translated(r#"{"bash":["bash"]}"#, &[]).is_empty());
    }
}
