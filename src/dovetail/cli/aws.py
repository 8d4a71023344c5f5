"""The way of commands to AWS, whose libraries are an extra."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from dovetail.base.errors import InputError
from dovetail.cloud.aws.api import Aws


def connected(environ: Mapping[str, str], endpoint: str) -> AbstractAsyncContextManager[Aws]:
    """An account for the block; `endpoint` is a URL for all services, or "". Raises InputError."""
    try:
        from dovetail.cloud.aws.live.cloud import connect
    except ImportError as error:
        remedy = "install the extra: pip install 'dovetail[aws]'"
        raise InputError(f"asking AWS needs {error.name}", remedy=remedy) from None
    return connect(environ, endpoint=endpoint)
