//! The C project, compiled with Zig's clang, with the helpers of `languages/c`.

use super::TemplateFile;

/// Lists the files of a project: those of both kinds, and the backend itself.
macro_rules! project {
    ($backend:literal) => {
        &[
            (".gitignore", include_str!("../../../../templates/c/gitignore")),
            ("Makefile", include_str!("../../../../templates/c/Makefile")),
            ("README.md", include_str!("../../../../templates/c/README.md")),
            ("backend.c", include_str!(concat!("../../../../templates/c/", $backend))),
            ("agent.c", include_str!("../../../../templates/c/agent.c")),
            ("agent.h", include_str!("../../../../templates/c/agent.h")),
            ("actions.c", include_str!("../../../../languages/c/actions.c")),
            ("actions.h", include_str!("../../../../languages/c/actions.h")),
            ("json.c", include_str!("../../../../languages/c/json.c")),
            ("json.h", include_str!("../../../../languages/c/json.h")),
            ("text.c", include_str!("../../../../languages/c/text.c")),
            ("text.h", include_str!("../../../../languages/c/text.h")),
        ]
    };
}

pub(super) const ONE_SHOT: &[TemplateFile] = project!("one-shot/backend.c");
pub(super) const LIVE: &[TemplateFile] = project!("live/backend.c");
