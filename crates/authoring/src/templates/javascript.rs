//! The JavaScript project, converted to a component by componentize-qjs.

use super::TemplateFile;

/// Lists the files of a project: those of both kinds, and the backend itself.
macro_rules! project {
    ($backend:literal) => {
        &[
            (".gitignore", include_str!("../../../../templates/javascript/gitignore")),
            ("Makefile", include_str!("../../../../templates/javascript/Makefile")),
            ("README.md", include_str!("../../../../templates/javascript/README.md")),
            ("package.json", include_str!("../../../../templates/javascript/package.json")),
            ("agent.js", include_str!("../../../../templates/javascript/agent.js")),
            ("backend.js", include_str!(concat!("../../../../templates/javascript/", $backend))),
        ]
    };
}

pub(super) const ONE_SHOT: &[TemplateFile] = project!("one-shot/backend.js");
pub(super) const LIVE: &[TemplateFile] = project!("live/backend.js");
