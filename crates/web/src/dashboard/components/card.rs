//! Cards.

use maud::{Markup, PreEscaped, Render, html};

/// A framed article with a heading. Rendering writes its parts in the order in which they were
/// added.
pub(in crate::dashboard) struct Card {
    id: Option<String>,
    /// Whether the heading is below another heading of the page.
    is_nested: bool,
    title: Markup,
    body: String,
}

impl Card {
    /// Creates a card with a heading.
    pub(in crate::dashboard) fn new(title: impl Render) -> Self {
        Self { id: None, is_nested: false, title: title.render(), body: String::new() }
    }

    /// Creates a card in a section that has a heading of its own.
    pub(in crate::dashboard) fn nested(title: impl Render) -> Self {
        Self { is_nested: true, ..Self::new(title) }
    }

    /// Sets the id by which the script finds the card again.
    pub(in crate::dashboard) fn id(self, id: String) -> Self {
        Self { id: Some(id), ..self }
    }

    /// Adds a part.
    pub(in crate::dashboard) fn with(mut self, part: impl Render) -> Self {
        part.render_to(&mut self.body);
        self
    }
}

impl Render for Card {
    fn render_to(&self, page: &mut String) {
        let card = html! {
            article.card id=[self.id.as_deref()] {
                @if self.is_nested { h3 { (self.title) } } @else { h2 { (self.title) } }
                (PreEscaped(&self.body))
            }
        };
        card.render_to(page);
    }
}
