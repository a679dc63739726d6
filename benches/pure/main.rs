//! The benches that need no sandbox and no process: `cargo bench --bench pure`, a part of it with
//! `-- conservation`, `-- queue`, `-- framing`, `-- machine`, `-- schedule` or `-- splitting`.
#![allow(unreachable_pub, reason = "a program exports nothing")]
#![allow(clippy::unwrap_used, reason = "a panic says what is wrong")]

mod conservation;
mod figures;
mod framing;
mod machine;
mod queue;
mod schedule;
mod splitting;

fn main() {
    divan::main();
}
