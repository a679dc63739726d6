//! Blocks that show the latest state of something.

use std::collections::HashMap;

use super::blocks::BoundedBlocks;
use crate::transcript::BlockKind;

/// Something that changes while the turn runs.
#[derive(PartialEq, Eq, Hash)]
pub(super) enum LatestKey {
    Plan,
    /// The task with this id.
    Task(String),
    /// The notices with this key.
    Notice(String),
}

#[derive(Default)]
pub(super) struct LatestBlocks(HashMap<LatestKey, usize>);

impl LatestBlocks {
    /// Replaces the block of a key, or adds it.
    pub(super) fn show(
        &mut self,
        key: LatestKey,
        kind: BlockKind,
        blocks: &mut BoundedBlocks,
        at_ms: u64,
    ) {
        if let Some(at) = self.0.get(&key) {
            blocks.list[*at].kind = kind;
        } else if let Some(at) = blocks.push(at_ms, kind) {
            self.0.insert(key, at);
        }
    }
}
