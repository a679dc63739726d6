//! The Zig project, with the helpers of `languages/zig`.

use super::TemplateFile;

/// Lists the files of a project: those of both kinds, and the backend itself.
macro_rules! project {
    ($backend:literal) => {
        &[
            (".gitignore", include_str!("../../../../templates/zig/gitignore")),
            ("Makefile", include_str!("../../../../templates/zig/Makefile")),
            ("README.md", include_str!("../../../../templates/zig/README.md")),
            ("agent.zig", include_str!("../../../../templates/zig/agent.zig")),
            ("backend.zig", include_str!(concat!("../../../../templates/zig/", $backend))),
            ("actions.zig", include_str!("../../../../languages/zig/actions.zig")),
            ("json.zig", include_str!("../../../../languages/zig/json.zig")),
        ]
    };
}

pub(super) const ONE_SHOT: &[TemplateFile] = project!("one-shot/backend.zig");
pub(super) const LIVE: &[TemplateFile] = project!("live/backend.zig");
