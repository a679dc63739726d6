//! The program `aetheel-kit` on its own. `tests/kit` tests its commands through `aetheel`. Because of
//! this file, `cargo test` builds the program for those tests.

use std::process::Command;

#[test]
fn commands_of_the_gateway_are_refused_with_the_program_that_has_them() {
    for arguments in [&["status"][..], &["backend", "list"]] {
        let mut kit = Command::new(env!("CARGO_BIN_EXE_aetheel-kit"));
        let ended = kit.args(arguments).output().expect("it starts");
        let said = String::from_utf8(ended.stderr).expect("UTF-8");
        assert_eq!(ended.status.code(), Some(64), "{said}");
        assert!(said.contains("run `aetheel` with the same arguments"), "{said}");
    }
}
