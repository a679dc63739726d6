//! The fuzzed functions and their invariants. Each function takes any bytes, and panics if an
//! invariant does not hold.
#![allow(missing_docs, reason = "the targets call these")]

mod guest;
#[path = "../../crates/store/src/workspace/tests/layout_files.rs"]
mod layout_files;

use std::collections::HashMap;

use aetheel_model::agent::{Descriptor, Safety, Spawn};
use aetheel_model::budget::BudgetRules;
use aetheel_model::lines::{FramedLine, LineSplitter};
use aetheel_model::{prompt, split, sse};
use aetheel_recording::ParsedRecording;
use aetheel_store::workspace::{
    self, BackendNotes, Channels, CronJobs, Heartbeats, Hook, Hooks, Profiles, Webhooks,
};
use aetheel_turn::plan::{ARGUMENT_LIMIT, ValueSources, check};

pub use guest::guest;

/// However the bytes are split, the lines are the same, and none is longer than its limit.
pub fn framing(data: &[u8]) {
    let Some((&cut, bytes)) = data.split_first() else { return };
    let limit = 64;
    let read = |size: usize| {
        let (mut splitter, mut found) = (LineSplitter::new(limit), Vec::new());
        bytes.chunks(size.max(1)).for_each(|chunk| splitter.feed(chunk, |line| found.push(line)));
        found.extend(splitter.finish());
        found
    };
    let whole: Vec<FramedLine> = read(bytes.len());
    assert_eq!(read(usize::from(cut)), whole);
    // A byte that is not UTF-8 becomes three.
    assert!(
        whole.iter().all(|line| line.text.len() <= 3 * limit),
        "a line is longer than its limit"
    );
}

/// Events are complete however many lines they have, and only events with data are returned.
pub fn events(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut frames = sse::SseParser::default();
    let given: usize =
        text.lines().filter_map(|line| frames.push_line(line)).map(|frame| frame.data.len()).sum();
    assert!(
        given + frames.pending_bytes() <= text.len(),
        "the output contains more data than the input"
    );
}

/// No spawn reaches a command line with anything that its descriptor does not name.
pub fn plans(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.splitn(2, '\n');
    let Some(Ok(spawn)) = parts.next().map(serde_json::from_str::<Spawn>) else { return };
    let Some(Ok(descriptor)) = parts.next().map(Descriptor::parse) else { return };
    let (files, secrets, inherited) = (HashMap::new(), HashMap::new(), HashMap::new());
    let known = ValueSources {
        files: &files,
        secrets: &secrets,
        port: Some(4096),
        inherited: &inherited,
        tool_server: Some("http://127.0.0.1:9/mcp/secret"),
    };
    for safety in [Safety::Default, Safety::Edit, Safety::Danger] {
        let Ok(checked) = check(&spawn, &descriptor, safety, known) else { continue };
        let program = descriptor
            .programs
            .iter()
            .find(|program| program.name == checked.program)
            .expect("it is declared");
        for argument in &checked.arguments {
            assert!(argument.len() <= ARGUMENT_LIMIT && !argument.contains('\0'), "{argument:?}");
            let name = argument.split_once('=').map_or(argument.as_str(), |(name, _)| name);
            let declared = program
                .flags
                .iter()
                .any(|flag| flag.safety <= safety && (flag.name == name || flag.name == *argument));
            assert!(
                !argument.starts_with('-') || declared || program.words.contains(argument),
                "{argument:?} is not declared"
            );
        }
        assert!(
            checked.environment.iter().all(|(name, _)| descriptor.environment.set.contains(name))
        );
    }
}

/// A recording that can be read is the same after it was written and read again.
pub fn recordings(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(tape) = ParsedRecording::read(&text) else { return };
    let mut again = serde_json::to_string(&tape.header).expect("a header is plain data");
    for entry in &tape.entries {
        again.push('\n');
        again.push_str(&serde_json::to_string(entry).expect("an entry is plain data"));
    }
    let read = ParsedRecording::read(&again).expect("it was read before");
    assert_eq!((read.header, read.entries), (tape.header, tape.entries));
}

/// Every message fits the limit, none is blank, and no word is lost.
pub fn splitting(data: &[u8]) {
    let Some((&size, bytes)) = data.split_first() else { return };
    let (limit, text) = (usize::from(size) + 20, String::from_utf8_lossy(bytes));
    let pieces = split::split(&text, limit);
    for piece in &pieces {
        assert!(piece.chars().count() <= limit, "a piece is longer than {limit}: {piece:?}");
        assert!(!piece.trim().is_empty(), "a piece is blank");
    }
    let solid = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
    assert!(pieces.iter().map(|piece| solid(piece)).sum::<usize>() >= solid(&text), "text is lost");
}

/// An edit of the layout of a valid file changes nothing, or is a fault after which nothing else is
/// set. The first bytes choose the file, the line and the edit; the others are the edit.
pub fn layout(data: &[u8]) {
    let [file, line, edit, rest @ ..] = data else { return };
    let file = &layout_files::FILES[usize::from(*file) % layout_files::FILES.len()];
    let lines: Vec<&str> = file.text.lines().collect();
    let line = usize::from(*line) % lines.len();
    // Only characters that change the layout and not the values.
    let marks: String =
        rest.iter().map(|byte| LAYOUT_MARKS[usize::from(*byte) % LAYOUT_MARKS.len()]).collect();
    let old = lines[line];
    let new = match edit % 7 {
        0 => format!("{marks}{old}"),
        1 => format!("{marks}{}", old.trim_start_matches(['#', '-', ' '])),
        2 => format!("{marks}\n{old}"),
        3 => format!("{old}\n{marks}"),
        4 => format!("\u{feff}{old}"),
        5 => old.replacen(": ", &format!("{marks}: "), 1),
        // A complete comment in that file may be an example.
        _ if file.name == "agents.md" => return,
        _ => format!("<!-- {old} -->"),
    };
    let text: Vec<&str> = lines
        .iter()
        .enumerate()
        .map(|(at, old)| if at == line { new.as_str() } else { old })
        .collect();
    let wanted = (file.read)(file.text);
    assert!(wanted.faults.is_empty(), "{wanted:?}");
    let found = (file.read)(&(text.join("\n") + "\n"));
    let is_safe = match found.faults.is_empty() {
        true => found.items == wanted.items,
        false => file.may_change || found.items.iter().all(|item| wanted.items.contains(item)),
    };
    assert!(is_safe, "{}: {new:?} changes {wanted:#?} to {found:#?}", file.name);
}

const LAYOUT_MARKS: [&str; 14] =
    ["#", "##", " ", "  ", "\t", "-", "- ", "> ", "```", "~~~", "<!--", "* ", "**", "`"];

/// The operator's files may contain anything: they are read, with warnings, in linear time.
pub fn documents(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = workspace::Profiles::parse(&text);
    let _ = workspace::Channels::parse(&text);
    let _ = workspace::CronJobs::parse(&text);
    let _ = workspace::Heartbeats::parse(&text);
    let _ = workspace::Hooks::parse(&text);
    let _ = workspace::Webhooks::parse(&text);
    let (visible, memory) = prompt::extract_memory(&text);
    assert!(visible.len() + memory.map_or(0, str::len) <= text.len());
}
