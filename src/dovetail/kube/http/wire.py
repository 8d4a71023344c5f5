"""What goes over the wire: paths, bodies, and what answers mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from dovetail.api.codec import decode
from dovetail.api.core import Namespace
from dovetail.api.meta import Object
from dovetail.base.clock import SECOND
from dovetail.base.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    TimedOut,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from dovetail.kube.unreadable import UNREADABLE, Unreadable, plain, unreadable
from dovetail.units.quantity import parse_quantity

T = TypeVar("T")
K = TypeVar("K", bound=Object)

_BY_REASON: dict[str, type[ApiError]] = {
    "NotFound": NotFound,
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "Expired": Expired,
    "Gone": Expired,
    "BadRequest": BadRequest,
    "Unauthorized": Unauthorized,
    "Forbidden": Forbidden,
    "ServiceUnavailable": Unavailable,
    "Timeout": TimedOut,
    "ServerTimeout": TimedOut,
}
_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    502: Unavailable,
    503: Unavailable,
    504: TimedOut,
}


def path(kind: type[Object], namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Where objects of a kind live, or one of them, or a part of it."""
    parts = ["/apis" if "/" in kind.API_VERSION else "/api", kind.API_VERSION]
    if namespace and kind.NAMESPACED:
        parts += [f"{Namespace.PLURAL}/{quote(namespace, safe='')}"]
    parts.append(kind.PLURAL)
    if name:
        parts.append(quote(name, safe=""))
    if subresource:
        parts.append(subresource)
    return "/".join(parts)


def _read(kind: type, value: object) -> object:
    """Quantities are the only values that JSON has no type for; see api.codec."""
    if isinstance(value, str | int | float):
        return parse_quantity(value)
    raise ValueError(f"expected {kind.__name__}, got {value!r}")


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continues: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A part of a list."""

    metadata: ListMeta
    items: tuple[T, ...] = ()
    unreadable: tuple[Unreadable[Any], ...] = ()


class _Parts(msgspec.Struct, frozen=True):
    """A page whose objects are read one by one."""

    metadata: dict[str, Any] = {}
    items: tuple[msgspec.Raw, ...] | None = None


_PARTS = msgspec.json.Decoder(_Parts)
_AT_ONCE = 1 << 18  # bytes of a list that are read in one go


class Change(msgspec.Struct, frozen=True):
    """One line of a watch. What `object` is depends on the type."""

    type: str
    object: msgspec.Raw


_CHANGE = msgspec.json.Decoder(Change)


class Reader(Generic[K]):
    """Decodes answers about one kind straight into its typed view."""

    def __init__(self, kind: type[K]) -> None:
        self._kind = kind
        self._one = msgspec.json.Decoder(kind, dec_hook=_read)
        page: Any = Page[kind]  # type: ignore[valid-type]  # made at run time, for msgspec
        self._page: msgspec.json.Decoder[Page[K]] = msgspec.json.Decoder(page, dec_hook=_read)

    def one(self, body: bytes | msgspec.Raw) -> K:
        """One object. Raises ApiError for what is none."""
        found = self.any(body)
        if isinstance(found, Unreadable):
            raise self._error(found.cause)
        return found

    def any(self, body: bytes | msgspec.Raw) -> K | Unreadable[K]:
        """One object, readable or not. Raises ApiError where not even its name and version are."""
        try:
            return self._one.decode(body)
        except UNREADABLE as error:
            return self._leniently(self._document(body, error), error)

    def slices(self, body: bytes) -> Iterator[Page[K]]:
        """A part of a list, one slice at a time: whoever reads it lets others have their turn between two.

        A slice ends after 256 KiB, which take 20 ms at most, and after each object that cannot be read.
        Raises ApiError.
        """
        if len(body) <= _AT_ONCE:
            try:
                whole = self._page.decode(body)
            except UNREADABLE:
                pass
            else:
                yield whole
                return
        parts = self._parts(body)
        try:
            meta = decode(parts.metadata, ListMeta)
        except UNREADABLE as error:
            raise self._error(error) from None
        items: list[K] = []
        size = 0
        for item in parts.items or ():
            found = self.any(item)
            size += len(item)
            if not isinstance(found, Unreadable):
                items.append(found)
            if size > _AT_ONCE or isinstance(found, Unreadable):
                yield Page(meta, tuple(items), (found,) if isinstance(found, Unreadable) else ())
                items, size = [], 0
        yield Page(meta, tuple(items))

    def _parts(self, body: bytes) -> _Parts:
        """Raises ApiError for what is no list."""
        try:
            return _PARTS.decode(body)
        except UNREADABLE as error:
            why = error
        try:
            return _PARTS.decode(plain(body))
        except UNREADABLE:
            raise self._error(why) from None

    def _leniently(self, document: object, why: Exception) -> K | Unreadable[K]:
        """Once more, as `decode` reads it: a null means absent, as older servers write it."""
        try:
            return decode(document, self._kind)
        except UNREADABLE as error:
            found = unreadable(self._kind, document, error)
            if found is None:
                raise self._error(why) from None
            return found

    def _document(self, body: bytes | msgspec.Raw, why: Exception) -> Any:
        """Raises ApiError for what is no JSON at all."""
        try:
            return msgspec.json.decode(body)
        except UNREADABLE:
            pass
        try:
            return msgspec.json.decode(plain(bytes(body)))
        except UNREADABLE:
            raise self._error(why) from None

    def _error(self, why: object) -> ApiError:
        return ApiError(f"the server sent a {self._kind.KIND} that cannot be read: {why}")


_READERS: dict[type[Object], Reader[Any]] = {}


def reader(kind: type[K]) -> Reader[K]:
    """The decoder of a kind, made once."""
    if kind not in _READERS:
        _READERS[kind] = Reader(kind)
    return _READERS[kind]


def change(line: bytes) -> Change:
    """One line of a watch. Raises Unavailable for what is none: the connection broke off within a line."""
    try:
        return _CHANGE.decode(line)
    except UNREADABLE:
        pass
    try:
        return _CHANGE.decode(plain(line))
    except UNREADABLE as error:
        raise Unavailable(f"a watch sent what is no change: {error}") from None


class _Cause(msgspec.Struct, frozen=True):
    field: str = ""
    message: str = ""
    reason: str = ""


class _Details(msgspec.Struct, frozen=True, rename="camel"):
    causes: tuple[_Cause, ...] = ()
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True):
    """How a server says that it did not do what it was asked for."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details = _Details()


def status(body: bytes | msgspec.Raw) -> Status | None:
    """The status that a body holds, if it is one."""
    try:
        return msgspec.json.decode(body, type=Status)
    except msgspec.MsgspecError:
        return None


def refusal(code: int, body: bytes | msgspec.Raw, *, what: str = "", retry_after: str = "") -> ApiError:
    """The error that an answer means; `what` was asked for, where the server does not say so itself."""
    failure = status(body)
    if failure is None or not failure.message:
        failure = Status(message=_bare(code, bytes(body), what), code=code)
    code = failure.code or code
    if failure.reason == "Invalid" or code == 422:
        causes = tuple(Cause(item.field, item.message, item.reason) for item in failure.details.causes)
        return Invalid(failure.message, causes)
    if code == 429:
        seconds = failure.details.retry_after_seconds or (int(retry_after) if retry_after.isdigit() else 0)
        return TooManyRequests(failure.message, retry_after=seconds * SECOND)
    known = _BY_REASON.get(failure.reason) or _BY_CODE.get(code)
    if known is not None:
        return known(failure.message)
    error = ApiError(failure.message)
    error.status, error.reason = code, failure.reason or error.reason
    return error


def _bare(code: int, body: bytes, what: str) -> str:
    """Words for an answer without a status: from a proxy, or about a kind that the server does not have."""
    if code == 404:
        return f"the server does not have {what}"
    text = body[:200].decode(errors="replace").strip()
    return f"{what}: HTTP {code} {text}".strip()
