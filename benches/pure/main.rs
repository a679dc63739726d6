//! The benches that need neither a sandbox nor processes: `cargo bench --bench pure`, a part of
//! them with `-- conservation`, `-- queue`, `-- framing`, `-- machine`, `-- schedule` or `--
//! splitting`.
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
