//! Tests of usage limits that end after days.

use aetheel_dispatch::OfferRefusal;

use super::super::budgets::button;
use super::super::limits::lane;
use super::{LOOK, MovedGateway, just_before, time};

/// Returns a time as people get it.
fn shown(at: &str, style: &str) -> String {
    format!("<t:{}:{style}>", time(at).as_second())
}

const CONTINUES: &str = "Continue the work on this request";

#[test]
fn prompts_of_several_days_wait_for_a_limit_through_restarts_and_are_answered_in_order() {
    for shown in [&[][..], &["text half", "tool t1"]] {
        let limited = [shown, &["until 2027-03-04T09:00:00Z"]].concat();
        let mut gateway = MovedGateway::begin("UTC", "2027-03-01T09:00:00Z", &[&limited], "");
        gateway.ask(7, "one");
        gateway.settle(1);
        gateway.still_waits_at("2027-03-02T12:00:00Z", 1);
        gateway.ask(7, "two");
        gateway.kill();
        gateway.control.advance(std::time::Duration::from_secs(3_600));
        gateway.start();
        gateway.still_waits_at("2027-03-03T12:00:00Z", 1);
        gateway.ask(7, "three");
        gateway.restart();
        gateway.settle(1);
        let [wait] = &gateway.waits()[..] else { panic!("one lane waits") };
        assert_eq!(wait.until, time("2027-03-04T09:00:00Z"));
        gateway.still_waits_at(&just_before("2027-03-04T09:00:00Z"), 1);
        gateway.ask(7, "four");
        assert_eq!(gateway.launcher.prompts(), ["one"], "shown: {shown:?}");
        gateway.pass_until("2027-03-04T09:00:00Z", 1);
        let prompts = gateway.prompts_at_the_end();
        let first = if shown.is_empty() { "one" } else { CONTINUES };
        assert_eq!(prompts.len(), 5, "{prompts:?}");
        assert!(prompts[1].contains(first), "{prompts:?}");
        assert_eq!(prompts[2..], ["two", "three", "four"]);
        let answers = gateway.answers();
        let answered: Vec<u64> = answers.iter().map(|(event, _)| event.sequence).collect();
        let mut ordered = answered.clone();
        ordered.sort_unstable();
        ordered.dedup();
        assert_eq!(answered.len(), if shown.is_empty() { 4 } else { 5 });
        assert_eq!(answered.len(), ordered.len(), "none twice");
        let texts: Vec<&str> = answers.iter().map(|(_, answer)| answer.text.as_str()).collect();
        assert_eq!(texts[texts.len() - 3..], ["two", "three", "four"]);
    }
}

#[test]
fn people_learn_the_day_on_which_their_prompts_are_answered() {
    let limited: &[&str] = &["until 2027-03-29T07:00:00Z"];
    let gateway = MovedGateway::begin("Europe/Berlin", "2027-03-26T08:00:00+01:00", &[limited], "");
    gateway.ask(7, "one");
    gateway.settle(1);
    let notices = gateway.notices_with(&shown("2027-03-29T07:00:00Z", "f"));
    assert_eq!(notices.len(), 1, "{:?}", gateway.notices());
    gateway.still_waits_at("2027-03-28T20:00:00+02:00", 1);
    let status = gateway.run("status", gateway.dispatcher().observer.lane_status(&lane(7)));
    let line = format!("answered at {}.", shown("2027-03-29T07:00:00Z", "t"));
    assert!(status.warnings.0.iter().any(|warning| warning.contains(&line)), "{status:?}");
}

#[test]
fn a_limit_whose_end_moves_is_waited_for_again_and_its_old_buttons_do_nothing() {
    let turns: [&[&str]; 2] = [&["until 2027-03-04T09:00:00Z"], &["until 2027-03-06T09:00:00Z"]];
    let mut gateway = MovedGateway::begin("UTC", "2027-03-01T09:00:00Z", &turns, "");
    gateway.ask(7, "one");
    gateway.settle(1);
    let before = gateway.notices();
    gateway.pass_until("2027-03-04T09:00:00Z", 1);
    // The agent is asked, and its limit was moved to a later day.
    gateway.until("it waits again", || gateway.launcher.prompts().len() == 2);
    gateway.settle(1);
    gateway.still_waits_at("2027-03-05T09:00:00Z", 1);
    let old = button(&before, "Try now");
    let pressed = gateway.run("try now", gateway.dispatcher().wait_choices.press(&old, true));
    assert_eq!(pressed, Some(Err(OfferRefusal::Gone)));
    let new = gateway.notices().pop().expect("a notice");
    let new = button(&[new], "Try now");
    let pressed = gateway.run("try now", gateway.dispatcher().wait_choices.press(&new, true));
    assert!(matches!(pressed, Some(Ok(_))), "{pressed:?}");
    gateway.control.advance(LOOK);
    assert_eq!(gateway.prompts_at_the_end(), ["one", "one", "one"]);
}

#[test]
fn a_wall_clock_that_is_set_moves_the_end_of_a_wait() {
    let limited: &[&str] = &["until 2027-03-04T09:00:00Z"];
    let gateway = MovedGateway::begin("UTC", "2027-03-01T09:00:00Z", &[limited], "");
    gateway.ask(7, "one");
    gateway.settle(1);
    gateway.control.set(time("2027-02-20T09:00:00Z"));
    gateway.still_waits_at("2027-03-03T09:00:00Z", 1);
    // As after three days in which the machine was suspended.
    gateway.control.set(time("2027-03-05T09:00:00Z"));
    gateway.control.advance(LOOK);
    gateway.idle();
    assert_eq!(gateway.launcher.prompts(), ["one", "one"]);
}

#[test]
fn a_limit_in_words_ends_at_the_time_of_day_after_the_clocks_were_changed() {
    const SEVEN: &str = "You've hit your limit · resets 7am (Europe/Berlin)";
    const HALF_PAST_TWO: &str = "You've hit your limit · resets 2:30am (Europe/Berlin)";
    let cases = [
        // A night without the hour from two to three.
        (SEVEN, "2027-03-27T22:00:00+01:00", "2027-03-28T07:00:00+02:00"),
        (HALF_PAST_TWO, "2027-03-27T22:00:00+01:00", "2027-03-28T03:30:00+02:00"),
        // A night with this hour twice.
        (SEVEN, "2027-10-30T22:00:00+02:00", "2027-10-31T07:00:00+01:00"),
        (HALF_PAST_TWO, "2027-10-30T22:00:00+02:00", "2027-10-31T02:30:00+02:00"),
        (HALF_PAST_TWO, "2027-10-31T02:45:00+02:00", "2027-10-31T02:30:00+01:00"),
    ];
    for (words, start, end) in cases {
        let refused = format!("refused {words}");
        let turns: [&[&str]; 1] = [&[&refused]];
        let mut gateway = MovedGateway::begin("Europe/Berlin", start, &turns, "");
        gateway.ask(7, "one");
        gateway.settle(1);
        assert_eq!(
            gateway.notices_with(&shown(end, "t")).len(),
            1,
            "{start}: {:?}",
            gateway.notices()
        );
        gateway.still_waits_at(&just_before(end), 1);
        gateway.pass_until(end, 1);
        assert_eq!(gateway.prompts_at_the_end(), ["one", "one"], "{start}");
    }
}
