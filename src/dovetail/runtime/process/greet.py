"""What has to be right before anything starts, reported in one line where it is not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import msgspec

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.api.scheme import NODE_CLASSES
from dovetail.base.errors import (
    ApiError,
    Forbidden,
    InputError,
    NotFound,
    TimedOut,
    Unauthorized,
    Unavailable,
)
from dovetail.kube.http import wire
from dovetail.kube.http.transport import Request, Transport, check


async def greet(transport: Transport) -> str:
    """The server's version. Raises InputError if it does not answer, or does not know us."""
    async with _with_remedies(transport):
        await transport.access.credentials.proof()  # says by itself what it lacks
        return await check(transport)


async def has_definitions(transport: Transport, classes: Iterable[tuple[str, str]]) -> None:
    """Raises InputError if the server does not have what is needed, or may not be asked for it."""
    async with _with_remedies(transport):
        needed: list[type[Object]] = [NodePool, NodeClaim]
        for kind in needed + [NODE_CLASSES[key] for key in classes]:
            await _has(transport, kind)


async def serves(transport: Transport, kinds: Iterable[type[Object]]) -> bool:
    """True iff the server has all of these kinds in these versions. Raises InputError if it does not say."""
    async with _with_remedies(transport):
        for kind in kinds:
            group, _, version = kind.API_VERSION.partition("/")
            if not await _serves(transport, group, version, kind):
                return False
    return True


@asynccontextmanager
async def _with_remedies(transport: Transport) -> AsyncIterator[None]:
    """What the server answers, as what a user can do about it."""
    access = transport.access
    try:
        yield
    except Unauthorized:
        remedy = "log in again, or renew the token"
        raise InputError(transport.refused, source=access.source, remedy=remedy) from None
    except (Unavailable, TimedOut) as error:
        raise InputError(
            str(error),
            source=access.source,
            remedy="check the server's address and that this machine reaches it",
        ) from None
    except Forbidden as error:
        raise InputError(
            str(error), source=access.source, remedy="give this user the rights of the Helm chart's roles"
        ) from None
    except ApiError as error:
        remedy = f"check that {access.server} is the address of a Kubernetes API server"
        if "conversion webhook" in str(error):
            remedy = (
                "start with --disable-webhook=false (webhook.enabled: true): objects are stored as v1beta1"
            )
        raise InputError(str(error), source=access.source, remedy=remedy) from None


async def _has(transport: Transport, kind: type[Object]) -> None:
    try:
        await transport.ask(Request("GET", wire.path(kind), {"limit": "1"}))
        return
    except NotFound:
        group, _, wanted = kind.API_VERSION.partition("/")
    served = [one for one in await _versions(transport, group) if await _serves(transport, group, one, kind)]
    what = f"{kind.PLURAL}.{group}"
    if served:
        message = f"the cluster serves {what} as {', '.join(served)}, not as {wanted}"
    else:
        message = f"the cluster has no {what} (CustomResourceDefinition)"
    remedy = "apply them: dovetail crds | kubectl apply --server-side --force-conflicts -f -"
    if kind in NODE_CLASSES.values():
        remedy += "; or give the --provider whose nodes the cluster has"
    raise InputError(message, source=transport.access.server, remedy=remedy)


class _Version(msgspec.Struct):
    version: str = ""


class _Group(msgspec.Struct):
    versions: list[_Version] = []


class _Resource(msgspec.Struct):
    name: str = ""


class _Resources(msgspec.Struct):
    resources: list[_Resource] = []


async def _versions(transport: Transport, group: str) -> list[str]:
    try:
        body = await transport.ask(Request("GET", f"/apis/{group}"))
        return [item.version for item in msgspec.json.decode(body, type=_Group).versions]
    except (NotFound, msgspec.MsgspecError):
        return []


async def _serves(transport: Transport, group: str, version: str, kind: type[Object]) -> bool:
    try:
        body = await transport.ask(Request("GET", f"/apis/{group}/{version}"))
        found = msgspec.json.decode(body, type=_Resources).resources
    except (NotFound, msgspec.MsgspecError):
        return False
    return kind.PLURAL in [item.name for item in found]
