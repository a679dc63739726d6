//! The holder ends and is replaced, and then the gateway ends. However turns share an agent, no
//! prompt is lost and none reaches an agent twice.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::{Pid, Signal, kill_process};

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord};
use crate::support::program::{Installation, Program, built};

/// Speaks the protocol of the demo agent, Claude Code or ACP, depending on its arguments. It
/// records each prompt in the file `asked`. It answers `until NAME` in two halves, the second one
/// when the file NAME exists.
pub(super) const AGENT: &str = r#"#!/usr/bin/env python3
import json, os, re, sys, time
if '--version' in sys.argv:
    print('aetheel demo-agent 0.1.0' if 'demo-agent' in sys.argv else '2.1.197 (Claude Code)')
    sys.exit()
def say(**line):
    print(json.dumps(line), flush=True)
def answer(prompt):
    with open('asked', 'a') as asked:
        asked.write(prompt.replace('\n', ' ') + '\n')
    gate = re.search(r'until (\S+)', prompt)
    if not gate:
        yield 'You said: ' + prompt.split()[-1]
        return
    yield 'One, '
    while not os.path.exists(gate[1]):
        time.sleep(0.02)
    yield 'two ' + gate[1] + '.'
def demo():
    session = sys.argv[sys.argv.index('--resume') + 1] if '--resume' in sys.argv else 'first'
    say(type='hello', session=session, model='parrot')
    for text in answer(json.loads(sys.stdin.readline())['text']):
        say(type='text', text=text)
    say(type='usage', input=1, output=1)
    say(type='done')
def claude():
    flags = {'--session-id', '--resume'} & set(sys.argv)
    session = sys.argv[sys.argv.index(flags.pop()) + 1]
    usage = {'input_tokens': 3, 'output_tokens': 8}
    message = {'id': 'm', 'role': 'assistant', 'model': 'opus-9', 'usage': usage}
    for line in sys.stdin:
        request = json.loads(line)
        if request['type'] == 'control_request':
            done = {'subtype': 'success', 'request_id': request['request_id'], 'response': {'models': []}}
            say(type='control_response', response=done)
        elif request['type'] == 'user':
            content = request['message']['content']
            prompt = content if isinstance(content, str) else content[0]['text']
            def event(**event):
                say(type='stream_event', event=event, session_id=session, parent_tool_use_id=None)
            say(type='system', subtype='init', session_id=session, model='opus-9', tools=[])
            event(type='message_start', message={**message, 'content': []})
            event(type='content_block_start', index=0, content_block={'type': 'text', 'text': ''})
            whole = ''
            for text in answer(prompt):
                whole += text
                event(type='content_block_delta', index=0, delta={'type': 'text_delta', 'text': text})
            event(type='content_block_stop', index=0)
            event(type='message_stop')
            said = {**message, 'content': [{'type': 'text', 'text': whole}]}
            say(type='assistant', session_id=session, message=said)
            say(type='result', subtype='success', is_error=False, result=whole, session_id=session,
                num_turns=1, duration_ms=5, total_cost_usd=0.02, usage=usage)
def acp():
    for line in sys.stdin:
        request = json.loads(line)
        method, result = request.get('method'), {}
        if 'id' not in request:
            continue
        if method == 'initialize':
            result = {'protocolVersion': 1, 'agentCapabilities': {'loadSession': True}, 'authMethods': []}
        elif method == 'session/new':
            result = {'sessionId': 'first'}
        elif method == 'session/prompt':
            session = request['params']['sessionId']
            for text in answer(request['params']['prompt'][-1]['text']):
                update = {'sessionUpdate': 'agent_message_chunk', 'content': {'type': 'text', 'text': text}}
                say(jsonrpc='2.0', method='session/update', params={'sessionId': session, 'update': update})
            result = {'stopReason': 'end_turn'}
        say(jsonrpc='2.0', id=request['id'], result=result)
demo() if 'demo-agent' in sys.argv else acp() if 'acp' in sys.argv else claude()
"#;

/// Which turns share an agent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shared {
    Turn,
    Session,
    Link,
}

/// Whether a turn is running when the holder ends.
#[derive(Clone, Copy, Debug)]
enum When {
    Idle,
    Busy,
}

/// How the gateway ends afterwards.
#[derive(Clone, Copy, Debug)]
enum Then {
    Killed,
    Upgraded,
}

#[tokio::test]
async fn agents_of_one_turn_outlive_the_gateway_after_their_holder_was_replaced() {
    run_all_cases(Shared::Turn).await;
}

#[tokio::test]
async fn agents_of_one_conversation_outlive_the_gateway_after_their_holder_was_replaced() {
    run_all_cases(Shared::Session).await;
}

#[tokio::test]
async fn agents_of_all_conversations_outlive_the_gateway_after_their_holder_was_replaced() {
    run_all_cases(Shared::Link).await;
}

async fn run_all_cases(shared: Shared) {
    for signal in [Signal::TERM, Signal::KILL] {
        for when in [When::Idle, When::Busy] {
            let ways =
                [Then::Killed, Then::Upgraded].map(|then| run_case(shared, signal, when, then));
            futures_util::future::join_all(ways).await;
        }
    }
}

async fn run_case(shared: Shared, signal: Signal, when: When, then: Then) {
    let case = format!("{shared:?}, {signal:?}, {when:?}, {then:?}");
    let local = LocalDiscord::start().await;
    let installation = with_agent(&local, shared);
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.ends_with("You said: hello")).await;

    match when {
        When::Idle => end_holder(&installation, signal),
        When::Busy => {
            local.mention(CHANNEL, ANN, "until first");
            local.wait_for_message(CHANNEL, |text| text.contains("One,")).await;
            end_holder(&installation, signal);
            bot.logs("the agent was lost; the turn runs again").await;
            local.wait_for("the second beginning", |_| has_asked(&installation, "first", 2)).await;
            open_gate(&installation, "first");
            local.wait_for_message(CHANNEL, |text| text.ends_with("two first.")).await;
        }
    }
    bot.logs("a new holder keeps agents").await;

    local.mention(CHANNEL, ANN, "until second");
    local.wait_for("the last prompt", |_| has_asked(&installation, "second", 1)).await;
    let next = match then {
        Then::Killed => {
            bot.signal(Signal::KILL);
            bot.ended().await;
            serving(&installation).await
        }
        Then::Upgraded => upgraded(&installation, bot).await,
    };
    next.logs("a link outlived the gateway and continues").await;
    open_gate(&installation, "second");
    local.wait_for_message(CHANNEL, |text| text.ends_with("two second.")).await;
    let answers = match when {
        When::Idle => vec!["You said: hello", "One, two second."],
        When::Busy => vec!["You said: hello", "One, two first.", "One, two second."],
    };
    assert_eq!(local.texts(CHANNEL), answers, "{case}");
    assert!(has_asked(&installation, "second", 1).is_some(), "{case}: asked once");
    assert_eq!(installation.read("state/lost.md"), "", "{case}: no reply is unreadable");
}

/// Replaces the gateway with `aetheel upgrade` and returns the new process.
async fn upgraded(installation: &Installation, mut bot: Program) -> Program {
    let restarted = async {
        let left = bot.ended().await;
        (left.code, serving(installation).await)
    };
    let (ended, (left, next)) = tokio::join!(installation.run(&["upgrade"], ""), restarted);
    assert_eq!((ended.code, left), (0, 75), "{ended:?}");
    next
}

pub(super) fn with_agent(local: &LocalDiscord, shared: Shared) -> Installation {
    let installation = installed(local)
        .with("AGENT_HOLDER", "require")
        .with("AGENT_HOLD_SECONDS", "60")
        .with("ANTHROPIC_API_KEY", "sk-not-a-key-at-all")
        .with("PERMISSION_MODE", "acceptEdits");
    let program = installation.path("home/agent");
    fs::write(&program, AGENT).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("only for the owner");
    let program = program.display().to_string();
    let component = match shared {
        Shared::Turn => "demo",
        Shared::Session => "claude",
        Shared::Link => "acp",
    };
    fs::write(installation.backend(component), built(component)).expect("written");
    match shared {
        Shared::Turn => installation.with("BACKEND_CLI_PATH", &program),
        Shared::Session => {
            installation.with("BACKEND_CLI_PATH", &program).with("AGENT_BACKEND", "claude")
        }
        Shared::Link => {
            let profile = format!("## scripted\n\n- command: `{program} acp`\n");
            fs::write(installation.path("config/acp.md"), profile).expect("written");
            installation.with("AGENT_BACKEND", "scripted")
        }
    }
}

/// Lets the agent print the second half of an answer.
fn open_gate(installation: &Installation, gate: &str) {
    fs::write(installation.path("workspace").join(gate), "").expect("written");
}

/// Returns `Some` if the agent got this prompt exactly `times` times.
fn has_asked(installation: &Installation, gate: &str, times: usize) -> Option<()> {
    let asked = fs::read_to_string(installation.path("workspace/asked")).unwrap_or_default();
    let end = format!("until {gate}");
    (asked.lines().filter(|prompt| prompt.ends_with(&end)).count() == times).then_some(())
}

fn end_holder(installation: &Installation, signal: Signal) {
    let holders: Vec<Pid> = installation.holders();
    assert_eq!(holders.len(), 1, "one holder serves the folder");
    kill_process(holders[0], signal).expect("it runs");
}
