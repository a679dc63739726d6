//! The projects that `aetheel backend new` writes: one module per language, and the files that all
//! projects share.
//!
//! The contents are in `templates/`, or in other folders of the repository that use them too. In
//! paths and contents, `{{name}}` stands for the backend's name. A new language needs two lines
//! here and one in `tests/kit/templates.rs`, which creates and builds every project.

mod assemblyscript;
mod c;
mod cpp;
mod go;
mod javascript;
mod python;
mod rust;
mod typescript;
mod zig;

use aetheel::cli::{AgentRunKind, Language};

/// Path in the project, and contents.
type TemplateFile = (&'static str, &'static str);

/// Returns the files of a language for a backend that runs once per turn, and for a live one.
fn single_kind_files(lang: Language) -> (&'static [TemplateFile], &'static [TemplateFile]) {
    match lang {
        Language::Rust => (rust::ONE_SHOT, rust::LIVE),
        Language::C => (c::ONE_SHOT, c::LIVE),
        Language::Cpp => (cpp::ONE_SHOT, cpp::LIVE),
        Language::Zig => (zig::ONE_SHOT, zig::LIVE),
        Language::Go => (go::ONE_SHOT, go::LIVE),
        Language::Python => (python::ONE_SHOT, python::LIVE),
        Language::Javascript => (javascript::ONE_SHOT, javascript::LIVE),
        Language::Typescript => (typescript::ONE_SHOT, typescript::LIVE),
        Language::Assemblyscript => (assemblyscript::ONE_SHOT, assemblyscript::LIVE),
    }
}

/// Returns the files of a language for a backend that supports both, or `None` if there is no such
/// template.
fn both_kinds_files(lang: Language) -> Option<&'static [TemplateFile]> {
    match lang {
        Language::Rust => Some(rust::BOTH),
        Language::Python => Some(python::BOTH),
        _ => None,
    }
}

/// Returns all files of a project, or `None` if there is no template of this kind in the language.
pub(super) fn files(lang: Language, kind: AgentRunKind) -> Option<Vec<TemplateFile>> {
    let (one_shot, live) = single_kind_files(lang);
    let (own, any) = match kind {
        AgentRunKind::OneShot => (one_shot, ONE_SHOT),
        AgentRunKind::Live => (live, LIVE),
        AgentRunKind::Both => (both_kinds_files(lang)?, BOTH),
    };
    Some([own, any, CONTRACT].concat())
}

const ONE_SHOT: &[TemplateFile] = &[
    ("descriptor.json", include_str!("../../../../templates/any/one-shot/descriptor.json")),
    ("cases/hello.jsonl", include_str!("../../../../templates/any/one-shot/cases/hello.jsonl")),
    (
        "cases/hello.actions.jsonl",
        include_str!("../../../../templates/any/one-shot/cases/hello.actions.jsonl"),
    ),
];

const LIVE: &[TemplateFile] = &[
    ("descriptor.json", include_str!("../../../../templates/any/live/descriptor.json")),
    ("cases/hello.jsonl", include_str!("../../../../templates/any/live/cases/hello.jsonl")),
    (
        "cases/hello.actions.jsonl",
        include_str!("../../../../templates/any/live/cases/hello.actions.jsonl"),
    ),
];

const BOTH: &[TemplateFile] = &[
    ("descriptor.json", include_str!("../../../../templates/any/both/descriptor.json")),
    ("cases/asks.jsonl", include_str!("../../../../templates/any/both/cases/asks.jsonl")),
    (
        "cases/asks.actions.jsonl",
        include_str!("../../../../templates/any/both/cases/asks.actions.jsonl"),
    ),
    ("cases/once.jsonl", include_str!("../../../../templates/any/both/cases/once.jsonl")),
    (
        "cases/once.actions.jsonl",
        include_str!("../../../../templates/any/both/cases/once.actions.jsonl"),
    ),
];

/// The contract. It is included so that a project needs only its toolchain.
const CONTRACT: &[TemplateFile] = &[
    ("wit/README.md", include_str!("../../../../wit/README.md")),
    ("wit/backend.wit", include_str!("../../../../wit/backend.wit")),
    ("wit/types.wit", include_str!("../../../../wit/types.wit")),
    ("wit/descriptor.schema.json", include_str!("../../../../wit/descriptor.schema.json")),
];
