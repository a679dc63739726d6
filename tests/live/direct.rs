//! Tests each agent without a backend: its one-shot command line with the scripted model service.
//! If these fail, the home is wrong or the release has changed, and the backend is not the cause.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::agents::Agent;
use crate::support::model_server::{Intent, ModelServer, PATIENCE, Reply};

/// Returns the arguments with which the pinned version answers a prompt on stdin.
fn one_shot(agent: &str) -> Option<&'static [&'static str]> {
    Some(match agent {
        "claude" => &["-p", "--dangerously-skip-permissions"],
        "codex" => &[
            "exec",
            "--json",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            "-",
        ],
        "gemini" => &["--skip-trust", "--approval-mode", "yolo", "-o", "stream-json"],
        "opencode" => &["run", "--format", "json", "--auto"],
        "droid" => {
            &["exec", "-o", "stream-json", "--skip-permissions-unsafe", "-m", "custom:first"]
        }
        _ => return None,
    })
}

#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Returns the agents with a one-shot command line, or only the one that `BACKEND` names.
fn agents() -> Vec<Agent> {
    let wanted = std::env::var("BACKEND").unwrap_or_default();
    let all = Agent::all().into_iter().filter(|agent| {
        one_shot(&agent.name).is_some() && (wanted.is_empty() || agent.name == wanted)
    });
    all.map(|agent| Agent::installed(&agent.name)).collect()
}

/// Runs an agent with the prompt hello and waits until it ends.
async fn run(agent: &Agent, model: &ModelServer, home: &Path, cwd: &Path) -> Ended {
    let mut child = Command::new(&agent.program)
        .args(one_shot(&agent.name).expect("it has one"))
        .env_clear()
        .envs(agent.settle(&model.url(), home).environment)
        .current_dir(cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(b"Say hello.").await.unwrap();
    drop(stdin);
    let ended = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    let ended = ended
        .unwrap_or_else(|_| {
            panic!(
                "{} did not end; the model was asked {} times",
                agent.name,
                model.requests().len()
            )
        })
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { code: ended.status.code(), stdout: text(&ended.stdout), stderr: text(&ended.stderr) }
}

#[tokio::test]
#[ignore = "needs the real CLIs: make test-live"]
async fn every_agent_answers_and_uses_its_tools_with_the_scripted_model() {
    for agent in agents() {
        let (home, cwd) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let made = cwd.path().join("made.txt").display().to_string();
        let work = Reply::does("call_1", Intent::shell("echo run > shell.txt"))
            .then_does("call_2", Intent::write(&made, "written\n"));
        let model = ModelServer::replying([work, Reply::pieces(["Hel", "lo there."])]).await;
        let ended = run(&agent, &model, home.path(), cwd.path()).await;
        let told = format!("{}\n{ended:#?}\nbesides: {:?}", agent.name, model.others());
        assert!(ended.code == Some(0) && ended.stdout.contains("lo there."), "{told}");
        let requests = model.requests();
        assert_eq!(requests.len(), 2, "{told}");
        assert_eq!(requests[0].prompts(), ["Say hello."], "{told}\n{:#}", requests[0].body);
        assert_eq!(
            requests[1].tool_results().keys().copied().collect::<Vec<_>>(),
            ["call_1", "call_2"],
            "{told}"
        );
        assert_eq!(
            std::fs::read_to_string(cwd.path().join("shell.txt")).unwrap_or_default(),
            "run\n",
            "{told}"
        );
        assert_eq!(
            std::fs::read_to_string(made).unwrap_or_default(),
            "written\n",
            "{told}\n{:?}",
            requests[1].tool_results()
        );
        assert!(requests[0].has_key && !requests[0].system().is_empty());
    }
}

#[tokio::test]
#[ignore = "needs the real CLIs: make test-live"]
async fn every_agent_gives_up_on_a_failing_service_while_people_still_wait() {
    for agent in agents() {
        for status in [400, 401, 429, 500] {
            if agent.name == "droid" && status > 401 {
                // 0.225.2 retries for minutes, and has no setting for it.
                continue;
            }
            let (home, cwd) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let model = ModelServer::answering(move |_| {
                Reply::refusing(status, "MARK-OF-THE-SERVICE").retry_after(1)
            })
            .await;
            let begun = Instant::now();
            let ended = run(&agent, &model, home.path(), cwd.path()).await;
            println!(
                "{}, {status}: {:.1?}, {} requests, code {:?}",
                agent.name,
                begun.elapsed(),
                model.requests().len(),
                ended.code
            );
            let told = format!("{}{}", ended.stdout, ended.stderr);
            // Codex 0.169.0 prints its own messages for these.
            let own = agent.name == "codex" && status > 401;
            assert!(
                told.contains("MARK-OF-THE-SERVICE") || own,
                "{} {status}: {ended:#?}",
                agent.name
            );
        }
    }
}
