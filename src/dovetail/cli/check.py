"""`dovetail check`: what is wrong with manifests, an account or user data, before it matters."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from dovetail.base.errors import InputError
from dovetail.base.extras import extra
from dovetail.cli.check_cluster import cluster
from dovetail.cli.check_manifests import manifests
from dovetail.cli.check_userdata import userdata

if TYPE_CHECKING:
    from rich.console import Console

    from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
    from dovetail.cloud.aws.preflight.account import Wanted
    from dovetail.cloud.aws.preflight.finding import Finding

_STYLES = {"ok": "green", "unsure": "yellow"}  # by verdict; what is worse is red
_LONGEST = 300
_BAD = 2  # the exit code of something that the user has to change


check = App(
    name="check", help="Find the mistakes in manifests; what a cluster, an AWS account or user data lacks."
)
check.default(manifests)
check.command(manifests)
check.command(cluster)
check.command(userdata)


@check.command
def aws(
    *,
    cluster_name: Annotated[str, Parameter(env_var="CLUSTER_NAME")] = "",
    cluster_endpoint: Annotated[str, Parameter(env_var="CLUSTER_ENDPOINT")] = "",
    interruption_queue: Annotated[str, Parameter(env_var="INTERRUPTION_QUEUE")] = "",
    isolated_vpc: Annotated[bool, Parameter(negative="")] = False,
    region: str = "",
    kubernetes_version: str = "",
    filename: Annotated[
        tuple[str, ...], Parameter(name=("--filename", "--file", "-f"), negative="", show_default=False)
    ] = (),
    recursive: Annotated[bool, Parameter(alias="-R", negative="")] = False,
    strict: Annotated[bool, Parameter(negative="")] = False,
    endpoint_url: str = "",
    output: Annotated[Literal["table", "json"], Parameter(alias="-o")] = "table",
) -> None:
    """Find out what is missing in an AWS account before anything is installed.

    Who the controller would be, which permission, endpoint, cluster or queue is missing; with -f what the
    selectors of your EC2NodeClasses match, and whether a launch from them is allowed. Credentials come from
    where AWS's own tools find them. No instance is started, and what a dry run needs is taken away again.

    Ends with code 2 when something is missing.

    Examples:

    - `dovetail check aws --cluster-name demo --interruption-queue demo -f classes.yaml`
    - in the cluster, as the controller itself:
      `kubectl -n karpenter exec deploy/dovetail -- dovetail check aws`

    Parameters
    ----------
    cluster_name
        The EKS cluster.
    cluster_endpoint
        The URL of its API server; then eks:DescribeCluster is not needed.
    interruption_queue
        The queue that AWS's announcements come through.
    isolated_vpc
        There is no way to the price list, which is not asked for.
    region
        Where the cluster is; AWS_REGION or your profile's otherwise.
    kubernetes_version
        Such as 1.33, where EKS cannot be asked.
    filename
        Files, folders or - with EC2NodeClasses; other kinds are not looked at. May be repeated.
    recursive
        Read sub-folders too.
    strict
        What Dovetail does not know in the manifests is an error.
    endpoint_url
        One URL that answers for all services of AWS, such as that of a test server.
    output
        A table to read, or JSON.
    """
    import asyncio

    from dovetail.cloud.aws.preflight.finding import failed

    if not cluster_name:
        raise InputError(
            "the cluster's name is missing", source="--cluster-name", remedy="or set CLUSTER_NAME"
        )
    classes = _classes(filename, recursive, strict)
    environ = {**os.environ, "AWS_REGION": region} if region else dict(os.environ)
    # The SDK costs half a second to import: help and wrong words should not.
    from dovetail.cloud.aws.preflight.account import Wanted

    wanted = Wanted(cluster_name, cluster_endpoint, interruption_queue, isolated_vpc, kubernetes_version)
    findings = asyncio.run(_ask(environ, endpoint_url, wanted, classes))
    print_findings(findings, output)
    if failed(findings):
        raise SystemExit(_BAD)


def _classes(paths: tuple[str, ...], recursive: bool, strict: bool) -> tuple[EC2NodeClass, ...]:
    from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass

    if not paths:
        return ()
    # What plans need takes a second to import, which the other checks have no use for.
    from dovetail.cli.question import read_manifests

    given = read_manifests(paths, recursive=recursive, strict=strict).manifests
    found = tuple(item.object for item in given if isinstance(item.object, EC2NodeClass))
    if not found:
        raise InputError(
            "the manifests hold no EC2NodeClass",
            source=", ".join(paths),
            remedy="name a file that does, or leave -f out",
        )
    return found


async def _ask(
    environ: Mapping[str, str], endpoint: str, wanted: Wanted, classes: tuple[EC2NodeClass, ...]
) -> tuple[Finding, ...]:
    from dovetail.cloud.aws.preflight.account import preflight
    from dovetail.runtime.process.clock import WallClock

    with extra("aws", "asking AWS"):
        from dovetail.cloud.aws.live.cloud import connect

    async with connect(environ, endpoint=endpoint) as account:
        return await preflight(account, WallClock(), wanted, classes)


def print_findings(findings: tuple[Finding, ...], output: str, console: Console | None = None) -> None:
    """To standard output."""
    from rich.console import Console
    from rich.table import Table

    from dovetail.cloud.aws.preflight.finding import FAILED, Verdict, failed

    bad = failed(findings)
    if output == "json":
        rows = [
            {
                "area": item.area,
                "subject": item.subject,
                "verdict": item.verdict,
                "detail": item.detail,
                "remedy": item.remedy,
            }
            for item in findings
        ]
        print(json.dumps({"ready": not bad, "findings": rows}, indent=2))
        return
    console = console or Console(soft_wrap=True, highlight=False)
    table = Table(box=None, pad_edge=False, show_edge=False)
    for name in ("WHAT", "VERDICT", "DETAIL"):
        table.add_column(name, no_wrap=name != "DETAIL")
    for item in findings:
        if item.verdict is not Verdict.UNTRIED:
            style = _STYLES.get(item.verdict, "bold red")
            table.add_row(item.subject, f"[{style}]{item.verdict}[/]", _escaped(item.detail))
    console.print(table)
    untried = [item.subject for item in findings if item.verdict is Verdict.UNTRIED]
    if untried:
        console.print(f"\nNot tried, as that would change something or needs a class: {', '.join(untried)}")
    for item in findings:
        if item.remedy and item.verdict in (*FAILED, Verdict.UNSURE):
            console.print(f"\n{item.subject}: {_escaped(item.detail)}\n  {_escaped(item.remedy)}")
    summary = "Nothing is missing." if not bad else f"{len(bad)} missing."
    console.print(f"\n{summary}")


def _escaped(text: str) -> str:
    """One line, even where the answer is a whole page."""
    line = " ".join(text.split())
    return (line if len(line) <= _LONGEST else f"{line[:_LONGEST]}...").replace("[", r"\[")
