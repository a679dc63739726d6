//! Lists: items, facts, links and warnings.

use std::fmt::Display;

use maud::{Markup, PreEscaped, Render, html};

use aetheel_model::plain::short_line;

/// Renders the first `most` items, and the number of further ones.
pub(in crate::dashboard) fn list<T>(
    items: &[T],
    most: usize,
    render: impl Fn(&T) -> Markup,
) -> Markup {
    html! {
        @for item in items.iter().take(most) { (render(item)) }
        (more(items.len().saturating_sub(most)))
    }
}

/// Renders the number of items that a page does not list.
fn more(count: usize) -> Markup {
    html! { @if count > 0 { p { "And " (count) " more." } } }
}

/// Renders a problem on one line.
pub(in crate::dashboard) fn warning(text: &str) -> Markup {
    html! { p { "⚠️ " (short_line(text, 400)) } }
}

/// Facts: names with their values. Rendering writes them in the order in which they were added.
#[derive(Default)]
pub(in crate::dashboard) struct Facts {
    rows: String,
}

impl Facts {
    /// Adds a fact.
    pub(in crate::dashboard) fn row(self, name: impl Render, value: impl Render) -> Self {
        self.with(html! { dt { (name) } dd { (value) } })
    }

    /// Adds a text of people or agents, which may run from right to left, if it is known.
    pub(in crate::dashboard) fn text(self, name: &str, text: Option<impl Render>) -> Self {
        self.with(html! { @if let Some(text) = text { dt { (name) } dd dir="auto" { (text) } } })
    }

    /// Adds a fact if its value is known.
    pub(in crate::dashboard) fn maybe(self, name: &str, value: Option<impl Render>) -> Self {
        match value {
            Some(value) => self.row(name, value),
            None => self,
        }
    }

    fn with(mut self, rows: impl Render) -> Self {
        rows.render_to(&mut self.rows);
        self
    }
}

impl Render for Facts {
    fn render_to(&self, page: &mut String) {
        html! { dl { (PreEscaped(&self.rows)) } }.render_to(page);
    }
}

/// A link of a [`nav`].
pub(in crate::dashboard) struct Link {
    title: String,
    /// The address, or `None` if the link leads nowhere at the moment.
    address: Option<String>,
    rel: Option<&'static str>,
    current: Option<&'static str>,
}

impl Link {
    pub(in crate::dashboard) fn new(title: impl Display, address: impl Into<String>) -> Self {
        Self::maybe(title, Some(address.into()))
    }

    /// Creates a link that is a plain text without an address.
    pub(in crate::dashboard) fn maybe(title: impl Display, address: Option<String>) -> Self {
        Self { title: title.to_string(), address, rel: None, current: None }
    }

    pub(in crate::dashboard) fn rel(self, rel: &'static str) -> Self {
        Self { rel: Some(rel), ..self }
    }

    /// Marks the link to the displayed page or view. `kind` is a value of `aria-current`.
    pub(in crate::dashboard) fn current(self, kind: &'static str, is_current: bool) -> Self {
        Self { current: is_current.then_some(kind), ..self }
    }
}

/// Renders links. `label` names them for screen readers.
pub(in crate::dashboard) fn nav(
    label: &str,
    class: Option<&str>,
    links: impl IntoIterator<Item = Link>,
) -> Markup {
    html! {
        nav class=[class] aria-label=(label) {
            ul {
                @for Link { title, address, rel, current } in links {
                    li {
                        @match address {
                            Some(address) => a href=(address) rel=[rel] aria-current=[current] { (title) },
                            None => span { (title) },
                        }
                    }
                }
            }
        }
    }
}
