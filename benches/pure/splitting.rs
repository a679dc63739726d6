//! The speed at which an answer is split into messages of 2000 characters.

use aetheel_model::split::split;
use divan::counter::BytesCount;
use divan::{Bencher, black_box};

const PROSE: &str = "A sentence of ordinary length, as people write them. Another one, with `code` in it and a comma. And a third!\n\n";
const CODE: &str =
    "```rust\nfn main() {\n    println!(\"a line of code of ordinary length\");\n}\n```\n\n";

fn cut(bencher: Bencher<'_, '_>, text: &str) {
    bencher.counter(BytesCount::new(text.len())).bench(|| split(black_box(text), 2000));
}

#[divan::bench(args = [2_000, 100_000, 1_000_000])]
fn prose_and_code(bencher: Bencher<'_, '_>, bytes: usize) {
    let paragraph = [PROSE, PROSE, CODE].concat();
    cut(bencher, &paragraph.repeat(bytes / paragraph.len() + 1));
}

#[divan::bench]
fn one_word_of_100_kb(bencher: Bencher<'_, '_>) {
    cut(bencher, &"x".repeat(100_000));
}
