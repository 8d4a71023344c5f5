"""Objects of older generations of the API, taken for what they are in today's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from dovetail.api.admission import schema_of
from dovetail.api.generations.admission import broken_rules, old_schema
from dovetail.api.generations.editing import Document, shown
from dovetail.api.generations.upgrade import Trouble, Upgraded, is_old, upgrade
from dovetail.api.schema import Schema, unknown_fields, without_unknown
from dovetail.base.errors import InputError, InputErrors
from dovetail.reading.kinds import is_from_server
from dovetail.reading.located import Located
from dovetail.reading.paths import at
from dovetail.reading.refusals import broken, refusal, subject, unknown_field
from dovetail.reading.served import ServedPod

_MOST_NAMED = 3  # fields of a workload


def today(
    objects: Iterable[Located], *, note: Callable[[str], None], fault: Callable[[InputError], None]
) -> Iterator[Located]:
    """The objects in today's generation, in their order; new ones follow what they were made of.

    One note names each object that is not what was written. An object that its own generation would have
    refused, or that has no counterpart today, goes to `fault` and is left out.
    """
    admitted: list[Located] = []
    for located in objects:
        try:
            admitted.append(_admitted(located))
        except InputError as error:
            fault(error)
    named = [place for place, located in enumerate(admitted) if not _today_already(located)]
    made: dict[int, list[Upgraded]] = {}
    for result in upgrade([admitted[place].value for place in named]):
        made.setdefault(named[result.index], []).append(result)
    for place, located in enumerate(admitted):
        if place not in made:
            yield located
        for result in made.get(place, ()):
            yield from _converted(located, result, note, fault)


def _today_already(located: Located) -> bool:
    """True of a pod whose text has no word of Karpenter's: those of all generations have its name in them.

    A cluster has thousands of these.
    """
    if isinstance(located, ServedPod):
        return True
    if located.value.get("kind") != "Pod":
        return False
    text = located.text()  # there is none of what came from an API server
    return bool(text) and "karpenter" not in text


def _converted(
    located: Located, result: Upgraded, note: Callable[[str], None], fault: Callable[[InputError], None]
) -> Iterator[Located]:
    """The object of today, unless it cannot be had."""
    whole = next((trouble for trouble in result.troubles if trouble.whole), None)
    if whole is not None:
        fault(refusal(located, shown(whole.path), whole.text, whole.remedy))
    elif result.document is located.value:
        yield located
    else:
        note(_note(located, result))
        moved = tuple(
            (shown(change.new), shown(change.old))
            for change in result.changes()
            if change.new is not None and change.old is not None
        )
        yield located.with_value(result.document, (*moved, *_tags(result.document, moved)))


def _tags(document: Document, moved: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Where each tag of the terms was, that a map of tags has become."""
    for new, old in moved:
        terms = at(document, new) if new.endswith("SelectorTerms") and old.endswith("Selector") else None
        for index, term in enumerate(terms if isinstance(terms, list) else ()):
            for key in term.get("tags") or ():
                yield f"{new}[{index}].tags.{key}", f"{old}.{key}"


def admit_old(located: Located, schema: Schema) -> Document:
    """The object of an older generation, without what a server keeps that its schema does not know.

    Raises InputErrors with all that its own generation refuses it for.
    """
    document: Document = located.value
    unknown = list(unknown_fields(schema, document))
    if is_from_server(document):
        # Its server took it, whatever is thought of it here.
        kept: Document = without_unknown(schema, document) if unknown else document
        return kept
    newer = _newer(document, unknown)
    if newer:
        message = f"{unknown[0]} is a field of {newer}; did you mean {newer}?"
        raise refusal(located, "apiVersion", message)
    if unknown:
        raise InputErrors.of(tuple(unknown_field(schema, path, located) for path in unknown))
    causes = broken_rules(schema, document)
    if causes:
        raise broken(causes, located)
    return document


def _newer(document: Document, unknown: list[str]) -> str:
    """Today's version of the kind, where it has all the fields that its own lacks; else empty."""
    version = f"{str(document['apiVersion']).partition('/')[0]}/v1"
    schema = schema_of({"apiVersion": version, "kind": document["kind"]})
    known = schema is not None and not set(unknown) & set(unknown_fields(schema, document))
    return version if unknown and known else ""


def _admitted(located: Located) -> Located:
    if isinstance(located, ServedPod):
        return located
    schema = old_schema(located.value)
    if schema is None:
        return located
    document = admit_old(located, schema)
    return located if document is located.value else located.with_value(document)


def _note(located: Located, result: Upgraded) -> str:
    """One line about an object that was converted."""
    was, now = subject(located.value), subject(result.document)
    changes = [change for change in result.changes() if change.why]
    if result.made:
        what = f"{now['kind']} {now['name']} is {result.made}"
    elif is_old(located.value):
        version, today_version = located.value["apiVersion"], result.document["apiVersion"]
        what = (
            f"{was['kind']} {was['name']} of {version} is taken for {now['kind']} {now['name']} of "
            f"{today_version}, with {len(changes)} changes that `dovetail convert` shows"
        )
    elif all(change.old is None for change in changes):
        fields = [shown(change.new or ()) for change in changes]
        what = f"{was['kind']} {was['name']} takes {', '.join(fields)} of a pool"
    else:
        fields = [shown(change.old) for change in changes if change.old is not None]
        named = ", ".join(fields[:_MOST_NAMED])
        more = f" and {len(fields) - _MOST_NAMED} more" if len(fields) > _MOST_NAMED else ""
        what = f"{was['kind']} {was['name']} is taken by today's names in {named}{more}"
    return f"{located.source}:{located.line}: {what}{_needed(result.troubles)}"


def _needed(troubles: list[Trouble]) -> str:
    return "".join(f"; {trouble.text}: {trouble.remedy}" for trouble in troubles)
