//! The time until answers arrive, for every backend with an agent that needs no time: at the
//! boundary of the turn, and in Discord.
//!
//! At the boundary: from the prompt to the first text, to the last text and to the end of the turn,
//! and from the agent's last output to that end.
//!
//! In Discord: the same times, from a person's message on and as people see them, for an answer
//! that is complete at once and for one that continues for a while after its first text. The first
//! text is held back until it is more than a syllable.

use std::time::Duration;

use crate::agent::Pauses;
use crate::backends::{BACKENDS, Measured};
use crate::bot::Bot;
use crate::talk::Talk;
use crate::{report, times};

/// Conversations of two turns each.
const CONVERSATIONS: usize = 100;
/// The same in Discord, where a streamed answer takes a second.
const IN_DISCORD: usize = 20;
/// Goal for the end of a turn after the agent's last output.
const END: Duration = Duration::from_millis(20);
/// Goal for the first text of a streamed answer in Discord.
const FIRST: Duration = Duration::from_millis(450);
/// How long a streamed answer continues. Its first text is visible before that.
const STREAMING: Duration = Duration::from_millis(900);
/// An agent that never reports whether it is idle.
const SILENT: Measured = Measured { name: "claude", conversation: "live/no-state-events" };

/// Measures how soon answers of agents in this process reach the audience, and prints the figures.
pub async fn measure() {
    let cache = tempfile::tempdir().unwrap();
    report::part(
        "answers: from the prompt to the audience, with agents in this process that need no time",
    );
    for measured in BACKENDS.iter().chain([&SILENT]) {
        let talk = Talk::load(measured, cache.path()).await;
        at_the_boundary(measured, &talk).await;
    }
    report::part(
        "answers in Discord: from a message to what people see, with agents in this process that need no time",
    );
    for measured in BACKENDS {
        let talk = Talk::load(measured, cache.path()).await;
        in_discord(measured, &talk, Pauses::default()).await;
        in_discord(measured, &talk, Pauses { after: STREAMING, ..Pauses::default() }).await;
    }
}

async fn at_the_boundary(measured: &Measured, talk: &Talk) {
    let (mut first, mut last, mut done, mut end) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..times(CONVERSATIONS) {
        let pool = talk.within(Duration::ZERO);
        let cold = talk.cold(&pool, 1).await;
        let warm = talk.warm(&pool, 1, &cold).await;
        for turn in [cold, warm] {
            first.push(turn.to_first_text);
            last.push(turn.to_last_text);
            done.push(turn.took);
            end.extend(turn.end);
        }
        pool.close().await;
    }
    let name = format!("{} `{}`", measured.name, measured.conversation);
    for (what, times) in [("first text", &first), ("last text", &last), ("done", &done)] {
        report::figure(&format!("{name}: {what}"), &report::spread(times));
    }
    let met = report::percentile(&end, 99) <= END;
    report::goal(
        &format!("{name}: done after its last output"),
        &report::spread(&end),
        "p99 ≤ 20 ms",
        met,
    );
}

async fn in_discord(measured: &Measured, talk: &Talk, pauses: Pauses) {
    let bot = Bot::start(talk, pauses).await;
    let (mut first, mut last, mut done, mut end) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for number in 0..times(IN_DISCORD) {
        for _ in 0..2 {
            let shown = bot.ask(number as u64).await;
            first.push(shown.to_first_text);
            last.push(shown.to_last_text);
            done.push(shown.to_done);
            end.push(shown.end);
        }
    }
    bot.close().await;
    let streamed = !pauses.after.is_zero();
    let name = format!("{}, {}", measured.name, if streamed { "streamed" } else { "at once" });
    let figure = |what: &str, times: &[Duration]| {
        report::figure(&format!("{name}: {what}"), &report::spread(times))
    };
    if streamed {
        let met = report::percentile(&first, 99) <= FIRST;
        report::goal(
            &format!("{name}: first text visible"),
            &report::spread(&first),
            "p99 ≤ 450 ms",
            met,
        );
    } else {
        figure("first text visible", &first);
    }
    figure("last text visible", &last);
    figure("done", &done);
    let met = report::percentile(&end, 99) <= END;
    report::goal(
        &format!("{name}: done after the agent's last line"),
        &report::spread(&end),
        "p99 ≤ 20 ms",
        met,
    );
}
