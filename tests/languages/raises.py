"""The backend with a mistake in it: it trusts that every line has a colour."""

import gemini
from app import Backend  # noqa: F401, what the component is made of


def message(self, message, raw, emit):
    emit.event(message["colour"])


gemini.Gemini.message = message
