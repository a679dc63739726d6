//! The fields of forms and addresses, and the results of forms.

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{Form, FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};

use super::access::{SignedIn, check_access, session_of};
use super::secret::same;
use super::sessions::DashboardSession;
use super::{DashboardState, frame};
use aetheel_model::plain::short_line;

/// The fields of a form or of an address, in their order.
#[derive(Default)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Returns the first field with this name, or an empty string if there is no such field.
    pub(super) fn one(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(given, _)| given == name);
        found.map_or("", |(_, value)| value)
    }

    /// Returns the value of a field, or `None` if the field is missing or has another form.
    pub(super) fn parse<T: FromStr>(&self, name: &str) -> Option<T> {
        self.one(name).parse().ok()
    }

    /// Returns all fields with this name that are not empty.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let of = self.0.iter().filter(move |(given, _)| given == name);
        of.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }
}

/// The fields of an address. An address whose query cannot be read has none.
impl<S: Send + Sync> FromRequestParts<S> for Fields {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let fields = Query::try_from_uri(&parts.uri);
        Ok(fields.map_or_else(|_| Self::default(), |Query(fields)| Self(fields)))
    }
}

/// A form with a valid secret, from a signed-in user who still has access.
pub(super) struct SubmittedForm {
    pub(super) user: SignedIn,
    pub(super) fields: Fields,
}

impl SubmittedForm {
    /// Returns an error unless the user is an owner.
    pub(super) fn check_owner(&self) -> Result<(), FormRefusal> {
        if self.user.is_owner() { Ok(()) } else { Err(FormRefusal::NotFound) }
    }

    /// Returns the response to a form: a redirect to a page that shows the result.
    pub(super) async fn answer(
        &self,
        path: &str,
        result: Result<impl Into<String>, FormRefusal>,
    ) -> Response {
        let user = &self.user;
        match result {
            Ok(notice) => user.redirect(path, notice),
            Err(FormRefusal::NotFound) => frame::not_found().await,
            Err(FormRefusal::Notice(text)) => user.redirect(path, text),
            Err(FormRefusal::Forbidden) => {
                tracing::warn!(
                    user = user.id().to_field(),
                    lane = short_line(self.fields.one("lane"), 80),
                    path,
                    "refused a form of the dashboard: the user may not act there"
                );
                user.redirect(path, "You are not allowed to do that there.")
            }
        }
    }
}

/// The reason why a form has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FormRefusal {
    /// For this user, the address of the form does not exist.
    NotFound,
    /// The user may see the lane but not act in it.
    Forbidden,
    /// A reason for the user.
    Notice(Cow<'static, str>),
}

impl FormRefusal {
    /// Refuses a form with a fixed text.
    pub(super) const fn of(text: &'static str) -> Self {
        Self::Notice(Cow::Borrowed(text))
    }

    /// Refuses a form with the text of an error.
    pub(super) fn because(error: impl ToString) -> Self {
        Self::Notice(Cow::Owned(error.to_string()))
    }
}

impl FromRequest<Arc<DashboardState>> for SubmittedForm {
    type Rejection = Response;

    async fn from_request(
        request: Request,
        shared: &Arc<DashboardState>,
    ) -> Result<Self, Self::Rejection> {
        let SessionForm { session, fields } = SessionForm::from_request(request, shared).await?;
        let user = check_access(shared, session).await.map_err(IntoResponse::into_response)?;
        Ok(Self { user, fields })
    }
}

/// A form with a valid secret, from a signed-in user who may have lost access. Used for signing
/// out.
pub(super) struct SessionForm {
    pub(super) session: Arc<DashboardSession>,
    fields: Fields,
}

impl FromRequest<Arc<DashboardState>> for SessionForm {
    type Rejection = Response;

    async fn from_request(
        request: Request,
        shared: &Arc<DashboardState>,
    ) -> Result<Self, Self::Rejection> {
        let session = session_of(shared, request.headers()).map_err(IntoResponse::into_response)?;
        let fields = form_fields(request, shared).await?;
        if !same(fields.one("csrf"), session.csrf()) {
            let text =
                "This form belongs to another session. Go back, reload the page and try again.";
            return Err(frame::notice(StatusCode::FORBIDDEN, "Not done", text));
        }
        Ok(Self { session, fields })
    }
}

/// Reads the fields of a form, without any check.
pub(super) async fn form_fields(
    request: Request,
    shared: &Arc<DashboardState>,
) -> Result<Fields, Response> {
    let form = Form::<Vec<(String, String)>>::from_request(request, shared).await;
    form.map(|Form(fields)| Fields(fields)).map_err(|_| invalid_form())
}

/// Returns the response to a form that is invalid or too long.
pub(super) fn invalid_form() -> Response {
    let text = "This is not a form of this dashboard, or it is too long.";
    frame::plain(StatusCode::BAD_REQUEST, text)
}
