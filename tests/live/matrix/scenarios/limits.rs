//! Scenarios about usage limits: the service refuses requests as the providers do it, until the
//! allowance is renewed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use aetheel_dispatch::OfferEffect;

use super::super::gateway::{Cell, Gateway, Wishes};
use crate::support::model_server::{Allowance, ModelServer, Reply};

/// The words of the notice about a prompt that waits.
const WAITS: &str = "has reached a usage limit";
const SOON: Duration = Duration::from_secs(4);
const HOURS: Duration = Duration::from_secs(3 * 3600);

/// A model that refuses requests until the flag is set, and names the time after which it would
/// answer. It counts its answers.
async fn refusing(
    allowance: Allowance,
    after: Duration,
) -> (ModelServer, Arc<AtomicBool>, Arc<AtomicUsize>) {
    let (renewed, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (flag, count, until) = (renewed.clone(), answers.clone(), SystemTime::now() + after);
    let model = ModelServer::answering(move |_| {
        if flag.load(Ordering::SeqCst) || SystemTime::now() >= until {
            count.fetch_add(1, Ordering::SeqCst);
            Reply::text("Done.")
        } else {
            Reply::limited(allowance, until)
        }
    });
    (model.await, renewed, answers)
}

async fn open(cell: &Cell, model: ModelServer, allowance: Allowance) -> Gateway {
    let subscription = allowance == Allowance::Plan;
    let gateway = cell.open(model, Wishes { subscription, ..Wishes::default() }).await;
    if cell.backend.component == "gemini" {
        // The number of attempts is the usual one.
        let settings = "home/.gemini/settings.json";
        let mut usual: serde_json::Value = serde_json::from_str(&gateway.read(settings)).unwrap();
        usual["general"].as_object_mut().unwrap().remove("maxAttempts");
        gateway.write(settings, &usual.to_string());
    }
    gateway
}

/// A limit of a plan that ends in hours: a notice says until when the prompt waits, and the prompt is
/// answered once when somebody presses a button.
pub(super) async fn of_a_plan(cell: Cell) {
    hours(cell, Allowance::Plan).await;
}

/// The same for the requests of a key.
pub(super) async fn of_a_key(cell: Cell) {
    hours(cell, Allowance::Key).await;
}

async fn hours(cell: Cell, allowance: Allowance) {
    let (model, renewed, answers) = refusing(allowance, HOURS).await;
    let gateway = open(&cell, model, allowance).await;
    let begun = Instant::now();
    gateway.prompt(1, "Work.");
    let notice = match gateway.answer_or_notice(1, WAITS).await {
        Err(notice) => notice,
        // An agent showed the refusal as its answer. The gateway continues the conversation later.
        Ok(told) if told.answer.failure.as_ref().is_some_and(|why| why.contains(WAITS)) => {
            gateway.notice(1, "usage limit").await
        }
        Ok(told) => {
            panic!("the prompt does not wait: {:?} {:?}", told.answer.failure, told.answer.detail)
        }
    };
    cell.found("seconds", format!("{:.0}", begun.elapsed().as_secs_f64()));
    let named = notice.text.split("<t:").nth(1).and_then(|rest| rest.split(':').next());
    let named: i64 = named.and_then(|seconds| seconds.parse().ok()).expect("a time");
    let left = named - jiff::Timestamp::now().as_second();
    assert!((2 * 3600..=3 * 3600 + 60).contains(&left), "{}", notice.text);
    let button = notice.offers.iter().find(|offer| offer.label == "Try now").expect("a button");
    renewed.store(true, Ordering::SeqCst);
    let pressed = gateway.dispatcher.wait_choices.press(&button.id, true).await;
    assert_eq!(pressed, Some(Ok(OfferEffect::Decided("▶️ Tried again at once for"))));
    gateway.answer(1).await.answers("Done.");
    gateway.dispatcher.turns.idle().await;
    assert_eq!(answers.load(Ordering::SeqCst), 1, "it is answered once");
    let requests = gateway.model.requests();
    let prompts = requests.last().expect("a request").prompts();
    let read = prompts.iter().filter(|prompt| prompt.contains("Work.")).count();
    // Some agents keep a refused message in their history, in which the prompt then stands twice.
    assert!((1..=2).contains(&read), "{prompts:?}");
}

/// A limit that ends soon: the prompt is answered once after it has ended, by the agent, which tries
/// again, or by the gateway.
pub(super) async fn that_ends(cell: Cell) {
    let (model, _, answers) = refusing(Allowance::Plan, SOON).await;
    let gateway = open(&cell, model, Allowance::Plan).await;
    let mut told = gateway.talk("Work.").await;
    // An agent that shows the refusal as its answer names only the minute, so the second try may be
    // early, too.
    while told.answer.failure.as_ref().is_some_and(|why| why.contains(WAITS)) {
        told = gateway.answer(1).await;
    }
    told.answers("Done.");
    gateway.dispatcher.turns.idle().await;
    assert_eq!(answers.load(Ordering::SeqCst), 1, "it was answered once");
}
