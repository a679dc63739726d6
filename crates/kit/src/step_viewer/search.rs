//! Searches steps for words. Blocks.

use std::io;
use std::time::{Duration, Instant};

use super::steps::{RecordedStep, TurnSteps};
use aetheel_model::agent::Input;
use aetheel_model::redact::Redactor;

const TIMEOUT: Duration = Duration::from_secs(5);
/// The clock is checked once in this many steps.
const CLOCK_CHECK_STEPS: usize = 256;

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepSearch {
    /// Found in this step (index).
    At(usize),
    /// No step contains the words.
    Nothing,
    /// The search took too long, and stopped before this step (index).
    Stopped(usize),
}

/// Returns the first step after this one that contains all of these words, given in lower case.
pub(super) fn search(
    film: &TurnSteps,
    after: usize,
    words: &str,
    redactor: &Redactor,
) -> io::Result<StepSearch> {
    let words: Vec<&str> = words.split_whitespace().collect();
    let began = Instant::now();
    for at in after.saturating_add(1)..film.len() {
        if at.is_multiple_of(CLOCK_CHECK_STEPS) && began.elapsed() > TIMEOUT {
            return Ok(StepSearch::Stopped(at));
        }
        let step = film.read(at)?;
        let text = redactor.redact(text_of(&step)).to_lowercase();
        if words.iter().all(|word| text.contains(word)) {
            return Ok(StepSearch::At(at));
        }
    }
    Ok(StepSearch::Nothing)
}

fn text_of(step: &RecordedStep) -> String {
    let mut text = match &step.input {
        Some(Input::Line(line)) => line.text.clone(),
        Some(other) => serde_json::to_string(other).unwrap_or_default(),
        None => String::new(),
    };
    for action in &step.actions {
        text.push('\n');
        text.push_str(&serde_json::to_string(action).unwrap_or_default());
    }
    for note in &step.notes {
        text.push('\n');
        text.push_str(note);
    }
    // Searches the text as people read it, without the escapes of JSON.
    text.replace("\\\"", "\"").replace("\\n", "\n")
}
