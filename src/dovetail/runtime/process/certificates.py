"""Certificates of the conversion webhook: an authority of its own signs each, and its key is thrown away.

Pure but for the keys, which are random. Instants are nanoseconds since the Unix epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dovetail.base.clock import DAY, SECOND

VALID = 60 * DAY
RENEWED = 20 * DAY  # before its end
_EARLY = timedelta(hours=1)  # clocks of API servers may be behind ours
# Names of the values in the Secret, as Karpenter's.
KEY, CHAIN, AUTHORITIES = "server-key.pem", "server-cert.pem", "ca-cert.pem"


class Unusable(ValueError):
    """A Secret holds no certificate to serve with; the text says why."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """All in PEM. `authorities` are what an API server has to trust: the newest, then the one before it."""

    key: bytes
    chain: bytes
    authorities: bytes
    ends: int

    def due(self, now: int) -> bool:
        """True iff it is to be renewed."""
        return now >= self.ends - RENEWED

    def data(self) -> dict[str, bytes]:
        """The values of its Secret."""
        return {KEY: self.key, CHAIN: self.chain, AUTHORITIES: self.authorities}


def issue(names: Sequence[str], now: int, before: bytes = b"") -> Certificate:
    """A new certificate for DNS names, the first of which is its subject.

    `before` are the authorities of the one that it replaces: those that are still valid stay trusted, so that
    other replicas may go on with the old one until they know the new.
    """
    begin = _moment(now) - _EARLY
    end = _moment(now + VALID)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{names[0][:48]} authority")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    authority = _signed(
        _builder(issuer, issuer, authority_key.public_key(), begin, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(sign_certificates=True), critical=True),
        authority_key,
    )
    server = _signed(
        _builder(issuer, subject, key.public_key(), begin, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(sign_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        ),
        authority_key,
    )
    kept = [one for one in _parsed(before) if one.not_valid_after_utc > _moment(now)][:1]
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    bundle = b"".join(_pem(one) for one in (authority, *kept))
    return Certificate(private, _pem(server), bundle, _nanoseconds(end))


def read(data: Mapping[str, bytes], names: Sequence[str]) -> Certificate:
    """The certificate of a Secret. Raises Unusable if it is not one for these names, whole and signed."""
    if missing := [name for name in (KEY, CHAIN, AUTHORITIES) if not data.get(name)]:
        raise Unusable(f"it has no {' and no '.join(missing)}")
    try:
        key = serialization.load_pem_private_key(data[KEY], None)
        server = x509.load_pem_x509_certificate(data[CHAIN])
        authorities = x509.load_pem_x509_certificates(data[AUTHORITIES])
        found = server.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        # One that another authority signed would be refused by every API server.
        server.verify_directly_issued_by(authorities[0])
    except (ValueError, TypeError, x509.ExtensionNotFound, InvalidSignature) as error:
        raise Unusable(f"it cannot be read: {error}") from None
    public = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    if key.public_key().public_bytes(*public) != server.public_key().public_bytes(*public):
        raise Unusable("its key is that of another certificate")
    if lacking := set(names) - set(found.value.get_values_for_type(x509.DNSName)):
        raise Unusable(f"it is not for {', '.join(sorted(lacking))}")
    ends = min(server.not_valid_after_utc, authorities[0].not_valid_after_utc)
    return Certificate(data[KEY], data[CHAIN], data[AUTHORITIES], _nanoseconds(ends))


def _builder(
    issuer: x509.Name, subject: x509.Name, key: ec.EllipticCurvePublicKey, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _signed(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    return builder.sign(key, hashes.SHA256())


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _parsed(bundle: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return []


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _moment(instant: int) -> datetime:
    return datetime.fromtimestamp(instant // SECOND, UTC)


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * SECOND
