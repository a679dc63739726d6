//! The TypeScript project, built with tsc and componentize-qjs. `aetheel backend bindings`
//! generates the types.

use super::TemplateFile;

/// Lists the files of a project: those of both kinds, and the backend itself.
macro_rules! project {
    ($backend:literal) => {
        &[
            (".gitignore", include_str!("../../../../templates/typescript/gitignore")),
            ("Makefile", include_str!("../../../../templates/typescript/Makefile")),
            ("README.md", include_str!("../../../../templates/typescript/README.md")),
            ("package.json", include_str!("../../../../templates/typescript/package.json")),
            ("tsconfig.json", include_str!("../../../../templates/typescript/tsconfig.json")),
            ("agent.ts", include_str!("../../../../templates/typescript/agent.ts")),
            ("backend.ts", include_str!(concat!("../../../../templates/typescript/", $backend))),
        ]
    };
}

pub(super) const ONE_SHOT: &[TemplateFile] = project!("one-shot/backend.ts");
pub(super) const LIVE: &[TemplateFile] = project!("live/backend.ts");
