"""A real Kubernetes control plane on loopback: etcd, the API server, the controllers, the scheduler, kwok.

    python tests/cluster/controlplane/start.py kubectl get nodes    runs one command with KUBECONFIG set
    python tests/cluster/controlplane/start.py                      runs until it is interrupted

In tests: `with ControlPlane(build()) as plane: ... plane.kubeconfig`. Needs openssl(1), no privileges and no
fixed port; everything it writes is in one folder, which goes when it stops.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

if not __package__:  # run as a program
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.cluster.controlplane.build import BuildError, build
from tests.cluster.controlplane.processes import Processes, StartError, free_ports, openssl, write

ADMINS = "system:masters"
# User -> group. The first two are known by name to the roles that every API server starts with.
USERS = {
    "system:kube-scheduler": "",
    "system:kube-controller-manager": "",
    "kwok": ADMINS,
    "admin": ADMINS,
}
_SERVICES = "10.96.0.0/16"
_READY_SECONDS = 180  # for each; a machine that does nothing else needs 5 for all of them
# How often a node reports its status: kwok's own choice, and ours for thousands of nodes.
_BEAT = "durationMilliseconds: 20000\n    jitterDurationMilliseconds: 25000\n"
_RARE_BEAT = "durationMilliseconds: 200000\n    jitterDurationMilliseconds: 250000\n"
_READY = "  name: pod-ready\nspec:\n"
_BEAT_SECONDS, _RARE_BEAT_SECONDS = 25, 250
# Requests to be audited: of all clients but the parts of the control plane themselves.
_AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "users": ["system:apiserver", *list(USERS)[:3]]},
        {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
        {"level": "Metadata"},
    ],
}


class ControlPlane:
    """A context manager. `nodes` says whether pods are scheduled and nodes played, or nothing but the API
    server and the controllers `controllers` are there (all of them by default). `tuned` is for thousands of
    nodes: fewer heartbeats, and a scheduler that does not look at all of them for each pod. `spreads` are the
    scheduler's default spread constraints, instead of its own. With `one_by_one` it looks at one node at a
    time, in the order of its list. `routing` has the API server go to the endpoints of the Services that it
    calls by itself, as there is no proxy that leads from their addresses. Pods run after the
    milliseconds of `starts` since they were bound, at least and at most.
    """

    def __init__(
        self,
        programs: Path,
        *,
        nodes: bool = True,
        controllers: str = "*",
        tuned: bool = False,
        spreads: Sequence[object] | None = None,
        one_by_one: bool = False,
        routing: bool = False,
        starts: tuple[int, int] = (0, 0),
    ) -> None:
        self.programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="controlplane-"))
        self.etcd_port, peer, self.port, *self._ports = free_ports(5)
        self.peer_url = f"http://127.0.0.1:{peer}"
        self.etcd_url = f"http://127.0.0.1:{self.etcd_port}"
        self.url = f"https://127.0.0.1:{self.port}"
        self.tokens = {user: secrets.token_hex(16) for user in USERS}
        self.ca = self.folder / "apiserver" / "apiserver.crt"
        self.kubeconfig = self.folder / "admin.kubeconfig"
        self.audit = self.folder / "audit.log"
        self.coming_up: list[tuple[datetime, datetime]] = []  # when the API server was not ready yet
        self.processes = Processes(self.folder, ready_seconds=_READY_SECONDS)
        self._nodes = nodes
        self._tuned = tuned
        self._starts = starts
        self._spreads = () if tuned and spreads is None else spreads
        self._one_by_one = one_by_one
        self._controllers = controllers
        self._routing = routing

    def __enter__(self) -> ControlPlane:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End everything and leave nothing behind."""
        self.processes.stop_all()
        shutil.rmtree(self.folder, ignore_errors=True)

    def environment(self) -> dict[str, str]:
        """For commands that talk to this control plane: kubectl and helm are on their PATH."""
        path = f"{self.programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "PATH": path}

    def run(self, *command: str, stdin: str = "") -> str:
        """What a command prints; raises CalledProcessError when it fails."""
        done = subprocess.run(
            command, env=self.environment(), input=stdin, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise StartError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def start_api_server(self) -> None:
        """Start the API server and wait until it is ready; also after `processes.stop("apiserver")`."""
        begun = datetime.now(UTC)
        self.processes.start("apiserver", self.programs / "kube-apiserver", *self._api_server_arguments())
        token = self.tokens["admin"]
        self.processes.wait("apiserver", f"{self.url}/readyz", token=token, ca=self.ca)
        self.coming_up.append((begun, datetime.now(UTC)))

    def write_kubeconfig(self, user: str, path: Path) -> Path:
        """Credentials of one of USERS."""
        cluster = {"server": self.url, "certificate-authority": str(self.ca)}
        return write(
            path,
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "clusters": [{"name": "test", "cluster": cluster}],
                "users": [{"name": user, "user": {"token": self.tokens[user]}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            },
        )

    def _start(self) -> None:
        self._make_keys()
        self.write_kubeconfig("admin", self.kubeconfig)
        self._start_etcd()
        self.start_api_server()
        waits = [self._start_controllers(self._ports[0])]
        if self._nodes:
            waits.append(self._start_scheduler(self._ports[1]))
            self._start_kwok()
        for name, url in waits:
            self.processes.wait(name, url, token=self.tokens["admin"])
        # Pods are refused until their service account has been made.
        account = f"{self.url}/api/v1/namespaces/default/serviceaccounts/default"
        self.processes.wait("controllers", account, token=self.tokens["admin"], ca=self.ca)

    def _make_keys(self) -> None:
        openssl(self.folder, "genrsa", "-out", "accounts.key", "2048")
        subject = ("-subj", "/CN=clients of the control plane")
        authority = ("-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject)
        openssl(self.folder, "req", *authority, "-keyout", "clients.key", "-out", "clients.crt")
        rows = [f'{token},{user},{user},"{USERS[user]}"\n' for user, token in self.tokens.items()]
        write(self.folder / "tokens.csv", "".join(rows))

    def _start_etcd(self) -> None:
        self.processes.start(
            "etcd",
            self.programs / "etcd",
            "--name=default",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}",
            f"--listen-peer-urls={self.peer_url}",
            f"--initial-advertise-peer-urls={self.peer_url}",
            f"--initial-cluster=default={self.peer_url}",
            "--unsafe-no-fsync",  # nothing of this outlives the tests
            "--quota-backend-bytes=8589934592",
            "--log-level=warn",
        )
        self.processes.wait("etcd", f"{self.etcd_url}/health")

    def _api_server_arguments(self) -> tuple[str, ...]:
        key = self.folder / "accounts.key"
        return (
            f"--etcd-servers={self.etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--cert-dir={self.ca.parent}",
            "--endpoint-reconciler-type=none",
            f"--service-cluster-ip-range={_SERVICES}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=ExtendedResourceToleration",  # as EKS, beside the usual ones
            "--anonymous-auth=false",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            f"--client-ca-file={self.folder / 'clients.crt'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--allow-privileged=true",
            f"--audit-policy-file={write(self.folder / 'audit.policy', _AUDIT)}",
            f"--audit-log-path={self.audit}",
            "--profiling=false",
            f"--enable-aggregator-routing={'true' if self._routing else 'false'}",
            # One kind is watched in etcd itself, so that tests can make its history too old.
            "--watch-cache-sizes=poddisruptionbudgets.policy#0",
            "--enable-priority-and-fairness=false",
            "--max-requests-inflight=2000",
            "--max-mutating-requests-inflight=1000",
        )

    def _start_controllers(self, port: int) -> tuple[str, str]:
        config = self.write_kubeconfig("system:kube-controller-manager", self.folder / "controllers.config")
        self.processes.start(
            "controllers",
            self.programs / "kube-controller-manager",
            f"--kubeconfig={config}",
            f"--controllers={self._controllers}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.folder / 'controllers'}",
            "--leader-elect=false",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self.folder / 'accounts.key'}",
            f"--root-ca-file={self.ca}",
            "--profiling=false",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            f"--node-monitor-grace-period={4 * (_RARE_BEAT_SECONDS if self._tuned else _BEAT_SECONDS)}s",
        )
        return "controllers", f"https://127.0.0.1:{port}/healthz"

    def _start_scheduler(self, port: int) -> tuple[str, str]:
        config = self.write_kubeconfig("system:kube-scheduler", self.folder / "scheduler.kubeconfig")
        settings: dict[str, object] = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(config), "qps": 500, "burst": 1000},
        }
        if self._tuned:
            settings["percentageOfNodesToScore"] = 5
        if self._one_by_one:
            settings["parallelism"] = 1
        if self._spreads is not None:
            spread = {"defaultingType": "List", "defaultConstraints": list(self._spreads)}
            settings["profiles"] = [{"pluginConfig": [{"name": "PodTopologySpread", "args": spread}]}]
        self.processes.start(
            "scheduler",
            self.programs / "kube-scheduler",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.folder / 'scheduler'}",
            f"--config={write(self.folder / 'scheduler.config', settings)}",
        )
        return "scheduler", f"https://127.0.0.1:{port}/readyz"

    def _start_kwok(self) -> None:
        config = self.write_kubeconfig("kwok", self.folder / "kwok.kubeconfig")
        options = {
            "manageAllNodes": True,
            "nodePort": 0,
            "cidr": "10.0.0.1/8",
            "nodeIP": "10.255.0.1",
            # Nodes have no leases, they report in their status. A kwok that keeps leases passes
            # over pods of nodes whose lease it does not see yet, and never looks at them again; after the API
            # server was away it may see leases half a minute later than pods.
            "nodeLeaseDurationSeconds": 0,
            "podPlayStageParallelism": 16,
            "nodePlayStageParallelism": 8,
        }
        settings = {
            "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
            "kind": "KwokConfiguration",
            "options": options,
        }
        stages = (self.programs / "kwok-stages.yaml").read_text()
        if _BEAT not in stages:
            raise StartError("kwok's nodes do not report their status as they did: look at its stages")
        if self._tuned:
            stages = stages.replace(_BEAT, _RARE_BEAT)
        if any(self._starts):
            if _READY not in stages:
                raise StartError("kwok's pods do not become ready as they did: look at its stages")
            least, most = self._starts
            delay = f"    durationMilliseconds: {least}\n    jitterDurationMilliseconds: {most}\n"
            stages = stages.replace(_READY, f"{_READY}  delay:\n{delay}", 1)
        file = write(self.folder / "kwok.config", f"{json.dumps(settings)}\n---\n{stages}")
        self.processes.start("kwok", self.programs / "kwok", f"--kubeconfig={config}", f"--config={file}")


def main() -> int:
    """Run a command against a control plane of its own, or wait."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with ControlPlane(build()) as plane:
            if len(sys.argv) > 1:
                return subprocess.run(sys.argv[1:], env=plane.environment(), check=False).returncode
            print(f"export KUBECONFIG={plane.kubeconfig}", flush=True)
            signal.pause()
    except KeyboardInterrupt:
        return 130
    except (BuildError, StartError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
