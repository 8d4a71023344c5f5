"""Flags and environment of `dovetail run`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cyclopts import App, CycloptsError

from dovetail.base.clock import MINUTE
from dovetail.base.errors import InputError
from dovetail.cli.run import Inert
from dovetail.cli.run_aws import AwsFlags
from dovetail.cli.run_flags import Flags
from dovetail.cloud.kwok.types import default_types, read_types
from dovetail.model import labels
from dovetail.runtime.process.options import Options


def read(*arguments: str) -> Options:
    app = App(result_action="return_value")

    @app.default
    def command(*, flags: Flags | None = None) -> Options:
        return (flags or Flags()).options()

    options = app(list(arguments), exit_on_error=False, print_error=False)
    assert isinstance(options, Options)
    return options


def test_what_is_so_by_default() -> None:
    options = read()
    assert (options.qps, options.burst, options.metrics_port, options.probe_port) == (200, 300, 8080, 8081)
    assert (options.lease, options.lease_namespace, options.elect) == ("karpenter-leader-election", "", True)
    assert options.settings.well_known == labels.KWOK_WELL_KNOWN


def test_flags_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_IDLE_DURATION", "2s")
    monkeypatch.setenv("BATCH_MAX_DURATION", "20s")
    monkeypatch.setenv("DISABLE_LEADER_ELECTION", "true")
    monkeypatch.setenv("FEATURE_GATES", "NodeRepair=true,StaticCapacity=false")
    options = read("--batch-idle-duration", "3s", "--kube-client-qps=50")
    settings = options.settings
    assert (settings.batch_idle_duration, settings.batch_max_duration) == (3_000_000_000, 20_000_000_000)
    assert (options.elect, options.qps, settings.gates.node_repair) == (False, 50, True)


@pytest.mark.parametrize(("given", "planned"), [(None, False), ("true", False), ("false", True)])
def test_claims_for_devices_are_planned_for_where_they_are_not_ignored(
    given: str | None, planned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if given is not None:
        monkeypatch.setenv("IGNORE_DRA_REQUESTS", given)
    assert read().settings.dynamic_resources is planned


def test_gates_that_change_nothing_are_named() -> None:
    assert Flags(feature_gates="StaticCapacity=true,LaterGate=true,NodeOverlay=false").given() == (
        "--feature-gates LaterGate=true",
    )


def test_gates_that_nobody_knows_are_taken_as_karpenter_takes_them() -> None:
    settings = read("--feature-gates", "NodeRepair=True, NodeRepairs=true,Windows=false").settings
    assert settings.gates.node_repair
    unknown = Flags(feature_gates="NodeRepairs=true,Windows=false")
    assert unknown.given() == ("--feature-gates NodeRepairs=true",)


def test_observing_is_one_word() -> None:
    options = read("--observe", "--provider", "aws", "--observe-every", "30s")
    assert (options.observe, options.provider, options.tell_every) == (True, "aws", 30_000_000_000)
    assert options.settings.well_known == labels.AWS_WELL_KNOWN


@pytest.mark.parametrize("value", ["true", "false"])
def test_observing_by_the_environment(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("OBSERVE", value)
    assert read().observe == (value == "true")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batch-idle-duration", "soon"], "--batch-idle-duration"),
        (["--batch-idle-duration", "20s"], "at most the maximum duration"),
        (["--feature-gates", "NodeRepair=yes"], "'NodeRepair=yes' is not valid"),
        (["--kube-client-qps", "0"], "--kube-client-qps: 0.0 is not valid"),
        (["--metrics-port", "99999"], "--metrics-port: 99999 is not a port"),
        (["--preference-policy", "Sometimes"], "choose one of Respect, Ignore"),
        (["--launch-limit", "many"], "--launch-limit"),
        (["--observe-every", "0s"], "--observe-every"),
        (["--kube-client-qps", "nan"], "--kube-client-qps: nan is not valid"),
        (["--kube-client-qps", "inf"], "--kube-client-qps: inf is not valid"),
        (["--pause", "everything"], "choose one of all, launches, disruption"),
        (["--forceful-budget", "some"], "--forceful-budget: 'some' is not valid"),
        (["--forceful-budget", "200%"], "such as 5 or 10%"),
    ],
)
def test_what_is_not_valid(arguments: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(*arguments)
    assert message in str(caught.value)


def test_the_table_of_kwok_types() -> None:
    types = {item.name: item for item in default_types()}
    assert len(types) == 144
    chosen = types["s-4x-amd64-linux"]
    assert (chosen.capacity["cpu"], chosen.capacity["pods"]) == (4_000, 64)
    assert chosen.capacity["memory"] == 16 << 30
    prices = {offering.capacity_type: offering.price for offering in chosen.offerings}
    assert prices == {"on-demand": 117_179_869, "spot": 82_025_908}
    assert len(chosen.offerings) == 8
    assert types["c-256x-arm64-windows"].capacity["pods"] == 1_024


def test_types_from_a_file_of_karpenters(tmp_path: Path) -> None:
    zone = {"key": labels.ZONE, "operator": "In", "values": ["z"]}
    kind = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["spot"]}
    entry = {
        "Name": "tiny",
        "Architecture": "arm64",
        "OperatingSystems": ["linux"],
        "Resources": {"cpu": "500m", "memory": "1Gi", "pods": "8"},
        "Offerings": [{"Price": 0.01, "Available": True, "Requirements": [zone, kind]}],
    }
    path = tmp_path / "types.json"
    path.write_text(json.dumps([entry]))
    (found,) = read_types(path)
    assert (found.name, found.capacity["cpu"], found.offerings[0].price) == ("tiny", 500, 10_000_000)
    del entry["Resources"]
    path.write_text(json.dumps([entry]))
    with pytest.raises(InputError, match="lacks 'Resources'"):
        read_types(path)


def aws(*arguments: str) -> AwsFlags:
    app = App(result_action="return_value")

    @app.default
    def command(*, aws: AwsFlags | None = None) -> AwsFlags:
        return aws or AwsFlags()

    flags = app(list(arguments), exit_on_error=False, print_error=False)
    assert isinstance(flags, AwsFlags)
    return flags


def test_settings_without_effect_are_taken_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App(result_action="return_value")

    @app.default
    def command(*, inert: Inert | None = None) -> tuple[str, ...]:
        return (inert or Inert()).given()

    assert app(["--memory-limit", "5"], exit_on_error=False, print_error=False) == ("--memory-limit",)
    for wrong in (["--memory-limit=-7"], ["--cpu-requests=-5"]):
        with pytest.raises(InputError, match="is not valid"):
            app(wrong, exit_on_error=False, print_error=False)
    assert aws("--aws-feature-gates=DRAEFA=false,NodeClassCEL=false").given() == ()
    assert aws("--aws-feature-gates=NodeClassCEL=true").given() == ("--aws-feature-gates",)
    monkeypatch.setenv("CLUSTER_NAME", "demo")
    assert aws("--reserved-enis", "2").given() == ("--cluster-name", "--reserved-enis")
    with pytest.raises(CycloptsError):
        aws("--isolated-vpc", "yes")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "missing field, cluster-name"),
        (
            ["--cluster-name=demo", "--reserved-enis=-1"],
            "--reserved-enis: -1 is not valid",
        ),
        (["--cluster-name=demo", "--vm-memory-overhead-percent=nan"], "--vm-memory-overhead-percent: nan"),
        (["--cluster-name=demo", "--ami-refresh-interval=1s"], "1s is too short"),
        (["--cluster-name=demo", "--subnet-refresh-interval=soon"], "--subnet-refresh-interval"),
        (["--cluster-name=demo", "--cluster-endpoint=here"], "the cluster endpoint URL is not valid"),
        (["--cluster-name=demo", "--aws-feature-gates=NodeClassCEL"], "'NodeClassCEL' is not valid"),
        (["--cluster-name=demo", "--security-group-refresh-interval=30s"], "30s is too short"),
    ],
)
def test_what_is_not_valid_on_aws(arguments: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        aws(*arguments).options()
    assert message in str(caught.value)


def test_what_the_aws_provider_gets() -> None:
    found = aws(
        "--cluster-name=demo",
        "--interruption-queue=q",
        "--aws-feature-gates=NodeClassCEL=true",
        "--disable-dry-run=true",
        "--ami-refresh-interval=5m",
        "--security-group-refresh-interval=2m",
    ).options()
    assert (found.cluster, found.interruption_queue, found.expressions) == ("demo", "q", True)
    assert (found.dry_run, found.image_refresh, found.subnet_refresh) == (False, 5 * MINUTE, MINUTE)
    assert found.group_refresh == 2 * MINUTE


def test_gates_of_aws_that_change_nothing_are_named() -> None:
    gates = "NodeClassCEL=true,DRANVIDIAGPU=true,DRAEFA=false,RebootForRepair=true"
    found, usual = (
        aws("--cluster-name=demo", *more).options() for more in ((f"--aws-feature-gates={gates}",), ())
    )
    assert (found.gpu_devices, found.efa_devices, found.reboots) == (True, False, True)
    assert (usual.gpu_devices, usual.efa_devices, usual.reboots) == (False, False, False)
    assert aws(f"--aws-feature-gates={gates},Later=true").idle_gates() == ("--aws-feature-gates Later=true",)


def test_policies_for_unhealthy_nodes() -> None:
    text = 'policies: [{conditionType: Ready, conditionStatus: "False", tolerationDuration: 5m}]'
    (policy,) = Flags(repair_policies=text).options().settings.repair_policies
    assert (policy.condition, policy.toleration) == ("Ready", 5 * MINUTE)
    assert Flags(repair_policies=text).given() == (
        "--repair-policies without --feature-gates NodeRepair=true",
    )
    assert Flags(repair_policies=text, feature_gates="NodeRepair=true").given() == ()
    with pytest.raises(InputError, match="policies of its own"):
        Flags(repair_policies=text, legacy_node_repair="true").options()
