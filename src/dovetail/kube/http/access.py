"""Where an API server is and who asks it."""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass, field
from typing import Protocol

from dovetail.base.errors import InputError


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate and its key, as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Proof:
    """What a request shows for itself. Both may be empty: the server may know its clients otherwise."""

    token: str = field(default="", repr=False)
    certificate: Certificate | None = None


class Credentials(Protocol):
    """Who asks."""

    async def proof(self, *, renew: bool = False) -> Proof:
        """The present proof; `renew` after the server refused the last one.

        Raises InputError when there is none to be had.
        """


@dataclass(frozen=True, slots=True)
class Access:
    """One API server as one user sees it."""

    server: str  # "https://host:port", without a slash at the end
    credentials: Credentials
    authority: bytes = b""  # PEM of whom to trust; empty: whom the machine trusts
    insecure: bool = False  # True iff any certificate of the server is taken
    server_name: str = ""  # the name that the server's certificate must have; empty: the host's
    proxy: str = ""
    namespace: str = "default"
    in_cluster: bool = False  # True iff it is a pod's own, and the namespace is the pod's
    source: str = ""  # where all this is written, for messages

    def tls(self, certificate: Certificate | None) -> ssl.SSLContext:
        """The context of connections. Raises InputError for certificates that cannot be read."""
        context = ssl.create_default_context()
        if self.insecure:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            if self.authority:
                context.load_verify_locations(cadata=self.authority.decode())
            if certificate is not None:
                _load(context, certificate)
        except (ssl.SSLError, UnicodeDecodeError) as error:
            raise InputError(
                f"a certificate or key cannot be read: {error}",
                source=self.source,
                remedy="certificates and keys must be PEM, and the key must be the certificate's",
            ) from None
        return context


def _load(context: ssl.SSLContext, certificate: Certificate) -> None:
    """Python's TLS reads client certificates from files alone; this one is private and gone at once."""
    with tempfile.NamedTemporaryFile(prefix="dovetail-") as file:
        file.write(certificate.certificate + b"\n" + certificate.key)
        file.flush()
        context.load_cert_chain(file.name)
