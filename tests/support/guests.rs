//! Guests written by hand: core modules in WAT that are turned into components of the real
//! contract.
//!
//! [`Wat`] is a well-behaved backend with a chosen name and version. A test replaces the parts that
//! are to misbehave. Answers are fixed: [`Memory::lower`] writes actions into the guest's memory,
//! as the bindings of a language would.

use std::path::Path;

use aetheel_model::agent::capability::{Capability, lines};
use aetheel_model::agent::{
    Action, AgentEvent, AgentEventKind, Descriptor, TextEvent, TurnDone, TurnOutcome,
};
use serde_json::Value;
use wit_component::{ComponentEncoder, StringEncoding};
use wit_parser::{Resolve, SizeAlign, Type, TypeDefKind};

/// Address of the fixed answers in a guest's memory.
const ANSWERS: usize = 1024;

/// A backend in WAT. The bodies are instructions. `$in` and `$n` are the inputs of `handle`.
#[derive(Clone, Debug)]
pub struct Wat {
    pub name: String,
    pub version: String,
    /// Merged into the descriptor.
    pub descriptor: Value,
    /// Version of the contract's package.
    pub contract: String,
    /// The types of the contract, as WIT.
    pub types: &'static str,
    /// Replacements in the WIT: old text, new text.
    pub wit_changes: Vec<(String, String)>,
    /// More packages, and the imports of the world from them.
    pub wit_packages: String,
    pub wit_imports: String,
    /// Core imports and anything else at module level.
    pub module: String,
    /// More memories after the first, in WAT.
    pub memories: String,
    /// Instructions that run at instantiation.
    pub start: String,
    /// Instructions that run first in each export.
    pub describe: String,
    pub save: String,
    pub load: String,
    pub realloc: String,
    pub handle: String,
    /// Instructions that run after the host has read the answer of `handle`. If this is empty, the
    /// guest has no such function.
    pub after_handle: String,
    /// Instructions that run when the first input is `timer`. They return the address of the
    /// answer, or fall through to the default answer.
    pub on_timer: String,
    /// The initial memory, in pages of 64 KiB.
    pub pages: u32,
    /// The answer to `start-turn`, in place of the default.
    pub on_start: Option<Vec<Action>>,
    /// An input tag, and the answer to it. Replaces the default answer to `timer`.
    pub later: Option<(u8, Vec<Action>)>,
}

/// Version of the contract's package, and of the last older one.
pub const CONTRACT: &str = "0.3.0";
const CONTRACT_0_2: &str = "0.2.1";

/// Tags of the inputs `timer` and `exited` in the contract.
pub const TIMER: u8 = 10;
pub const EXITED: u8 = 4;

impl Wat {
    /// Makes a backend that answers `start-turn` with its version as text and the end of the turn,
    /// `timer` with its version as text, and everything else with nothing.
    pub fn new(name: &str, version: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            descriptor: serde_json::json!({}),
            contract: CONTRACT.to_owned(),
            types: include_str!("../../wit/types.wit"),
            wit_changes: Vec::new(),
            wit_packages: String::new(),
            wit_imports: String::new(),
            module: String::new(),
            memories: String::new(),
            start: String::new(),
            describe: String::new(),
            save: String::new(),
            load: String::new(),
            realloc: String::new(),
            handle: String::new(),
            after_handle: String::new(),
            on_timer: String::new(),
            pages: 2,
            on_start: None,
            later: None,
        }
    }

    /// Makes the same backend for contract 0.2.
    pub fn of_contract_0_2(name: &str, version: &str) -> Self {
        Self {
            contract: CONTRACT_0_2.to_owned(),
            types: include_str!("../../wit/frozen/0.2.1/types.wit"),
            ..Self::new(name, version)
        }
    }

    /// Returns the bytes of the component.
    pub fn build(&self) -> Vec<u8> {
        component(&self.module(), &self.wit())
    }

    /// Returns the WIT that this guest is built against.
    pub fn wit(&self) -> String {
        let without_package = |text: &'static str| {
            let (package, rest) = text.split_once('\n').expect("several lines");
            assert!(package.starts_with("package aetheel:backend@"), "{package}");
            rest
        };
        // The functions are the same in all versions.
        let backend = without_package(include_str!("../../wit/backend.wit"));
        let types = without_package(self.types);
        let mut wit = format!("package aetheel:backend@{};\n{types}\n{backend}\n", self.contract);
        wit =
            wit.replace("  export backend;", &format!("  {}\n  export backend;", self.wit_imports));
        for (from, to) in &self.wit_changes {
            assert!(wit.contains(from.as_str()), "{from:?} is not in the contract");
            wit = wit.replace(from.as_str(), to);
        }
        wit + &self.wit_packages
    }

    /// Returns its descriptor as JSON.
    pub fn described(&self) -> Value {
        let mut descriptor = serde_json::json!({ "name": self.name, "version": self.version, "programs": [{ "name": self.name }] });
        for (key, value) in self.descriptor.as_object().expect("an object") {
            descriptor[key] = value.clone();
        }
        descriptor
    }

    /// Accepts the capabilities of this guest in `backends.md`, as an operator does.
    pub fn accepted_in(&self, config: &Path) {
        let path = config.join("backends.md");
        let descriptor =
            Descriptor::parse(&self.described().to_string()).expect("a valid descriptor");
        let lines: String =
            lines(&Capability::of(&descriptor)).iter().map(|line| format!("- {line}\n")).collect();
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(path, format!("{before}\n## {}\n\n{lines}", self.name)).expect("written");
    }

    fn module(&self) -> String {
        let text = || {
            AgentEventKind::Text(TextEvent {
                part: 0,
                text: self.version.clone(),
                replace: false,
                parent: None,
            })
        };
        let event = || Action::Event(AgentEvent { session: 1, turn: 1, kind: text() });
        let done = Action::TurnDone(TurnDone {
            session: 1,
            turn: 1,
            outcome: TurnOutcome::Completed,
            text: None,
            usage: None,
        });
        let descriptor = self.described();
        let mut memory = Memory { bytes: Vec::new(), keys: Vec::new() };
        let described = memory.text_area(&descriptor.to_string());
        // Fixed answers use the layout of the unchanged contract. A changed contract is refused
        // before they are used.
        let layout = Layout::of(&Self { types: self.types, ..Self::new("x", "1") }.wit());
        let nothing = memory.answer(&layout, &[]);
        memory.keys.clear();
        let turn =
            memory.answer(&layout, &self.on_start.clone().unwrap_or_else(|| vec![event(), done]));
        let (tag_later, later) = self.later.clone().unwrap_or_else(|| (TIMER, vec![event()]));
        let later = memory.answer(&layout, &later);
        let none = memory.put(&[0; 12], 4);
        let (input, command) = layout.first_payload();
        let patch: String = memory
            .keys
            .iter()
            .map(|(key, at)| {
                let from = command + if key == "session" { 0 } else { 4 };
                format!("(i32.store (i32.const {at}) (i32.load (i32.add (local.get $in) (i32.const {from}))))\n")
            })
            .collect();
        let heap = ANSWERS + memory.bytes.len().next_multiple_of(16);
        let data: String = memory.bytes.iter().map(|byte| format!("\\{byte:02x}")).collect();
        let pages = self.pages.max(u32::try_from(heap / 65_536 + 1).expect("small"));
        let Self {
            module,
            memories,
            start,
            describe,
            save,
            load,
            realloc,
            handle,
            after_handle,
            on_timer,
            contract,
            ..
        } = self;
        let after = if after_handle.is_empty() {
            String::new()
        } else {
            format!(
                r#"(func (export "cabi_post_aetheel:backend/backend@{contract}#handle") (param i32) {after_handle})"#
            )
        };
        let start = if start.is_empty() {
            String::new()
        } else {
            format!("(func $start {start})(start $start)")
        };
        format!(
            r#"(module
              {module}
              (memory (export "memory") {pages})
              {memories}
              (data (i32.const {ANSWERS}) "{data}")
              (global $heap (mut i32) (i32.const {heap}))
              (func (export "cabi_realloc") (param $old i32) (param $had i32) (param $align i32) (param $size i32) (result i32)
                (local $at i32)
                {realloc}
                (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 15)) (i32.const -16)))
                (global.set $heap (i32.add (local.get $at) (local.get $size)))
                (block $fits (loop $grow
                  (br_if $fits (i32.le_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536))))
                  (br_if $grow (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))
                  unreachable))
                (if (local.get $had) (then (memory.copy (local.get $at) (local.get $old) (local.get $had))))
                (local.get $at))
              (func (export "aetheel:backend/backend@{contract}#describe") (result i32) {describe} (i32.const {described}))
              (func (export "aetheel:backend/backend@{contract}#save") (result i32) {save} (i32.const {none}))
              (func (export "aetheel:backend/backend@{contract}#load") (param i32 i32 i32 i32) (result i32) {load} (i32.const {none}))
              (func (export "aetheel:backend/backend@{contract}#handle") (param $in i32) (param $n i32) (result i32)
                {handle}
                (if (i32.eqz (local.get $n)) (then (return (i32.const {nothing}))))
                (global.set $heap (i32.const {heap}))
                (if (i32.eq (i32.load8_u offset={input} (local.get $in)) (i32.const {tag_later}))
                  (then {on_timer} (return (i32.const {later}))))
                (if (i32.or (i32.load8_u offset={input} (local.get $in)) (i32.load8_u offset={tag} (local.get $in)))
                  (then (return (i32.const {nothing}))))
                {patch}
                (i32.const {turn}))
              {after}
              {start})"#,
            tag = layout.command_tag(),
        )
    }
}

/// Returns a well-behaved backend with this name and version. See [`Wat::new`].
pub fn answering(name: &str, version: &str) -> Vec<u8> {
    Wat::new(name, version).build()
}

/// Returns the size of an action in a guest's memory, in bytes.
pub fn action_size() -> usize {
    let layout = Layout::of(&Wat::new("x", "1").wit());
    layout.sizes.size(&layout.named("action")).size_wasm32()
}

/// Turns a core module in WAT into a component of the world `agent-backend` of this WIT.
pub fn component(wat: &str, wit: &str) -> Vec<u8> {
    component_of(wat, wit, "agent-backend")
}

/// Turns a core module in WAT into a component of a world of this WIT.
pub fn component_of(wat: &str, wit: &str, world: &str) -> Vec<u8> {
    let mut module = wat::parse_str(wat).unwrap_or_else(|error| panic!("{error}\n{wat}"));
    let (resolve, package) = resolve(wit);
    let world = resolve.select_world(&[package], Some(world)).expect("the world");
    wit_component::embed_component_metadata(
        &mut module,
        &resolve,
        world,
        StringEncoding::UTF8,
        false,
    )
    .expect("metadata");
    let mut encoder = ComponentEncoder::default();
    encoder.module(&module).expect("module");
    encoder.validate(true).encode().unwrap_or_else(|error| panic!("{error:#}"))
}

fn resolve(wit: &str) -> (Resolve, wit_parser::PackageId) {
    let mut resolve = Resolve::default();
    let package =
        resolve.push_str(Path::new("test.wit"), wit).unwrap_or_else(|error| panic!("{error:#}"));
    (resolve, package)
}

/// The memory of a guest from [`ANSWERS`] on.
struct Memory {
    bytes: Vec<u8>,
    /// Names and addresses of the session and turn keys in the answers.
    keys: Vec<(String, usize)>,
}

impl Memory {
    /// Appends bytes and returns their address.
    fn put(&mut self, bytes: &[u8], align: usize) -> usize {
        self.bytes.resize(self.bytes.len().next_multiple_of(align), 0);
        let at = ANSWERS + self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        at
    }

    fn word(&mut self, at: usize, value: usize) {
        let value = u32::try_from(value).expect("wasm32").to_le_bytes();
        self.set(at, &value);
    }

    fn set(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at - ANSWERS..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Writes a string as a function returns it, and returns its address.
    fn text_area(&mut self, text: &str) -> usize {
        let at = self.put(text.as_bytes(), 1);
        let area = self.put(&[0; 8], 4);
        self.word(area, at);
        self.word(area + 4, text.len());
        area
    }

    /// Writes `ok(list<action>)` as a function returns it, and returns its address.
    fn answer(&mut self, layout: &Layout, actions: &[Action]) -> usize {
        let list = self.list(
            layout,
            &layout.named("action"),
            &serde_json::to_value(actions).expect("JSON"),
        );
        let area = self.put(&[0; 12], 4);
        self.word(area + 4, list);
        self.word(area + 8, actions.len());
        area
    }

    fn list(&mut self, layout: &Layout, of: &Type, values: &Value) -> usize {
        let values = values.as_array().expect("a list");
        let size = layout.sizes.size(of).size_wasm32();
        let at = self.put(&vec![0; size * values.len()], layout.sizes.align(of).align_wasm32());
        for (index, value) in values.iter().enumerate() {
            self.lower(layout, of, value, at + index * size);
        }
        at
    }

    /// Writes a value, given in the JSON form of recordings, in the layout of the canonical ABI.
    fn lower(&mut self, layout: &Layout, of: &Type, value: &Value, at: usize) {
        match of {
            Type::Bool => self.set(at, &[u8::from(value.as_bool().expect("a bool"))]),
            Type::U32 => {
                self.word(at, usize::try_from(value.as_u64().expect("a number")).expect("small"))
            }
            Type::F64 => self.set(at, &value.as_f64().expect("a number").to_le_bytes()),
            Type::String => {
                let text = value.as_str().expect("a text");
                let there = self.put(text.as_bytes(), 1);
                self.word(at, there);
                self.word(at + 4, text.len());
            }
            Type::Id(id) => match &layout.resolve.types[*id].kind {
                TypeDefKind::Type(alias) => self.lower(layout, alias, value, at),
                TypeDefKind::List(of) => {
                    let list = self.list(layout, of, value);
                    self.word(at, list);
                    self.word(at + 4, value.as_array().expect("a list").len());
                }
                TypeDefKind::Option(of) if !value.is_null() => {
                    self.set(at, &[1]);
                    let offset = layout.sizes.align(of).align_wasm32();
                    self.lower(layout, of, value, at + offset);
                }
                TypeDefKind::Option(_) => {}
                TypeDefKind::Enum(kind) => {
                    let name = value.as_str().expect("a case");
                    let tag = kind
                        .cases
                        .iter()
                        .position(|case| case.name == name)
                        .unwrap_or_else(|| panic!("no case {name}"));
                    self.set(at, &[u8::try_from(tag).expect("few cases")]);
                }
                TypeDefKind::Variant(kind) => {
                    let (name, payload) = match value {
                        Value::String(name) => (name, None),
                        value => value
                            .as_object()
                            .and_then(|map| map.iter().next())
                            .map(|(k, v)| (k, Some(v)))
                            .expect("a case"),
                    };
                    let tag = kind
                        .cases
                        .iter()
                        .position(|case| case.name == *name)
                        .unwrap_or_else(|| panic!("no case {name}"));
                    self.set(at, &[u8::try_from(tag).expect("few cases")]);
                    let offset = layout
                        .sizes
                        .payload_offset(kind.tag(), kind.cases.iter().map(|case| case.ty.as_ref()))
                        .size_wasm32();
                    if let (Some(of), Some(payload)) = (&kind.cases[tag].ty, payload) {
                        self.lower(layout, of, payload, at + offset);
                    }
                }
                TypeDefKind::Record(record) => {
                    let offsets =
                        layout.sizes.field_offsets(record.fields.iter().map(|field| &field.ty));
                    for (field, (offset, of)) in record.fields.iter().zip(offsets) {
                        let at = at + offset.size_wasm32();
                        let key = layout.sizes.size(of).size_wasm32() == 4;
                        if key && (field.name == "session" || field.name == "turn") {
                            self.keys.push((field.name.clone(), at));
                        }
                        // Recordings omit fields with default values, which are zeros in memory.
                        if let Some(value) = value.get(&field.name) {
                            self.lower(layout, of, value, at);
                        }
                    }
                }
                other => panic!("{} is not used by the contract", other.as_str()),
            },
            other => panic!("{other:?} is not used by the contract"),
        }
    }
}

/// The layout of the contract's types in the canonical ABI.
struct Layout {
    resolve: Resolve,
    sizes: SizeAlign,
}

impl Layout {
    fn of(wit: &str) -> Self {
        let (resolve, _) = resolve(wit);
        let mut sizes = SizeAlign::default();
        sizes.fill(&resolve).expect("sizes");
        Self { resolve, sizes }
    }

    fn named(&self, name: &str) -> Type {
        let found = self.resolve.types.iter().find(|(_, def)| {
            def.name.as_deref() == Some(name) && !matches!(def.kind, TypeDefKind::Type(_))
        });
        Type::Id(found.expect("a type of the contract").0)
    }

    /// Returns the offset of the tag of a command within the first input.
    fn command_tag(&self) -> usize {
        let (input, _) = self.first_payload();
        input + self.payload("input")
    }

    fn payload(&self, name: &str) -> usize {
        let Type::Id(id) = self.named(name) else { unreachable!() };
        let TypeDefKind::Variant(kind) = &self.resolve.types[id].kind else { panic!("a variant") };
        self.sizes
            .payload_offset(kind.tag(), kind.cases.iter().map(|case| case.ty.as_ref()))
            .size_wasm32()
    }

    /// Returns the offset of the first input's tag, and of a command's payload.
    fn first_payload(&self) -> (usize, usize) {
        let Type::Id(timed) = self.named("timed-input") else { unreachable!() };
        let TypeDefKind::Record(record) = &self.resolve.types[timed].kind else {
            panic!("a record")
        };
        let offsets = self.sizes.field_offsets(record.fields.iter().map(|field| &field.ty));
        let tag = offsets[1].0.size_wasm32();
        (tag, tag + self.payload("input") + self.payload("command"))
    }
}
