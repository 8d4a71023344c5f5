"""Kubernetes' rules on names, label keys and label values, with the words of its own messages."""

from __future__ import annotations

import re
from functools import lru_cache

_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_MAX_PART, _MAX_SUBDOMAIN = 63, 253
_REMEMBERED = 4_096  # keys and values, 93 bytes each on average; names come once and are not remembered

_PART_WORDS = (
    "consist of alphanumeric characters, '-', '_' or '.', "  # then how it begins and ends
    "and must start and end with an alphanumeric character"
)
_NAME_PART_WORDS = (
    f"name part must {_PART_WORDS} (e.g. 'MyName',  or 'my.name',  or '123-abc', "
    f"regex used for validation is '{_PART.pattern}')"
)
_VALUE_WORDS = (
    f"a valid label must be an empty string or {_PART_WORDS} (e.g. 'MyValue',  or 'my_value',  or '12345', "
    f"regex used for validation is '({_PART.pattern})?')"
)
_SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN.pattern}')"
)
_LABEL_WORDS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL.pattern}')"
)


def object_name_faults(name: str) -> tuple[str, ...]:
    """What is wrong with the name of an object; empty when it is fine."""
    faults = []
    if len(name.encode()) > _MAX_SUBDOMAIN:
        faults.append(f"must be no more than {_MAX_SUBDOMAIN} characters")
    if not _SUBDOMAIN.fullmatch(name):
        faults.append(_SUBDOMAIN_WORDS)
    return tuple(faults)


def label_name_faults(name: str) -> tuple[str, ...]:
    """What is wrong with the name of a container, a volume or a StatefulSet; empty when it is fine."""
    faults = []
    if len(name.encode()) > _MAX_PART:
        faults.append(f"must be no more than {_MAX_PART} characters")
    if "." in name:
        faults.append("must not contain dots")
    elif not _LABEL.fullmatch(name):
        faults.append(_LABEL_WORDS)
    return tuple(faults)


@lru_cache(maxsize=_REMEMBERED)
def label_key_faults(key: str) -> tuple[str, ...]:
    """What is wrong with a label key ("qualified name"); empty when it is fine."""
    prefix, slash, part = key.rpartition("/")
    faults = []
    if slash and not prefix:
        faults.append("prefix part must be non-empty")
    elif slash and (len(prefix.encode()) > _MAX_SUBDOMAIN or not _SUBDOMAIN.fullmatch(prefix)):
        faults.append(f"prefix part {_SUBDOMAIN_WORDS}")
    if not part:
        faults.append("name part must be non-empty")
    elif len(part.encode()) > _MAX_PART:
        faults.append(f"name part must be no more than {_MAX_PART} bytes")
    elif not _PART.fullmatch(part):
        faults.append(_NAME_PART_WORDS)
    return tuple(faults)


@lru_cache(maxsize=_REMEMBERED)
def label_value_faults(value: str) -> tuple[str, ...]:
    """What is wrong with a label value; empty when it is fine."""
    if len(value.encode()) > _MAX_PART:
        return (f"must be no more than {_MAX_PART} bytes",)
    if value and not _PART.fullmatch(value):
        return (_VALUE_WORDS,)
    return ()
