"""apiextensions.k8s.io/v1 CustomResourceDefinition: what the API server knows a kind by."""

from __future__ import annotations

from typing import ClassVar

from dovetail.api.meta import Object, Part


class ServiceReference(Part, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""


class ClientConfig(Part, frozen=True, kw_only=True):
    """Where the webhook is: a service or a URL, and whose certificates it may have (PEM in base64)."""

    service: ServiceReference | None = None
    url: str = ""
    ca_bundle: str = ""


class ConversionWebhook(Part, frozen=True, kw_only=True):
    client_config: ClientConfig = ClientConfig()


class Conversion(Part, frozen=True, kw_only=True):
    strategy: str = ""
    webhook: ConversionWebhook = ConversionWebhook()


class Version(Part, frozen=True, kw_only=True):
    name: str = ""
    served: bool = False
    storage: bool = False


class DefinitionSpec(Part, frozen=True, kw_only=True):
    versions: tuple[Version, ...] = ()
    conversion: Conversion = Conversion()


class DefinitionStatus(Part, frozen=True, kw_only=True):
    stored_versions: tuple[str, ...] = ()


class CustomResourceDefinition(Object, frozen=True, kw_only=True):
    """Of a definition are read its metadata, its versions and who converts between them; not its schemas."""

    API_VERSION: ClassVar[str] = "apiextensions.k8s.io/v1"
    KIND: ClassVar[str] = "CustomResourceDefinition"
    PLURAL: ClassVar[str] = "customresourcedefinitions"
    NAMESPACED: ClassVar[bool] = False

    spec: DefinitionSpec = DefinitionSpec()
    status: DefinitionStatus = DefinitionStatus()


def definition_name(kind: type[Object]) -> str:
    """The name of the definition of a custom kind: plural and group."""
    return f"{kind.PLURAL}.{kind.API_VERSION.partition('/')[0]}"
