//! Lets owners decide about budgets with buttons. Tested by `tests/dispatch/budgets.rs`.

use aetheel_discord::OfferHandler;
use aetheel_dispatch::Budgets;

/// Returns the handler of the buttons in Discord.
pub(super) fn by_button(budgets: Budgets) -> OfferHandler {
    OfferHandler::new(move |id, person| {
        let budgets = budgets.clone();
        async move { budgets.press(&id, &person).await }
    })
}
