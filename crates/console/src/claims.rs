//! The command `/claim`: lists, reserves and releases files.

use aetheel_dispatch::{ClaimAuthor, ClaimError, ClaimOrder, Dispatcher};
use aetheel_model::event::Lane;

/// Carries out the command. `rest` is the text after it.
///
/// # Errors
/// [`ClaimError`]; nothing was changed.
pub(crate) async fn claim(dispatcher: &Dispatcher, rest: &str) -> Result<String, ClaimError> {
    let claims = &dispatcher.claims;
    if rest.is_empty() {
        return claims.list(&Lane::Console).await;
    }
    let author = ClaimAuthor { lane: Lane::Console, person: None, name: None };
    if let Some(("release", id)) = rest.split_once(char::is_whitespace) {
        return claims.release(&author, id, true).await;
    }
    let (paths, time) = match rest.rsplit_once(" for ") {
        Some((paths, time)) => (paths, Some(time.to_owned())),
        None => (rest, None),
    };
    claims.take(author, ClaimOrder { paths: paths.to_owned(), time, reason: None }).await
}
