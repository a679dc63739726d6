//! The holder's program. It must use nothing but the crate `aetheel-hold`, so that neither components
//! nor Discord's library are linked into it.

use std::process::ExitCode;

fn main() -> ExitCode {
    aetheel_hold::main()
}
