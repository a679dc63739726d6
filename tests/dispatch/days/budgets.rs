//! Tests of budgets over several days: warnings, decisions of owners, and turns that run over
//! midnight.

use aetheel_model::budget::AccountUse;

use super::{MovedGateway, just_before};

const START: &str = "2027-03-03T09:00:00Z";
const TOMORROW: &str = "2027-03-04T00:00:00Z";
const MONDAY: &str = "2027-03-08T00:00:00Z";

fn uses(gateway: &MovedGateway) -> Vec<AccountUse> {
    gateway.run("uses", gateway.dispatcher().budgets.uses())
}

/// Returns the use of the only account, in cents.
fn cents(gateway: &MovedGateway) -> u64 {
    uses(gateway).first().map_or(0, |used| used.used / 10_000)
}

#[test]
fn people_are_warned_once_in_each_period_also_after_restarts() {
    let spends: &[&str] = &["text ok", "usage 0.81", "done"];
    let little: &[&str] = &["text ok", "usage 0.01", "done"];
    let turns = [spends, little, little, spends, little];
    let mut gateway = MovedGateway::begin("UTC", START, &turns, "## team\n- cap: $1 a day\n");
    let warned = |gateway: &MovedGateway| {
        gateway.settle(0);
        gateway.notices_with("is used to 8").len()
    };
    gateway.answered(7, "one");
    gateway.until("a warning", || warned(&gateway) == 1);
    gateway.answered(7, "two");
    gateway.restart();
    gateway.pass_until("2027-03-03T23:00:00Z", 0);
    gateway.answered(7, "three");
    assert_eq!(warned(&gateway), 1, "{:?}", gateway.notices());
    gateway.pass_until(TOMORROW, 0);
    assert_eq!((warned(&gateway), cents(&gateway)), (1, 0));
    gateway.answered(7, "four");
    gateway.until("a warning", || warned(&gateway) == 2);
    gateway.restart();
    gateway.answered(7, "five");
    assert_eq!((warned(&gateway), cents(&gateway)), (2, 82));
}

#[test]
fn no_cap_until_tomorrow_ends_at_midnight_and_owners_are_asked_again() {
    let spends: &[&str] = &["text ok", "usage 1", "done"];
    let turns = [spends, spends, spends];
    let mut gateway = MovedGateway::begin("UTC", START, &turns, "## team\n- cap: $1 a week\n");
    gateway.answered(7, "one");
    gateway.ask(7, "two");
    gateway.settle(1);
    gateway.press("No cap until tomorrow");
    gateway.control.advance(super::LOOK);
    gateway.idle();
    gateway.restart();
    gateway.still_waits_at(&just_before(TOMORROW), 0);
    gateway.answered(7, "three");
    let asked = |gateway: &MovedGateway| {
        let asked = gateway.notices_with("Conversations wait").into_iter();
        asked.filter(|notice| notice.channel.is_none() && !notice.offers.is_empty()).count()
    };
    assert_eq!((cents(&gateway), asked(&gateway)), (300, 1));
    gateway.pass_until(TOMORROW, 0);
    gateway.ask(7, "four");
    gateway.settle(1);
    gateway.control.advance(super::LOOK);
    gateway.until("owners are asked again", || asked(&gateway) == 2);
    gateway.still_waits_at(&just_before(MONDAY), 1);
    gateway.restart();
    gateway.settle(1);
    assert_eq!(asked(&gateway), 2);
    gateway.pass_until(MONDAY, 1);
    assert_eq!(gateway.prompts_at_the_end(), ["one", "two", "three", "four"]);
}

#[test]
fn a_raised_cap_holds_until_its_period_ends() {
    let spends: &[&str] = &["text ok", "usage 1", "done"];
    let turns = [spends, spends, spends, spends];
    let mut gateway = MovedGateway::begin("UTC", START, &turns, "## team\n- cap: $1 a week\n");
    gateway.answered(7, "one");
    gateway.ask(7, "two");
    gateway.settle(1);
    gateway.press("Raise to $2.00");
    gateway.control.advance(super::LOOK);
    gateway.idle();
    // The raised cap is reached, and the decision survives.
    gateway.restart();
    gateway.ask(7, "three");
    gateway.still_waits_at(&just_before(MONDAY), 1);
    assert_eq!(uses(&gateway)[0].cap, 2_000_000);
    gateway.pass_until(MONDAY, 1);
    gateway.idle();
    // In the new week, the cap is that of the file again.
    gateway.ask(7, "four");
    gateway.settle(1);
    assert_eq!((uses(&gateway)[0].cap, cents(&gateway)), (1_000_000, 100));
    gateway.still_waits_at(&just_before("2027-03-15T00:00:00Z"), 1);
    gateway.pass_until("2027-03-15T00:00:00Z", 1);
    assert_eq!(gateway.prompts_at_the_end(), ["one", "two", "three", "four"]);
}

#[test]
fn a_button_of_the_last_period_has_no_effect() {
    let spends: &[&str] = &["text ok", "usage 1", "done"];
    let gateway =
        MovedGateway::begin("UTC", START, &[spends, spends], "## team\n- cap: $1 a day\n");
    gateway.answered(7, "one");
    gateway.ask(7, "two");
    gateway.settle(1);
    let old = gateway.notices();
    gateway.pass_until(TOMORROW, 1);
    gateway.idle();
    for label in ["Raise to", "No cap until tomorrow"] {
        let button = super::super::budgets::button(&old, label);
        let press = super::super::budgets::press(gateway.dispatcher(), &button, true);
        assert!(gateway.run(label, press).is_err(), "{label}");
    }
    gateway.ask(7, "three");
    gateway.still_waits_at("2027-03-04T23:59:59Z", 1);
    assert_eq!(gateway.launcher.prompts(), ["one", "two"]);
}

#[test]
fn a_turn_that_runs_over_midnight_counts_in_the_period_in_which_it_ends() {
    for restarts in [false, true] {
        let turns: [&[&str]; 2] = [
            &["text half", "usage 0.6", "gate", "done"],
            &["text half", "tool t1", "usage 0.5", "wait"],
        ];
        let rules = "## team\n- cap: $1 a day\n";
        let mut gateway = MovedGateway::begin("UTC", START, &turns, rules);
        gateway.ask(7, "one");
        gateway.until("usage", || cents(&gateway) == 60);
        gateway.still_waits_at(&just_before(TOMORROW), 0);
        if restarts {
            gateway.restart();
            gateway.until("usage", || cents(&gateway) == 60);
        }
        gateway.pass_until(TOMORROW, 0);
        assert_eq!(cents(&gateway), 60, "a running turn counts in the current period");
        gateway.gate.send_replace(true);
        gateway.idle();
        gateway.restart();
        assert_eq!(cents(&gateway), 60, "it ended today");
        // Together with it, this turn reaches the cap of today.
        gateway.ask(7, "two");
        gateway.settle(1);
        assert_eq!(cents(&gateway), 110);
        gateway.still_waits_at("2027-03-04T23:59:59Z", 1);
        gateway.pass_until("2027-03-05T00:00:00Z", 1);
        let prompts = gateway.prompts_at_the_end();
        assert_eq!(prompts.len(), 3, "{prompts:?}");
        assert_eq!(cents(&gateway), 0);
    }
}
