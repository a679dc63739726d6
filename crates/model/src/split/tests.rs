use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

fn length(text: &str) -> usize {
    text.chars().count()
}

#[test]
fn a_short_text_stays_as_it_is() {
    assert_eq!(
        split("hello\n\n```rust\nfn main() {}\n```", 2000),
        ["hello\n\n```rust\nfn main() {}\n```"]
    );
    assert_eq!(split("  indented\n", 2000), ["  indented"]);
    for blank in ["", " ", "\n\n \t\n", "\u{2003}"] {
        assert!(split(blank, 2000).is_empty());
    }
}

#[test]
fn the_best_boundary_is_used() {
    let paragraph = "aaa bbb. ccc ddd\neee fff\n\nggg hhh iii";
    assert_eq!(split(paragraph, 30), ["aaa bbb. ccc ddd\neee fff", "ggg hhh iii"], "paragraph");
    assert_eq!(
        split("aaa bbb. ccc ddd\neee fff ggg", 20),
        ["aaa bbb. ccc ddd", "eee fff ggg"],
        "line"
    );
    assert_eq!(split("aaa bbb ccc. ddd eee fff", 20), ["aaa bbb ccc.", "ddd eee fff"], "sentence");
    assert_eq!(split("aaa bbb ccc ddd eee fff", 20), ["aaa bbb ccc ddd eee", "fff"], "word");
    assert_eq!(split("一二三。四五六七", 6), ["一二三。", "四五六七"], "sentences without blanks");
    assert_eq!(split("abcdefgh", 3), ["abc", "def", "gh"]);
    assert_eq!(
        split("see https://example.org/a-long-address", 36),
        ["see", "https://example.org/a-long-address"]
    );
}

#[test]
fn a_fence_is_closed_and_opened_again_with_its_language_and_length() {
    let text = "  ~~~~python\none = 1\ntwo = 2\nthree = 3\nfour = 4\n  ~~~~\nafter";
    let pieces = split(text, 70);
    assert_eq!(pieces, [text], "fits");
    let text = format!("````rust\n{}````\nafter", "let x = 1;\n".repeat(30));
    for piece in split(&text, 100) {
        assert!(piece.starts_with("````rust\nlet x = 1;"), "{piece}");
        assert!(piece.ends_with("let x = 1;\n````") || piece.ends_with("after"), "{piece}");
    }
}

#[test]
fn a_block_that_fits_one_piece_is_not_cut() {
    let block = format!("```\n{}```", "code line\n".repeat(9));
    assert_eq!(split(&format!("intro\n{block}\noutro"), 100), ["intro", &block, "outro"]);
}

#[test]
fn a_heading_stays_with_its_text() {
    let text = format!("{}\n\n## Title\n\n{}", "word ".repeat(14).trim_end(), "more ".repeat(10));
    assert!(split(&text, 90)[1].starts_with("## Title\n\nmore"), "{:?}", split(&text, 90));
    let block = format!("```\n{}```", "code line\n".repeat(7));
    assert_eq!(
        split(&format!("short\n\n## Title\n\n{block}"), 90),
        ["short".to_owned(), format!("## Title\n\n{block}")]
    );
}

#[test]
fn a_fence_left_open_is_closed() {
    assert_eq!(split("```sh\nls", 2000), ["```sh\nls\n```"]);
}

#[test]
fn the_shorter_fence_in_a_longer_one_is_text() {
    let text = format!("````md\n```rust\n{}```\n````\nend", "word word\n".repeat(12));
    let pieces = split(&text, 100);
    assert!(pieces.len() > 1);
    assert!(pieces[1].starts_with("````md\nword"), "{:?}", pieces[1]);
    assert!(pieces[0].ends_with("\n````"));
}

#[test]
fn the_indent_of_code_and_lists_survives_a_cut() {
    let pieces = split("```py\nif a:\n    if b:\n        c()\n        d()\n```", 32);
    assert_eq!(
        pieces.iter().filter(|piece| piece.contains("        d()")).count(),
        1,
        "{pieces:?}"
    );
    let pieces = split("- item one of the list\n  - nested item here", 25);
    assert_eq!(pieces, ["- item one of the list", "  - nested item here"]);
}

#[test]
fn combined_characters_stay_together() {
    let family = "👨\u{200d}👩\u{200d}👧";
    for (unit, per_piece) in [(family, 2), ("e\u{301}", 6), ("🇩🇪", 6), ("👍🏽", 6)] {
        for piece in split(&unit.repeat(20), 13) {
            assert_eq!(piece, unit.repeat(length(&piece) / length(unit)), "torn: {piece:?}");
            assert!(length(&piece) / length(unit) <= per_piece);
        }
    }
}

#[test]
fn a_mebibyte_of_any_text_is_split_quickly() {
    let mib = 1 << 20;
    for unit in [
        "a",
        " ",
        "\n",
        "`",
        "```\n",
        "~~~ x\n\n",
        "a ",
        "é\u{301}",
        "```rust\ncode\n",
        "> - \t",
        "x\n\n",
        "# x\n",
        "```",
        "\r\n",
        "🇩",
    ] {
        let text = unit.repeat(mib / unit.len());
        let started = Instant::now();
        let pieces = split(&text, 2000);
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "{unit:?} took {:?}",
            started.elapsed()
        );
        assert!(
            pieces.iter().all(|piece| length(piece) <= 2000 && !piece.trim().is_empty()),
            "{unit:?}"
        );
        assert_eq!(pieces.is_empty(), text.trim().is_empty());
    }
}

/// Checks pieces against the text and a naive model of fences.
fn check(text: &str, limit: usize) -> Result<(), String> {
    let pieces = pieces(text, limit);
    let (mut end, mut line_start, mut open) = (0, 0, None);
    for piece in &pieces {
        let rendered = piece.render(text);
        if length(&rendered) > limit || rendered.trim().is_empty() {
            return Err(format!("{} characters: {rendered:?}", length(&rendered)));
        }
        let gap = text.get(end..piece.range.start).ok_or("pieces overlap")?;
        if !gap.trim().is_empty() || (piece.begins_in.is_some() && !matches!(gap, "" | "\n")) {
            return Err(format!("{gap:?} is lost before {rendered:?}"));
        }
        for (at, begins_in) in [(piece.range.start, true), (piece.range.end, false)] {
            while let Some(next) = text[line_start..at].find('\n').map(|n| line_start + n) {
                open = step(open, &text[line_start..next]);
                line_start = next + 1;
            }
            // A piece may end with a complete line, without its terminator.
            let whole_line =
                !begins_in && text[at..].starts_with('\n') || at == text.trim_end().len();
            let now = if whole_line { step(open, &text[line_start..at]) } else { open };
            let said = if begins_in { piece.begins_in } else { piece.ends_in };
            if now != said {
                return Err(format!("{said:?} should be {now:?} at {begins_in}: {rendered:?}"));
            }
        }
        end = piece.range.end;
    }
    let rest = &text[end..];
    if rest.trim().is_empty() {
        Ok(())
    } else {
        Err(format!("lost {:?}", rest.chars().take(80).collect::<String>()))
    }
}

fn step<'a>(open: Option<CodeFence<'a>>, line: &'a str) -> Option<CodeFence<'a>> {
    match open {
        Some(fence) if fence.closed_by(line) => None,
        Some(fence) => Some(fence),
        None => CodeFence::opened_by(line),
    }
}

fn balanced(piece: &str) -> bool {
    piece.split('\n').fold(None, step).is_none()
}

/// Generates markdown as agents write it, with all difficult constructs.
fn document() -> impl Strategy<Value = String> {
    let prose = prop_oneof![
        "[a-z .,]{0,120}",
        "[a-z]{1,60}",
        "(é\u{301}|👨\u{200d}👩|日本。| ){0,30}",
        "# [a-z]{1,20}",
        "[-*] `[a-z]{1,8}` [a-z ]{1,40}"
    ];
    let code = (
        "(```|~~~|````)",
        "[a-z]{0,6}",
        prop::collection::vec("[ ]{0,8}[a-z(){};=]{0,30}", 0..40),
        any::<bool>(),
    )
        .prop_map(|(marker, language, lines, closed)| {
            let end = if closed { marker.clone() } else { String::new() };
            format!("{marker}{language}\n{}\n{end}", lines.join("\n"))
        });
    prop::collection::vec(prop_oneof![3 => prose, 1 => code], 0..25)
        .prop_map(|parts| parts.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn documents_stay_complete_with_their_fences(text in document(), limit in 100..400_usize) {
        let checked = check(&text, limit);
        prop_assert!(checked.is_ok(), "{}", checked.unwrap_err());
        for piece in split(&text, limit) { prop_assert!(balanced(&piece), "not balanced: {:?}", piece); }
    }

    #[test]
    fn any_text_stays_complete(text in r"([a-c \n`~\r\t]|```|~~~|\PC){0,300}", limit in 1..60_usize) {
        let pieces = split(&text, limit);
        let squeeze = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<Vec<_>>();
        let (wanted, got) = (squeeze(&text), squeeze(&pieces.concat()));
        // Only fence lines are added, so the text is a subsequence of the pieces.
        let mut left = got.iter();
        prop_assert!(wanted.iter().all(|c| left.any(|other| other == c)), "{:?}", pieces);
        for piece in &pieces {
            prop_assert!(length(piece) <= limit && !piece.trim().is_empty(), "{:?}", piece);
        }
    }
}
