//! One agent prints more text than a component may return: memory stays bounded, its answer is
//! posted, and other channels are served.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OTHER};
use crate::support::program::built;

/// Speaks Claude Code's protocol. Answers a prompt that contains `flood` with 9 MiB of text.
const AGENT: &str = r#"#!/usr/bin/env python3
import json, os, sys
if '--version' in sys.argv:
    print('2.1.197 (Claude Code)')
    sys.exit()
def say(line):
    print(json.dumps(line), flush=True)
session = '4cb8af81-1b8e-47ea-844d-2821%08d' % os.getpid()
for line in sys.stdin:
    message = json.loads(line)
    if message['type'] == 'control_request':
        say({'type': 'control_response', 'response': {'subtype': 'success', 'request_id': message['request_id'], 'response': {'models': []}}})
        continue
    if message['type'] != 'user':
        continue
    say({'type': 'system', 'subtype': 'init', 'session_id': session, 'model': 'opus-9', 'cwd': os.getcwd(), 'tools': []})
    count = 12 if 'flood' in json.dumps(message) else 1
    for number in range(count):
        text = 'Answer.' if count == 1 else ('line %d of many\n' % number) * (768 * 1024 // 16)
        say({'type': 'assistant', 'session_id': session, 'message': {'id': 'm%d' % number, 'role': 'assistant', 'model': 'opus-9', 'content': [{'type': 'text', 'text': text}]}})
    say({'type': 'result', 'subtype': 'success', 'is_error': False, 'result': text, 'session_id': session, 'num_turns': 1, 'duration_ms': 5})
"#;

/// Returns the most memory that a process has had, in MiB.
fn peak_memory(pid: rustix::process::Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[tokio::test]
async fn a_flood_of_text_uses_little_memory_and_other_channels_are_served() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local)
        .with("AGENT_BACKEND", "claude")
        .with("ANTHROPIC_API_KEY", "sk-not-a-key-at-all")
        // This agent refuses higher rights to root.
        .with("PERMISSION_MODE", "acceptEdits");
    let program = installation.path("home/claude");
    fs::write(&program, AGENT).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(installation.backend("claude"), built("claude")).unwrap();
    let installation = installation.with("BACKEND_CLI_PATH", &program.display().to_string());
    let gateway = serving(&installation).await;
    // Everything that is loaded once is in memory after the first answer.
    local.mention(OTHER, ANN, "first");
    local.wait_for_message(OTHER, |text| text.contains("Answer.")).await;
    let before = peak_memory(gateway.gateway());

    local.mention(CHANNEL, ANN, "flood");
    local.mention(OTHER, ANN, "second");
    let answered = |local: &LocalDiscord| {
        local.texts(OTHER).iter().filter(|text| text.contains("Answer.")).count() == 2
    };
    local.wait_for("the second answer", |local| answered(local).then_some(())).await;
    gateway
        .logs_where("the end of the flood", |line| {
            line["message"] == "turn ended"
                && line["ending"] == "completed"
                && line["lane"].to_string().contains(&CHANNEL.to_string())
        })
        .await;
    local.wait_for_message(CHANNEL, |text| text.contains("line 0 of many")).await;
    let grown = peak_memory(gateway.gateway()) - before;
    assert!(grown < 128, "{grown} MiB more than {before} MiB");
}
