//! Generates the contract for AssemblyScript, which has no bindings generator: its types as
//! classes, and their memory layout.
//!
//! There are three files: the types with code that lifts and lowers them by the canonical ABI, the
//! four exports around the author's `backend.ts`, and a transform for `asc` that gives the exports
//! the names of the contract. A variant is an abstract class with one subclass per case. Optional
//! numbers are boxed in `Some`, because numbers in AssemblyScript cannot be null. Tested by the
//! tests below, and by `languages/assemblyscript` over all recordings.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use wit_parser::{Resolve, SizeAlign, Type, TypeDefKind, TypeId};

use super::GeneratorError;
use super::typescript::{camel, pascal, write_docs};
use crate::contract::EXPORT as CONTRACT;

/// Name for a kind of type that the contract does not use. The compiler reports each use of it,
/// because it is not defined.
const UNSUPPORTED_TYPE: &str = "NotInTheContract";
const MEMORY: &str = include_str!("assemblyscript_memory.ts");
const EXPORTS: &str = include_str!("assemblyscript_exports.ts");
const RENAME: &str = include_str!("assemblyscript_rename.mjs");

/// Returns the files by name: the types, the exports, and the transform that renames the exports.
///
/// # Errors
/// The contract contains a construct that this generator does not support.
pub(super) fn files(resolve: &Resolve) -> Result<[(&'static str, String); 3], GeneratorError> {
    Ok([
        ("contract.ts", types(resolve)?),
        ("exports.ts", EXPORTS.to_owned()),
        ("rename.mjs", RENAME.replace("{{contract}}", CONTRACT)),
    ])
}

/// Returns the types, with functions that lift inputs and lower actions.
fn types(resolve: &Resolve) -> Result<String, GeneratorError> {
    let mut sizes = SizeAlign::default();
    sizes.fill(resolve).map_err(|error| GeneratorError::Layout(format!("{error:#}")))?;
    let packaged = resolve
        .interfaces
        .iter()
        .map(|(_, interface)| interface)
        .filter(|interface| interface.functions.is_empty());
    let types: Vec<(&String, TypeId)> = packaged
        .flat_map(|interface| interface.types.iter().map(|(name, id)| (name, *id)))
        .collect();
    let root =
        |wanted: &str| types.iter().find(|(name, _)| *name == wanted).map(|(_, id)| Type::Id(*id));
    let mut maker =
        TypeGenerator { resolve, sizes, lifted: BTreeSet::new(), lowered: BTreeSet::new() };
    if let (Some(given), Some(wanted)) = (root("timed-input"), root("action")) {
        maker.lifted = maker.reachable_types(&given);
        maker.lowered = maker.reachable_types(&wanted);
        let mut out = format!(
            "// Made by `aetheel backend bindings --lang assemblyscript`; changes are lost.\n\n{MEMORY}"
        );
        for (name, id) in types {
            maker.write_definition(&mut out, &pascal(name), id);
        }
        let size = maker.sizes.size(&given).size_wasm32();
        let _ = write!(
            out,
            "\nexport function liftInputs(at: usize, length: i32): TimedInput[] {{\n  \
             return liftArray<TimedInput>(at, length, {size}, (at: usize): TimedInput => TimedInput.lift(at));\n}}\n"
        );
        out.push_str("\nexport function lowerActions(at: usize, actions: Action[]): void {\n");
        let _ = writeln!(out, "  {}\n}}", maker.lower_list(&wanted, "at", "actions"));
        return Ok(out);
    }
    Err(GeneratorError::MissingTypes)
}

struct TypeGenerator<'a> {
    resolve: &'a Resolve,
    sizes: SizeAlign,
    /// Indexes of the named types that occur in inputs, and in actions.
    lifted: BTreeSet<usize>,
    lowered: BTreeSet<usize>,
}

impl TypeGenerator<'_> {
    /// Returns the indexes of all types that a type contains, including itself.
    fn reachable_types(&self, of: &Type) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut waiting = vec![*of];
        while let Some(of) = waiting.pop() {
            let Type::Id(id) = of else { continue };
            if !reached.insert(id.index()) {
                continue;
            }
            match &self.resolve.types[id].kind {
                TypeDefKind::Record(record) => {
                    waiting.extend(record.fields.iter().map(|field| field.ty))
                }
                TypeDefKind::Variant(variant) => {
                    waiting.extend(variant.cases.iter().filter_map(|case| case.ty))
                }
                TypeDefKind::Tuple(tuple) => waiting.extend(&tuple.types),
                TypeDefKind::Option(of) | TypeDefKind::List(of) | TypeDefKind::Type(of) => {
                    waiting.push(*of)
                }
                _ => {}
            }
        }
        reached
    }

    fn write_definition(&self, out: &mut String, name: &str, id: TypeId) {
        let def = &self.resolve.types[id];
        let (lifted, lowered) =
            (self.lifted.contains(&id.index()), self.lowered.contains(&id.index()));
        out.push('\n');
        write_docs(out, "", &def.docs);
        match &def.kind {
            TypeDefKind::Enum(cases) => {
                let names: Vec<String> =
                    cases.cases.iter().map(|case| pascal(&case.name)).collect();
                let _ = writeln!(out, "export enum {name} {{\n  {},\n}}", names.join(",\n  "));
            }
            TypeDefKind::Record(record) => {
                let _ = writeln!(out, "export class {name} {{\n  constructor(");
                for field in &record.fields {
                    write_docs(out, "    ", &field.docs);
                    let _ = writeln!(
                        out,
                        "    public {}: {},",
                        camel(&field.name),
                        self.type_name(&field.ty)
                    );
                }
                out.push_str("  ) {}\n");
                let places: Vec<(usize, &Type)> = self
                    .sizes
                    .field_offsets(record.fields.iter().map(|field| &field.ty))
                    .into_iter()
                    .map(|(offset, of)| (offset.size_wasm32(), of))
                    .collect();
                if lifted {
                    let values: Vec<String> = places
                        .iter()
                        .map(|(offset, of)| self.lift(of, &add_offset("at", *offset)))
                        .collect();
                    let _ = writeln!(
                        out,
                        "\n  static lift(at: usize): {name} {{\n    return new {name}({});\n  }}",
                        values.join(", ")
                    );
                }
                if lowered {
                    out.push_str("\n  lower(at: usize): void {\n");
                    for (field, (offset, of)) in record.fields.iter().zip(&places) {
                        let _ = writeln!(
                            out,
                            "    {}",
                            self.lower(
                                of,
                                &add_offset("at", *offset),
                                &format!("this.{}", camel(&field.name))
                            )
                        );
                    }
                    out.push_str("  }\n");
                }
                out.push_str("}\n");
            }
            TypeDefKind::Variant(variant) => {
                let payload = self
                    .sizes
                    .payload_offset(
                        variant.tag(),
                        variant.cases.iter().map(|case| case.ty.as_ref()),
                    )
                    .size_wasm32();
                let _ = writeln!(out, "export abstract class {name} {{");
                if lifted {
                    let _ = writeln!(
                        out,
                        "  static lift(at: usize): {name} {{\n    switch (load<u8>(at)) {{"
                    );
                    for (tag, case) in variant.cases.iter().enumerate() {
                        let value = case.ty.as_ref().map_or_else(String::new, |of| {
                            self.lift(of, &add_offset("at", payload))
                        });
                        // The host sends no other tag, but the compiler requires a return value in
                        // every case.
                        let label = if tag + 1 == variant.cases.len() {
                            "default".to_owned()
                        } else {
                            format!("case {tag}")
                        };
                        let _ = writeln!(
                            out,
                            "      {label}:\n        return new {name}{}({value});",
                            pascal(&case.name)
                        );
                    }
                    out.push_str("    }\n  }\n");
                }
                if lowered {
                    out.push_str("  abstract lower(at: usize): void;\n");
                }
                out.push_str("}\n");
                for (tag, case) in variant.cases.iter().enumerate() {
                    write_docs(out, "", &case.docs);
                    let value =
                        case.ty.as_ref().map(|of| format!("public value: {}", self.type_name(of)));
                    let _ = writeln!(
                        out,
                        "export class {name}{} extends {name} {{",
                        pascal(&case.name)
                    );
                    let _ = writeln!(
                        out,
                        "  constructor({}) {{\n    super();\n  }}",
                        value.unwrap_or_default()
                    );
                    if lowered {
                        let _ = writeln!(
                            out,
                            "\n  lower(at: usize): void {{\n    store<u8>(at, {tag});"
                        );
                        if let Some(of) = &case.ty {
                            let _ = writeln!(
                                out,
                                "    {}",
                                self.lower(of, &add_offset("at", payload), "this.value")
                            );
                        }
                        out.push_str("  }\n");
                    }
                    out.push_str("}\n");
                }
            }
            kind => {
                let _ = writeln!(out, "export type {name} = {};", self.anonymous_type_name(kind));
            }
        }
    }

    fn type_name(&self, of: &Type) -> String {
        match of {
            Type::Bool => "bool".to_owned(),
            Type::U32 => "u32".to_owned(),
            Type::F64 => "f64".to_owned(),
            Type::String => "string".to_owned(),
            Type::Id(id) => {
                let def = &self.resolve.types[*id];
                def.name
                    .as_ref()
                    .map_or_else(|| self.anonymous_type_name(&def.kind), |name| pascal(name))
            }
            _ => UNSUPPORTED_TYPE.to_owned(),
        }
    }

    fn anonymous_type_name(&self, kind: &TypeDefKind) -> String {
        match kind {
            TypeDefKind::Type(of) => self.type_name(of),
            TypeDefKind::Option(of) if self.has_no_null(of) => {
                format!("Some<{}> | null", self.type_name(of))
            }
            TypeDefKind::Option(of) => format!("{} | null", self.type_name(of)),
            TypeDefKind::List(of) => format!("Array<{}>", self.type_name(of)),
            TypeDefKind::Tuple(tuple) => format!(
                "Pair<{}>",
                tuple.types.iter().map(|of| self.type_name(of)).collect::<Vec<_>>().join(", ")
            ),
            _ => UNSUPPORTED_TYPE.to_owned(),
        }
    }

    /// Returns whether values of a type cannot be null in AssemblyScript.
    fn has_no_null(&self, of: &Type) -> bool {
        match of {
            Type::Id(id) => match &self.resolve.types[*id].kind {
                TypeDefKind::Type(of) => self.has_no_null(of),
                TypeDefKind::Enum(_) => true,
                _ => false,
            },
            of => *of != Type::String,
        }
    }

    /// Returns the expression that reads a value at an address.
    fn lift(&self, of: &Type, at: &str) -> String {
        match of {
            Type::Bool => format!("load<u8>({at}) != 0"),
            Type::String => format!("liftString({at})"),
            Type::Id(id) => match &self.resolve.types[*id].kind {
                TypeDefKind::Type(of) => self.lift(of, at),
                TypeDefKind::Enum(_) => format!("<{}>load<u8>({at})", self.type_name(of)),
                TypeDefKind::Option(of) => {
                    let value =
                        self.lift(of, &format!("{at} + {}", self.sizes.align(of).align_wasm32()));
                    let value = if self.has_no_null(of) {
                        format!("new Some<{}>({value})", self.type_name(of))
                    } else {
                        value
                    };
                    format!("load<u8>({at}) ? {value} : null")
                }
                TypeDefKind::List(of) => {
                    let (name, size) = (self.type_name(of), self.sizes.size(of).size_wasm32());
                    format!(
                        "liftList<{name}>({at}, {size}, (at: usize): {name} => {})",
                        self.lift(of, "at")
                    )
                }
                TypeDefKind::Tuple(tuple) => {
                    let values = self.sizes.field_offsets(&tuple.types).into_iter();
                    let values: Vec<String> = values
                        .map(|(offset, of)| self.lift(of, &add_offset(at, offset.size_wasm32())))
                        .collect();
                    format!("new {}({})", self.type_name(of), values.join(", "))
                }
                _ => format!("{}.lift({at})", self.type_name(of)),
            },
            of => format!("load<{}>({at})", self.type_name(of)),
        }
    }

    /// Returns the statements that write a value to an address.
    fn lower(&self, of: &Type, at: &str, value: &str) -> String {
        match of {
            Type::Bool => format!("store<u8>({at}, {value} ? 1 : 0);"),
            Type::String => format!("lowerString({at}, {value});"),
            Type::Id(id) => match &self.resolve.types[*id].kind {
                TypeDefKind::Type(of) => self.lower(of, at, value),
                TypeDefKind::Enum(_) => format!("store<u8>({at}, <u8>{value});"),
                TypeDefKind::Option(of) => {
                    let inner = if self.has_no_null(of) { "some.value" } else { "some" };
                    let inner = self.lower(
                        of,
                        &format!("{at} + {}", self.sizes.align(of).align_wasm32()),
                        inner,
                    );
                    format!(
                        "{{\n      const some = {value};\n      store<u8>({at}, some === null ? 0 : 1);\n      if (some !== null) {{ {inner} }}\n    }}"
                    )
                }
                TypeDefKind::List(of) => self.lower_list(of, at, value),
                TypeDefKind::Tuple(tuple) => {
                    let places =
                        self.sizes.field_offsets(&tuple.types).into_iter().zip(["first", "second"]);
                    places
                        .map(|((offset, of), name)| {
                            self.lower(
                                of,
                                &add_offset(at, offset.size_wasm32()),
                                &format!("{value}.{name}"),
                            )
                        })
                        .collect()
                }
                _ => format!("{value}.lower({at});"),
            },
            of => format!("store<{}>({at}, {value});", self.type_name(of)),
        }
    }

    fn lower_list(&self, of: &Type, at: &str, value: &str) -> String {
        let (name, size) = (self.type_name(of), self.sizes.size(of).size_wasm32());
        format!(
            "lowerList<{name}>({at}, {value}, {size}, (at: usize, value: {name}): void => {{ {} }});",
            self.lower(of, "at", "value")
        )
    }
}

fn add_offset(at: &str, offset: usize) -> String {
    if offset == 0 { at.to_owned() } else { format!("{at} + {offset}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;

    #[test]
    fn inputs_can_be_lifted_and_actions_lowered() {
        let (resolve, _) = contract::resolve().unwrap();
        let types = types(&resolve).unwrap();
        for line in [
            "export type SessionKey = u32;",
            "    public costUsd: Some<f64> | null,",
            "export class ActionSpawn extends Action {",
            "  static lift(at: usize): TimedInput {",
        ] {
            assert!(types.lines().any(|is| is == line), "no {line:?} in\n{types}");
        }
        assert!(!types.contains(UNSUPPORTED_TYPE), "{types}");
    }
}
