//! The file format of Firefox's profiler: the "processed profile format", version 47, which newer
//! versions of the profiler convert.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::super::engine::SAMPLE_TICK;
use super::{Interner, Recorded};

/// The versions of the processed profile format, and of the Gecko format that it derives from.
const PROCESSED_VERSION: u32 = 47;
const GECKO_VERSION: u32 = 27;

/// The category of all frames. The first category must be the grey one.
const GUEST: usize = 1;

/// A function of the document: its name and its file, as indices of strings.
type Function = (usize, Option<usize>);

pub(super) fn document(title: &str, started: SystemTime, recorded: &Recorded) -> Value {
    let since = started.duration_since(UNIX_EPOCH).unwrap_or_default();
    json!({
        "meta": {
            "version": GECKO_VERSION,
            "preprocessedProfileVersion": PROCESSED_VERSION,
            "product": title,
            "startTime": since.as_secs_f64() * 1e3,
            "interval": SAMPLE_TICK.as_secs_f64() * 1e3,
            "processType": 0,
            "stackwalk": 0,
            "debug": false,
            "symbolicated": true,
            "symbolicationNotSupported": true,
            "usesOnlyOneStackType": true,
            "doesNotUseFrameImplementation": true,
            "sourceCodeIsNotOnSearchfox": true,
            "categories": [
                { "name": "Other", "color": "grey", "subcategories": ["Other"] },
                { "name": "Guest", "color": "yellow", "subcategories": ["Other"] },
            ],
            "extensions": { "length": 0, "baseURL": [], "id": [], "name": [] },
            "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs" },
            "markerSchema": [],
        },
        "libs": [],
        "pages": [],
        "counters": [],
        "profilerOverhead": [],
        "threads": [thread(title, recorded)],
    })
}

fn thread(title: &str, recorded: &Recorded) -> Value {
    let (mut strings, mut functions) = (Interner::<String>::default(), Interner::default());
    let frames = &recorded.frames.values;
    let function_of_frame: Vec<usize> = frames
        .iter()
        .map(|frame| {
            let name = strings.index_of(frame.label());
            let file = frame.file.clone().map(|file| strings.index_of(file));
            functions.index_of((name, file) as Function)
        })
        .collect();
    let functions = functions.values;
    let (stacks, samples) = (&recorded.stacks.values, &recorded.samples);
    json!({
        "name": "guest",
        "processName": title,
        "processType": "default",
        "isMainThread": true,
        "pid": "0",
        "tid": 0,
        "processStartupTime": 0,
        "processShutdownTime": null,
        "registerTime": 0,
        "unregisterTime": null,
        "pausedRanges": [],
        "samples": {
            "length": samples.len(),
            "weightType": "samples",
            "weight": null,
            "stack": samples.iter().map(|sample| sample.stack).collect::<Vec<_>>(),
            "time": samples.iter().map(|sample| sample.at.as_secs_f64() * 1e3).collect::<Vec<_>>(),
        },
        "stackTable": {
            "length": stacks.len(),
            "frame": stacks.iter().map(|stack| stack.frame).collect::<Vec<_>>(),
            "prefix": stacks.iter().map(|stack| stack.caller).collect::<Vec<_>>(),
            "category": vec![GUEST; stacks.len()],
            "subcategory": vec![0; stacks.len()],
        },
        "frameTable": {
            "length": frames.len(),
            "func": function_of_frame,
            "line": frames.iter().map(|frame| frame.line).collect::<Vec<_>>(),
            "column": vec![Value::Null; frames.len()],
            "address": vec![-1; frames.len()],
            "inlineDepth": vec![0; frames.len()],
            "category": vec![GUEST; frames.len()],
            "subcategory": vec![0; frames.len()],
            "nativeSymbol": vec![Value::Null; frames.len()],
            "innerWindowID": vec![0; frames.len()],
            "implementation": vec![Value::Null; frames.len()],
        },
        "funcTable": {
            "length": functions.len(),
            "name": functions.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            "fileName": functions.iter().map(|(_, file)| file).collect::<Vec<_>>(),
            "isJS": vec![false; functions.len()],
            "relevantForJS": vec![false; functions.len()],
            "resource": vec![-1; functions.len()],
            "lineNumber": vec![Value::Null; functions.len()],
            "columnNumber": vec![Value::Null; functions.len()],
        },
        "markers": {
            "length": 0,
            "data": [],
            "name": [],
            "startTime": [],
            "endTime": [],
            "phase": [],
            "category": [],
        },
        "resourceTable": { "length": 0, "lib": [], "name": [], "host": [], "type": [] },
        "nativeSymbols": { "length": 0, "libIndex": [], "address": [], "name": [], "functionSize": [] },
        "stringArray": strings.values,
    })
}
