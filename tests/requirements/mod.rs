//! One test for every numbered requirement of the gateway, from the view of its users: the real
//! program with the local Discord. `docs/requirements.md` has a table of all of them, and
//! `document` compares it with the tests.

mod bot;
pub mod document;
mod files;
mod proactive;
mod turns;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::gateway::{installed, serving};
use crate::support::discord::LocalDiscord;
use crate::support::program::{Installation, built};

/// Prints the same lines as Claude Code 2.1.197, and records its calls.
const CLAUDE: &str = r#"#!/bin/sh
if [ "$1" = --version ]; then echo '2.1.197 (Claude Code)'; exit; fi
for word in "$@"; do
  case "$before" in
    --session-id | --resume) session=$word ;;
    --append-system-prompt-file) system=$word ;;
  esac
  before=$word
done
{ echo "called: $*"; echo "prompt: $(cat)"; cat "$system"; } >> "$HOME/.claude/calls-$session"
echo "called: $*" >> "$HOME/.claude/calls"
cat << END
{"type":"system","subtype":"init","session_id":"$session","model":"claude-opus-4-8","tools":[],"claude_code_version":"2.1.197"}
{"type":"assistant","message":{"id":"m1","type":"message","role":"assistant","model":"claude-opus-4-8","content":[{"type":"text","text":"Claude was here."}]},"session_id":"$session"}
{"type":"result","subtype":"success","is_error":false,"result":"Claude was here.","session_id":"$session","num_turns":1,"usage":{}}
END
"#;

/// The answer of that agent to every prompt.
const CLAUDE_SAYS: &str = "Claude was here.";

/// Creates an installation in which claude answers, with the real backend, and with [`CLAUDE`] as
/// the program.
fn with_claude(local: &LocalDiscord) -> Installation {
    let installation = installed(local);
    fs::write(installation.backend("claude"), built("claude")).unwrap();
    let (folder, path) = (installation.path("bin"), installation.path("bin/claude"));
    fs::create_dir(&folder).unwrap();
    fs::write(&path, CLAUDE).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let places = format!("{}:/usr/bin:/bin", folder.display());
    // Claude Code does not skip permissions for root outside of sandboxes.
    let set = [
        // The defaults of the requirements, which claude observes.
        ("ALLOWED_TOOLS", ""),
        ("PERMISSION_MODE", ""),
        ("AGENT_BACKEND", "claude"),
        ("BACKEND_RUN", "one-shot"),
        ("ANTHROPIC_API_KEY", "sk-ant-of-a-test"),
        ("IS_SANDBOX", "1"),
        // The script does not load the gateway's tools, about which the answer would say so.
        ("HOST_TOOLS", "none"),
    ];
    set.into_iter().fold(installation.with("PATH", &places), |installation, (name, value)| {
        installation.with(name, value)
    })
}

/// Returns the calls of claude so far, one line per call.
fn calls(installation: &Installation) -> Vec<String> {
    let text = fs::read_to_string(installation.path("home/.claude/calls")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Returns the argument after a flag of a call.
fn argument_after<'a>(call: &'a str, flag: &str) -> Option<&'a str> {
    call.split(' ').skip_while(|word| *word != flag).nth(1)
}

/// Returns the demo agent's answer to the `number`th prompt of a conversation.
fn repeated(said: &str, number: usize) -> String {
    format!("You said: {said}\n\nThis is message {number} of our conversation.")
}

/// Starts a Discord that accepts many messages of the bot.
async fn discord() -> LocalDiscord {
    let local = LocalDiscord::start().await;
    local.faults().limit("POST messages", 50, Duration::from_secs(1));
    local
}
