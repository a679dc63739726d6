//! Tests of the published contract: it does not change without a new version, and its page in the
//! documentation matches it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use wit_parser::{Docs, FunctionKind, Interface, Resolve, Type, TypeDef, TypeDefKind, TypeId};

const SCHEMA: &str = "descriptor.schema.json";
const FILES: [&str; 3] = ["backend.wit", "types.wit", SCHEMA];

fn wit() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("wit")
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the version that the text declares.
fn version() -> String {
    let versions = ["backend.wit", "types.wit"].map(|file| {
        let text = text(&wit().join(file));
        let first = text.lines().next().unwrap_or_default();
        first
            .strip_prefix("package aetheel:backend@")
            .and_then(|rest| rest.strip_suffix(';'))
            .expect("a package line")
            .to_owned()
    });
    assert_eq!(versions[0], versions[1], "both files are one package");
    versions[0].clone()
}

/// Returns the code of a WIT file, without comment lines and blank lines.
///
/// A comment behind code stays, so it counts as code.
fn without_comments(wit: &str) -> String {
    let is_code = |line: &&str| {
        let line = line.trim_start();
        !line.is_empty() && !line.starts_with("//")
    };
    wit.lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

/// Compares the contract with the frozen copy of its version.
///
/// Comments of the WIT files are not compared, so that their documentation can be improved without
/// a new version. The schema must be equal byte by byte.
#[test]
fn the_contract_changes_only_with_its_version() {
    let version = version();
    let frozen = wit().join("frozen").join(&version);
    assert!(
        frozen.is_dir(),
        "version {version} is new: copy the contract to {} and say in wit/CHANGELOG.md what changed",
        frozen.display()
    );
    for file in FILES {
        let compared = |folder: &Path| {
            let text = text(&folder.join(file));
            if file == SCHEMA { text } else { without_comments(&text) }
        };
        assert!(
            compared(&frozen) == compared(&wit()),
            "wit/{file} differs from what was published as {version}: give it a new version (as described in wit/CHANGELOG.md), or undo the change"
        );
    }
}

/// The contracts of other components than backends: each is one file in a folder of its name.
const OTHERS: [&str; 2] = ["observer", "policy"];

#[test]
fn the_contracts_of_other_components_change_only_with_their_version() {
    for name in OTHERS {
        let folder = wit().join(name);
        let now = text(&folder.join(format!("{name}.wit")));
        let first = now.lines().next().unwrap_or_default();
        let version = first
            .strip_prefix(&format!("package aetheel:{name}@"))
            .and_then(|rest| rest.strip_suffix(';'))
            .expect("a package line");
        let frozen = folder.join("frozen").join(version).join(format!("{name}.wit"));
        assert!(
            without_comments(&text(&frozen)) == without_comments(&now),
            "wit/{name}/{name}.wit differs from {}: give it a new version, or undo the change",
            frozen.display()
        );
    }
}

#[test]
fn every_published_version_can_be_read_and_is_in_the_changelog() {
    let log = text(&wit().join("CHANGELOG.md"));
    let mut versions = Vec::new();
    for entry in fs::read_dir(wit().join("frozen")).unwrap() {
        let folder = entry.unwrap().path();
        let version = folder.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(
            log.contains(&format!("\n## {version} ")),
            "wit/CHANGELOG.md has no section for {version}"
        );
        Resolve::default().push_dir(&folder).unwrap_or_else(|error| panic!("{version}: {error:#}"));
        versions.push(version);
    }
    assert!(versions.contains(&version()), "{versions:?}");
}

#[test]
fn the_page_of_the_contract_matches_the_contract() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/contract.md");
    let page = page();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &page).unwrap();
    }
    assert!(
        text(&path) == page,
        "docs/contract.md does not match the contract; generate it with UPDATE_GOLDEN=1"
    );
}

const BEGINNING: &str = "# The contract, item by item

This page lists every item of the contract between gateway and backend. A test generates it from the
comments in [`wit/`](../wit/README.md) (`UPDATE_GOLDEN=1`) and compares it.
[`wit/README.md`](../wit/README.md) is an introduction, [writing-a-backend.md](writing-a-backend.md)
a tutorial, and [gallery.md](gallery.md) shows real conversations.

Recordings and `--json` output use the same names as this page. A record is an object, and a variant
is an object with one key. A case without a payload and a value of an enum are strings. An absent
option is `null`. Some items are [not used by this
gateway](../wit/README.md#what-this-host-does-not-use).
";

fn page() -> String {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit()).unwrap();
    let mut page = format!(
        "{BEGINNING}\nVersion {}. Changes: [`wit/CHANGELOG.md`](../wit/CHANGELOG.md).\n",
        version()
    );
    let interface = |name: &str| &resolve.interfaces[resolve.packages[package].interfaces[name]];
    functions(&mut page, &resolve, interface("backend"));
    let types = interface("types");
    let _ = write!(page, "\n## Types\n\n{}\n", said(&types.docs));
    for (name, id) in &types.types {
        item(&mut page, &resolve, name, *id);
    }
    page
}

fn functions(page: &mut String, resolve: &Resolve, interface: &Interface) {
    let _ = write!(page, "\n## Exports\n\n{}\n", said(&interface.docs));
    for (name, function) in &interface.functions {
        assert_eq!(function.kind, FunctionKind::Freestanding);
        let parameters: Vec<String> = function
            .params
            .iter()
            .map(|parameter| format!("{}: {}", parameter.name, shown(resolve, &parameter.ty)))
            .collect();
        let result = function
            .result
            .as_ref()
            .map(|result| format!(" → {}", shown(resolve, result)))
            .unwrap_or_default();
        let _ = write!(
            page,
            "\n### {name}({}){result}\n\n{}\n",
            parameters.join(", "),
            said(&function.docs)
        );
    }
}

fn item(page: &mut String, resolve: &Resolve, name: &str, id: TypeId) {
    let TypeDef { kind, docs, .. } = &resolve.types[id];
    let mut table = |columns: &str, rows: Vec<[String; 3]>| {
        let _ = write!(page, "\n### {name}\n\n");
        if docs.contents.is_some() {
            let _ = write!(page, "{}\n\n", said(docs));
        }
        let _ = writeln!(page, "| {columns} |\n|{}", "---|".repeat(columns.split('|').count()));
        for row in rows {
            let cells: Vec<&str> =
                row.iter().map(String::as_str).take(columns.split('|').count()).collect();
            let _ = writeln!(page, "| {} |", cells.join(" | "));
        }
    };
    match kind {
        TypeDefKind::Record(record) => table(
            "field | type | meaning",
            record
                .fields
                .iter()
                .map(|field| [code(&field.name), shown(resolve, &field.ty), line(&field.docs)])
                .collect(),
        ),
        TypeDefKind::Variant(variant) => table(
            "case | payload | meaning",
            variant
                .cases
                .iter()
                .map(|case| {
                    [
                        code(&case.name),
                        case.ty.map(|ty| shown(resolve, &ty)).unwrap_or_default(),
                        line(&case.docs),
                    ]
                })
                .collect(),
        ),
        TypeDefKind::Enum(values) => {
            table(
                "value | meaning",
                values
                    .cases
                    .iter()
                    .map(|case| [code(&case.name), line(&case.docs), String::new()])
                    .collect(),
            );
        }
        TypeDefKind::Type(of) => {
            let _ = write!(page, "\n### {name}\n\n{} ({})\n", said(docs), shown(resolve, of));
        }
        other => panic!("{name} is of a kind this page does not know yet: {other:?}"),
    }
}

/// Formats a type for people, with its name as a link.
fn shown(resolve: &Resolve, ty: &Type) -> String {
    let Type::Id(id) = ty else {
        return match ty {
            Type::Bool => "bool",
            Type::U32 => "u32",
            Type::S32 => "s32",
            Type::F64 => "f64",
            Type::String => "string",
            other => panic!("{other:?} is not for guests in every language"),
        }
        .to_owned();
    };
    let TypeDef { name, kind, .. } = &resolve.types[*id];
    if let Some(name) = name {
        return format!("[{name}](#{name})");
    }
    match kind {
        TypeDefKind::List(of) => format!("list of {}", shown(resolve, of)),
        TypeDefKind::Option(of) => format!("{} or none", shown(resolve, of)),
        TypeDefKind::Tuple(of) => format!(
            "({})",
            of.types.iter().map(|ty| shown(resolve, ty)).collect::<Vec<_>>().join(", ")
        ),
        TypeDefKind::Result(of) => match (&of.ok, &of.err) {
            (None, Some(error)) => format!("nothing, or an error: {}", shown(resolve, error)),
            (Some(ok), Some(error)) => {
                format!("{}, or an error: {}", shown(resolve, ok), shown(resolve, error))
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn said(docs: &Docs) -> String {
    docs.contents.as_deref().unwrap_or_default().trim().to_owned()
}

/// Formats documentation for a cell of a table.
fn line(docs: &Docs) -> String {
    said(docs).replace('\n', " ").replace('|', "\\|")
}

fn code(name: &str) -> String {
    format!("`{name}`")
}
