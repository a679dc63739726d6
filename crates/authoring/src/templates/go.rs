//! The Go project, compiled with the standard compiler, with the helpers of `languages/go`.

use super::TemplateFile;

/// Lists the files of a project: those of both kinds, and the backend itself.
macro_rules! project {
    ($backend:literal) => {
        &[
            (".gitignore", include_str!("../../../../templates/go/gitignore")),
            ("Makefile", include_str!("../../../../templates/go/Makefile")),
            ("README.md", include_str!("../../../../templates/go/README.md")),
            ("agent.go", include_str!("../../../../templates/go/agent.go")),
            ("backend.go", include_str!(concat!("../../../../templates/go/", $backend))),
            ("emit.go", include_str!("../../../../languages/go/emit.go")),
            ("json.go", include_str!("../../../../languages/go/json.go")),
        ]
    };
}

pub(super) const ONE_SHOT: &[TemplateFile] = project!("one-shot/backend.go");
pub(super) const LIVE: &[TemplateFile] = project!("live/backend.go");
