//! The uses of tools in a transcript.

use std::collections::HashMap;

use super::blocks::BoundedBlocks;
use crate::transcript::{BlockKind, ToolBlock};
use aetheel_model::agent::{FileDiff, ToolEnd, ToolOutput, ToolStart};

/// The block of each use of a tool, by its id.
#[derive(Default)]
pub(super) struct ToolBlocks(HashMap<String, usize>);

impl ToolBlocks {
    pub(super) fn start(&mut self, start: ToolStart, blocks: &mut BoundedBlocks, at_ms: u64) {
        let ToolStart { id, kind, native_name: name, title, target, input, .. } = start;
        let input = blocks.bounded(&input);
        // Agents announce a tool first and report its input later.
        if let Some((tool, size)) = self.0.get(&id).and_then(|at| blocks.tool(*at)) {
            size.clear(&mut tool.input);
            (tool.kind, tool.name, tool.title, tool.target) = (kind, name, title, target);
            tool.input = input;
            return;
        }
        let tool = ToolBlock { kind, name, title, target, input, ..ToolBlock::default() };
        if let Some(at) = blocks.push(at_ms, BlockKind::Tool(Box::new(tool))) {
            self.0.insert(id, at);
        }
    }

    pub(super) fn output(&mut self, output: &ToolOutput, blocks: &mut BoundedBlocks) {
        let known = self.0.get(&output.id).and_then(|at| blocks.tool(*at));
        let Some((tool, size)) = known else { return };
        if output.replace {
            size.replace_in(&mut tool.output, &output.text);
        } else {
            size.add_to(&mut tool.output, &output.text);
        }
    }

    pub(super) fn end(&mut self, end: ToolEnd, blocks: &mut BoundedBlocks, at_ms: u64) {
        let Some(at) = self.0.get(&end.id) else { return };
        let took_ms = at_ms.saturating_sub(blocks.list[*at].at_ms);
        let Some((tool, size)) = blocks.tool(*at) else { return };
        tool.status = Some(end.status);
        tool.exit_code = end.exit_code;
        tool.took_ms = Some(took_ms);
        let diffs: usize = end.diffs.iter().map(size_of).sum();
        if size.add_whole(diffs) {
            tool.diffs = end.diffs;
        } else {
            tool.output.bytes_left_out += diffs as u64;
        }
        if let Some(output) = &end.output {
            size.replace_in(&mut tool.output, output);
        }
    }
}

/// Returns the size of the texts of a diff, in bytes.
fn size_of(diff: &FileDiff) -> usize {
    let texts = [&diff.old_text, &diff.new_text, &diff.unified];
    texts.into_iter().flatten().map(String::len).sum()
}
