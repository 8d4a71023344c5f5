"""Where an API server is and who asks it."""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
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
    authority: bytes = b""  # PEM of what is trusted, and nothing else; empty: what the machine trusts
    authority_file: Path | None = None  # where that is, if it may be renewed meanwhile
    insecure: bool = False  # True iff any certificate of the server is taken; never with an authority
    server_name: str = ""  # the name that the server's certificate must have; empty: the host's
    proxy: str = ""
    namespace: str = "default"
    in_cluster: bool = False  # True iff it is a pod's own, and the namespace is the pod's
    source: str = ""  # where all this is written, for messages

    def __post_init__(self) -> None:
        if self.insecure and (self.authority or self.authority_file is not None):
            raise InputError(
                "insecure-skip-tls-verify and a certificate authority exclude each other",
                source=self.source,
                remedy="remove insecure-skip-tls-verify, then the authority is verified; or the authority",
            )

    def trusted(self) -> bytes:
        """PEM of the authorities that may sign the server's certificate; empty: those of the machine.

        Raises InputError for a file that cannot be read or holds no certificate.
        """
        if self.authority_file is None:
            return self.authority
        try:
            found = self.authority_file.read_bytes()
        except OSError as error:
            raise InputError(
                f"the certificate authority cannot be read: {error.strerror}", source=str(self.authority_file)
            ) from None
        return certificates(found, str(self.authority_file))

    def version(self) -> tuple[int, ...] | None:
        """Which file those are read from now: another one once it was replaced or written again. None: it
        cannot be seen.

        Its size as well, since clocks of file systems stand still for some milliseconds.
        """
        if self.authority_file is None:
            return ()
        try:
            seen = self.authority_file.stat()
        except OSError:
            return None
        return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns

    def tls(self, certificate: Certificate | None, trusted: bytes = b"") -> ssl.SSLContext:
        """The context of connections to a server that `trusted`, see the method, may have signed.

        An authority takes the place of the machine's, as in Kubernetes' own clients: whatever a public
        authority signs is no API server of ours. Raises InputError for certificates that cannot be read.
        """
        # Unlike the default context, this one trusts no authority yet; it checks certificates and host names.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.insecure:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            if trusted:  # OpenSSL passes over what is not between BEGIN and END, if it is ASCII
                context.load_verify_locations(cadata=trusted.decode("ascii", "ignore"))
            elif not self.insecure:
                context.load_default_certs()
            if certificate is not None:
                _load(context, certificate)
        except (ssl.SSLError, ValueError) as error:
            raise InputError(
                f"a certificate or key cannot be read: {error}",
                source=self.source,
                remedy="certificates and keys must be PEM, and the key must be the certificate's",
            ) from None
        return context


def certificates(found: bytes, source: str) -> bytes:
    """That PEM as it is. Raises InputError if it has no certificate: nothing, or the machine's authorities in
    its place, must not be trusted by mistake."""
    if b"-----BEGIN CERTIFICATE-----" not in found and b"-----BEGIN TRUSTED CERTIFICATE-----" not in found:
        raise InputError(
            "the certificate authority holds no certificate",
            source=source,
            remedy="it must be PEM; without it, the machine's authorities are trusted",
        )
    return found


def _load(context: ssl.SSLContext, certificate: Certificate) -> None:
    """Python's TLS reads client certificates from files alone; this one is private and gone at once."""
    with tempfile.NamedTemporaryFile(prefix="dovetail-") as file:
        file.write(certificate.certificate + b"\n" + certificate.key)
        file.flush()
        context.load_cert_chain(file.name)
