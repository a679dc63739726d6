//! Tests with guests that each misbehave in one way. In each case, the failure names the problem in
//! time, a link of another backend continues to work on the only worker thread, and a new link of
//! the same backend works afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use aetheel_model::agent::{Action, Input};
use aetheel_model::limits::ResourceLimits;
use aetheel_recording::{Backend, Guest as _, GuestFailure};
use aetheel_turn::Backends;
use aetheel_wasm::{ComponentBackend, Engine};

use super::{limits, prompt, provoke, registry, timed, version_told};
use crate::support::guests::{Wat, action_size, answering};

const LOOP: &str = "(loop $for_ever (br $for_ever))";

/// Creates a backend whose guests misbehave on `timer`.
fn evil(on_timer: &str) -> Wat {
    Wat { on_timer: on_timer.to_owned(), ..Wat::new("evil", "1") }
}

/// Runs the misbehaving backend and a good one on one worker thread. Returns the failure, and how
/// long it took.
async fn survive(wat: Wat) -> (GuestFailure, Duration) {
    survive_under(limits(), wat).await
}

async fn survive_under(limits: ResourceLimits, wat: Wat) -> (GuestFailure, Duration) {
    let folder = tempfile::tempdir().unwrap();
    let (registry, reports) = registry(
        folder.path(),
        &limits,
        &[("evil.wasm", &wat.build()), ("good.wasm", &answering("good", "1"))],
    )
    .await;
    assert_eq!(registry.names(), ["evil", "good"], "{reports:?}");
    let good = registry.get("good").unwrap();
    let evil = registry.get("evil").unwrap();

    let mut bystander = good.open().await.unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let watching = tokio::spawn({
        let calls = calls.clone();
        async move {
            loop {
                let actions = bystander.handle(prompt(3, 4)).await.expect("the other link works");
                assert_eq!(version_told(&actions), "1");
                // A timer, so that the worker's own timers are tested too.
                tokio::time::sleep(Duration::from_millis(1)).await;
                calls.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    while calls.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }

    let mut guest = evil.open().await.unwrap();
    assert_eq!(
        version_told(&guest.handle(prompt(7, 9)).await.unwrap()),
        "1",
        "it behaves well at first"
    );
    // Runs as a separate task. Only then do the two share the single worker thread.
    let before = calls.load(Ordering::Relaxed);
    let (failure, took, guest) = tokio::spawn(async move {
        let (failure, took) = provoke(&mut *guest).await;
        (failure, took, guest)
    })
    .await
    .unwrap();
    // A loop occupies the worker for one tick at a time, and the other link needs the worker twice
    // in each of its rounds. (Copying 32 MiB out of a guest is the host's own work, and limited by
    // that.)
    let meanwhile = calls.load(Ordering::Relaxed) - before;
    let looped = failure.to_string().contains("ran for more");
    assert!(!looped || meanwhile >= 1, "the other link completed {meanwhile} rounds in {took:?}");
    let mut guest = guest;
    let again = guest.handle(prompt(7, 9)).await.expect_err("a failed guest is not used again");
    assert_eq!(again, failure);

    let before = calls.load(Ordering::Relaxed);
    while calls.load(Ordering::Relaxed) == before {
        tokio::task::yield_now().await;
    }
    watching.abort();
    let mut fresh = evil.open().await.expect("a fresh link");
    assert_eq!(version_told(&fresh.handle(prompt(1, 1)).await.unwrap()), "1");
    (failure, took)
}

fn on_one_worker<T>(future: impl Future<Output = T> + Send + 'static) -> T
where
    T: Send + 'static,
{
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async { tokio::spawn(future).await.unwrap() })
}

#[track_caller]
fn cut_off(wat: Wat, words: &str) -> Duration {
    let (failure, took) = on_one_worker(survive(wat));
    assert!(matches!(&failure, GuestFailure::CutOff(text) if text.contains(words)), "{failure:?}");
    took
}

#[track_caller]
fn trapped(wat: Wat, words: &str) {
    let (failure, _) = on_one_worker(survive(wat));
    assert!(matches!(&failure, GuestFailure::Trapped(text) if text.contains(words)), "{failure:?}");
}

#[test]
fn a_loop_in_handle_is_cut_off_at_its_limit() {
    // The message names the limit: the one for running code, which is shorter than that for the
    // whole call.
    let took = cut_off(evil(LOOP), "ran for more than 300 ms");
    assert!(took >= Duration::from_millis(300), "{took:?}");
}

#[test]
fn a_loop_while_inputs_are_passed_is_cut_off() {
    // The guest's allocator is its own code too. Here it loops from the second call on.
    let mut wat = Wat::new("evil", "1");
    wat.module = "(global $armed (mut i32) (i32.const 0))".to_owned();
    wat.realloc = format!("(if (global.get $armed) (then {LOOP}))");
    wat.handle =
        "(if (local.get $n) (then (if (i32.eqz (i32.load8_u offset=8 (local.get $in))) (then (global.set $armed (i32.const 1))))))"
            .to_owned();
    cut_off(wat, "ran for more than");
}

#[test]
fn a_loop_of_memory_copies_is_cut_off() {
    let copies = "(loop $for_ever (memory.copy (i32.const 4096) (i32.const 65536) (i32.const 60000)) (br $for_ever))";
    cut_off(evil(copies), "ran for more than");
}

#[test]
fn a_memory_bomb_is_cut_off() {
    cut_off(
        evil("(loop $more (drop (memory.grow (i32.const 16))) (br $more))"),
        "more than 16 MiB of memory",
    );
}

#[test]
fn growing_memory_beyond_the_address_space_fails_normally_for_the_guest() {
    let wat =
        evil("(if (i32.ne (memory.grow (i32.const 65536)) (i32.const -1)) (then unreachable))");
    on_one_worker(async move {
        let folder = tempfile::tempdir().unwrap();
        let (registry, _) =
            registry(folder.path(), &limits(), &[("evil.wasm", &wat.build())]).await;
        let mut guest = registry.get("evil").unwrap().open().await.unwrap();
        assert_eq!(version_told(&guest.handle(vec![timed(Input::Timer(1))]).await.unwrap()), "1");
    });
}

#[test]
fn two_memories_count_together() {
    let mut wat =
        evil("(drop (memory.grow $second (i32.const 128))) (drop (memory.grow (i32.const 130)))");
    wat.memories = "(memory $second 0)".to_owned();
    // 8 MiB, and a little more than 8 MiB.
    cut_off(wat, "more than 16 MiB of memory");
}

#[test]
fn a_table_bomb_is_cut_off() {
    let mut wat =
        evil("(loop $more (drop (table.grow $t (ref.null func) (i32.const 100000))) (br $more))");
    wat.module = "(table $t 1 funcref)".to_owned();
    cut_off(wat, "table elements");
}

#[test]
fn deep_recursion_is_a_crash() {
    let mut wat = evil("(call $deeper)");
    wat.module = "(func $deeper (call $deeper) (call $deeper))".to_owned();
    trapped(wat, "call stack exhausted");
}

#[test]
fn a_crash_in_mid_stream_is_a_crash() {
    trapped(evil("unreachable"), "unreachable");
    trapped(evil("(drop (i32.load (i32.const -8)))"), "out of bounds memory access");
}

#[test]
fn a_returned_error_is_a_refusal_with_its_text() {
    let mut wat = evil("(return (i32.const 900))");
    // err("gave up"): tag 1, then pointer and length.
    wat.module =
        r#"(data (i32.const 900) "\01\00\00\00\90\03\00\00\07\00\00\00gave up")"#.to_owned();
    let (failure, _) = on_one_worker(survive(wat));
    assert_eq!(failure, GuestFailure::Refused("gave up".to_owned()));
}

/// Returns `ok` with a list of `count` actions, all of them at one address after `prepare`.
fn returning(count: u32, prepare: &str) -> String {
    format!(
        "{prepare} (i32.store (i32.const 900) (i32.const 0)) (i32.store (i32.const 904) (i32.const 131072))
        (i32.store (i32.const 908) (i32.const {count})) (return (i32.const 900))"
    )
}

#[test]
fn a_list_of_a_million_actions_is_cut_off() {
    // Zeroed memory is read as a million empty spawns.
    let wat =
        Wat { pages: 3, ..evil(&returning(1_000_000, "(drop (memory.grow (i32.const 4000)))")) };
    let (failure, _) =
        on_one_worker(survive_under(ResourceLimits { guest_memory: 512 << 20, ..limits() }, wat));
    assert_eq!(
        failure,
        GuestFailure::CutOff("it returned more than 32 MiB in one call".to_owned())
    );
}

/// Fills the list with actions. `$n` is the index, and `$at` the address of an action.
fn filling(count: u32, action: &str) -> String {
    let size = action_size();
    let action = action.replace(
        "$at",
        &format!("(i32.add (i32.const 131072) (i32.mul (local.get $n) (i32.const {size})))"),
    );
    format!(
        "(drop (memory.grow (i32.const 200))) (local.set $n (i32.const 0))
        (loop $next {action} (local.set $n (i32.add (local.get $n) (i32.const 1)))
          (br_if $next (i32.lt_u (local.get $n) (i32.const {count}))))"
    )
}

#[test]
fn more_actions_than_a_call_may_return_are_cut_off() {
    // close-stdin(0)
    let close = "(i32.store8 $at (i32.const 2))";
    let wat = Wat { pages: 3, ..evil(&returning(10_001, &filling(10_001, close))) };
    cut_off(wat, "returned 10001 actions in one call");
    on_one_worker(async move {
        let (_folder, _registry, backend) =
            opened(&Wat { pages: 3, ..evil(&returning(10_000, &filling(10_000, close))) }).await;
        let actions =
            backend.open().await.unwrap().handle(vec![timed(Input::Timer(1))]).await.unwrap();
        assert_eq!((actions.len(), &actions[9_999]), (10_000, &Action::CloseStdin(0)));
    });
}

#[test]
fn many_actions_that_share_one_text_are_cut_off() {
    // diagnostic(debug, one MiB of zeros), a thousand times at the same address.
    let diagnostic = "(i32.store8 $at (i32.const 18)) (i32.store offset=12 $at (i32.const 4194304)) (i32.store offset=16 $at (i32.const 1048576))";
    cut_off(
        Wat { pages: 3, ..evil(&returning(1_000, &filling(1_000, diagnostic))) },
        "more than 32 MiB in one call",
    );
}

#[test]
fn a_text_over_eight_mib_is_cut_off() {
    let diagnostic = |bytes: u32| {
        let action = format!(
            "(i32.store8 $at (i32.const 18)) (i32.store offset=12 $at (i32.const 4194304)) (i32.store offset=16 $at (i32.const {bytes}))"
        );
        Wat { pages: 3, ..evil(&returning(1, &filling(1, &action))) }
    };
    cut_off(diagnostic(8_388_609), "a text of 8388609 bytes");
    on_one_worker(async move {
        let (_folder, _registry, backend) = opened(&diagnostic(8_388_608)).await;
        let actions =
            backend.open().await.unwrap().handle(vec![timed(Input::Timer(1))]).await.unwrap();
        assert!(matches!(&actions[..], [Action::Diagnostic(told)] if told.text.len() == 8 << 20));
    });
}

#[test]
fn a_long_error_is_shortened_for_the_log() {
    let mut wat = evil(
        "(drop (memory.grow (i32.const 150))) (i32.store (i32.const 904) (i32.const 131072)) (i32.store (i32.const 908) (i32.const 8388609)) (i32.store8 (i32.const 900) (i32.const 1)) (return (i32.const 900))",
    );
    wat.pages = 3;
    let (failure, _) = on_one_worker(survive(wat));
    assert!(
        matches!(&failure, GuestFailure::Refused(text) if text.len() < 5000),
        "{} bytes",
        failure.to_string().len()
    );
}

#[test]
fn an_answer_with_an_invalid_pointer_or_invalid_text_is_a_crash() {
    trapped(evil("(return (i32.const -4))"), "");
    trapped(evil("(i32.store8 (i32.const 900) (i32.const 7)) (return (i32.const 900))"), "");
    let bad_text =
        "(i32.store8 (i32.const 900) (i32.const 1)) (i32.store (i32.const 904) (i32.const 912)) (i32.store (i32.const 908) (i32.const 2))
        (i32.store16 (i32.const 912) (i32.const 0xffff)) (return (i32.const 900))";
    trapped(evil(bad_text), "utf-8");
}

async fn opened(wat: &Wat) -> (tempfile::TempDir, aetheel_wasm::Registry, Arc<ComponentBackend>) {
    let folder = tempfile::tempdir().unwrap();
    let (registry, reports) =
        registry(folder.path(), &limits(), &[("evil.wasm", &wat.build())]).await;
    let backend = registry.component("evil").unwrap_or_else(|| panic!("{reports:?}"));
    (folder, registry, backend)
}

#[test]
fn loops_in_save_and_load_are_cut_off_too() {
    on_one_worker(async {
        let wat = Wat { save: LOOP.to_owned(), load: LOOP.to_owned(), ..Wat::new("evil", "1") };
        let (_folder, _registry, backend) = opened(&wat).await;
        let failure = backend.open_guest().await.unwrap().save().await.expect_err("cut off");
        assert!(matches!(failure, GuestFailure::CutOff(_)), "{failure:?}");
        let failure =
            backend.open_guest().await.unwrap().load("{}", "1").await.expect_err("cut off");
        assert!(matches!(failure, GuestFailure::CutOff(_)), "{failure:?}");
        let mut well = Wat::new("evil", "1");
        well.version = "2".to_owned();
        let (_folder, _registry, backend) = opened(&well).await;
        assert_eq!(backend.open_guest().await.unwrap().save().await, Ok(None));
        assert_eq!(backend.open_guest().await.unwrap().load("{}", "1").await, Ok(()));
    });
}

#[test]
fn an_abandoned_call_ends_the_link_and_delays_nothing() {
    on_one_worker(async {
        let (_folder, _registry, backend) = opened(&evil(LOOP)).await;
        let mut guest = backend.open().await.unwrap();
        let call = guest.handle(vec![timed(Input::Timer(1))]);
        assert!(
            tokio::time::timeout(Duration::from_millis(50), call).await.is_err(),
            "the timer of the only worker fires"
        );
        let failure = guest.handle(prompt(1, 1)).await.expect_err("unusable");
        assert_eq!(failure, GuestFailure::CutOff("an earlier call was abandoned".to_owned()));
        let mut fresh = backend.open().await.expect("abandoning is not a failure of the backend");
        assert_eq!(version_told(&fresh.handle(prompt(1, 1)).await.unwrap()), "1");
    });
}

#[test]
fn five_failures_within_a_minute_stop_new_links_and_a_new_version_starts_afresh() {
    on_one_worker(async {
        let (folder, registry, backend) = opened(&evil("unreachable")).await;
        let mut running = backend.open().await.unwrap();
        for _ in 0..5 {
            provoke(&mut *backend.open().await.unwrap()).await;
        }
        let failure = backend.open().await.err().expect("the breaker allows no new link");
        assert!(
            matches!(&failure, GuestFailure::Paused(text) if text.contains("failed 5 times within a minute")),
            "{failure:?}"
        );
        assert_eq!(
            version_told(&running.handle(prompt(1, 1)).await.unwrap()),
            "1",
            "running links continue"
        );

        let mut news = registry.subscribe();
        std::fs::write(folder.path().join("evil.wasm"), answering("evil", "2")).unwrap();
        let report =
            tokio::time::timeout(Duration::from_secs(20), news.recv()).await.unwrap().unwrap();
        assert!(matches!(report, aetheel_wasm::LoadReport::Loaded { .. }), "{report:?}");
        let mut fresh = registry.get("evil").unwrap().open().await.expect("a new generation");
        assert_eq!(version_told(&fresh.handle(prompt(1, 1)).await.unwrap()), "2");
    });
}

#[test]
fn many_looping_guests_do_not_block_the_worker() {
    // Long enough for the rounds of this task on any machine.
    let limits = ResourceLimits { guest_call: Duration::from_secs(20), ..limits() };
    on_one_worker(async move {
        let folder = tempfile::tempdir().unwrap();
        let files: [(&str, &[u8]); 1] = [("evil.wasm", &evil(LOOP).build())];
        let (registry, reports) = registry(folder.path(), &limits, &files).await;
        let backend = registry.component("evil").unwrap_or_else(|| panic!("{reports:?}"));
        let mut loops = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let mut guest = backend.open().await.unwrap();
            loops.spawn(async move { provoke(&mut *guest).await });
        }
        for _ in 0..9 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let ended = loops.try_join_next();
        assert!(ended.is_none(), "a guest blocked the worker until it ended: {ended:?}");
    });
}

#[test]
fn the_engine_stops_ticking_when_nobody_uses_it() {
    let named = || {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
        threads
            .filter(|task| {
                std::fs::read_to_string(task.path().join("comm"))
                    .is_ok_and(|name| name.starts_with("guest ticks"))
            })
            .count()
    };
    let until = |what: &str, done: &dyn Fn() -> bool| {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !done() {
            assert!(Instant::now() < deadline, "{what}: {} tick", named());
            std::thread::yield_now();
        }
    };
    // Other tests have engines too. With many engines of our own the difference is clear.
    let engines: Vec<_> =
        (0..60).map(|_| Engine::new(&limits(), None, aetheel_settings::NAMES).unwrap()).collect();
    until("all of them tick", &|| named() >= 60);
    drop(engines);
    until("they end", &|| named() < 40);
}
