//! Replays a case and compares its actions with the expected ones.

use aetheel_model::agent::Action;
use aetheel_recording::case::Case;
use aetheel_recording::comparison::{GoldenDifference, golden_difference};
use aetheel_recording::replay::{Batches, replay};
use aetheel_recording::{Backend, GuestFailure};

/// The result of a case.
#[derive(Clone, Debug)]
pub enum CaseVerdict {
    /// The actions are the expected ones.
    Same,
    /// The actions are different.
    Differs(Box<GoldenDifference>),
    /// The guest failed at this entry (index).
    Failed(usize, GuestFailure),
    /// The actions depend on how the inputs are batched. The string describes the batching.
    Batching(String),
    /// The case has no expected actions.
    Unknown,
}

/// Replays a case and compares its actions with the expected ones. Also returns the actions.
///
/// # Errors
/// Returns the failure if no guest can be opened.
pub async fn judge(
    backend: &dyn Backend,
    case: &Case,
) -> Result<(CaseVerdict, Vec<Action>), GuestFailure> {
    let replayed = replay(backend, &case.tape.entries, Batches::Single).await?;
    let actions: Vec<Action> = replayed.actions().cloned().collect();
    if let Some((at, failure)) = &replayed.failure {
        return Ok((CaseVerdict::Failed(*at, failure.clone()), actions));
    }
    for (how, batches) in
        [("7 inputs per call", Batches::Of(7)), ("all inputs in one call", Batches::Whole)]
    {
        let other = replay(backend, &case.tape.entries, batches).await?;
        if !other.actions().eq(replayed.actions()) {
            return Ok((CaseVerdict::Batching(how.to_owned()), actions));
        }
    }
    let verdict = match &case.actions {
        None => CaseVerdict::Unknown,
        Some(expected) => golden_difference(case, &replayed, expected)
            .map_or(CaseVerdict::Same, |found| CaseVerdict::Differs(Box::new(found))),
    };
    Ok((verdict, actions))
}
