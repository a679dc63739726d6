//! Forms, their fields and their buttons.

use std::fmt::Display;

use maud::{Markup, PreEscaped, Render, html};

use super::super::access::SignedIn;

/// A form. Rendering writes its parts in the order in which they were added.
pub(in crate::dashboard) struct Form {
    method: &'static str,
    action: String,
    role: Option<&'static str>,
    class: Option<&'static str>,
    parts: String,
}

impl Form {
    /// Creates a form that changes something. It contains the secret of the user's session.
    pub(in crate::dashboard) fn post(user: &SignedIn, action: impl Into<String>) -> Self {
        Self::open(action).hidden("csrf", user.session.csrf())
    }

    /// Creates a form of a user who has no session yet.
    pub(in crate::dashboard) fn open(action: impl Into<String>) -> Self {
        Self { method: "post", ..Self::get(action) }
    }

    /// Creates a form whose fields become the query of a page's address.
    pub(in crate::dashboard) fn get(action: impl Into<String>) -> Self {
        let action = action.into();
        Self { method: "get", action, role: None, class: None, parts: String::new() }
    }

    /// Creates a form that searches or filters the content of a page.
    pub(in crate::dashboard) fn search(action: impl Into<String>) -> Self {
        Self { role: Some("search"), ..Self::get(action) }
    }

    pub(in crate::dashboard) fn class(self, class: &'static str) -> Self {
        Self { class: Some(class), ..self }
    }

    /// Adds a field that the user does not see.
    pub(in crate::dashboard) fn hidden(self, name: &str, value: impl Display) -> Self {
        self.with(html! { input type="hidden" name=(name) value=(value); })
    }

    /// Adds a part.
    pub(in crate::dashboard) fn with(self, part: impl Render) -> Self {
        self.with_all([part])
    }

    /// Adds parts.
    pub(in crate::dashboard) fn with_all<T: Render>(
        mut self,
        parts: impl IntoIterator<Item = T>,
    ) -> Self {
        parts.into_iter().for_each(|part| part.render_to(&mut self.parts));
        self
    }
}

impl Render for Form {
    fn render_to(&self, page: &mut String) {
        let form = html! {
            form class=[self.class] method=(self.method) action=(self.action) role=[self.role] {
                (PreEscaped(&self.parts))
            }
        };
        form.render_to(page);
    }
}

/// A button that sends its form.
pub(in crate::dashboard) struct Button {
    label: Markup,
    class: Option<&'static str>,
    /// The field that the button adds to the form.
    name: Option<&'static str>,
    value: Option<String>,
    /// The name for screen readers, if `label` is ambiguous on its page.
    full_name: Option<String>,
}

impl Button {
    pub(in crate::dashboard) fn new(label: impl Render) -> Self {
        Self { label: label.render(), class: None, name: None, value: None, full_name: None }
    }

    /// Creates the button of a page's main action.
    pub(in crate::dashboard) fn main(label: impl Render) -> Self {
        Self { class: Some("main"), ..Self::new(label) }
    }

    /// Creates a button that stops or removes something.
    pub(in crate::dashboard) fn stop(label: impl Render) -> Self {
        Self { class: Some("stop"), ..Self::new(label) }
    }

    /// Sends this field with the form, which shows the button that was used.
    pub(in crate::dashboard) fn sends(self, name: &'static str, value: impl Display) -> Self {
        Self { name: Some(name), value: Some(value.to_string()), ..self }
    }

    /// Sets the name for screen readers.
    pub(in crate::dashboard) fn full_name(self, name: impl Display) -> Self {
        Self { full_name: Some(name.to_string()), ..self }
    }
}

impl Render for Button {
    fn render_to(&self, page: &mut String) {
        let button = html! {
            button class=[self.class] type="submit" name=[self.name] value=[self.value.as_deref()]
                aria-label=[self.full_name.as_deref()] { (self.label) }
        };
        button.render_to(page);
    }
}

/// A line of text with its label.
pub(in crate::dashboard) struct TextField<'a> {
    id: &'a str,
    name: &'a str,
    label: &'a str,
    value: &'a str,
    /// The largest number of characters.
    most: Option<usize>,
    required: bool,
}

impl<'a> TextField<'a> {
    /// Creates a field. Its name in the form is `id`.
    pub(in crate::dashboard) fn new(id: &'a str, label: &'a str, value: &'a str) -> Self {
        Self { id, name: id, label, value, most: None, required: false }
    }

    pub(in crate::dashboard) fn name(self, name: &'a str) -> Self {
        Self { name, ..self }
    }

    pub(in crate::dashboard) fn most(self, characters: usize) -> Self {
        Self { most: Some(characters), ..self }
    }

    pub(in crate::dashboard) fn required(self) -> Self {
        Self { required: true, ..self }
    }
}

impl Render for TextField<'_> {
    fn render_to(&self, page: &mut String) {
        let value = Some(self.value).filter(|value| !value.is_empty());
        let field = html! {
            label for=(self.id) { (self.label) }
            input type="text" id=(self.id) name=(self.name) value=[value] maxlength=[self.most]
                autocomplete="off" required[self.required];
        };
        field.render_to(page);
    }
}

/// An entry of a [`select`] field.
pub(in crate::dashboard) struct Choice<'a> {
    pub(in crate::dashboard) value: &'a str,
    pub(in crate::dashboard) text: String,
    pub(in crate::dashboard) selected: bool,
}

/// Renders a field for one of several values, with its label.
pub(in crate::dashboard) fn select<'a>(
    id: &str,
    name: &str,
    label: impl Render,
    choices: impl IntoIterator<Item = Choice<'a>>,
) -> Markup {
    html! {
        label for=(id) { (label) }
        select id=(id) name=(name) {
            @for Choice { value, text, selected } in choices {
                option value=(value) selected[selected] { (text) }
            }
        }
    }
}
