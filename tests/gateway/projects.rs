//! Channels are bound to a project while the gateway runs.

use std::fs;

use super::serving;
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OWNER, THREAD};
use crate::support::program::Installation;

/// Returns an installation with an allowed folder and another one.
fn with_folders(installation: Installation) -> Installation {
    for name in ["projects/my site", "elsewhere"] {
        fs::create_dir_all(installation.path(name)).unwrap();
    }
    let roots = installation.path("projects").display().to_string();
    installation.with("PROJECT_ROOTS", &roots)
}

#[tokio::test]
async fn a_channel_bound_to_a_folder_uses_it_from_its_next_turn() {
    let installation = with_folders(Installation::new());
    let file = installation.path("config").join("channels.md");
    fs::write(&file, "# Channels\n\nKeep this.\n\n## console\n- safety: edit\n").unwrap();
    let ended = installation.run(&["console"], "/project my site\nhello\n").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("This channel's agent works in `my site`"), "{}", ended.stdout);
    assert!(
        installation.path("projects/my site/.demo-agent").is_dir(),
        "the agent worked in the project"
    );
    let text = installation.read("channels.md");
    assert_eq!(
        text,
        "# Channels\n\nKeep this.\n\n## console\n- safety: edit\n- directory: `my site`\n"
    );
    let ended = installation.run(&["console"], "/project unset\n").await;
    assert!(ended.stdout.contains("works in the gateway's workspace"), "{}", ended.stdout);
    assert!(!installation.read("channels.md").contains("my site"));
}

#[tokio::test]
async fn a_folder_outside_the_roots_is_refused_and_nothing_is_written() {
    let installation = with_folders(Installation::new());
    for directory in ["../elsewhere", "/", "missing", "my site`\u{7}"] {
        let ended = installation.run(&["console"], &format!("/project {directory}\n")).await;
        let refusal = ended.stderr.lines().find(|line| line.starts_with("✗ ")).unwrap_or_default();
        assert!(refusal.contains("below PROJECT_ROOTS"), "{directory}: {}", ended.stderr);
        assert!(
            !refusal.contains(&installation.path("elsewhere").display().to_string()),
            "no paths are shown: {refusal}"
        );
        assert_eq!(ended.stdout, "");
        assert_eq!(installation.read("channels.md"), "");
    }
}

#[tokio::test]
async fn only_the_owner_binds_a_channel_which_includes_its_threads() {
    let local = LocalDiscord::start().await;
    let installation = with_folders(super::installed(&local));
    let _bot = serving(&installation).await;
    let said = async |channel, user, folder| {
        local.answer_to(local.slash(channel, user, "project", folder)).await.content
    };
    let refused = said(CHANNEL, ANN, Some("my site")).await;
    assert!(refused.contains("owner"), "{refused}");
    assert_eq!(installation.read("channels.md"), "");
    let outside = said(CHANNEL, OWNER, Some("../elsewhere")).await;
    assert!(outside.contains("add this one to PROJECT_ROOTS"), "{outside}");
    let bound = said(CHANNEL, OWNER, Some("my site")).await;
    assert!(bound.contains("works in `my site`"), "{bound}");
    local.mention(THREAD, ANN, "hello");
    local.wait_for_message(THREAD, |text| text.starts_with("You said: hello")).await;
    assert!(
        installation.path("projects/my site/.demo-agent").is_dir(),
        "a thread uses the folder of its channel"
    );
    assert_eq!(
        said(CHANNEL, OWNER, Some("unset")).await,
        "This channel's agent works in the gateway's workspace; backend: the default."
    );
}
