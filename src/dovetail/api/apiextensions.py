"""apiextensions.k8s.io/v1 CustomResourceDefinition: what the API server knows a kind by."""

from __future__ import annotations

from typing import ClassVar

from dovetail.api.meta import Object


class CustomResourceDefinition(Object, frozen=True, kw_only=True):
    """Of a definition only its metadata is read: whether it is there, since when, and for how long yet."""

    API_VERSION: ClassVar[str] = "apiextensions.k8s.io/v1"
    KIND: ClassVar[str] = "CustomResourceDefinition"
    PLURAL: ClassVar[str] = "customresourcedefinitions"
    NAMESPACED: ClassVar[bool] = False


def definition_name(kind: type[Object]) -> str:
    """The name of the definition of a custom kind: plural and group."""
    return f"{kind.PLURAL}.{kind.API_VERSION.partition('/')[0]}"
