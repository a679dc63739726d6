//! Scenarios about conversations that change from one agent to another.

use super::super::backends::BACKENDS;
use super::super::gateway::{Cell, Wishes};
use crate::support::model_server::{Intent, ModelRequest, ModelServer, Reply};

/// The maximum size of the quotation, in bytes, as the gateway documents it.
const MAX_RECAP: usize = 8 << 10;
/// The beginning of the quotation.
const MARK: &str = "[Said here before,";
/// Numbers in an answer that is longer than the quotation may be.
const CHATTER: u32 = 3_000;

/// Every other agent continues a conversation that this one began: its model is given what was
/// asked, answered and changed, marked as a quotation and bounded. Then the first agent returns, and
/// is given the answer of the other one.
pub(super) async fn each_other(cell: Cell) {
    let others: Vec<_> = BACKENDS
        .iter()
        .filter(|other| {
            other.backend != cell.backend.backend
                && other.one_shot == cell.backend.one_shot
                && !other.rights_only
        })
        .copied()
        .collect();
    assert!(!others.is_empty(), "no other agent");
    let model = ModelServer::answering(answer).await;
    let wishes = Wishes { beside: others.clone(), ..Wishes::default() };
    let gateway = cell.open(model, wishes).await;
    for (lane, other) in (1..).zip(&others) {
        gateway.prompt(lane, &format!("Chatter {lane}."));
        let told = gateway.answer(lane).await;
        assert!(
            told.answer.failure.is_none(),
            "{:?} {:?}",
            told.answer.failure,
            told.answer.detail
        );
        gateway.prompt(lane, &format!("The port is 40{lane}."));
        gateway.answer(lane).await.answers(&format!("Noted number {lane}."));

        gateway.choose_backend(lane, other).await;
        gateway.prompt(lane, "Which port?");
        let told = gateway.answer(lane).await;
        told.answers("It is in the recap.");
        let read = told.answer.notices.iter().any(|notice| notice.contains("has read what was"));
        assert!(read, "{}: the answer says so: {told:?}", other.name);
        let request = gateway.model.requests().pop().unwrap();
        let recap = recap(&request)
            .unwrap_or_else(|| panic!("{}: no recap: {:?}", other.name, request.prompts()));
        let facts = [
            format!("The port is 40{lane}."),
            format!("Noted number {lane}."),
            format!("note-{lane}.txt`)"),
        ];
        for fact in facts {
            assert!(recap.contains(&fact), "{}: no {fact:?} in {recap}", other.name);
        }
        assert!(recap.len() <= MAX_RECAP, "{}: {} bytes", other.name, recap.len());
        assert!(recap.contains('…'), "{}: the chatter is cut: {recap}", other.name);

        gateway.choose_backend(lane, &cell.backend).await;
        gateway.prompt(lane, "And now?");
        gateway.answer(lane).await.answers("As the other one said.");
        let request = gateway.model.requests().pop().unwrap();
        let prompts = request.prompts().join("\n");
        assert!(prompts.contains("It is in the recap."), "{}: {prompts}", other.name);
        let first = format!("The port is 40{lane}.");
        let again = recap_of(&prompts).is_some_and(|recap| recap.contains(&first));
        assert!(!again, "its own turns are not repeated: {prompts}");
    }
}

/// Returns the latest quotation in a request.
fn recap(request: &ModelRequest) -> Option<String> {
    request.prompts().into_iter().rev().find_map(recap_of)
}

fn recap_of(prompt: &str) -> Option<String> {
    let from = &prompt[prompt.find(MARK)?..];
    let lines = from.lines().enumerate();
    let quoted = lines.take_while(|(index, line)| *index == 0 || line.starts_with("> "));
    Some(quoted.map(|(_, line)| line).collect::<Vec<_>>().join("\n"))
}

/// Answers by the last prompt. The second one is answered after a file was written.
fn answer(request: &ModelRequest) -> Reply {
    let prompts = request.prompts();
    let line = |prompt: &&str| {
        prompt
            .lines()
            .rev()
            .find(|line| {
                ["Chatter ", "The port is ", "Which port?", "And now?"]
                    .iter()
                    .any(|begins| line.starts_with(begins))
            })
            .map(str::to_owned)
    };
    let Some(last) = prompts.iter().rev().find_map(line) else {
        return Reply::refusing(400, &format!("the script has nothing for {prompts:?}"));
    };
    if last.starts_with("Chatter ") {
        // Gemini CLI ends an answer that repeats itself.
        let numbers: Vec<String> = (1..=CHATTER).map(|number| number.to_string()).collect();
        return Reply::text(&numbers.join(" "));
    }
    let Some(port) = last.strip_prefix("The port is 40") else {
        let text =
            if last == "And now?" { "As the other one said." } else { "It is in the recap." };
        return Reply::text(text);
    };
    let lane = port.trim_end_matches('.');
    let call = format!("call_{lane}");
    if request.tool_results().contains_key(call.as_str()) {
        Reply::text(&format!("Noted number {lane}."))
    } else {
        Reply::does(&call, Intent::write(&format!("note-{lane}.txt"), "noted\n"))
    }
}
