//! Policies for tests: scripted ones, and components in WAT.

use aetheel_model::policy::{PolicyEffect, PolicyRequest, PolicyVote};
use aetheel_turn::Policies;
use async_trait::async_trait;

use super::guests::component_of;

const WIT: &str = include_str!("../../wit/policy/policy.wit");

/// A policy in Rust, which decides by a function.
pub struct ScriptedPolicy<F>(pub F);

#[async_trait]
impl<F> Policies for ScriptedPolicy<F>
where
    F: Fn(&PolicyRequest) -> (PolicyEffect, &'static str) + Send + Sync,
{
    fn is_empty(&self) -> bool {
        false
    }

    async fn decide(&self, request: &PolicyRequest) -> Vec<PolicyVote> {
        let (effect, reason) = self.0(request);
        vec![vote(effect, reason)]
    }
}

/// Returns the decision of a policy `guard`.
pub fn vote(effect: PolicyEffect, reason: &str) -> PolicyVote {
    let (policy, version) = ("guard".to_owned(), "1".to_owned());
    PolicyVote { policy, version, effect, reason: reason.to_owned(), failed: false }
}

/// A policy component that decides by the first letter of the command: `a`llow, `d`eny, as`k`,
/// `p`ass, `t`rap, `x` (loop), `e`rror, `m`emory, `s`econd call (allowed only in a fresh instance), or
/// `h`uge reason. It refuses options that begin with `!`.
pub struct WatPolicy {
    pub name: String,
    pub version: String,
    /// The number of the effect of the letter `a`.
    pub allow: u8,
    /// More items of the module.
    pub items: String,
}

impl WatPolicy {
    pub fn new(name: &str, version: &str) -> Self {
        Self { name: name.into(), version: version.into(), allow: 0, items: String::new() }
    }

    pub fn build(&self) -> Vec<u8> {
        component_of(&self.wat(), WIT, "tool-policy")
    }

    /// Builds a policy that also imports a function of this interface.
    pub fn importing(package: &str, interface: &str, version: &str) -> Vec<u8> {
        let import = format!("{package}/{interface}@{version}");
        let items = format!(r#"(import "{import}" "run" (func))"#);
        let wit = WIT.replace("  export policy;", &format!("  import {import};\n  export policy;"));
        let foreign =
            format!("package {package}@{version} {{ interface {interface} {{ run: func(); }} }}");
        let wit = format!("{wit}\n{foreign}\n");
        component_of(&Self { items, ..Self::new("test", "1") }.wat(), &wit, "tool-policy")
    }

    fn wat(&self) -> String {
        let described = format!(
            r#"{{"name":"{}","version":"{}","description":"a test"}}"#,
            self.name, self.version
        );
        let length = described.len();
        let data = described.replace('"', "\\\"");
        let (allow, items) = (self.allow, &self.items);
        format!(
            r#"(module
              {items}
              (memory (export "memory") 2)
              (global $next (mut i32) (i32.const 65536))
              (global $calls (mut i32) (i32.const 0))
              (data (i32.const 1024) "{data}")
              (data (i32.const 8192) "because the test says so")
              (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                (local $at i32)
                (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
                (global.set $next (i32.add (local.get $at) (local.get 3)))
                (if (i32.gt_u (global.get $next) (i32.mul (memory.size) (i32.const 65536)))
                  (then (drop (memory.grow (i32.add (i32.shr_u (local.get 3) (i32.const 16)) (i32.const 1))))))
                (local.get $at))
              (func (export "aetheel:policy/policy@0.1.0#describe") (result i32)
                (i32.store (i32.const 16) (i32.const 1024))
                (i32.store (i32.const 20) (i32.const {length}))
                (i32.const 16))
              (func (export "aetheel:policy/policy@0.1.0#configure") (param $at i32) (param $length i32) (result i32)
                (i32.store (i32.const 32) (i32.const 0))
                (if (i32.and (i32.gt_u (local.get $length) (i32.const 0)) (i32.eq (i32.load8_u (local.get $at)) (i32.const 33)))
                  (then
                    (i32.store (i32.const 32) (i32.const 1))
                    (i32.store (i32.const 36) (i32.const 8192))
                    (i32.store (i32.const 40) (i32.const 24))))
                (i32.const 32))
              (func $answer (param $effect i32) (param $length i32) (result i32)
                (i32.store (i32.const 48) (i32.const 0))
                (i32.store8 (i32.const 52) (local.get $effect))
                (i32.store (i32.const 56) (i32.const 8192))
                (i32.store (i32.const 60) (local.get $length))
                (i32.const 48))
              (func (export "aetheel:policy/policy@0.1.0#decide") (param $request i32) (result i32)
                (local $letter i32)
                (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
                (if (i32.eqz (i32.load8_u (i32.add (local.get $request) (i32.const 76))))
                  (then (return (call $answer (i32.const 3) (i32.const 0)))))
                (local.set $letter (i32.load8_u (i32.load (i32.add (local.get $request) (i32.const 80)))))
                (if (i32.eq (local.get $letter) (i32.const 97)) (then (return (call $answer (i32.const {allow}) (i32.const 24)))))
                (if (i32.eq (local.get $letter) (i32.const 100)) (then (return (call $answer (i32.const 2) (i32.const 24)))))
                (if (i32.eq (local.get $letter) (i32.const 107)) (then (return (call $answer (i32.const 1) (i32.const 24)))))
                (if (i32.eq (local.get $letter) (i32.const 112)) (then (return (call $answer (i32.const 3) (i32.const 0)))))
                (if (i32.eq (local.get $letter) (i32.const 116)) (then unreachable))
                (if (i32.eq (local.get $letter) (i32.const 109)) (then (drop (memory.grow (i32.const 60000))) unreachable))
                (if (i32.eq (local.get $letter) (i32.const 104)) (then (return (call $answer (i32.const 2) (i32.const 100000)))))
                (if (i32.eq (local.get $letter) (i32.const 115))
                  (then (if (i32.gt_u (global.get $calls) (i32.const 1)) (then unreachable))
                    (return (call $answer (i32.const 0) (i32.const 24)))))
                (if (i32.eq (local.get $letter) (i32.const 101))
                  (then
                    (i32.store (i32.const 48) (i32.const 1))
                    (i32.store (i32.const 52) (i32.const 8192))
                    (i32.store (i32.const 56) (i32.const 24))
                    (return (i32.const 48))))
                (if (i32.eq (local.get $letter) (i32.const 120)) (then (loop $for_ever (br $for_ever))))
                (call $answer (i32.const 3) (i32.const 0)))
            )"#
        )
    }
}
