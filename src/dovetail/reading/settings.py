"""Settings whose value is YAML or JSON: one object, judged by its schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dovetail.api.schema import Schema, unknown_fields, validate, with_defaults
from dovetail.base.errors import InputError
from dovetail.reading.located import Located
from dovetail.reading.refusals import broken, unknown_field
from dovetail.reading.yamltext import read_documents

Check = Callable[[Located], None]
Mend = Callable[[Any], Any]


def read_setting(
    text: str,
    source: str,
    schema: Schema,
    *,
    holds: str,
    example: str,
    check: Check = lambda _: None,
    mend: Mend = lambda value: value,
) -> tuple[Any, Located] | None:
    """The object with its defaults, and where it is written; None for an empty text.

    `check` may refuse it before its fields are looked at, `mend` makes of it what was meant before it is
    judged. Raises InputError with line, field and remedy, named after `source`; for what is no object at all
    it says what it `holds`, with the `example`.
    """
    found = read_documents(text, source)
    if not found:
        return None
    if len(found) > 1:
        raise InputError(f"expected one document, found {len(found)}", source=source, remedy="leave out ---")
    located = found[0]
    if not isinstance(located.value, dict):
        remedy = f"give the text itself, no file's name, such as {example}"
        raise InputError(f"expected an object with {holds}", source=source, remedy=remedy)
    check(located)
    unknown = next(unknown_fields(schema, located.value), None)
    if unknown is not None:
        raise unknown_field(schema, unknown, located)
    document = mend(with_defaults(schema, located.value))
    if causes := validate(schema, document):
        raise broken(causes, located)
    return document, located
