//! A disk is full while agents work, and the gateway is killed: no agent is asked twice, no tool is
//! used twice, and no answer is delivered twice.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, prlimit};

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OTHER, room};
use crate::support::program::{Installation, Program, built};

/// Speaks Claude Code's protocol. Notes in the file `log` each prompt and each tool that it uses, and
/// waits in turn K until the file `go-K` exists.
const AGENT: &str = r#"#!/usr/bin/env python3
import json, os, re, sys, time
if '--version' in sys.argv:
    print('2.1.197 (Claude Code)')
    sys.exit()
def say(line):
    print(json.dumps(line), flush=True)
def note(line):
    with open('log', 'a') as log:
        log.write(line + '\n')
for line in sys.stdin:
    message = json.loads(line)
    if message['type'] == 'control_request':
        say({'type': 'control_response', 'response': {'subtype': 'success', 'request_id': message['request_id'], 'response': {'models': []}}})
        continue
    if message['type'] != 'user':
        continue
    kind, number = re.search(r'(early|late|plain) (\d+)', json.dumps(message)).groups()
    session = '4cb8af81-1b8e-47ea-844d-2821%08d' % int(number)
    def assistant(content):
        say({'type': 'assistant', 'session_id': session, 'message': {'id': 'm' + number, 'role': 'assistant', 'model': 'opus-9', 'content': [content]}})
    def tool():
        assistant({'type': 'tool_use', 'id': 't' + number, 'name': 'Bash', 'input': {'command': 'count'}})
        note('tool ' + number)
        result = {'type': 'tool_result', 'tool_use_id': 't' + number, 'content': 'counted'}
        say({'type': 'user', 'session_id': session, 'message': {'role': 'user', 'content': [result]}})
    say({'type': 'system', 'subtype': 'init', 'session_id': session, 'model': 'opus-9', 'cwd': os.getcwd(), 'tools': []})
    note('asked ' + number)
    if kind == 'late':
        tool()
    if kind != 'early':
        assistant({'type': 'text', 'text': 'Begun ' + number + '.'})
    while not os.path.exists('go-' + number):
        time.sleep(0.02)
    if kind == 'early':
        tool()
    # More than the last block of a file can take on a full disk.
    text = 'word ' * 900 + 'Answer ' + number + '.'
    assistant({'type': 'text', 'text': text})
    say({'type': 'result', 'subtype': 'success', 'is_error': False, 'result': text, 'session_id': session, 'num_turns': 1, 'duration_ms': 5})
    note('done ' + number)
"#;

/// The kinds of turns: the agent uses its tool after the wait, before it, or uses none. One turn of
/// each kind continues while the disk is full, one while no gateway runs, and one after the next start.
const KINDS: [&str; 3] = ["early", "late", "plain"];
const TURNS: u64 = 9;

fn kind(turn: u64) -> &'static str {
    KINDS[usize::try_from(turn).unwrap() % 3]
}

/// A disk that can be filled.
trait Disk {
    fn start(&self, installation: &Installation) -> Program;
    fn fill(&self, gateway: &Program);
    fn make_room(&self);
}

/// All disks of the gateway. A limit on the size of its files simulates a full one.
struct Everything;

impl Disk for Everything {
    fn start(&self, installation: &Installation) -> Program {
        installation.start(&["run"])
    }

    fn fill(&self, gateway: &Program) {
        let maximum = getrlimit(Resource::Fsize).maximum;
        let full = Rlimit { current: Some(16), maximum };
        prlimit(Some(gateway.pid), Resource::Fsize, full).expect("limited");
    }

    fn make_room(&self) {}
}

/// The disk of `CONFIG_DIR` alone: a small file system in the mount namespace of a process.
struct ConfigDir {
    keeper: Child,
    folder: PathBuf,
}

impl ConfigDir {
    fn mounted(installation: &Installation) -> Self {
        let folder = installation.path("config");
        let script = "mount -t tmpfs -o size=2m none \"$0\" && echo mounted && exec sleep 3600";
        let mut keeper = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
            .arg(&folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare, of util-linux");
        let mut line = String::new();
        let out = keeper.stdout.take().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
        assert_eq!(line, "mounted\n", "this test needs user namespaces");
        Self { keeper, folder }
    }

    fn take_all_space(&self) {
        let filler = fs::OpenOptions::new().create(true).append(true).open(self.at("filler"));
        let error = filler.unwrap().write_all(&vec![0; 4 << 20]).expect_err("it is full");
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    }

    /// Returns the path of a file in that file system, for a process outside the namespace.
    fn at(&self, name: &str) -> PathBuf {
        let folder = self.folder.strip_prefix("/").unwrap().join(name);
        Path::new(&format!("/proc/{}/root", self.keeper.id())).join(folder)
    }
}

impl Disk for ConfigDir {
    fn start(&self, installation: &Installation) -> Program {
        installation.start_in_shell(&format!(
            "exec nsenter --target {} --user --mount --preserve-credentials \"$0\" run",
            self.keeper.id()
        ))
    }

    fn fill(&self, _: &Program) {
        self.take_all_space();
    }

    fn make_room(&self) {
        fs::remove_file(self.at("filler")).unwrap();
    }
}

impl Drop for ConfigDir {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

fn with_agent(local: &LocalDiscord) -> Installation {
    let installation = installed(local)
        .with("AGENT_BACKEND", "claude")
        .with("ANTHROPIC_API_KEY", "sk-not-a-key-at-all")
        // This agent refuses higher rights to root.
        .with("PERMISSION_MODE", "acceptEdits")
        .with("MAX_CONCURRENT_QUERIES", "20");
    let program = installation.path("home/claude");
    fs::write(&program, AGENT).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(installation.backend("claude"), built("claude")).unwrap();
    installation.with("BACKEND_CLI_PATH", &program.display().to_string())
}

/// Counts the lines of the agents' log.
fn count_notes(installation: &Installation) -> BTreeMap<String, usize> {
    let log = fs::read_to_string(installation.path("workspace/log")).unwrap_or_default();
    log.lines().fold(BTreeMap::new(), |mut counts, line| {
        *counts.entry(line.to_owned()).or_default() += 1;
        counts
    })
}

async fn wait_for_notes(local: &LocalDiscord, installation: &Installation, notes: &[String]) {
    let all = |noted: &BTreeMap<String, usize>| notes.iter().all(|note| noted.contains_key(note));
    local.wait_for(&format!("{notes:?}"), |_| all(&count_notes(installation)).then_some(())).await;
}

fn release(installation: &Installation, turn: u64) {
    fs::write(installation.path("workspace").join(format!("go-{turn}")), "").unwrap();
}

/// Returns the last message about a turn once the turn is over for people: its answer without the
/// button *Stop*, or the question whether to run it again.
fn conclusion(local: &LocalDiscord, turn: u64) -> Option<String> {
    let last = local.messages(room(turn)).pop()?;
    let over = local.buttons(last.id).iter().all(|label| label != "Stop")
        && (last.content.contains(&format!("Answer {turn}."))
            || last.content.ends_with("(interrupted)"));
    over.then_some(last.content)
}

/// Runs nine turns while the disk is full and the gateway is killed. Returns the last message of each.
async fn nine_turns(
    local: &LocalDiscord,
    installation: &Installation,
    disk: &dyn Disk,
) -> Vec<String> {
    let mut gateway = disk.start(installation);
    gateway.logs("aetheel is ready").await;
    for turn in 0..TURNS {
        local.mention(room(turn), ANN, &format!("{} {turn}", kind(turn)));
    }
    let asked: Vec<String> = (0..TURNS).map(|turn| format!("asked {turn}")).collect();
    wait_for_notes(local, installation, &asked).await;
    for turn in (0..TURNS).filter(|turn| kind(*turn) != "early") {
        let begun = format!("Begun {turn}.");
        local.wait_for_message(room(turn), |text| text.contains(&begun)).await;
    }

    disk.fill(&gateway);
    let paused = |gateway: &Program| {
        let said = "the turn is paused: the queue cannot be written";
        let log = gateway.log();
        let turns = log
            .iter()
            .filter(|line| line["message"].as_str().is_some_and(|text| text.starts_with(said)));
        turns.count()
    };
    // A long answer first: its line needs a block. When that fails, the gateway removes
    // `complete.md`, and a block is free until the disk is filled again.
    for (before, turn) in [2, 1, 0].into_iter().enumerate() {
        release(installation, turn);
        local.wait_for("a paused turn", |_| (paused(&gateway) > before).then_some(())).await;
        disk.fill(&gateway);
    }
    local.mention(CHANNEL, ANN, "too much");
    local.wait_for_message(CHANNEL, |text| text.contains("(storage)")).await;
    for turn in 0..2 {
        assert_eq!(conclusion(local, turn), None, "it could not be saved");
    }
    gateway.signal(Signal::KILL);
    gateway.ended().await;

    (3..6).for_each(|turn| release(installation, turn));
    let done: Vec<String> = (3..6).map(|turn| format!("done {turn}")).collect();
    wait_for_notes(local, installation, &done).await;
    disk.make_room();

    let next = disk.start(installation);
    next.logs("aetheel is ready").await;
    (6..TURNS).for_each(|turn| release(installation, turn));
    let mut read = Vec::new();
    for turn in 0..TURNS {
        read.push(
            local
                .wait_for(&format!("the end of turn {turn}"), |local| conclusion(local, turn))
                .await,
        );
    }
    // A turn that was repeated by mistake comes before this prompt, so its notes are there by then.
    for turn in 0..TURNS {
        local.mention(room(turn), ANN, &format!("plain {}", 100 + turn));
        release(installation, 100 + turn);
    }
    let asked: Vec<String> = (0..TURNS).map(|turn| format!("asked {}", 100 + turn)).collect();
    wait_for_notes(local, installation, &asked).await;
    let notes = count_notes(installation);
    for turn in 0..TURNS {
        assert_eq!(notes[&format!("asked {turn}")], 1, "{notes:?}\n{read:?}");
        let tools = notes.get(&format!("tool {turn}")).copied().unwrap_or(0);
        assert!(tools <= 1, "{notes:?}\n{read:?}");
        let answer = format!("Answer {turn}.");
        let texts = local.texts(room(turn));
        let answers = texts.iter().filter(|text| text.contains(&answer)).count();
        assert!(answers <= 1, "{texts:?}");
    }
    assert!(!next.stderr().contains("panic"), "{}", next.stderr());
    read
}

#[tokio::test]
async fn a_full_configuration_folder_and_a_kill_lose_and_repeat_no_turn() {
    let local = LocalDiscord::start().await;
    let installation = with_agent(&local);
    let disk = ConfigDir::mounted(&installation);
    let read = nine_turns(&local, &installation, &disk).await;
    // The holder kept the agents, and the recordings contain the tools that they used.
    for (turn, text) in (0..TURNS).zip(&read) {
        assert!(text.contains(&format!("Answer {turn}.")), "{read:?}");
    }
}

#[tokio::test]
async fn the_number_of_audit_entries_lost_on_a_full_disk_survives_a_kill() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("MAX_CONCURRENT_QUERIES", "20");
    let disk = ConfigDir::mounted(&installation);
    let mut gateway = disk.start(&installation);
    gateway.logs("aetheel is ready").await;
    let text = || {
        let files = fs::read_dir(disk.at("state/audit")).unwrap().map(|file| file.unwrap().path());
        let lines = files.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
        lines.map(|path| fs::read_to_string(path).unwrap()).collect::<String>()
    };
    local.wait_for("the entry", |_| text().contains("gateway-started").then_some(())).await;
    // The last block of the file takes further entries on a full disk, but not those of so many turns
    // that are stopped then.
    let channels: Vec<u64> = (1..=20).map(room).collect();
    for &channel in &channels {
        local.mention(channel, ANN, "hang");
    }
    let begun = || text().matches(r#""turn-begun""#).count() == channels.len();
    local.wait_for("the turns", |_| begun().then_some(())).await;
    disk.fill(&gateway);
    for channel in channels {
        local.slash(channel, ANN, "stop", None);
    }
    gateway.logs("the audit log cannot be written, so entries are missing").await;
    let second_place = || fs::read_to_string(disk.at("state/audit-head.md")).unwrap();
    let none = "lost since then: `00000000000000000000`";
    local.wait_for("the number", |_| (!second_place().contains(none)).then_some(())).await;
    gateway.signal(Signal::KILL);
    gateway.ended().await;
    disk.make_room();
    let next = disk.start(&installation);
    next.logs("aetheel is ready").await;
    local.wait_for("the gap", |_| text().contains("entries-lost").then_some(())).await;
}

#[tokio::test]
async fn after_a_kill_with_all_disks_full_users_are_asked_about_turns_with_unknown_outcome() {
    let local = LocalDiscord::start().await;
    let installation = with_agent(&local);
    let read = nine_turns(&local, &installation, &Everything).await;
    let asked = read.iter().filter(|text| text.ends_with("(interrupted)")).count();
    assert!((1..=9).contains(&asked), "{read:?}");
    assert!(read.iter().any(|text| text.contains("may have used a tool")), "{read:?}");
}

#[tokio::test]
async fn a_turn_that_waits_for_a_full_disk_can_be_stopped() {
    let local = LocalDiscord::start().await;
    let installation = with_agent(&local);
    let gateway = serving(&installation).await;
    local.mention(OTHER, ANN, "early 1");
    wait_for_notes(&local, &installation, &["asked 1".to_owned()]).await;
    Everything.fill(&gateway);
    release(&installation, 1);
    gateway.logs("the turn is paused: the queue cannot be written").await;
    let stop = local.slash(OTHER, ANN, "stop", None);
    local.answer_to(stop).await;
    // The turn ends although nothing can be written. Its answer waits until it can be saved.
    let ends = |line: &serde_json::Value| {
        line["message"].as_str().is_some_and(|text| text == "turn ended" || text == "turn failed")
    };
    gateway.logs_where("the turn's end", ends).await;
    assert!(!local.texts(OTHER).iter().any(|text| text.contains("Answer 1.")));
    let maximum = getrlimit(Resource::Fsize).maximum;
    prlimit(Some(gateway.pid), Resource::Fsize, Rlimit { current: None, maximum }).unwrap();
    local.mention(OTHER, ANN, "plain 2");
    release(&installation, 2);
    local.wait_for_message(OTHER, |text| text.contains("Answer 2.")).await;
    assert_eq!(count_notes(&installation)["asked 1"], 1);
}

#[tokio::test]
async fn a_start_on_a_full_disk_ends_with_75_and_names_the_folder() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let disk = ConfigDir::mounted(&installation);
    // At the first start, and at one after the gateway has used the folder.
    for _ in 0..2 {
        disk.take_all_space();
        let ended = disk.start(&installation).ended().await;
        assert_eq!(ended.code, 75, "{ended:?}");
        let folder = disk.folder.display().to_string();
        let reason = |line: &str| {
            line.contains("CONFIG_DIR")
                && line.contains(&folder)
                && line.contains("No space left on device")
        };
        assert!(ended.stderr.lines().any(reason), "{ended:?}");
        assert!(ended.stderr.contains("free some space"), "{ended:?}");
        assert!(!ended.stderr.contains("chown"), "{ended:?}");
        disk.make_room();
        let mut gateway = disk.start(&installation);
        gateway.logs("aetheel is ready").await;
        gateway.signal(Signal::TERM);
        assert_eq!(gateway.ended().await.code, 0);
    }
}
