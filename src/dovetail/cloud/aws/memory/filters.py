"""Filters of Describe calls as EC2 reads them: ANDed, their values ORed, * and ? stand for anything."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

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
    for one in filters:
        exact, patterns = _kinds(one.values)
        texts = _texts(one.name, fields, tags)
        if exact.isdisjoint(texts) and not any(
            fnmatchcase(text, pattern) for text in texts for pattern in patterns
        ):
            return False
    return True


def _texts(name: str, fields: Mapping[str, str], tags: Mapping[str, str]) -> Collection[str]:
    """What a filter of that name looks at; any of it may match."""
    if name == "tag-key":
        return tags.keys()
    if not name.startswith(_TAG):
        return (fields[name],)
    found = tags.get(name.removeprefix(_TAG))
    return () if found is None else (found,)


# One call asks for up to 200 instances by their ids, and each instance there is is held against them.
@lru_cache(maxsize=1024)
def _kinds(values: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Plain values, and patterns."""
    patterns = tuple(value for value in values if "*" in value or "?" in value)
    # fnmatch knows sets in brackets as well, EC2 does not.
    return frozenset(values).difference(patterns), tuple(one.replace("[", "[[]") for one in patterns)
