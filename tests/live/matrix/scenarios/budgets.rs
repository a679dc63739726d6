//! Scenarios about budgets: the turn of an agent is stopped at the cap, and continues when an owner
//! raises the cap.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::gateway::{Cell, Gateway, Wishes, ada};
use crate::support::model_server::{Intent, ModelServer, Reply, TOKENS_IN, TOKENS_OUT};

/// The requests of a turn that nobody stops.
const ROUNDS: usize = 6;
/// The request that reaches the caps.
const REACHED: usize = 3;

/// A cap of tokens that the third request of six reaches.
pub(super) async fn tokens(cell: Cell) {
    let used = (TOKENS_IN + TOKENS_OUT) as usize;
    let reports = cell.backend.reports_tokens();
    stops(&cell, &format!("{} tokens", used * REACHED - 4), reports).await;
}

/// A cap of dollars that the third request of six reaches, at list prices.
pub(super) async fn dollars(cell: Cell) {
    let reports = cell.backend.reports_dollars();
    // 11 tokens at $3 and 7 tokens at $15 a million.
    stops(&cell, "$0.00035", reports).await;
}

/// When an agent reports what it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reports {
    /// After each request to the model.
    EachRequest,
    /// At the end of the turn.
    AtTheEnd,
    Never,
}

async fn stops(cell: &Cell, cap: &str, reports: Reports) {
    let rounds = Arc::new(AtomicUsize::new(0));
    let counted = rounds.clone();
    let model = ModelServer::answering(move |request| {
        let goes_on = request.prompts().last().is_some_and(|prompt| prompt.contains("Next."));
        match counted.fetch_add(1, Ordering::SeqCst) + 1 {
            round if round < ROUNDS && !goes_on => {
                Reply::does(&format!("call_{round}"), Intent::shell("sleep 1"))
            }
            _ => Reply::text("Done."),
        }
    });
    let gateway = cell.open(model.await, Wishes::default()).await;
    gateway.write("config/budgets.md", &format!("## team\n- cap: {cap} a day\n"));
    gateway.prompt(1, "Work.");
    let told = gateway.answer(1).await;
    let requests = rounds.load(Ordering::SeqCst);
    cell.found("requests", requests.to_string());
    cell.found("usage", format!("{:?}", told.answer.usage));
    match reports {
        Reports::EachRequest => {
            let failure = told.answer.failure.clone().unwrap_or_default();
            assert!(failure.contains("The budget `team` is used up"), "{requests}: {told:?}");
            // The one after it may have begun.
            assert!((REACHED..=REACHED + 1).contains(&requests), "{requests}: {told:?}");
            assert_waits_and_continues(&gateway, &rounds, true).await;
        }
        Reports::AtTheEnd => {
            told.answers("Done.");
            assert_eq!(requests, ROUNDS, "{told:?}");
            gateway.prompt(1, "Next.");
            assert_waits_and_continues(&gateway, &rounds, false).await;
        }
        Reports::Never => {
            told.answers("Done.");
            assert_eq!(requests, ROUNDS, "{told:?}");
            gateway.talk("Next.").await.answers("Done.");
        }
    }
}

/// Checks that the conversation waits, and continues once after the cap was raised.
async fn assert_waits_and_continues(gateway: &Gateway, rounds: &AtomicUsize, is_cut: bool) {
    let words = if is_cut { "I continue by myself" } else { "Your message waits" };
    let notice = gateway.notice(1, words).await;
    let before = rounds.load(Ordering::SeqCst);
    rounds.store(ROUNDS, Ordering::SeqCst);
    let raise = notice.offers.iter().find(|offer| offer.label.starts_with("Raise to"));
    let raise = raise.unwrap_or_else(|| panic!("no button: {notice:?}"));
    let pressed = gateway.dispatcher.budgets.press(&raise.id, &ada()).await;
    assert!(matches!(pressed, Some(Ok(_))), "{pressed:?}");
    gateway.answer(1).await.answers("Done.");
    gateway.dispatcher.turns.idle().await;
    assert!(before <= ROUNDS && rounds.load(Ordering::SeqCst) == ROUNDS + 1, "once: {before}");
}
