//! Finished turns: a list with search, a page for each turn, and read-only links. A turn that the
//! user may not see is treated as missing.
//!
//! | module | content |
//! |---|---|
//! | [`diffs`], [`blank`] | pure functions: diffs as lines, removing personal data |
//! | [`blocks`], [`sheet`] | a turn as HTML, limited to the parts that its reader may see |
//! | [`reader`] | decides which parts of a turn a reader may see |
//! | [`list`] | the list of turns |
//! | [`turn`] | the page of a finished or running turn |
//! | [`sharing`] | read-only links |

mod blank;
mod blocks;
mod diffs;
pub(super) mod list;
mod reader;
pub(super) mod sharing;
mod sheet;
pub(super) mod turn;

/// Returns the URL of a turn's page.
fn path(turn: &str) -> String {
    format!("/turns/{turn}")
}

/// Returns whether a text can be the id of a turn.
pub(super) fn is_turn(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}
