//! The steps of README.md with the demo agent, from the clone's build.

use crate::support::discord::{CHANNEL, OWNER};
use crate::support::readme::{Newcomer, commands};

#[tokio::test]
async fn the_steps_of_the_readme_lead_to_an_agent_that_edits_and_runs_commands() {
    let newcomer = Newcomer::new([]).await;
    let steps = commands("Run it in Discord");
    let [init, doctor, run] = &steps[..3] else { panic!("{steps:?}") };
    newcomer.sets_up(init, "demo").await;
    let examined = newcomer.starts(doctor).ended().await;
    assert!(examined.code <= 1, "{examined:?}");
    let gateway = newcomer.starts(run);
    gateway.logs("aetheel is ready").await;
    for (prompt, answer) in [("edit", "I would have changed it"), ("ask make", "Done, this once")] {
        newcomer.allows(prompt).await;
        newcomer.local.wait_for_message(CHANNEL, |text| text.contains(answer)).await;
    }
    drop(gateway);
}

#[tokio::test]
async fn the_answer_goes_on_after_the_kill_that_the_readme_shows() {
    let newcomer = Newcomer::new([]).await;
    let init = &commands("Run it in Discord")[0];
    newcomer.sets_up(init, "demo").await;
    let steps = commands("Kill it in mid-answer");
    let [run, kill, again] = &steps[..] else { panic!("{steps:?}") };
    let mut gateway = newcomer.starts(run);
    gateway.logs("aetheel is ready").await;
    newcomer.local.mention(CHANNEL, OWNER, "slow 6");
    newcomer.local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    newcomer.runs(kill).await;
    assert_eq!(gateway.ended().await.code, 128 + 9, "it was killed");
    let next = newcomer.starts(again);
    next.logs("aetheel is ready").await;
    let answer = newcomer.local.wait_for_message(CHANNEL, |text| text.contains("There.")).await;
    for second in 1..=6 {
        assert_eq!(answer.content.matches(&format!("Second {second}.")).count(), 1, "{answer:?}");
    }
}
