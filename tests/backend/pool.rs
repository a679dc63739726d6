//! Tests of the pool whose memories, tables and stacks guests reuse.

use aetheel_model::limits::ResourceLimits;
use aetheel_recording::Guest as _;
use aetheel_wasm::{ComponentBackend, Engine};

use super::{prompt, version_told};
use crate::support::guests::Wat;

fn engine(guests: u32) -> Engine {
    let limits = ResourceLimits { guest_pool: Some(guests), ..ResourceLimits::default() };
    Engine::new(&limits, None, aetheel_settings::NAMES).unwrap()
}

async fn opened(engine: &Engine, guest: &Wat) -> ComponentBackend {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mini.wasm");
    std::fs::write(&path, guest.build()).unwrap();
    engine.open(&path).await.unwrap().1
}

#[tokio::test]
async fn a_guest_sees_nothing_of_the_guest_that_used_its_memory_before() {
    // In its first call, it fails if its own memory or the memory that it adds is not zero. Then it
    // fills both, and overwrites its own answers after the first prompt.
    let curious = Wat {
        module: "(global $called (mut i32) (i32.const 0)) (global $inputs (mut i32) (i32.const 0))".to_owned(),
        handle: r#"
            (if (i32.eqz (global.get $called)) (then
              (if (i32.load (i32.const 100000)) (then (unreachable)))
              (if (i32.eq (memory.grow (i32.const 30)) (i32.const -1)) (then (unreachable)))
              (if (i32.load (i32.const 131072)) (then (unreachable)))
              (if (i32.load (i32.const 2000000)) (then (unreachable)))))
            (global.set $called (i32.const 1))
            (global.set $inputs (local.get $n))
            (memory.fill (i32.const 100000) (i32.const 42) (i32.const 1997152))"#
            .to_owned(),
        after_handle: "(if (global.get $inputs) (then (memory.fill (i32.const 0) (i32.const 42) (i32.const 60000))))"
            .to_owned(),
        ..Wat::new("mini", "1")
    };
    let engine = engine(1);
    let backend = opened(&engine, &curious).await;
    for _ in 0..3 {
        let mut guest = backend.open_guest().await.unwrap();
        assert_eq!(engine.pooled_guests(), 1, "it is in the only slot");
        assert_eq!(version_told(&guest.handle(prompt(1, 1)).await.unwrap()), "1");
        drop(guest);
        assert_eq!(engine.pooled_guests(), 0);
    }
}

#[tokio::test]
async fn guests_beyond_the_pool_get_memory_of_their_own() {
    let engine = engine(2);
    let backend = opened(&engine, &Wat::new("mini", "1")).await;
    let mut guests = Vec::new();
    for _ in 0..5 {
        guests.push(backend.open_guest().await.unwrap());
    }
    assert_eq!(engine.pooled_guests(), 2);
    for guest in &mut guests {
        assert_eq!(version_told(&guest.handle(prompt(1, 1)).await.unwrap()), "1");
    }
    drop(guests);
    assert_eq!(engine.pooled_guests(), 0);
    let _guest = backend.open_guest().await.unwrap();
    assert_eq!(engine.pooled_guests(), 1, "a free slot is used again");
}

#[tokio::test]
async fn a_component_that_wants_more_than_its_share_runs_outside_of_the_pool() {
    let greedy = Wat { memories: "(memory $second 1)".to_owned(), ..Wat::new("mini", "1") };
    let engine = engine(4);
    let backend = opened(&engine, &greedy).await;
    let mut guest = backend.open_guest().await.unwrap();
    assert_eq!(engine.pooled_guests(), 0);
    assert_eq!(version_told(&guest.handle(prompt(1, 1)).await.unwrap()), "1");
}
