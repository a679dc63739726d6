//! The memory block at the end of an answer.

use crate::markdown::CodeFence;

/// Splits an answer into the part that people see and the part for `memory.md`.
///
/// Memory is a closed code fence with the info string `memory` at the very end of the answer. A
/// fence that is left open, is followed by text, or is inside another fence is part of the answer.
/// A blank block is removed and yields nothing.
#[must_use]
pub fn extract_memory(answer: &str) -> (&str, Option<&str>) {
    let mut open: Option<(CodeFence<'_>, usize, usize)> = None;
    let mut last = None;
    let mut at = 0;
    for line in answer.split_inclusive('\n') {
        let next = at + line.len();
        let text = line.trim_end_matches(['\r', '\n']);
        match open {
            Some((fence, start, inside)) if fence.closed_by(text) => {
                if fence.info() == "memory" {
                    last = Some((start, inside..at, next));
                }
                open = None;
            }
            Some(_) => {}
            None => open = CodeFence::opened_by(text).map(|fence| (fence, at, next)),
        }
        at = next;
    }
    match last {
        Some((start, memory, end)) if answer[end..].trim().is_empty() => {
            let memory = answer[memory].trim_matches(['\r', '\n']);
            (answer[..start].trim_end(), Some(memory).filter(|memory| !memory.trim().is_empty()))
        }
        _ => (answer, None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_final_memory_block_is_removed() {
        assert_eq!(
            extract_memory("Done.\n\n```memory\n- likes tea\n- id 7\n```\n"),
            ("Done.", Some("- likes tea\n- id 7"))
        );
        assert_eq!(extract_memory("```memory\nx\n```"), ("", Some("x")));
        assert_eq!(
            extract_memory("a\r\n~~~~ memory\r\nx\r\n```\r\n~~~~\r\n \n"),
            ("a", Some("x\r\n```")),
            "other fences"
        );
        assert_eq!(extract_memory("```memory\n\n```"), ("", None), "nothing to keep");
    }

    #[test]
    fn any_other_block_stays_visible() {
        for answer in [
            "",
            "no block",
            "```memory\nnever closed",
            "```memory\nx\n```\nand then more",
            "```memory notes\nx\n```",
            "```rust\nx\n```",
            "````md\n```memory\nx\n```\n````",
            "```sh\n```memory\nx\n",
            "see ```memory x```",
        ] {
            assert_eq!(extract_memory(answer), (answer, None), "{answer:?}");
        }
    }

    #[test]
    fn only_the_last_of_two_is_removed() {
        let answer = "```memory\na\n```\n\n```memory\nb\n```";
        assert_eq!(extract_memory(answer), ("```memory\na\n```", Some("b")));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_of_the_answer_is_lost(answer in r"([a-c \n]|```|```memory\n|\n```\n){0,40}") {
            let (visible, memory) = extract_memory(&answer);
            prop_assert!(answer.starts_with(visible));
            match memory {
                Some(memory) => prop_assert!(answer[visible.len()..].contains(memory)),
                None => prop_assert!(answer[visible.len()..].replace("```memory", "").replace("```", "").trim().is_empty()),
            }
        }
    }
}
