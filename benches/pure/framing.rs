//! The speed at which output is split into lines.

use aetheel_model::lines::LineSplitter;
use divan::counter::BytesCount;
use divan::{Bencher, black_box};

/// Splits 4 MiB that are read in pieces of 64 KiB.
fn cut(bencher: Bencher<'_, '_>, line: usize, limit: usize) {
    let mut bytes = vec![b'x'; 4 << 20];
    bytes.iter_mut().skip(line).step_by(line + 1).for_each(|byte| *byte = b'\n');
    bencher.counter(BytesCount::new(bytes.len())).bench(|| {
        let mut splitter = LineSplitter::new(limit);
        for read in black_box(&bytes).chunks(64 << 10) {
            splitter.feed(read, |line| {
                black_box(line);
            });
        }
        splitter.finish()
    });
}

#[divan::bench(args = [40, 400, 4_000, 400_000])]
fn lines_of_bytes(bencher: Bencher<'_, '_>, line: usize) {
    cut(bencher, line, 8 << 20);
}

#[divan::bench]
fn one_line_beyond_the_limit(bencher: Bencher<'_, '_>) {
    cut(bencher, 100 << 20, 1 << 20);
}
