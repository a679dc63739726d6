//! Generates the contract as TypeScript types, also used by JavaScript, in the form in which
//! componentize-qjs passes values.
//!
//! Names are in camelCase, enums are string literals, variants are `{ tag, val }`, and a missing
//! value is `null`. An error result is thrown as an exception. Tested by the tests below, and by
//! `tsc` over the backends in `languages/typescript`.

use std::fmt::Write as _;

use wit_parser::{Docs, Resolve, Type, TypeDefKind, WorldId, WorldItem};

pub(super) const FILE: &str = "contract.d.ts";

/// Returns the types of everything the world exports.
pub(super) fn types(resolve: &Resolve, world: WorldId) -> String {
    let mut out =
        "// Made by `aetheel backend bindings --lang typescript`; changes are lost.\n".to_owned();
    let backend = resolve.worlds[world].exports.values().find_map(|item| match item {
        WorldItem::Interface { id, .. } => Some(*id),
        _ => None,
    });
    let packaged = resolve
        .interfaces
        .iter()
        .map(|(_, interface)| interface)
        .filter(|interface| interface.functions.is_empty());
    for (name, id) in packaged.flat_map(|interface| &interface.types) {
        let def = &resolve.types[*id];
        write_definition(&mut out, resolve, &pascal(name), &def.docs, &def.kind);
    }
    let Some(interface) = backend.map(|id| &resolve.interfaces[id]) else { return out };
    out.push('\n');
    write_docs(&mut out, "", &interface.docs);
    out.push_str("export interface Backend {\n");
    for (name, function) in &interface.functions {
        write_docs(&mut out, "  ", &function.docs);
        let params: Vec<String> = function
            .params
            .iter()
            .map(|param| format!("{}: {}", camel(&param.name), type_name(resolve, &param.ty)))
            .collect();
        let result = function
            .result
            .as_ref()
            .map_or_else(|| "void".to_owned(), |of| return_type(resolve, of));
        let _ = writeln!(out, "  {}({}): {result};", camel(name), params.join(", "));
    }
    out.push_str("}\n");
    out
}

fn write_definition(
    out: &mut String,
    resolve: &Resolve,
    name: &str,
    about: &Docs,
    kind: &TypeDefKind,
) {
    out.push('\n');
    write_docs(out, "", about);
    let _ = match kind {
        TypeDefKind::Record(record) => {
            let _ = writeln!(out, "export interface {name} {{");
            for field in &record.fields {
                write_docs(out, "  ", &field.docs);
                let _ =
                    writeln!(out, "  {}: {};", camel(&field.name), type_name(resolve, &field.ty));
            }
            writeln!(out, "}}")
        }
        TypeDefKind::Variant(variant) => {
            let _ = writeln!(out, "export type {name} =");
            for (at, case) in variant.cases.iter().enumerate() {
                write_docs(out, "  ", &case.docs);
                let value = case
                    .ty
                    .as_ref()
                    .map_or_else(String::new, |of| format!("; val: {}", type_name(resolve, of)));
                let end = if at + 1 == variant.cases.len() { ";" } else { "" };
                let _ = writeln!(out, "  | {{ tag: \"{}\"{value} }}{end}", case.name);
            }
            Ok(())
        }
        TypeDefKind::Enum(cases) => {
            let _ = writeln!(out, "export type {name} =");
            for (at, case) in cases.cases.iter().enumerate() {
                write_docs(out, "  ", &case.docs);
                let end = if at + 1 == cases.cases.len() { ";" } else { "" };
                let _ = writeln!(out, "  | \"{}\"{end}", case.name);
            }
            Ok(())
        }
        kind => writeln!(out, "export type {name} = {};", anonymous_type_name(resolve, kind)),
    };
}

fn type_name(resolve: &Resolve, of: &Type) -> String {
    match of {
        Type::Bool => "boolean".to_owned(),
        Type::Id(id) => {
            let def = &resolve.types[*id];
            def.name
                .as_ref()
                .map_or_else(|| anonymous_type_name(resolve, &def.kind), |name| pascal(name))
        }
        Type::Char | Type::String => "string".to_owned(),
        _ => "number".to_owned(),
    }
}

fn anonymous_type_name(resolve: &Resolve, kind: &TypeDefKind) -> String {
    match kind {
        TypeDefKind::Type(of) => type_name(resolve, of),
        TypeDefKind::Option(of) => format!("{} | null", type_name(resolve, of)),
        TypeDefKind::List(of) => match type_name(resolve, of) {
            element if element.contains(" | ") => format!("({element})[]"),
            element => format!("{element}[]"),
        },
        TypeDefKind::Tuple(tuple) => {
            format!(
                "[{}]",
                tuple.types.iter().map(|of| type_name(resolve, of)).collect::<Vec<_>>().join(", ")
            )
        }
        // The contract has no other anonymous types; if it gets one, `tsc` reports its use.
        _ => "unknown".to_owned(),
    }
}

/// Returns the return type of a function, without the error of a result, which is thrown.
fn return_type(resolve: &Resolve, of: &Type) -> String {
    if let Type::Id(id) = of
        && let TypeDefKind::Result(result) = &resolve.types[*id].kind
    {
        return result.ok.as_ref().map_or_else(|| "void".to_owned(), |ok| type_name(resolve, ok));
    }
    type_name(resolve, of)
}

pub(super) fn write_docs(out: &mut String, indent: &str, docs: &Docs) {
    let Some(text) = docs.contents.as_deref() else { return };
    // The separator headings of the contract would become part of the next item's documentation.
    let lines: Vec<&str> = text
        .trim()
        .lines()
        .filter(|line| !line.starts_with("-----"))
        .skip_while(|line| line.is_empty())
        .collect();
    let _ = match lines[..] {
        [] => Ok(()),
        [line] => writeln!(out, "{indent}/** {line} */"),
        _ => {
            let body: String = lines
                .iter()
                .map(|line| format!("{indent} * {line}\n").replace(" \n", "\n"))
                .collect();
            writeln!(out, "{indent}/**\n{body}{indent} */")
        }
    };
}

/// Converts a name of the contract to a type name: `start-turn` to `StartTurn`.
pub(super) fn pascal(name: &str) -> String {
    name.split('-').map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

/// Converts a name of the contract to a field name: `native-id` to `nativeId`.
pub(super) fn camel(name: &str) -> String {
    let pascal = pascal(name);
    pascal[..1].to_lowercase() + &pascal[1..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;

    #[test]
    fn types_match_the_values_that_the_javascript_tools_pass() {
        let (resolve, world) = contract::resolve().unwrap();
        let types = types(&resolve, world);
        for line in [
            "export type SessionKey = number;",
            "  nativeId: string | null;",
            "  | { tag: \"answers\"; val: [string, string[]][] }",
            "  | { tag: \"allow-once\" }",
            "  handle(inputs: TimedInput[]): Action[];",
            "  load(state: string, savedBy: string): void;",
            "  save(): string | null;",
        ] {
            assert!(types.lines().any(|is| is == line), "no {line:?} in\n{types}");
        }
        assert!(!types.contains("unknown;") && !types.contains("----------"), "{types}");
    }
}
