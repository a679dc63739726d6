//! Measures the speed of a native backend, which the gateway's benchmark
//! (`benches/gateway/parse.rs`) compares with that of the component.
//!
//! A backend's `examples/native-NAME.rs` only calls [`measure`].
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a panic reports the failure")]

use std::time::Instant;
use std::{env, fs, io};

use crate::wit::TimedInput;
use crate::{Backend, fixture};

/// Measures a backend with the recordings in the file that the first argument names: one input per
/// line, recordings separated by an empty line.
///
/// Reads batch sizes from stdin. For each, plays all recordings, every one to a new backend with
/// that many inputs per call, and prints the elapsed nanoseconds and the number of actions.
pub fn measure<B: Backend>() {
    let file = fs::read_to_string(env::args().nth(1).expect("a file of recordings")).unwrap();
    let recordings: Vec<Vec<TimedInput>> = file
        .split("\n\n")
        .map(|recording| recording.lines().filter_map(fixture::input).collect())
        .collect();
    for wish in io::stdin().lines() {
        let batch: usize = wish.unwrap().parse().unwrap();
        let links: Vec<(B, Vec<Vec<TimedInput>>)> = recordings
            .iter()
            .map(|inputs| (B::default(), inputs.chunks(batch).map(<[_]>::to_vec).collect()))
            .collect();
        let mut answers = Vec::new();
        let begun = Instant::now();
        for (mut backend, calls) in links {
            for call in calls {
                let mut out = Vec::new();
                for input in call {
                    backend.handle(input, &mut out).unwrap();
                }
                answers.push(out);
            }
        }
        println!("{} {}", begun.elapsed().as_nanos(), answers.iter().map(Vec::len).sum::<usize>());
    }
}
