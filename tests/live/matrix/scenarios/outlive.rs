//! Scenarios in which the gateway is killed, and the next process continues with the same agent.

use std::time::Duration;

use aetheel_model::agent::Safety;
use aetheel_model::agent::descriptor::Feature;
use rustix::process::Signal;
use serde_json::json;

use super::super::gateway::{Cell, Wishes};
use super::super::lives::Service;
use super::{Script, number};
use crate::support::discord::{ANN, CHANNEL, Message};
use crate::support::model_server::{Gate, Intent, Reply};

/// Long enough for an agent to print the rest of its answer.
const AWAY: Duration = Duration::from_secs(3);

pub(super) async fn in_text(cell: Cell) {
    let [gate, last] = [Gate::new(), Gate::new()];
    let answer = Reply::text("One, two")
        .then_pause_in_text(&gate)
        .then_piece(", three")
        .then_pause_in_text(&last)
        .then_piece(", four.");
    let script = Script::default().on("Count.", [answer]).on("Again", [Reply::text("ok")]);
    let mut service = Service::begin(&cell, script.serve().await, Wishes::default()).await;
    service.say("Count.");
    gate.reached().await;
    if cell.has(Feature::Streaming) {
        service.said("the first half", |text| text.contains("One, two")).await;
    }
    service.kill_and_restart().await;
    gate.open();
    last.reached().await;
    if cell.has(Feature::Streaming) && !cell.backend.delivers_missed_text_at_its_end() {
        service.said("more of it", |text| text.contains("One, two, three")).await;
    }
    // The rest is printed while no gateway runs.
    service.kill().await;
    last.open();
    tokio::time::sleep(AWAY).await;
    service.start_next().await;
    service.said("the whole answer", |text| text.trim() == "One, two, three, four.").await;
    assert_eq!(service.discord.texts(CHANNEL), ["One, two, three, four."]);
    assert_eq!(service.model.requests().len(), 1, "the model is asked once");
    alive(&cell, &service, "Count.").await;
}

pub(super) async fn during_an_ask(cell: Cell) {
    let gate = Gate::new();
    let work = ["one", "two"].map(|word| Intent::unboxed(&format!("echo {word} >> done")));
    let [first, second] = work;
    let second = Reply::does("call_2", second).held_by(&gate);
    let script = Script::default()
        .on("Work.", [Reply::does("call_1", first), second, Reply::text("Done.")])
        .on("Again", [Reply::text("ok")]);
    let wishes = Wishes { safety: Safety::Default, ..Wishes::default() };
    let mut service = Service::begin(&cell, script.serve().await, wishes).await;
    service.say("Work.");
    let question = service.question(None).await;
    service.kill_and_restart().await;
    assert_eq!(service.question(None).await, question, "it is the same question");
    assert_eq!(service.file("workspace/done"), "", "the turn waits for the decision");
    service.discord.press_id(question.message, ANN, &question.leave);
    gate.reached().await;
    assert_eq!(service.file("workspace/done"), "one\n");
    // The next question is asked while no gateway runs.
    service.kill().await;
    gate.open();
    tokio::time::sleep(AWAY).await;
    service.start_next().await;
    let next = service.question(Some(&question)).await;
    assert_eq!(service.file("workspace/done"), "one\n", "the turn waits for the decision");
    service.discord.press_id(next.message, ANN, &next.leave);
    service.said("the answer", |text| text.trim().ends_with("Done.")).await;
    assert_eq!(service.file("workspace/done"), "one\ntwo\n");
    let requests = service.model.requests();
    assert_eq!(requests.len(), 3, "the model is asked once with the result of each");
    assert!(requests[2].tool_results().contains_key("call_2"), "{:#}", requests[2].body);
    alive(&cell, &service, "Work.").await;
}

/// Ends the gateway while a call of one of its tools is open, and again before the next call
/// arrives. Each call is carried out once, and the agent gets its result. `ROUNDS` repeats that.
pub(super) async fn host_tool(cell: Cell) {
    let rounds = number("ROUNDS").unwrap_or(1);
    let gates: Vec<Gate> = (0..rounds).map(|_| Gate::new()).collect();
    let mut script = Script::default().on("Again", [Reply::text("ok")]);
    for (round, gate) in gates.iter().enumerate() {
        let ask = json!({"question": format!("Which colour {round}?"), "options": ["Red", "Blue"]});
        let file = json!({"path": format!("{round}.txt")});
        let [first, second] = [format!("ask_{round}"), format!("file_{round}")].map(String::leak);
        script = script.on(
            format!("Paint {round}.").leak(),
            [
                Reply::does(first, Intent::host("aetheel_ask", ask)),
                Reply::does(second, Intent::host("aetheel_post_file", file)).held_by(gate),
                Reply::text(format!("Blue is {round}.").leak()),
            ],
        );
    }
    let mut service = Service::begin(&cell, script.serve().await, Wishes::default()).await;
    for (round, gate) in gates.iter().enumerate() {
        let ends = if round % 2 == 0 { Signal::KILL } else { Signal::TERM };
        service.write(&format!("workspace/{round}.txt"), "figures");
        service.say(&format!("Paint {round}."));
        let question = service.asked(&format!("Which colour {round}?")).await;
        service.end(ends).await;
        service.start_next().await;
        service.discord.press(question, ANN, "Blue");
        gate.reached().await;
        // The agent calls the next tool while no gateway runs.
        service.end(ends).await;
        gate.open();
        tokio::time::sleep(AWAY).await;
        service.start_next().await;
        let answer = format!("Blue is {round}.");
        service.said("the answer", |text| text.contains(&answer)).await;
        let posted = format!("{round}.txt");
        let files = |message: &Message| message.files.iter().any(|(name, _)| *name == posted);
        super::super::wait_until("the file is posted", || {
            service.discord.messages(CHANNEL).iter().any(files)
        })
        .await;
        let messages = service.discord.messages(CHANNEL);
        assert_eq!(messages.iter().filter(|message| files(message)).count(), 1, "{messages:?}");
        let answers = messages.iter().filter(|message| message.content.contains(&answer));
        assert_eq!(answers.count(), 1, "{messages:?}");
        let requests = service.model.requests();
        let results = requests.last().expect("three requests").tool_results();
        let result = |call: String| results.get(call.as_str()).cloned().unwrap_or_default();
        assert!(result(format!("ask_{round}")).contains("Blue"), "{results:?}");
        assert!(result(format!("file_{round}")).contains("is attached"), "{results:?}");
    }
    alive(&cell, &service, "Paint 0.").await;
}

/// Kills the gateway while the agent is idle, lets it finish two turns, and kills it in the next
/// one. Then it does the same in another order, which `SEED` changes.
pub(super) async fn again_and_again(cell: Cell) {
    let mut seed = number("SEED").unwrap_or(7);
    let mut steps = vec![Step::Turn, Step::KillIdle, Step::Turn, Step::Turn, Step::KillInTurn];
    for _ in 0..8 {
        // Knuth's MMIX generator, whose upper bits have the best quality.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        steps.push([Step::Turn, Step::KillIdle, Step::KillInTurn][(seed >> 33) as usize % 3]);
    }
    let gates: Vec<Gate> = steps.iter().map(|_| Gate::new()).collect();
    let mut script = Script::default().on("Again", [Reply::text("ok")]);
    for (at, (step, gate)) in steps.iter().zip(&gates).enumerate() {
        let answer = Reply::text(format!("Number {at}").leak());
        let answer = match step {
            Step::KillInTurn => answer.then_pause_in_text(gate).then_piece("."),
            _ => answer.then_piece("."),
        };
        script = script.on(format!("Say {at}.").leak(), [answer]);
    }
    let mut service = Service::begin(&cell, script.serve().await, Wishes::default()).await;
    let mut expected = Vec::new();
    for (at, (step, gate)) in steps.iter().zip(&gates).enumerate() {
        if *step == Step::KillIdle {
            service.kill().await;
            service.start_anew().await;
            continue;
        }
        service.say(&format!("Say {at}."));
        if *step == Step::KillInTurn {
            gate.reached().await;
            service.kill_and_restart().await;
            gate.open();
        }
        expected.push(format!("Number {at}."));
        let whole = |text: &str| text.trim() == format!("Number {at}.");
        service.said(&format!("the answer of step {at} of {steps:?}"), whole).await;
    }
    assert_eq!(service.discord.texts(CHANNEL), expected, "{steps:?}");
    assert_eq!(service.model.requests().len(), expected.len(), "the model is asked once a turn");
    alive(&cell, &service, "Say 0.").await;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Turn,
    KillIdle,
    KillInTurn,
}

/// Checks that the conversation continues, with the same processes if they outlive a turn.
async fn alive(cell: &Cell, service: &Service, earlier: &str) {
    let before = service.agents();
    service.say("Again");
    service.said("the next answer", |text| text.trim() == "ok").await;
    if !cell.backend.one_shot {
        assert_eq!(service.agents(), before, "the agent is still the same");
    }
    let request = service.model.requests().pop().unwrap();
    assert!(request.mentions(earlier), "the history is complete: {:#}", request.body);
}
