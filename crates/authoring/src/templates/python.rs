//! The Python project, converted to a component by componentize-py.

use super::TemplateFile;

/// Lists the files of a project: those of both kinds, and the backend itself.
macro_rules! project {
    ($backend:literal) => {
        &[
            (".gitignore", include_str!("../../../../templates/python/gitignore")),
            ("Makefile", include_str!("../../../../templates/python/Makefile")),
            ("README.md", include_str!("../../../../templates/python/README.md")),
            ("agent.py", include_str!("../../../../templates/python/agent.py")),
            ("app.py", include_str!(concat!("../../../../templates/python/", $backend))),
        ]
    };
}

pub(super) const ONE_SHOT: &[TemplateFile] = project!("one-shot/app.py");
pub(super) const LIVE: &[TemplateFile] = project!("live/app.py");
pub(super) const BOTH: &[TemplateFile] = project!("both/app.py");
