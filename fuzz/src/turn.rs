//! The pure parts of the turn driver.

#[path = "../../src/turn/plan.rs"]
pub mod plan;
#[path = "../../src/turn/recording/mod.rs"]
pub mod recording;
#[path = "../../src/turn/link/sse.rs"]
mod sse;

/// Bytes of data in the events of these lines, and bytes still held.
pub fn events<'a>(lines: impl Iterator<Item = &'a str>) -> (usize, usize) {
    let mut frames = sse::Frames::default();
    let given = lines.filter_map(|line| frames.line(line)).map(|frame| frame.data.len()).sum();
    (given, frames.held())
}
