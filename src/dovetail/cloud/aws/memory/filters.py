"""Filters of Describe calls as EC2 reads them: ANDed, their values ORed, * and ? stand for anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from dovetail.cloud.aws.errors import AwsError
from dovetail.cloud.aws.images import Filter

_TAG = "tag:"


def check(action: str, filters: Iterable[Filter], known: Sequence[str]) -> None:
    """Raises what EC2 says to a filter that it does not have."""
    for one in filters:
        if not (one.name in known or one.name == "tag-key" or one.name.startswith(_TAG)):
            raise AwsError(action, "InvalidParameterValue", f"The filter '{one.name}' is invalid")


def matches(filters: Iterable[Filter], fields: Mapping[str, str], tags: Mapping[str, str]) -> bool:
    """True iff all filters hold for a resource with these fields, by the names of the filters."""
    return all(any(_holds(one.name, value, fields, tags) for value in one.values) for one in filters)


def _holds(name: str, value: str, fields: Mapping[str, str], tags: Mapping[str, str]) -> bool:
    if name == "tag-key":
        return any(_like(key, value) for key in tags)
    if name.startswith(_TAG):
        found = tags.get(name.removeprefix(_TAG))
        return found is not None and _like(found, value)
    return _like(fields[name], value)


def _like(text: str, pattern: str) -> bool:
    # fnmatch knows sets in brackets as well, EC2 does not.
    return fnmatchcase(text, pattern.replace("[", "[[]"))
