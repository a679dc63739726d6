//! Tables.

use maud::{Markup, html};

/// A table with one line of titles.
pub(in crate::dashboard) struct Table<'a> {
    /// Names the table for screen readers. A table without a label stacks its cells on a phone, and
    /// one with a label scrolls sideways.
    label: Option<String>,
    titles: &'a [&'a str],
}

impl<'a> Table<'a> {
    /// Creates a table that scrolls sideways if it is wider than the page.
    pub(in crate::dashboard) fn wide(label: impl Into<String>, titles: &'a [&'a str]) -> Self {
        Self { label: Some(label.into()), titles }
    }

    /// Creates a table that becomes a list of its rows on a phone.
    pub(in crate::dashboard) fn stacked(titles: &'a [&'a str]) -> Self {
        Self { label: None, titles }
    }

    /// Renders the table. `cells` renders the cells of a row; see [`title_cell`].
    pub(in crate::dashboard) fn rows<T>(
        &self,
        rows: impl IntoIterator<Item = T>,
        cells: impl Fn(T) -> Markup,
    ) -> Markup {
        let table = html! {
            table {
                thead { tr { @for title in self.titles { th scope="col" { (title) } } } }
                tbody { @for row in rows { tr { (cells(row)) } } }
            }
        };
        match &self.label {
            Some(label) => html! {
                div.wide tabindex="0" role="region" aria-label=(label) { (table) }
            },
            None => table,
        }
    }
}

/// Renders the cell that names its row.
pub(in crate::dashboard) fn title_cell(title: impl maud::Render) -> Markup {
    html! { th scope="row" { (title) } }
}
