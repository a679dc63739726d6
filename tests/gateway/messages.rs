//! Files, threads, waiting messages and acknowledgements, with the real program.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use super::{installed, serving};
use crate::support::discord::{ANN, BOT, CHANNEL, LocalDiscord, OTHER};
use crate::support::program::built;

/// Speaks the protocol of Claude Code's live runs and prints the input that it got.
const AGENT: &str = r#"#!/usr/bin/env python3
import base64, hashlib, json, os, re, sys
if '--version' in sys.argv:
    print('2.1.197 (Claude Code)')
    sys.exit()
def say(line):
    print(json.dumps(line), flush=True)
session = '4cb8af81-1b8e-47ea-844d-28217f5a4dc4'
for line in sys.stdin:
    message = json.loads(line)
    if message['type'] == 'control_request':
        say({'type': 'control_response', 'response': {'subtype': 'success', 'request_id': message['request_id'], 'response': {'models': []}}})
    elif message['type'] == 'user':
        content = message['message']['content']
        parts = content if isinstance(content, list) else [{'type': 'text', 'text': content}]
        lines = []
        for part in parts:
            if part['type'] == 'image':
                data = base64.b64decode(part['source']['data'], validate=True)
                lines.append(part['source']['media_type'] + ' ' + hashlib.sha256(data).hexdigest())
            else:
                lines.append(part['text'])
                for path in re.findall(r' at (/\S+)\]', part['text']):
                    lines.append('%s holds %d bytes' % (os.path.basename(path), os.path.getsize(path)))
        text = '\n'.join(lines)
        usage = {'input_tokens': 3100, 'output_tokens': 800}
        say({'type': 'system', 'subtype': 'init', 'session_id': session, 'model': 'opus-9', 'cwd': os.getcwd(), 'tools': []})
        say({'type': 'assistant', 'session_id': session, 'message': {'id': 'm', 'role': 'assistant', 'model': 'opus-9', 'content': [{'type': 'text', 'text': text}], 'usage': usage}})
        say({'type': 'result', 'subtype': 'success', 'is_error': False, 'result': text, 'session_id': session, 'num_turns': 1, 'duration_ms': 5, 'total_cost_usd': 0.02, 'usage': usage})
"#;

#[tokio::test]
async fn files_reach_the_agent_of_the_real_claude_component_and_are_removed_afterwards() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local)
        .with("AGENT_BACKEND", "claude")
        .with("ANTHROPIC_API_KEY", "sk-not-a-key-at-all")
        .with("FOOTER", "model,tokens,cost")
        .with("PERMISSION_MODE", "acceptEdits");
    let program = installation.path("home/claude");
    fs::write(&program, AGENT).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(installation.backend("claude"), built("claude")).unwrap();
    let installation = installation.with("BACKEND_CLI_PATH", &program.display().to_string());
    let mut bot = serving(&installation).await;
    let png = b"\x89PNG\r\n\x1a\nand pixels";
    let log = "x".repeat(100_000);
    let (cat, big) = (
        local.keep_file("cat.png", 200, Some(18), png),
        local.keep_file("big.log", 200, None, log.as_bytes()),
    );
    local.send_files(
        CHANNEL,
        ANN,
        "what is this?",
        &[("cat.png", "text/plain", 18, &cat), ("big.log", "text/plain", 5, &big)],
    );
    let answer = local.wait_for_message(CHANNEL, |text| text.contains("opus-9")).await.content;
    let lines: Vec<&str> = answer.lines().collect();
    assert_eq!(
        (lines[0], lines[1]),
        ("[ann]: what is this?", format!("image/png {}", sha256(png)).as_str())
    );
    assert!(
        lines[2].starts_with("[Attached file: big.log (text/plain, 100000 bytes) at "),
        "{answer}"
    );
    assert_eq!(
        lines[3..],
        ["att-2.log holds 100000 bytes", "-# opus-9 · 3.1k in, 800 out · $0.02 list price"]
    );
    let left: Vec<_> = fs::read_dir(installation.path("workspace")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    bot.signal(rustix::process::Signal::TERM);
    assert_eq!(bot.ended().await.code, 0, "recordings are complete when it has ended");
    let recordings: String = installation.recordings().into_values().collect();
    assert!(
        recordings.contains(&format!("18 bytes, sha256 {}", sha256(png)))
            && !recordings.contains("iVBORw0KGgphbmQ"),
        "{recordings}"
    );
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_thread_of_new_is_a_separate_conversation_that_continues_without_mentions() {
    let local = LocalDiscord::start().await;
    local.let_read();
    let installation = installed(&local);
    let _bot = serving(&installation).await;
    local.slash(CHANNEL, ANN, "ask", Some("hello here"));
    local
        .wait_for_message(CHANNEL, |text| text.ends_with("This is message 1 of our conversation."))
        .await;
    local.slash(CHANNEL, ANN, "new", Some("hello there"));
    let thread =
        local.wait_for("a thread", |local| local.threads().first().map(|thread| thread.0)).await;
    local
        .wait_for_message(thread, |text| text.ends_with("This is message 1 of our conversation."))
        .await;
    local.say(thread, ANN, "and on");
    local
        .wait_for_message(thread, |text| {
            text.starts_with("You said: and on")
                && text.ends_with("This is message 2 of our conversation.")
        })
        .await;
    local.mention(CHANNEL, ANN, "back here");
    local
        .wait_for_message(CHANNEL, |text| {
            text.starts_with("You said: back here")
                && text.ends_with("This is message 2 of our conversation.")
        })
        .await;
}

#[tokio::test]
async fn a_waiting_message_is_answered_in_its_last_edited_form_and_not_if_deleted() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    let running = local.mention(CHANNEL, ANN, "slow 10");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    let (edited, deleted) =
        (local.mention(CHANNEL, ANN, "tpyo"), local.mention(CHANNEL, ANN, "never mind"));
    local
        .wait_for("their places", |local| {
            (local.reactions(edited) == ["1️⃣"] && local.reactions(deleted) == ["2️⃣"]).then_some(())
        })
        .await;
    local.preview(edited, &format!("<@{BOT}> tpyo"));
    local.edit(edited, &format!("<@{BOT}> typo"));
    local.edit(running, &format!("<@{BOT}> too late"));
    local.delete(deleted);
    bot.logs("a waiting message was deleted and is not answered").await;
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: typo")).await;
    local
        .wait_for("only the pencil", |local| (local.reactions(edited) == ["✏️"]).then_some(()))
        .await;
    local.mention(CHANNEL, ANN, "last");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: last")).await;
    assert!(
        local.texts(CHANNEL)[0].ends_with("There.") && local.texts(CHANNEL).len() == 3,
        "{:?}",
        local.texts(CHANNEL)
    );
}

#[tokio::test]
async fn a_command_is_acknowledged_in_time_when_all_slots_and_the_queue_are_full() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local)
        .with("MAX_CONCURRENT_QUERIES", "1")
        .with("MAX_QUEUE_DEPTH", "1")
        .with("BUSY_POLICY", "queue");
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    for number in 0..20 {
        local.mention(CHANNEL, ANN, &format!("load {number}"));
    }
    // The only place in the queue is taken, so all commands are refused.
    local.wait_for_message(CHANNEL, |text| text.contains("Too many requests")).await;
    let asked: Vec<u64> = (0..5)
        .map(|number| local.slash(OTHER, ANN, "ask", Some(&format!("am I heard? {number}"))))
        .collect();
    for id in asked {
        let (at, kind) =
            local.wait_for("the acknowledgement", |local| local.interaction(id).acknowledged).await;
        let took = at - local.interaction(id).used;
        // 5 is a deferred answer, and 4 an immediate refusal that only the user sees.
        assert!(matches!(kind, 4 | 5) && took < Duration::from_secs(3), "{kind} after {took:?}");
        let refused = |local: &LocalDiscord| {
            let answer = local.interaction(id).original?;
            local.messages(OTHER).into_iter().find(|message| {
                message.id == answer && message.content.contains("Too many requests")
            })
        };
        local.wait_for("the answer", refused).await;
    }
}
