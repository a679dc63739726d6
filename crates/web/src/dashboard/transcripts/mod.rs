//! Turns for people who look back: finding them, each on a page of its own, and read-only links to
//! one. What somebody may not see is not there for them.
//!
//! | room | owns |
//! |---|---|
//! | [`diffs`], [`paging`], [`blank`] | pure: changes of files as lines, long texts in pages, what is blanked out for outsiders |
//! | [`blocks`], [`sheet`] | a turn as HTML, as far as its reader may see it |
//! | [`reader`] | who reads a turn, and as far as what |
//! | [`list`] | finding turns |
//! | [`turn`] | the page of one turn, past or running |
//! | [`sharing`] | read-only links |

mod blank;
mod blocks;
mod diffs;
pub(super) mod list;
mod paging;
mod reader;
pub(super) mod sharing;
mod sheet;
pub(super) mod turn;

/// The address of a turn's page.
fn path(turn: &str) -> String {
    format!("/turns/{turn}")
}

/// Whether a text can be the id of a turn.
fn is_turn(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}
