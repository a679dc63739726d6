//! Tests of how links are kept, shared, lost, replaced and ended.

use std::sync::Arc;
use std::time::Duration;

use aetheel_model::agent::{Exit, FailureKind, QueryKind, QueryResult};
use aetheel_model::event::Lane;
use aetheel_model::id::ChannelId;
use aetheel_recording::Ending;
use aetheel_turn::{Backends as _, StopReason};

use super::{Bench, LIMIT, Seen, native, until};
use crate::support::lasting::{AgentCommand, LastingAgent, LastingBackend, echoing};

#[tokio::test]
async fn the_next_turn_of_a_conversation_uses_the_running_agent() {
    let bench = Bench::new("session", |_| {}, echoing);
    let first = bench.turn(7, None, "one").await;
    let second = bench.turn(7, Some(native(&first)), "two").await;
    assert_eq!((first.text.as_str(), second.text.as_str()), ("one (by 1)", "two (by 1)"));
    assert_eq!((bench.launches(), bench.opened()), (1, vec!["new 1".to_owned()]));
    assert_eq!(bench.links.count(), 1);
}

#[tokio::test]
async fn an_agent_whose_private_folder_was_removed_gets_no_further_turn() {
    for sharing in ["session", "link"] {
        let bench = Bench::new(sharing, |_| {}, echoing);
        let first = bench.turn(7, None, "one").await;
        let temporary = {
            let launches = bench.launcher.launches.lock().unwrap();
            let set = launches[0].environment.iter().find(|(name, _)| name == "TMPDIR");
            std::path::PathBuf::from(&set.unwrap().1)
        };
        std::fs::remove_dir_all(temporary.parent().unwrap()).unwrap();
        let second = bench.turn(7, Some(native(&first)), "two").await;
        assert_eq!(second.text, "two (by 1)", "{sharing}");
        assert_eq!(bench.launches(), 2, "{sharing}");
    }
}

#[tokio::test]
async fn a_forgotten_conversation_gets_a_new_agent_after_the_old_one_has_ended() {
    let bench = Bench::new("session", |_| {}, echoing);
    bench.turn(7, None, "one").await;
    bench.turn(7, None, "two").await;
    assert_eq!((bench.launches(), bench.links.count()), (2, 1));
    // Another session, chosen by a user.
    bench.turn(7, Some("n-older"), "three").await;
    assert_eq!((bench.launches(), bench.opened().pop().unwrap()), (3, "n-older 1".to_owned()));
}

#[tokio::test]
async fn conversations_share_one_agent_and_do_not_mix() {
    // Answers only when both prompts have arrived, the second one first.
    let bench = Bench::new(
        "link",
        |_| {},
        |agent, opened| async move {
            let mut lasting = LastingAgent::new(agent, &opened);
            let mut waiting = Vec::new();
            while let Some(command) = lasting.next_command().await {
                let AgentCommand::Prompt { session, turn, text } = command else { break };
                waiting.push((session, turn, text));
                if waiting.len() == 2 {
                    while let Some((session, turn, text)) = waiting.pop() {
                        lasting.answer(&session, &turn, &text).await;
                    }
                }
            }
            lasting.agent.exit(Exit::Code(0), "").await;
        },
    );
    for round in 0..2 {
        let known = |channel: &str| (round > 0).then(|| channel.to_owned());
        let (a, b) = (
            bench.begin(7, known("n-1").as_deref(), "for-seven"),
            bench.begin(8, known("n-2").as_deref(), "for-eight"),
        );
        let (a, b) = (a.end().await, b.end().await);
        assert_eq!((a.text.as_str(), b.text.as_str()), ("for-seven (by 1)", "for-eight (by 1)"));
    }
    assert_eq!((bench.launches(), bench.opened().len()), (1, 2));
}

#[tokio::test]
async fn a_forgotten_conversation_on_a_shared_agent_gets_another_session_there() {
    let bench = Bench::new(
        "link",
        |_| {},
        |agent, opened| async move {
            let mut lasting = LastingAgent::new(agent, &opened);
            while let Some(AgentCommand::Prompt { session, turn, text }) =
                lasting.next_command().await
            {
                lasting.answer(&session, &turn, &text).await;
            }
            lasting.agent.exit(Exit::Code(0), "").await;
        },
    );
    bench.turn(7, None, "one").await;
    bench.turn(7, None, "two").await;
    assert_eq!(
        (bench.launches(), bench.opened()),
        (1, vec!["new 1".to_owned(), "new 2".to_owned()])
    );
}

#[tokio::test]
async fn a_turn_given_to_an_agent_that_was_ending_counts_as_orphaned() {
    for (exit, says, orphaned) in [
        (Exit::Code(0), false, true),
        (Exit::Code(0), true, false),
        (Exit::Signal(15), false, true),
        (Exit::Signal(15), true, false),
        (Exit::Code(143), false, true),
        (Exit::Code(1), false, false),
        (Exit::Signal(11), false, false),
    ] {
        let bench = Bench::new(
            "session",
            |_| {},
            move |agent, opened| async move {
                let mut lasting = LastingAgent::new(agent, &opened);
                while let Some(AgentCommand::Prompt { session, turn, text }) =
                    lasting.next_command().await
                {
                    if text == "late" {
                        if says {
                            lasting.agent.say(&[&format!("{session} {turn} text Well")]).await;
                        }
                        return lasting.agent.exit(exit, "").await;
                    }
                    lasting.answer(&session, &turn, &text).await;
                }
            },
        );
        let first = bench.turn(7, None, "one").await;
        let late = bench.turn(7, Some(native(&first)), "late").await;
        assert_eq!(late.findings.orphaned, orphaned, "{exit:?}, it prints something: {says}");
        let silent = bench.turn(8, None, "late").await;
        assert!(!silent.findings.orphaned, "an agent that was started for the turn has failed");
    }
}

#[tokio::test]
async fn the_turns_of_a_dead_agent_are_lost_and_their_sessions_continue_with_another() {
    let bench = Bench::new(
        "link",
        |_| {},
        |agent, opened| async move {
            let mut lasting = LastingAgent::new(agent, &opened);
            while let Some(AgentCommand::Prompt { session, turn, text }) =
                lasting.next_command().await
            {
                if text == "die" {
                    return lasting.agent.exit(Exit::Signal(9), "killed by the test").await;
                }
                if text != "wait" {
                    lasting.answer(&session, &turn, &text).await;
                }
            }
        },
    );
    let first = bench.turn(7, None, "one").await;
    let waits = bench.begin(8, None, "wait");
    until("the second session", || bench.opened().len() == 2).await;
    let dies = bench.turn(7, Some(native(&first)), "die").await;
    for lost in [dies, waits.end().await] {
        assert!(
            matches!(&lost.ending, Ending::Agent(failure) if failure.kind == FailureKind::Crashed),
            "{:?}",
            lost.ending
        );
    }
    let again = bench.turn(7, Some(native(&first)), "two").await;
    assert_eq!(
        (again.ending, bench.launches(), bench.opened().pop().unwrap()),
        (Ending::Completed, 2, "n-1 1".to_owned())
    );
}

#[tokio::test]
async fn a_stopped_turn_leaves_its_agent_running() {
    let bench = Bench::new(
        "session",
        |_| {},
        |agent, opened| async move {
            let mut lasting = LastingAgent::new(agent, &opened);
            let mut running = None;
            while let Some(command) = lasting.next_command().await {
                match command {
                    AgentCommand::Prompt { session, turn, text } if text == "long" => {
                        lasting.agent.say(&[&format!("{session} {turn} text begun")]).await;
                        running = Some((session, turn));
                    }
                    AgentCommand::Prompt { session, turn, text } => {
                        lasting.answer(&session, &turn, &text).await
                    }
                    AgentCommand::Other(_) => {
                        let (session, turn) = running.take().unwrap();
                        lasting.agent.say(&[&format!("{session} {turn} stopped .")]).await;
                    }
                }
            }
        },
    );
    let mut turn = bench.begin(7, None, "long");
    assert!(matches!(turn.sees().await, Seen::Event));
    turn.stop.send(Some(StopReason::User)).unwrap();
    let stopped = turn.end().await;
    assert_eq!((&stopped.ending, stopped.text.as_str()), (&Ending::Interrupted, "begun (by 1)"));
    assert_eq!(bench.turn(7, Some(native(&stopped)), "next").await.text, "next (by 1)");
    assert_eq!(bench.launches(), 1);
}

#[tokio::test]
async fn a_silent_agent_that_already_ran_has_the_usual_time_limit() {
    let bench = Bench::new(
        "session",
        |host| host.limits.query_timeout = Duration::from_millis(200),
        |agent, opened| async move {
            let mut lasting = LastingAgent::new(agent, &opened);
            while let Some(command) = lasting.next_command().await {
                match command {
                    AgentCommand::Prompt { session, turn, text } if text == "one" => {
                        lasting.answer(&session, &turn, &text).await
                    }
                    AgentCommand::Prompt { .. } => {}
                    AgentCommand::Other(what) if what == "Terminate" => {
                        return lasting.agent.exit(Exit::Signal(15), "").await;
                    }
                    AgentCommand::Other(_) => {}
                }
            }
        },
    );
    let first = bench.turn(7, None, "one").await;
    assert_eq!(bench.turn(7, Some(native(&first)), "silence").await.ending, Ending::TimedOut);
    assert_eq!(bench.launches(), 1);
}

#[tokio::test]
async fn an_agent_that_ignores_an_interrupt_is_ended_and_the_next_turn_gets_another() {
    let bench = Bench::new(
        "session",
        |_| {},
        |agent, opened| async move {
            let mut lasting = LastingAgent::new(agent, &opened);
            while let Some(command) = lasting.next_command().await {
                match command {
                    AgentCommand::Prompt { session, turn, text } if text == "long" => {
                        lasting.agent.say(&[&format!("{session} {turn} text begun")]).await;
                    }
                    AgentCommand::Prompt { session, turn, text } => {
                        lasting.answer(&session, &turn, &text).await
                    }
                    AgentCommand::Other(what) if what == "Terminate" => {
                        return lasting.agent.exit(Exit::Signal(15), "").await;
                    }
                    AgentCommand::Other(_) => {}
                }
            }
        },
    );
    let mut turn = bench.begin(7, None, "long");
    assert!(matches!(turn.sees().await, Seen::Event));
    turn.stop.send(Some(StopReason::User)).unwrap();
    let stopped = turn.end().await;
    assert_eq!(stopped.ending, Ending::Interrupted);
    assert_eq!(bench.turn(7, Some(native(&stopped)), "next").await.text, "next (by 1)");
    assert_eq!(bench.launches(), 2);
}

#[tokio::test]
async fn a_shared_agent_that_ignores_an_interrupt_finishes_its_other_turns_and_gets_no_more() {
    let (release, released) = tokio::sync::watch::channel(false);
    let bench = Bench::new(
        "link",
        |_| {},
        move |agent, opened| {
            let mut released = released.clone();
            async move {
                let mut lasting = LastingAgent::new(agent, &opened);
                let mut held = None;
                loop {
                    tokio::select! {
                        command = lasting.next_command() => match command {
                            Some(AgentCommand::Prompt { session, turn, text }) if text == "deaf" => {
                                lasting.agent.say(&[&format!("{session} {turn} text begun")]).await;
                            }
                            Some(AgentCommand::Prompt { session, turn, text }) if text == "held" => held = Some((session, turn)),
                            Some(AgentCommand::Prompt { session, turn, text }) => lasting.answer(&session, &turn, &text).await,
                            Some(AgentCommand::Other(_)) => {}
                            None => return lasting.agent.exit(Exit::Code(0), "").await,
                        },
                        () = async { drop(released.wait_for(|open| *open).await) }, if held.is_some() => {
                            let (session, turn) = held.take().unwrap();
                            lasting.answer(&session, &turn, "held").await;
                        }
                    }
                }
            }
        },
    );
    let held = bench.begin(8, None, "held");
    until("the first session", || bench.opened().len() == 1).await;
    let mut deaf = bench.begin(7, None, "deaf");
    assert!(matches!(deaf.sees().await, Seen::Event));
    deaf.stop.send(Some(StopReason::User)).unwrap();
    assert_eq!(deaf.end().await.ending, Ending::Interrupted);
    // Not with the agent that ignores the stop.
    assert_eq!(bench.turn(7, None, "other").await.text, "other (by 1)");
    assert_eq!(bench.launches(), 2);
    release.send(true).unwrap();
    let held = held.end().await;
    assert_eq!((held.ending, held.text.as_str()), (Ending::Completed, "held (by 1)"));
    until("the agent that ignores the stop to end", || bench.links.count() == 1).await;
}

#[tokio::test]
async fn idle_agents_end_and_their_number_is_limited() {
    let bench = Bench::new("session", |host| host.limits.links_warm = 1, echoing);
    for channel in [7, 8, 9] {
        bench.turn(channel, None, "hi").await;
    }
    until("two of three to end", || bench.links.count() <= 2).await;
    let brief =
        Bench::new("session", |host| host.limits.link_idle = Duration::from_millis(50), echoing);
    let first = brief.turn(7, None, "hi").await;
    until("the agent to end", || brief.links.count() == 0).await;
    brief.turn(7, Some(native(&first)), "again").await;
    assert_eq!((brief.launches(), brief.opened().pop().unwrap()), (2, "n-1 1".to_owned()));
}

#[tokio::test]
async fn the_agent_of_a_conversation_moves_to_a_new_generation_or_another_resumes_it() {
    let bench = Bench::new("session", |_| {}, echoing);
    let first = bench.turn(7, None, "one").await;
    bench.backends.replace(LastingBackend::new("session", 2));
    let moved = bench.turn(7, Some(native(&first)), "two").await;
    assert_eq!((moved.text.as_str(), bench.launches(), bench.opened().len()), ("two (by 2)", 1, 1));
    // This generation cannot take over links.
    let mut third = LastingBackend::new("session", 3);
    third.loads = false;
    bench.backends.replace(third);
    let resumed = bench.turn(7, Some(native(&first)), "three").await;
    assert_eq!((resumed.text.as_str(), bench.launches()), ("three (by 3)", 2));
    assert_eq!((bench.opened().pop().unwrap(), bench.links.count()), ("n-1 1".to_owned(), 1));
    // Another session always needs a new link, whether or not the new generation could take over
    // the old one.
    bench.backends.replace(LastingBackend::new("session", 4));
    let other = bench.turn(7, Some("n-older"), "four").await;
    assert_eq!(
        (other.text.as_str(), bench.launches(), bench.opened().pop().unwrap()),
        ("four (by 4)", 3, "n-older 1".to_owned())
    );
}

#[tokio::test]
async fn a_shared_agent_moves_to_a_new_generation_or_drains() {
    let bench = Bench::new("link", |_| {}, echoing);
    let first = bench.turn(7, None, "one").await;
    bench.backends.replace(LastingBackend::new("link", 2));
    let moved = bench.turn(7, Some(native(&first)), "two").await;
    assert_eq!((moved.text.as_str(), bench.launches(), bench.opened().len()), ("two (by 2)", 1, 1));
    // This generation cannot take over links.
    let mut third = LastingBackend::new("link", 3);
    third.loads = false;
    bench.backends.replace(third);
    let drained = bench.turn(7, Some(native(&first)), "three").await;
    assert_eq!((drained.text.as_str(), bench.launches()), ("three (by 3)", 2));
    until("the old agent to end", || bench.links.count() == 1).await;
}

#[tokio::test]
async fn a_turn_that_runs_keeps_its_generation_while_others_get_the_new_one() {
    let (release, released) = tokio::sync::watch::channel(false);
    let bench = Bench::new(
        "link",
        |_| {},
        move |agent, opened| {
            let mut released = released.clone();
            async move {
                let mut lasting = LastingAgent::new(agent, &opened);
                while let Some(AgentCommand::Prompt { session, turn, text }) =
                    lasting.next_command().await
                {
                    if text == "held" {
                        drop(released.wait_for(|open| *open).await);
                    }
                    lasting.answer(&session, &turn, &text).await;
                }
                lasting.agent.exit(Exit::Code(0), "").await;
            }
        },
    );
    let held = bench.begin(7, None, "held");
    until("the session", || bench.opened().len() == 1).await;
    bench.backends.replace(LastingBackend::new("link", 2));
    assert_eq!(bench.turn(8, None, "new").await.text, "new (by 2)");
    release.send(true).unwrap();
    assert_eq!(held.end().await.text, "held (by 1)");
    until("the old agent to end", || bench.links.count() == 1).await;
}

#[tokio::test]
async fn the_output_of_many_turns_may_exceed_the_limit_of_one() {
    let bench = Bench::new("session", |host| host.resources.output = 20_000, echoing);
    let long = "x".repeat(4_000);
    let first = bench.turn(7, None, &long).await;
    for _ in 0..8 {
        assert_eq!(bench.turn(7, Some(native(&first)), &long).await.ending, Ending::Completed);
    }
    assert_eq!(bench.launches(), 1);
    let result = bench.turn(7, Some(native(&first)), &"x".repeat(30_000)).await;
    assert!(matches!(&result.ending, Ending::Limit(_) | Ending::Backend(_)), "{:?}", result.ending);
}

#[tokio::test]
async fn a_backend_is_asked_for_its_health_with_and_without_an_agent() {
    let bench = Bench::new("link", |_| {}, echoing);
    let backend = bench.backends.get("lasting").unwrap();
    let asked = async || bench.links.query(&backend, QueryKind::Health, LIMIT).await;
    assert_eq!(asked().await, Ok(QueryResult::Health("it does not run yet".into())));
    until("the link of the question to close", || bench.links.count() == 0).await;
    bench.turn(7, None, "hi").await;
    assert_eq!(asked().await, Ok(QueryResult::Health("it runs".into())));
    assert_eq!(bench.launches(), 1);
    let once: Arc<dyn aetheel_recording::Backend> = Arc::new(LastingBackend::new("turn", 1));
    assert!(
        bench
            .links
            .query(&once, QueryKind::Health, LIMIT)
            .await
            .unwrap_err()
            .to_string()
            .contains("starts its agent for each turn")
    );
}

#[tokio::test]
async fn closing_ends_every_agent() {
    let bench = Bench::new("session", |_| {}, echoing);
    bench.turn(7, None, "a").await;
    bench.turn(8, None, "b").await;
    assert_eq!(bench.links.count(), 2);
    bench.links.close().await;
    assert_eq!(bench.links.count(), 0);
    assert_eq!(
        bench.opened()[2..],
        ["left", "left"],
        "they were given the time to end on their own"
    );
}

#[tokio::test]
async fn unprompted_output_of_an_agent_goes_to_its_lane() {
    let own = 0x8000_0001_u32;
    let mut bench = Bench::new(
        "session",
        |_| {},
        move |agent, opened| async move {
            let mut lasting = LastingAgent::new(agent, &opened);
            while let Some(AgentCommand::Prompt { session, turn, text }) =
                lasting.next_command().await
            {
                lasting.answer(&session, &turn, &text).await;
                lasting.agent.say(&[&format!("{session} {own} begin .")]).await;
                lasting.answer(&session, &own.to_string(), "the build is done").await;
            }
        },
    );
    let asked = bench.turn(7, None, "build").await;
    assert_eq!(asked.text, "build (by 1)");
    let said = tokio::time::timeout(LIMIT, bench.said.recv()).await.unwrap().unwrap();
    assert_eq!(
        (said.lane, said.text.as_str()),
        (Lane::Channel(ChannelId::discord(7)), "the build is done (by 1)")
    );
}

#[tokio::test]
async fn an_agent_that_floods_its_lane_with_unprompted_turns_is_limited() {
    let mut bench = Bench::new(
        "session",
        |_| {},
        move |agent, opened| async move {
            let mut lasting = LastingAgent::new(agent, &opened);
            while let Some(AgentCommand::Prompt { session, turn, text }) =
                lasting.next_command().await
            {
                for own in 0x8000_0001_u32..0x8000_01f4 {
                    let own = format!("{session} {own}");
                    let lines =
                        ["begin .", "text flood", "done ."].map(|line| format!("{own} {line}"));
                    lasting.agent.say(&lines.each_ref().map(String::as_str)).await;
                }
                lasting.answer(&session, &turn, &text).await;
            }
        },
    );
    assert_eq!(bench.turn(7, None, "one").await.text, "one (by 1)");
    let mut said = 0;
    while bench.said.try_recv().is_ok() {
        said += 1;
    }
    assert_eq!(said, 20);
}
