//! Each agent by itself, with its one-shot command line, against the scripted model service: if this fails, the home is
//! wrong or the release is another, and no backend is to blame.

use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::agents::Agent;
use crate::support::model_server::{Intent, ModelServer, PATIENCE, Reply};

/// What prints the answer to a prompt on stdin, as the pinned versions take it.
fn one_shot(agent: &str) -> Option<&'static [&'static str]> {
    Some(match agent {
        "claude" => &["-p", "--dangerously-skip-permissions"],
        "codex" => &["exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-"],
        "gemini" => &["--skip-trust", "--approval-mode", "yolo", "-o", "stream-json"],
        "opencode" => &["run", "--format", "json", "--auto"],
        "droid" => &["exec", "-o", "stream-json", "--skip-permissions-unsafe", "-m", "custom:first"],
        _ => return None,
    })
}

#[tokio::test]
#[ignore = "needs the real CLIs: make test-live"]
async fn every_agent_answers_and_uses_its_tools_before_the_scripted_model() {
    let wanted = std::env::var("BACKEND").unwrap_or_default();
    for agent in Agent::all() {
        let Some(arguments) = one_shot(&agent.name).filter(|_| agent.name.starts_with(&wanted)) else { continue };
        let agent = Agent::installed(&agent.name);
        let (home, cwd) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let made = cwd.path().join("made.txt").display().to_string();
        let work = Reply::does("call_1", Intent::shell("echo run > shell.txt")).then_does("call_2", Intent::write(&made, "written\n"));
        let model = ModelServer::replying([work, Reply::pieces(["Hel", "lo there."])]).await;
        let settled = agent.settle(&model.url(), home.path());
        let mut child = Command::new(&agent.program)
            .args(arguments)
            .env_clear()
            .envs(settled.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(cwd.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(b"Say hello.").await.unwrap();
        drop(stdin);
        let ended = tokio::time::timeout(PATIENCE, child.wait_with_output()).await.expect("it ends").unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));

        let told = format!("{}\nstdout: {stdout}\nstderr: {stderr}\nbesides: {:?}", agent.name, model.others());
        assert!(ended.status.success() && stdout.contains("lo there."), "{told}");
        let requests = model.requests();
        assert_eq!(requests.len(), 2, "{told}");
        assert_eq!(requests[0].prompts(), ["Say hello."], "{told}\n{:#}", requests[0].body);
        assert_eq!(requests[1].tool_results().keys().copied().collect::<Vec<_>>(), ["call_1", "call_2"], "{told}");
        assert_eq!(std::fs::read_to_string(cwd.path().join("shell.txt")).unwrap_or_default(), "run\n", "{told}");
        assert_eq!(std::fs::read_to_string(made).unwrap_or_default(), "written\n", "{told}\n{:?}", requests[1].tool_results());
        assert!(requests[0].has_key && !requests[0].system().is_empty());
    }
}
