"""apiextensions.k8s.io ConversionReview: what an API server asks of a conversion webhook, and the answers.

Pure: what of NodePools a claim needs to know is passed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from dovetail.api.generations import beta_schema, beta_to_v1, v1_to_beta
from dovetail.api.generations.beta_to_v1 import NODE_POOL_LABEL
from dovetail.api.generations.editing import Document

# Group -> the path under which the webhook answers for it, as in the original.
PATHS = {group: f"/conversion/{group}" for group in ("karpenter.sh", "karpenter.k8s.aws")}
OLDER, CURRENT = "v1beta1", "v1"
_BETA = frozenset((beta_schema.NODE_POOL, beta_schema.NODE_CLAIM, beta_schema.EC2_NODE_CLASS))
_SPOKEN = ("apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1")
_NEVER = "Never"


class Malformed(ValueError):
    """The body is no ConversionReview that asks something."""


class Refused(ValueError):
    """An object cannot be converted; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Review:
    """One request: `objects` are to become objects of the version `wanted` (with its group)."""

    api_version: str
    uid: str
    wanted: str
    objects: Sequence[Document]


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    desired_api_version: str = msgspec.field(name="desiredAPIVersion")
    objects: list[dict[str, Any]]


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: _Request


_DECODER = msgspec.json.Decoder(_Review)


def read(body: bytes) -> Review:
    """The review that a body asks for. Raises Malformed."""
    try:
        found = _DECODER.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"the body is no ConversionReview with a request: {error}") from None
    if found.kind != "ConversionReview" or found.api_version not in _SPOKEN:
        raise Malformed(
            f"the body is {found.api_version} {found.kind}; expected a ConversionReview of {_SPOKEN[0]}"
        )
    request = found.request
    return Review(found.api_version, request.uid, request.desired_api_version, request.objects)


def pools_named(review: Review) -> frozenset[str]:
    """Names of NodePools whose expiry the claims of a review take on their way to v1."""
    if review.wanted != f"karpenter.sh/{CURRENT}":
        return frozenset()
    claims = (item for item in review.objects if _key(item) == beta_schema.NODE_CLAIM)
    named = (_of(_of(_of(item, "metadata"), "labels"), NODE_POOL_LABEL) for item in claims)
    return frozenset(name for name in named if isinstance(name, str) and name)


def pool_that_expires(after: str) -> Document:
    """As much of a v1 NodePool as the conversion of its claims looks at."""
    return {"spec": {"template": {"spec": {"expireAfter": after or _NEVER}}}}


def convert(document: Document, wanted: str, pools: Mapping[str, Document]) -> Document:
    """One object in the version that is wanted; one that has it already is the answer. Raises Refused."""
    key = _key(document)
    if key[0] == wanted:
        return document
    try:
        if key in _BETA and wanted == _sibling(key[0], CURRENT):
            return beta_to_v1.convert(document, pools)
        if key in v1_to_beta.KINDS and wanted == _sibling(key[0], OLDER):
            return v1_to_beta.convert(document)
    except v1_to_beta.NotConvertible as error:
        raise Refused(_words(document, wanted, str(error))) from None
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        # An API server asks about what fits the definition; anything else may come from elsewhere.
        why = f"its fields have other types than those of a {key[0]} {key[1]}"
        raise Refused(_words(document, wanted, why)) from None
    raise Refused(_words(document, wanted, "there is no conversion between these two"))


def converted(review: Review, objects: Sequence[Document]) -> Document:
    """The answer of a review whose objects could all be converted, in their order."""
    return _answer(review, {"convertedObjects": list(objects), "result": {"status": "Success"}})


def refused(review: Review, why: str) -> Document:
    """The answer of a review of which at least one object could not."""
    return _answer(review, {"convertedObjects": [], "result": {"status": "Failure", "message": why}})


def _answer(review: Review, outcome: Document) -> Document:
    response = {"uid": review.uid, **outcome}
    return {"apiVersion": review.api_version, "kind": "ConversionReview", "response": response}


def _key(document: Document) -> tuple[str, str]:
    return str(document.get("apiVersion", "")), str(document.get("kind", ""))


def _sibling(api_version: str, version: str) -> str:
    return f"{api_version.partition('/')[0]}/{version}"


def _of(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None


def _words(document: Document, wanted: str, why: str) -> str:
    version, kind = _key(document)
    name = _of(document.get("metadata"), "name")
    return f"conversion of {version} {kind} {name or 'without a name'} to {wanted} failed: {why}"[:_MOST]


_MOST = 1_000  # characters: a text may quote fields of the object
