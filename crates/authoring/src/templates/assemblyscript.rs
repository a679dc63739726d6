//! The AssemblyScript project. `aetheel backend bindings` generates the contract; the JSON parser
//! is that of the example in `languages/`.

use super::TemplateFile;

/// Lists the files of a project: those of both kinds, and the backend itself.
macro_rules! project {
    ($backend:literal) => {
        &[
            (".gitignore", include_str!("../../../../templates/assemblyscript/gitignore")),
            ("Makefile", include_str!("../../../../templates/assemblyscript/Makefile")),
            ("README.md", include_str!("../../../../templates/assemblyscript/README.md")),
            ("package.json", include_str!("../../../../templates/assemblyscript/package.json")),
            ("json.ts", include_str!("../../../../languages/assemblyscript/json.ts")),
            ("agent.ts", include_str!("../../../../templates/assemblyscript/agent.ts")),
            (
                "backend.ts",
                include_str!(concat!("../../../../templates/assemblyscript/", $backend)),
            ),
        ]
    };
}

pub(super) const ONE_SHOT: &[TemplateFile] = project!("one-shot/backend.ts");
pub(super) const LIVE: &[TemplateFile] = project!("live/backend.ts");
