//! Tests of the processes that connect to a holder: an agent is refused, and a gateway with another
//! sandbox replaces the holder.

use std::fs;
use std::path::Path;

use aetheel_model::agent::Pipe;
use aetheel_model::choice::SandboxMode;
use aetheel_process::{Custody, Means, Sandbox};
use aetheel_turn::Launcher as _;

use super::{Started, line, lines, living, open, read_recording, sh, until, write};

/// Returns an agent's script that takes over a holder with its key, as a gateway does at its start,
/// and prints the kind of the answer (65 is a refusal) and its text. The connection is made by the
/// shell's child, by an orphan, and by a process that then executes another program.
fn takeover(state: &Path) -> String {
    let key = fs::read_to_string(state.join("holder.key")).unwrap();
    let socket = state.join("holder.sock");
    format!(
        r#"cat > $TMPDIR/take.py <<'END'
import json, os, socket, struct, sys
if sys.argv[1] == "orphan":
    if os.fork():
        sys.exit(0)
    os.setsid()
    os.environ.clear()
    if os.fork():
        os._exit(0)
s = socket.socket(socket.AF_UNIX)
try:
    s.connect("{socket}")
except OSError as error:
    print("no connection", error, flush=True)
    sys.exit(0)
if sys.argv[1] == "passed":
    # The process that connected has ended when the key is sent.
    if os.fork():
        os._exit(0)
    os.setsid()
body = json.dumps(dict(protocol=1, program="0", key="{key}")).encode()
s.sendall(struct.pack("<IB", len(body), 1) + body)
head = s.recv(5, socket.MSG_WAITALL)
length, kind = struct.unpack("<IB", head)
print("answer", kind, s.recv(length, socket.MSG_WAITALL).decode(), flush=True)
END
for way in child orphan passed; do python3 $TMPDIR/take.py $way; done; read end"#,
        socket = socket.display(),
    )
}

#[tokio::test]
async fn an_agent_with_the_leaked_key_is_refused_also_without_a_gateway() {
    let holder = Started::new();
    let sandbox = Sandbox::probe(SandboxMode::Landlock).expect("this machine has Landlock");
    let gateway = holder.gateway_with(sandbox.clone()).await;
    let temporary = tempfile::tempdir_in("/var/tmp").unwrap();
    let launch = |script: &str| {
        let mut launch = open(script);
        let folder = temporary.path().display().to_string();
        launch.environment.push(("TMPDIR".to_owned(), folder));
        launch.reach.write.push(temporary.path().to_owned());
        launch
    };
    let wait = format!("read go; {}", takeover(holder.folder.path()));
    let agent = launch(&wait);
    let run = agent.run.clone();
    let process = gateway.launch(agent).await.unwrap();
    // The gateway has ended before the agent begins.
    write(&process, "go\n");
    gateway.leave().await;
    drop(process);
    until("the attempts are in the log", || holder.log().contains("an agent tries to control"))
        .await;
    let next = holder.gateway_with(sandbox.clone()).await;
    let mut process = next.adopt(&run, 1, 0).await.unwrap();
    let answers = lines(&mut process, 3).await;
    assert!(answers.iter().all(|answer| answer.starts_with("answer 65 ")), "{answers:?}");
    assert!(answers.iter().any(|answer| answer.contains("is an agent of this holder")));
    next.end(&run);
    // An agent of another gateway, which is neither in the cgroups of this holder nor below it.
    for means in [Means::Best, Means::Descent] {
        let custody = Custody::confining(means, sandbox.clone()).unwrap();
        let mut process = custody.launch(launch(&takeover(holder.folder.path()))).await.unwrap();
        let answers = lines(&mut process, 3).await;
        assert!(answers.iter().all(|answer| answer.starts_with("answer 65 ")), "{answers:?}");
        assert!(answers.iter().any(|answer| answer.contains("more confined")), "{answers:?}");
    }
    next.leave().await;
}

#[tokio::test]
async fn a_gateway_with_another_sandbox_replaces_the_holder_and_its_agents() {
    let holder = Started::new();
    let free = holder.gateway().await;
    let launch = open("echo here; read x");
    let run = launch.run.clone();
    let mut process = free.launch(launch).await.unwrap();
    line(&mut process, "here").await;
    free.leave().await;
    drop(process);
    let before = holder.pid();
    let sandbox = Sandbox::probe(SandboxMode::Landlock).expect("this machine has Landlock");
    let gateway = holder.gateway_with(sandbox).await;
    assert!(gateway.is_successor(), "interrupted turns are asked about");
    assert_eq!(living(&run), Vec::<String>::new());
    assert_ne!(holder.pid(), before);
    let log = holder.folder.path().join("holder.log");
    let mut process =
        gateway.launch(sh(&format!("cat {} || echo no", log.display()))).await.unwrap();
    assert_eq!(read_recording(&mut process, 0).await.text(Pipe::Stdout), ["no"]);
    gateway.leave().await;
}
