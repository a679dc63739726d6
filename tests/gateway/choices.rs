//! Settings of the operator for a channel, and choices of users in it.

use std::fs;

use serde_json::json;

use super::{id_of, installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord};
use crate::support::guests::Wat;
use crate::support::program::Installation;

/// An installation with two projects and this `channels.md`.
fn with_channels(text: &str) -> Installation {
    let installation = Installation::new();
    for name in ["projects/site", "elsewhere"] {
        fs::create_dir_all(installation.path(name)).unwrap();
    }
    fs::write(installation.path("config").join("channels.md"), text).unwrap();
    let roots = installation.path("projects").display().to_string();
    installation.with("PROJECT_ROOTS", &roots)
}

/// Returns the `start-turn` inputs in the order of the prompts.
fn start_turns(installation: &Installation) -> Vec<serde_json::Value> {
    let recordings = installation.recordings();
    let lines = recordings.values().flat_map(|recording| recording.lines());
    let lines = lines.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let mut starts: Vec<_> =
        lines.filter_map(|line| line.pointer("/in/command/start-turn").cloned()).collect();
    starts.sort_by_key(|start| start["parts"].to_string());
    starts
}

#[tokio::test]
async fn a_channel_has_its_own_directory_and_settings() {
    let text = "## project site\n- directory: site\n- model: `echo`\n## console\n- project: site\n- safety: danger\n";
    let installation =
        with_channels(text).with("PERMISSION_MODE", "acceptEdits").with("BACKEND_MODEL", "parrot");
    let ended = installation.run(&["console"], "hello\n").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(
        installation.path("projects/site/.demo-agent").is_dir(),
        "the agent worked in the project"
    );
    assert!(!installation.path("workspace/.demo-agent").exists());
    let start = &start_turns(&installation)[0];
    assert_eq!(start["cwd"], json!(installation.path("projects/site").canonicalize().unwrap()));
    assert_eq!(start["settings"]["model"], "echo");
    assert_eq!(
        start["settings"]["safety"], "edit",
        "the general setting of the operator is the maximum"
    );
}

#[tokio::test]
async fn nothing_runs_in_a_directory_that_is_not_allowed_and_check_reports_it() {
    for directory in ["../elsewhere", "/", "missing"] {
        let installation = with_channels(&format!("## console\n- directory: `{directory}`\n"));
        let ended = installation.run(&["console"], "hello\n").await;
        let id = id_of(&ended.stderr, "directory").to_owned();
        let wanted =
            format!("✗ The working directory of this channel cannot be used. (directory, {id})\n");
        assert_eq!((ended.stdout.as_str(), ended.code), ("", 1));
        assert!(ended.stderr.contains(&wanted), "{}", ended.stderr);
        assert_eq!(installation.recordings().len(), 0);
        let ended = installation.run(&["check"], "").await;
        assert!(
            ended.stdout.contains("fault: channels.md: nothing runs in console: directory "),
            "{}",
            ended.stdout
        );
    }
}

#[tokio::test]
async fn a_conversation_does_not_follow_its_channel_to_another_directory() {
    let installation = with_channels("");
    let channels = installation.path("config").join("channels.md");
    let ended = installation.run(&["console"], "one\n").await;
    assert!(ended.stdout.ends_with("This is message 1 of our conversation.\n"), "{}", ended.stdout);
    fs::write(&channels, "## console\n- directory: site\n").unwrap();
    let ended = installation.run(&["console"], "two\nthree\n").await;
    let wanted = "You said: two\n\nThis is message 1 of our conversation.\n\
                  You said: three\n\nThis is message 2 of our conversation.\n";
    assert_eq!((ended.stdout.as_str(), ended.code), (wanted, 0), "{}", ended.stderr);
    let news = "· The working directory has changed; this is a new conversation.\n";
    assert_eq!(ended.stderr.matches(news).count(), 1, "{}", ended.stderr);
}

#[tokio::test]
async fn a_discord_channel_is_answered_by_the_backend_configured_for_it() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let mut other = Wat::new("other", "other-1");
    other.descriptor = json!({ "programs": [{ "name": "aetheel" }] });
    other.accepted_in(&installation.path("config"));
    fs::write(installation.backend("other"), other.build()).unwrap();
    fs::write(
        installation.path("config").join("channels.md"),
        format!("## channel #general {CHANNEL}\n- backend: other\n"),
    )
    .unwrap();
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text == "other-1").await;
}

#[tokio::test]
async fn users_choose_within_the_operators_limits_and_choices_persist() {
    let installation = Installation::new().with("PERMISSION_MODE", "acceptEdits");
    let script = "/model\n/model echo\n/safety\n/safety danger\n/safety ask\n/thinking high\n/mode plan\n/model --evil\nhello 1\n";
    let ended = installation.run(&["console"], script).await;
    let wanted = "\
Model is the agent's default; there are: `parrot`, `echo` and others the agent knows
Model is Echo from now on.
Safety is Edit files; there are: `ask`, `edit`
Safety is Ask before changes from now on.
";
    let refused = "\
✗ The operator does not allow danger here; there are: `ask`, `edit`.
✗ Demo agent has no levels of thinking.
✗ Demo agent has no mode for planning.
✗ \"--evil\" is not the name of a model; there are: `parrot`, `echo` and others the agent knows.
";
    assert!(ended.stdout.starts_with(wanted), "{}", ended.stdout);
    assert!(ended.stderr.contains(refused), "{}", ended.stderr);
    assert_eq!(ended.code, 1);
    let ended = installation
        .run(&["console"], "/model\nhello 2\n/model unset\n/safety unset\nhello 3\n")
        .await;
    assert!(ended.stdout.starts_with("Model is Echo; "), "{}", ended.stdout);
    let settings: Vec<_> =
        start_turns(&installation).iter().map(|start| start["settings"].clone()).collect();
    let chosen: Vec<_> = settings
        .iter()
        .map(|set| (set["model"].as_str(), set["safety"].as_str().unwrap()))
        .collect();
    assert_eq!(chosen, [(Some("echo"), "default"), (Some("echo"), "default"), (None, "edit")]);
}

#[tokio::test]
async fn thinking_levels_and_modes_come_from_the_backend() {
    let installation =
        Installation::new().with("AGENT_BACKEND", "thinker").with("BACKEND_EFFORT", "Very High");
    let mut thinker = Wat::new("thinker", "thinker-1");
    let efforts = json!([{ "id": "low", "label": "Low" }, { "id": "max", "label": "Very high" }]);
    thinker.descriptor = json!({ "programs": [{ "name": "aetheel" }], "features": ["effort", "plan"], "efforts": efforts });
    thinker.accepted_in(&installation.path("config"));
    fs::write(installation.backend("thinker"), thinker.build()).unwrap();
    let script = "hello 1\n/thinking LOW\n/thinking extreme\n/mode plan\nhello 2\n/mode build\n/mode fast\n/thinking unset\nhello 3\n";
    let ended = installation.run(&["console"], script).await;
    let wanted = "\
thinker-1
Thinking is Low from now on.
Mode is Plan only from now on.
thinker-1
Mode is Build from now on.
Thinking is Very high from now on.
thinker-1
";
    assert_eq!((ended.stdout.as_str(), ended.code), (wanted, 1), "{}", ended.stderr);
    for refused in [
        "✗ There is no level of thinking \"extreme\"; there are: `low`, `max`.\n",
        "✗ There is no mode \"fast\"; there are: `build`, `plan`.\n",
    ] {
        assert!(ended.stderr.contains(refused), "{}", ended.stderr);
    }
    let settings: Vec<_> =
        start_turns(&installation).iter().map(|start| start["settings"].clone()).collect();
    let chosen: Vec<_> = settings
        .iter()
        .map(|set| (set["effort"].as_str().unwrap(), set["mode"].as_str().unwrap()))
        .collect();
    assert_eq!(chosen, [("max", "build"), ("low", "plan"), ("max", "build")]);

    let ended = installation.with("BACKEND_EFFORT", "extreme").run(&["check"], "").await;
    assert!(
        ended.stdout.contains("warning: BACKEND_EFFORT \"extreme\" is not a level of backend `thinker`, which has low, max"),
        "{}",
        ended.stdout
    );
}
