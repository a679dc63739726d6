//! The backend's parser native, for the host's bench to compare the component with: `native-parse CORPUS`.
//!
//! For every number on stdin it parses the corpus, so many bytes a call and at least one line, and prints the
//! nanoseconds that took and the number of actions.
#![allow(clippy::unwrap_used)] // a panic says what is wrong

use std::io::BufRead as _;
use std::time::Instant;

use aetheel_backend_sdk::Backend as _;
use aetheel_backend_sdk::fixture::{line, start};
use aetheel_backend_sdk::wit::{Command, Input, Pipe, TimedInput};
use claude::Backend;

fn main() {
    let corpus = std::fs::read_to_string(std::env::args().nth(1).expect("the corpus")).unwrap();
    for wish in std::io::stdin().lock().lines() {
        let portion: usize = wish.unwrap().parse().unwrap();
        let mut calls = Vec::new();
        let (mut call, mut held) = (Vec::new(), 0);
        for text in corpus.lines() {
            call.push(TimedInput { at_ms: 1.0, input: line(Pipe::Stdout, text) });
            held += text.len() + 1;
            if held >= portion {
                calls.push(std::mem::take(&mut call));
                held = 0;
            }
        }
        calls.push(call);
        let mut backend = Backend::default();
        let first = TimedInput { at_ms: 0.0, input: Input::Command(Command::StartTurn(start("Hello"))) };
        backend.handle(first, &mut Vec::new()).unwrap();
        let mut answers = Vec::with_capacity(calls.len());
        let begun = Instant::now();
        for call in calls {
            let mut out = Vec::new();
            for input in call {
                backend.handle(input, &mut out).unwrap();
            }
            answers.push(out);
        }
        println!("{} {}", begun.elapsed().as_nanos(), answers.iter().map(Vec::len).sum::<usize>());
    }
}
