//! Tests of claims that expire, and of turns that agents asked for at later times.

use std::time::Duration;

use aetheel::sources::submit_later_turns;
use aetheel_runtime::clock::Clock;

use super::super::claims;
use super::super::collisions::Office;
use super::super::host_calls::{caller, calling};
use super::{LOOK, MovedGateway, just_before, time};
use crate::support::scripted::{DeskOptions, ScriptedBackend};

const START: &str = "2027-03-03T09:00:00Z";

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_of_hours_is_enforced_until_it_expires() {
    let (clock, control) = Clock::manual(time(START));
    let options = DeskOptions { clock: clock.clone(), ..claims::options() };
    let mut office = Office::with(claims::agent(), options).await;
    let claim = r#"claim {"paths":["a.rs","b.rs"],"minutes":600}"#;
    let told = office.turn(1, claim).await;
    assert!(told.contains("10 hours"), "{told}");
    control.advance(Duration::from_secs(10 * 3_600 - 1));
    let told = office.turn(3, r#"claim {"paths":["b.rs"]}"#).await;
    assert!(told.contains("`b.rs` is reserved by an agent"), "{told}");
    office.turn(2, "tool file_write a.rs").await;
    let warnings = office.warnings().await;
    let channels: Vec<u64> = warnings.iter().map(|(channel, _)| *channel).collect();
    assert_eq!(channels, [1, 2], "{warnings:?}");
    control.advance(Duration::from_secs(1));
    assert!(office.desk.dispatcher.claims.all().is_empty());
    office.turn(2, "tool file_write b.rs").await;
    assert_eq!(office.warnings().await, warnings, "nobody is warned about a claim that expired");
    // The time until which the use of a file counts passes, too.
    control.advance(Duration::from_secs(15 * 60 + 1));
    office.turn(3, "tool file_write b.rs").await;
    assert_eq!(office.warnings().await, warnings);
    let told = office.turn(3, r#"claim {"paths":["b.rs"]}"#).await;
    assert!(told.starts_with("Reserved for "), "{told}");
}

/// Lets an agent call a tool, and lets the time pass until the turn is due, and long after that. The
/// gateway is restarted before, or does not run at that time. Returns the number of turns.
fn turns_after(call: &str, due: &str, is_down: bool) -> usize {
    let (_results, launcher) = caller(&[call]);
    let backend = ScriptedBackend::with_feature(calling(), Some("host-tools"));
    let gate = tokio::sync::watch::channel(true).0;
    let mut gateway = MovedGateway::prepare(("UTC", START), backend, launcher, gate);
    gateway.write("channels.md", "## channel 7\n\n- host-tools: all\n");
    let submit = |gateway: &MovedGateway| {
        let _runtime = gateway.process().runtime.enter();
        let turns = gateway.dispatcher().later_turns.clone();
        submit_later_turns(turns, gateway.clock.clone())
    };
    gateway.watches = 2;
    gateway.start();
    let first = submit(&gateway);
    gateway.answered(7, "go");
    gateway.still_waits_at("2027-03-04T09:00:00Z", 0);
    drop(first);
    gateway.restart();
    let second = submit(&gateway);
    gateway.still_waits_at(&just_before(due), 0);
    drop(second);
    if is_down {
        gateway.kill();
        gateway.control.advance(Duration::from_secs(24 * 3_600));
        gateway.start();
    }
    let third = is_down.then(|| submit(&gateway));
    if !is_down {
        gateway.pass_until(due, 0);
    }
    gateway.until("the turn begins", || gateway.launcher.prompts().len() > 1);
    gateway.idle();
    gateway.settle(0);
    drop(third);
    gateway.restart();
    let last = submit(&gateway);
    for _ in 0..3 {
        gateway.settle(0);
        gateway.control.advance(Duration::from_secs(24 * 3_600));
    }
    gateway.settle(0);
    gateway.idle();
    drop(last);
    gateway.launcher.prompts().len()
}

#[test]
fn a_turn_that_an_agent_asked_for_begins_once_after_days_also_if_no_gateway_ran_then() {
    let remind = r#"call 1 aetheel_remind {"in":"3d","text":"look at the build"}"#;
    let sleep = r#"call 2 aetheel_sleep_until {"at":"2027-03-06T09:00:00Z","reason":"the build"}"#;
    for call in [remind, sleep] {
        for is_down in [false, true] {
            assert_eq!(turns_after(call, "2027-03-06T09:00:00Z", is_down), 2, "{call} {is_down}");
        }
    }
}

#[test]
fn a_turn_that_is_a_week_late_is_dropped() {
    let (_results, launcher) =
        caller(&[r#"call 1 aetheel_remind {"in":"3d","text":"look at the build"}"#]);
    let backend = ScriptedBackend::with_feature(calling(), Some("host-tools"));
    let gate = tokio::sync::watch::channel(true).0;
    let mut gateway = MovedGateway::prepare(("UTC", START), backend, launcher, gate);
    gateway.write("channels.md", "## channel 7\n\n- host-tools: all\n");
    gateway.start();
    gateway.answered(7, "go");
    assert_eq!(gateway.dispatcher().later_turns.all().len(), 1);
    gateway.kill();
    gateway.control.advance(Duration::from_secs(10 * 24 * 3_600 + 1));
    gateway.start();
    let later = gateway.dispatcher().later_turns.clone();
    gateway.run("the turns that are due", later.submit_due(gateway.clock.now()));
    gateway.idle();
    gateway.control.advance(LOOK);
    gateway.settle(0);
    assert_eq!((later.all().len(), gateway.launcher.prompts().len()), (0, 1));
}
