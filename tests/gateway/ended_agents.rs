//! Something outside ends an idle agent, and the next prompt arrives before the agent has ended.

use std::fs;

use rustix::process::{Signal, kill_process};

use super::holder_replacement::{AGENT, Shared, with_agent};
use super::serving;
use crate::support::discord::{ANN, CHANNEL, LocalDiscord};

/// Makes the agent end only once another prompt waits on its stdin, which it does not read.
const ENDS_LATE: &str = r"
import select, signal
def end(number, _):
    open('ending', 'w').close()
    select.select([sys.stdin], [], [])
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
signal.signal(signal.SIGTERM, end)
def say(";

#[tokio::test]
async fn a_prompt_that_an_ended_agent_did_not_read_is_carried_out_by_another() {
    for shared in [Shared::Session, Shared::Link] {
        let local = LocalDiscord::start().await;
        let installation = with_agent(&local, shared);
        let program = AGENT.replacen("def say(", ENDS_LATE, 1);
        fs::write(installation.path("home/agent"), program).unwrap();
        let bot = serving(&installation).await;
        local.mention(CHANNEL, ANN, "hello");
        local.wait_for_message(CHANNEL, |text| text.ends_with("You said: hello")).await;
        for agent in bot.agents() {
            kill_process(agent, Signal::TERM).unwrap();
        }
        let ending = installation.path("workspace/ending");
        local.wait_for("the end of the agent", |_| ending.exists().then_some(())).await;
        local.mention(CHANNEL, ANN, "again");
        local.wait_for_message(CHANNEL, |text| text.ends_with("You said: again")).await;
        assert_eq!(local.texts(CHANNEL), ["You said: hello", "You said: again"], "{shared:?}");
        let asked = fs::read_to_string(installation.path("workspace/asked")).unwrap();
        assert_eq!(asked.lines().count(), 2, "{shared:?}: {asked}");
    }
}
