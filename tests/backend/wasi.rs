//! Tests of the empty WASI world of a guest.

use aetheel_model::agent::Input;
use aetheel_recording::{Guest, GuestFailure};
use aetheel_turn::Backends;
use aetheel_wasm::Engine;

use super::{limits, provoke, registry, timed, version_told};
use crate::support::guests::Wat;

/// The part of WASI that the guests below use.
const PACKAGES: &str = "
package wasi:io@0.2.0 {
  interface error { resource error; }
  interface poll { resource pollable { block: func(); } }
  interface streams {
    use error.{error};
    variant stream-error { last-operation-failed(error), closed }
    resource output-stream {
      blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>;
    }
  }
}
package wasi:cli@0.2.0 {
  interface stderr { use wasi:io/streams@0.2.0.{output-stream}; get-stderr: func() -> output-stream; }
  interface exit { exit: func(status: result); }
}
package wasi:clocks@0.2.0 {
  interface monotonic-clock {
    use wasi:io/poll@0.2.0.{pollable};
    now: func() -> u64;
    subscribe-duration: func(when: u64) -> pollable;
  }
}
package wasi:random@0.2.0 { interface random { get-random-u64: func() -> u64; } }
package wasi:sockets@0.2.0 { interface tcp-create-socket { create: func(); } }
";

const STDERR: &str = r#"
(import "wasi:cli/stderr@0.2.0" "get-stderr" (func $stderr (result i32)))
(import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush" (func $write (param i32 i32 i32 i32)))
(data (i32.const 800) "panicked at \1b[31mred\nboom\n")"#;

fn guest(imports: &str, module: &str, on_timer: &str) -> Wat {
    Wat {
        wit_packages: PACKAGES.to_owned(),
        wit_imports: imports.to_owned(),
        module: module.to_owned(),
        on_timer: on_timer.to_owned(),
        ..Wat::new("wasi", "1")
    }
}

/// Builds a guest that prints two lines on stderr at every input.
pub fn printing() -> Wat {
    let print = "(if (local.get $n) (then (call $write (call $stderr) (i32.const 800) (i32.const 26) (i32.const 700))))";
    Wat { handle: print.to_owned(), ..guest("import wasi:cli/stderr@0.2.0;", STDERR, "") }
}

async fn opened(wat: Wat) -> (tempfile::TempDir, Box<dyn Guest>) {
    let folder = tempfile::tempdir().unwrap();
    let (registry, reports) =
        registry(folder.path(), &limits(), &[("wasi.wasm", &wat.build())]).await;
    let backend = registry.get("wasi").unwrap_or_else(|| panic!("{reports:?}"));
    (folder, backend.open().await.unwrap())
}

#[tokio::test]
async fn output_of_a_crashing_guest_is_part_of_the_failure_and_made_harmless() {
    let print =
        "(call $write (call $stderr) (i32.const 800) (i32.const 26) (i32.const 700)) unreachable";
    let (_folder, mut guest) = opened(guest("import wasi:cli/stderr@0.2.0;", STDERR, print)).await;
    let (failure, _) = provoke(&mut *guest).await;
    let GuestFailure::Trapped(text) = failure else { panic!("{failure:?}") };
    assert!(text.contains(r"panicked at \u{1b}[31mred | boom"), "{text}");
}

#[tokio::test]
async fn endless_printing_uses_no_space_and_is_cut_off() {
    let print = "(loop $more (call $write (call $stderr) (i32.const 800) (i32.const 26) (i32.const 700)) (br $more))";
    let (_folder, mut guest) = opened(guest("import wasi:cli/stderr@0.2.0;", STDERR, print)).await;
    let (failure, _) = provoke(&mut *guest).await;
    // The guest runs out of handles to stderr first: it can have 1024.
    assert!(matches!(failure, GuestFailure::CutOff(_) | GuestFailure::Trapped(_)), "{failure:?}");
    let one = "(local.set $in (call $stderr)) (loop $more (call $write (local.get $in) (i32.const 800) (i32.const 26) (i32.const 700)) (br $more))";
    let (_folder, mut guest) =
        opened(super::wasi::guest("import wasi:cli/stderr@0.2.0;", STDERR, one)).await;
    let (failure, _) = provoke(&mut *guest).await;
    assert!(
        matches!(&failure, GuestFailure::CutOff(text) if text.contains("ran for more than")),
        "{failure:?}"
    );
}

#[tokio::test]
async fn a_guest_that_exits_counts_as_crashed() {
    let module = r#"(import "wasi:cli/exit@0.2.0" "exit" (func $exit (param i32)))"#;
    let (_folder, mut guest) =
        opened(guest("import wasi:cli/exit@0.2.0;", module, "(call $exit (i32.const 1))")).await;
    let (failure, _) = provoke(&mut *guest).await;
    assert_eq!(failure, GuestFailure::Trapped("it called exit with status 1".to_owned()));
}

#[tokio::test]
async fn a_sleeping_guest_is_cut_off() {
    let module = r#"(import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $after (param i64) (result i32)))
        (import "wasi:io/poll@0.2.0" "[method]pollable.block" (func $block (param i32)))"#;
    let sleep = "(call $block (call $after (i64.const 3600000000000)))";
    let (_folder, mut guest) =
        opened(guest("import wasi:clocks/monotonic-clock@0.2.0;", module, sleep)).await;
    let (failure, took) = provoke(&mut *guest).await;
    assert_eq!(failure, GuestFailure::CutOff("a call waited for more than 450 ms".to_owned()));
    assert!(took.as_millis() < 600, "{took:?}");
}

#[tokio::test]
async fn clocks_stand_still_and_random_numbers_repeat() {
    // Traps unless the clock shows 0 and the first random number is the same as in every link.
    let imports = "import wasi:clocks/monotonic-clock@0.2.0; import wasi:random/random@0.2.0;";
    let module = r#"(import "wasi:clocks/monotonic-clock@0.2.0" "now" (func $now (result i64)))
        (import "wasi:random/random@0.2.0" "get-random-u64" (func $random (result i64)))
        (func (export "unused"))"#;
    let check = "(if (i64.ne (call $now) (i64.const 0)) (then unreachable))
        (if (i64.eq (call $random) (call $random)) (then unreachable))
        (i64.store (i32.const 904) (call $random)) (i32.store8 (i32.const 900) (i32.const 1))
        (i64.store (i32.const 912) (i64.and (call $random) (i64.const 0x3f3f3f3f3f3f3f3f)))
        (i32.store (i32.const 904) (i32.const 912)) (i32.store (i32.const 908) (i32.const 8)) (return (i32.const 900))";
    let wat = guest(imports, module.trim_end_matches("(func (export \"unused\"))"), check);
    let (_folder, mut first) = opened(wat.clone()).await;
    let (_other, mut second) = opened(wat).await;
    let (one, two) = (provoke(&mut *first).await.0, provoke(&mut *second).await.0);
    assert!(matches!(one, GuestFailure::Refused(_)), "{one:?}");
    assert_eq!(one, two);
}

#[tokio::test]
async fn sockets_link_and_trap() {
    let module = r#"(import "wasi:sockets/tcp-create-socket@0.2.0" "create" (func $create))"#;
    let wat = guest("import wasi:sockets/tcp-create-socket@0.2.0;", module, "(call $create)");
    let (_folder, mut guest) = opened(wat).await;
    assert_eq!(version_told(&guest.handle(super::prompt(1, 1)).await.unwrap()), "1");
    let failure = guest.handle(vec![timed(Input::Timer(1))]).await.expect_err("no sockets");
    assert!(
        matches!(&failure, GuestFailure::Trapped(text) if text.contains("unknown import")),
        "{failure:?}"
    );
}

#[tokio::test]
async fn sockets_of_an_older_wasi_hide_none_of_its_other_interfaces() {
    let module = r#"(import "wasi:sockets/tcp-create-socket@0.2.0" "create" (func $create))
        (import "wasi:random/random@0.2.0" "get-random-u64" (func $random (result i64)))"#;
    let imports = "import wasi:sockets/tcp-create-socket@0.2.0; import wasi:random/random@0.2.0;";
    let (_folder, mut guest) = opened(guest(imports, module, "(drop (call $random))")).await;
    guest.handle(vec![timed(Input::Timer(1))]).await.expect("random numbers are there");
}

#[tokio::test]
async fn a_newer_wasi_links_beside_the_used_one_and_traps_when_called() {
    let newer = "package wasi:clocks@0.3.0 { interface monotonic-clock { now: func() -> u64; } }
        package wasi:filesystem@0.3.0 { interface types { resource descriptor { sync-data: func(); } } }";
    let module = r#"(import "wasi:random/random@0.2.0" "get-random-u64" (func $random (result i64)))
        (import "wasi:clocks/monotonic-clock@0.3.0" "now" (func $now (result i64)))
        (import "wasi:filesystem/types@0.3.0" "[method]descriptor.sync-data" (func $sync (param i32)))"#;
    let imports = "import wasi:random/random@0.2.0; import wasi:clocks/monotonic-clock@0.3.0; import wasi:filesystem/types@0.3.0;";
    for (on_timer, traps) in [("(drop (call $random))", false), ("(drop (call $now))", true)] {
        let mut wat = guest(imports, module, on_timer);
        wat.wit_packages.push_str(newer);
        let (_folder, mut guest) = opened(wat).await;
        let answer = guest.handle(vec![timed(Input::Timer(1))]).await;
        match traps {
            false => assert!(answer.is_ok(), "{answer:?}"),
            true => assert!(
                matches!(&answer, Err(GuestFailure::Trapped(text)) if text.contains("unknown import: `wasi:clocks/monotonic-clock@0.3.0#now`, which no backend can use")),
                "{answer:?}"
            ),
        }
    }
}

#[tokio::test]
async fn the_asynchronous_part_of_a_newer_wasi_is_refused_with_the_version_to_build_for() {
    let module = |result: &str| {
        format!(r#"(import "wasi:clocks/waiting@0.3.0" "wait" (func $wait {result}))"#)
    };
    for (function, result) in [
        ("wait: async func();", ""),
        ("wait: func() -> stream<u8>;", "(result i32)"),
        ("wait: func() -> future<u8>;", "(result i32)"),
    ] {
        // The guest never calls it.
        let mut wat = guest("import wasi:clocks/waiting@0.3.0;", &module(result), "");
        wat.wit_packages.push_str(&format!(
            "package wasi:clocks@0.3.0 {{ interface waiting {{ {function} }} }}"
        ));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("newer.wasm");
        std::fs::write(&path, wat.build()).unwrap();
        let refused =
            Engine::new(&limits(), None, aetheel_settings::NAMES).unwrap().inspect(&path).await;
        let error = refused.expect_err(function);
        assert!(error.hint().contains("build it for WASI 0.2"), "{error}: {}", error.hint());
    }
}
