//! Kinds, ends and changes of tools.

use aetheel_backend_sdk::fixture::{ends, events, tool_ends, tool_starts};
use aetheel_backend_sdk::wit::{EventKind, PlanStatus, ToolStatus};

use crate::actions;

#[test]
fn tool_uses_are_reported_once_with_kind_and_target() {
    for (name, expected) in [
        (
            "tools-sequence",
            vec![
                "bash ls",
                "file_read /srv/proj/hello.txt",
                "file_write /srv/proj/written.txt",
                "bash ls -d *.txt",
            ],
        ),
        ("tool-edit", vec!["file_read /srv/proj/hello.txt", "file_edit /srv/proj/hello.txt"]),
        ("tool-search", vec!["web_search mock query"]),
        ("tool-task", vec!["agent_spawn mock task call"]),
        ("tool-todo", vec!["todo first step"]),
        ("tool-unknown", vec!["other -"]),
        ("tool-ask", vec!["ask_user -"]),
    ] {
        let actions = actions(name);
        let mut found: Vec<(String, String)> = Vec::new();
        for start in tool_starts(&actions) {
            let said = format!("{} {}", start.kind, start.target.as_deref().unwrap_or("-"));
            found.retain(|(id, _)| *id != start.id);
            found.push((start.id.clone(), said));
        }
        let found: Vec<_> = found.into_iter().map(|(_, said)| said).collect();
        assert_eq!(found, expected, "{name}");
        assert_eq!(ends(&actions).len(), expected.len(), "{name}");
    }
}

#[test]
fn tool_ends_have_their_status() {
    assert_eq!(
        ends(&actions("tool-fail")),
        [(ToolStatus::Failed, "Exit code 3\nfailing", Some(3))]
    );
    assert_eq!(
        ends(&actions("tool-unknown")),
        [(ToolStatus::Failed, "Error: No such tool available: no_such_tool", None)]
    );
    assert_eq!(ends(&actions("perm-default-write"))[0].0, ToolStatus::Denied);
    assert_eq!(ends(&actions("perm-default-write")).len(), 1);
    assert_eq!(ends(&actions("sigint-tool"))[0].0, ToolStatus::Cancelled);
    assert_eq!(ends(&actions("think-tool")), [(ToolStatus::Ok, "hello.txt", None)]);
}

#[test]
fn an_edit_shows_what_it_changed() {
    let actions = actions("tool-edit");
    let diffs: Vec<_> =
        tool_ends(&actions).into_iter().filter_map(|end| end.diffs.first()).collect();
    assert_eq!(diffs.len(), 1);
    assert_eq!(diffs[0].path, "/srv/proj/hello.txt");
    assert_eq!(
        diffs[0].unified.as_deref(),
        Some("@@ -1,2 +1,2 @@\n-hello file\n+goodbye file\n FILEMARK-hello\n")
    );
}

#[test]
fn tasks_become_the_plan() {
    let actions = actions("tool-todo");
    let plans: Vec<_> = events(&actions)
        .filter_map(|event| match event {
            EventKind::Plan(plan) => Some(
                plan.iter().map(|entry| (entry.text.as_str(), entry.status)).collect::<Vec<_>>(),
            ),
            _ => None,
        })
        .collect();
    assert_eq!(plans, [[("first step", PlanStatus::Pending)]]);
}
