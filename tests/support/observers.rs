//! Observers for tests: one that collects events, and components in WAT.

use std::sync::Mutex;

use aetheel_model::observed::ObservedEvent;
use aetheel_turn::TurnObservers;

use super::guests::component_of;

/// Collects all events.
#[derive(Default)]
pub struct CollectingObserver {
    pub events: Mutex<Vec<ObservedEvent>>,
    /// The events that a previous process had sent before the restart.
    pub restored: Mutex<Vec<ObservedEvent>>,
}

impl TurnObservers for CollectingObserver {
    fn is_empty(&self) -> bool {
        false
    }

    fn notify(&self, event: &ObservedEvent) {
        self.events.lock().unwrap().push(event.clone());
    }

    fn restore(&self, event: &ObservedEvent) {
        self.restored.lock().unwrap().push(event.clone());
    }
}

/// An observer component. It returns the id of each event's turn as a line, unless the first letter
/// of the first id makes it fail: `t`rap, `l`oop, `e`rror, `m`emory, or `g`iant lines. Its last line
/// is `finished`.
pub struct WatObserver {
    pub name: String,
    pub version: String,
}

impl WatObserver {
    pub fn new(name: &str, version: &str) -> Self {
        Self { name: name.into(), version: version.into() }
    }

    pub fn build(&self) -> Vec<u8> {
        let wit = include_str!("../../wit/observer/observer.wit");
        component_of(&self.wat(), wit, "turn-observer")
    }

    fn wat(&self) -> String {
        let described = format!(
            r#"{{"name":"{}","version":"{}","description":"a test"}}"#,
            self.name, self.version
        );
        let length = described.len();
        let data = described.replace('"', "\\\"");
        format!(
            r#"(module
              (memory (export "memory") 2)
              (global $next (mut i32) (i32.const 65536))
              (data (i32.const 1024) "{data}")
              (data (i32.const 8192) "finished")
              (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                (local $at i32)
                (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
                (global.set $next (i32.add (local.get $at) (local.get 3)))
                (if (i32.gt_u (global.get $next) (i32.mul (memory.size) (i32.const 65536)))
                  (then (drop (memory.grow (i32.add (i32.shr_u (local.get 3) (i32.const 16)) (i32.const 1))))))
                (local.get $at))
              (func (export "aetheel:observer/observer@0.1.0#describe") (result i32)
                (i32.store (i32.const 16) (i32.const 1024))
                (i32.store (i32.const 20) (i32.const {length}))
                (i32.const 16))
              (func (export "aetheel:observer/observer@0.1.0#configure") (param i32 i32) (result i32)
                (i32.store (i32.const 32) (i32.const 0))
                (i32.const 32))
              (func (export "aetheel:observer/observer@0.1.0#observe") (param $events i32) (param $count i32) (result i32)
                (local $letter i32) (local $at i32)
                (global.set $next (i32.add (global.get $next) (i32.const 0)))
                (local.set $letter (i32.load8_u (i32.load offset=8 (local.get $events))))
                (i32.store (i32.const 48) (i32.const 0))
                (i32.store (i32.const 52) (i32.const 16384))
                (i32.store (i32.const 56) (local.get $count))
                (if (i32.eq (local.get $letter) (i32.const 116)) (then unreachable))
                (if (i32.eq (local.get $letter) (i32.const 109)) (then (drop (memory.grow (i32.const 60000))) unreachable))
                (if (i32.eq (local.get $letter) (i32.const 108)) (then (loop $for_ever (br $for_ever))))
                (if (i32.eq (local.get $letter) (i32.const 101))
                  (then
                    (i32.store (i32.const 48) (i32.const 1))
                    (i32.store (i32.const 52) (i32.const 8192))
                    (i32.store (i32.const 56) (i32.const 8))
                    (return (i32.const 48))))
                (if (i32.eq (local.get $letter) (i32.const 103))
                  (then
                    (i32.store (i32.const 56) (i32.const 2000))
                    (loop $lines
                      (i32.store (i32.add (i32.const 16384) (i32.mul (local.get $at) (i32.const 8))) (i32.const 0))
                      (i32.store (i32.add (i32.const 16388) (i32.mul (local.get $at) (i32.const 8))) (i32.const 100000))
                      (local.set $at (i32.add (local.get $at) (i32.const 1)))
                      (br_if $lines (i32.lt_u (local.get $at) (i32.const 2000))))
                    (return (i32.const 48))))
                (loop $lines
                  (i64.store
                    (i32.add (i32.const 16384) (i32.mul (local.get $at) (i32.const 8)))
                    (i64.load offset=8 (i32.add (local.get $events) (i32.mul (local.get $at) (i32.const 128)))))
                  (local.set $at (i32.add (local.get $at) (i32.const 1)))
                  (br_if $lines (i32.lt_u (local.get $at) (local.get $count))))
                (global.set $next (i32.const 65536))
                (i32.const 48))
              (func (export "aetheel:observer/observer@0.1.0#finish") (result i32)
                (i32.store (i32.const 64) (i32.const 72))
                (i32.store (i32.const 68) (i32.const 1))
                (i32.store (i32.const 72) (i32.const 8192))
                (i32.store (i32.const 76) (i32.const 8))
                (i32.const 64))
            )"#
        )
    }
}
