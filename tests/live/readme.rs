//! The steps of README.md with the real Claude Code, from the clone's build.

use std::fs;

use serde_json::json;

use super::agents::Agent;
use crate::support::discord::CHANNEL;
use crate::support::model_server::{ModelServer, Reply};
use crate::support::readme::{Newcomer, commands};

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_newcomer_has_a_file_edited_and_a_command_run_by_a_button() {
    let place = std::sync::Arc::new(std::sync::OnceLock::<String>::new());
    let target = place.clone();
    let model = ModelServer::answering(move |request| {
        let results = request.tool_results();
        let prompt = request.prompts().last().copied().unwrap_or_default();
        match prompt.contains("Run it") {
            true if results.contains_key("toolu_2") => Reply::text("It ran."),
            true => Reply::tool("toolu_2", "Bash", json!({"command": "touch ran.txt"})),
            false if results.contains_key("toolu_1") => Reply::text("It is written."),
            false => {
                let file = target.get().unwrap();
                Reply::tool("toolu_1", "Write", json!({"file_path": file, "content": "written"}))
            }
        }
    })
    .await;
    let agent = Agent::installed("claude");
    let elsewhere = tempfile::tempdir().unwrap();
    let settled = agent.settle(&model.url(), elsewhere.path());
    let names: Vec<&str> = settled.environment.iter().map(|(name, _)| name.as_str()).collect();
    let names = names.into_iter().filter(|name| !["HOME", "PATH"].contains(name));
    let names = names.collect::<Vec<_>>().join(",");
    let folder = agent.program.parent().unwrap().display().to_string();
    let path = settled.environment.iter().find(|(name, _)| name == "PATH").unwrap().1.clone();
    let own = [
        ("PATH".to_owned(), format!("{folder}:{path}")),
        ("CACHE_DIR".to_owned(), super::agents::cache()),
        ("AGENT_ENV".to_owned(), names),
    ];
    let variables = settled.environment.into_iter().filter(|(name, _)| name != "HOME").chain(own);
    let newcomer = Newcomer::new(variables).await;
    let work = newcomer.installation.path("home/.local/share/aetheel/workspace");
    place.set(work.join("new.txt").display().to_string()).unwrap();

    let steps = commands("Run it in Discord");
    let [init, _, run] = &steps[..3] else { panic!("{steps:?}") };
    newcomer.sets_up(init, "claude").await;
    let gateway = newcomer.starts(run);
    gateway.logs("aetheel is ready").await;
    newcomer.allows("Write it.").await;
    newcomer.local.wait_for_message(CHANNEL, |text| text.contains("It is written.")).await;
    assert_eq!(fs::read_to_string(work.join("new.txt")).unwrap(), "written");
    newcomer.allows("Run it.").await;
    newcomer.local.wait_for_message(CHANNEL, |text| text.contains("It ran.")).await;
    assert!(work.join("ran.txt").exists());
}
