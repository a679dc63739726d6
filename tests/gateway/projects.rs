//! Channels that are bound to a project while the gateway runs.

use std::fs;

use crate::support::program::Installation;

/// Folders that are allowed, and one that is not.
fn installed() -> Installation {
    let installation = Installation::new();
    for name in ["projects/my site", "elsewhere"] {
        fs::create_dir_all(installation.path(name)).unwrap();
    }
    let roots = installation.path("projects").display().to_string();
    installation.with("PROJECT_ROOTS", &roots)
}

#[tokio::test]
async fn a_channel_that_is_bound_to_a_folder_works_there_from_its_next_turn_on() {
    let installation = installed();
    let file = installation.path("config").join("channels.md");
    fs::write(&file, "# Channels\n\nKeep this.\n\n## console\n- safety: edit\n").unwrap();
    let ended = installation.run(&["console"], "/project my site\nhello\n").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("This channel's agent works in `my site`"), "{}", ended.stdout);
    assert!(installation.path("projects/my site/.demo-agent").is_dir(), "the agent worked in the project");
    let text = installation.read("channels.md");
    assert_eq!(text, "# Channels\n\nKeep this.\n\n## console\n- safety: edit\n- directory: `my site`\n");
    let ended = installation.run(&["console"], "/project unset\n").await;
    assert!(ended.stdout.contains("works in the gateway's workspace"), "{}", ended.stdout);
    assert!(!installation.read("channels.md").contains("my site"));
}

#[tokio::test]
async fn a_folder_outside_the_roots_is_refused_and_nothing_is_written() {
    let installation = installed();
    for directory in ["../elsewhere", "/", "missing", "my site`\u{7}"] {
        let ended = installation.run(&["console"], &format!("/project {directory}\n")).await;
        assert!(ended.stdout.contains("(directory)"), "{directory}: {} {}", ended.stdout, ended.stderr);
        assert!(!ended.stdout.contains(&installation.path("elsewhere").display().to_string()), "no paths are told: {}", ended.stdout);
        assert_eq!(installation.read("channels.md"), "");
    }
}
