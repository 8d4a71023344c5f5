"""The solver on small problems that change step by step, beside one that tries everything."""

from __future__ import annotations

from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dovetail.model.problem import Budget
from dovetail.solve.solver import solve
from dovetail.testing import exhaustive, problems
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify

MOST_PODS = 7
MOST_NODES = 3
WORK = 20_000  # enough for column generation
SPARE_WORK = 300  # hardly enough for a first plan

APPS = st.sampled_from(problems.APPS)
ZONES = st.sampled_from(problems.ZONES)
SIZES = st.sampled_from(problems.SIZES)
RULES = sorted(problems.rules("", ""))
LIMITS = ({"cpu": "10"}, {"nodes": "2"}, {"nodes": "4", "memory": "64Gi"})


class SolverMachine(RuleBasedStateMachine):
    """Every plan keeps all rules and places what can be placed, and its bound is below the optimum."""

    def __init__(self) -> None:
        super().__init__()
        self.pods: list[problems.Document] = []
        self.nodes: list[problems.Document] = []
        self.bound: list[problems.Document] = []
        self.limits: problems.Document | None = None
        self.others: list[problems.Document] = []
        self.gone: set[tuple[str, str, str]] = set()
        self.names = 0

    @precondition(lambda self: len(self.pods) <= MOST_PODS - 3)
    @rule(app=APPS, size=SIZES, what=st.sampled_from(RULES), count=st.integers(1, 3))
    def deploy(self, app: str, size: tuple[int, int], what: str, count: int) -> None:
        other = problems.APPS[(problems.APPS.index(app) + 1) % len(problems.APPS)]
        spec = problems.rules(app, other)[what]
        for _ in range(count):
            self.names += 1
            self.pods.append(problems.pod(f"{app}-{self.names}", app, size, spec))

    @precondition(lambda self: len(self.pods) > 1)
    @rule(data=st.data())
    def delete_pod(self, data: st.DataObject) -> None:
        self.pods.remove(data.draw(st.sampled_from(self.pods), label="pod"))

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def open_host_port(self, data: st.DataObject) -> None:
        self.pods[data.draw(st.integers(0, len(self.pods) - 1))]["spec"]["containers"][0]["ports"] = [
            {"containerPort": 80, "hostPort": 80}
        ]

    @precondition(lambda self: len(self.nodes) < MOST_NODES)
    @rule(
        zone=ZONES, cpus=st.sampled_from([1, 2, 4]), app=APPS, what=st.sampled_from(["plain", "one per host"])
    )
    def add_node(self, zone: str, cpus: int, app: str, what: str) -> None:
        self.names += 1
        name = f"node-{self.names}"
        self.nodes.append(problems.node(name, zone, cpus))
        old = problems.pod(f"old-{self.names}", app, (250, 512), problems.rules(app, app)[what])
        self.bound.append({**old, "spec": {**old["spec"], "nodeName": name}})

    @precondition(lambda self: self.nodes)
    @rule()
    def remove_node(self) -> None:
        name = self.nodes.pop(0)["metadata"]["name"]
        self.bound = [pod for pod in self.bound if pod["spec"]["nodeName"] != name]

    @rule(limits=st.sampled_from((None, *LIMITS)))
    def limit(self, limits: problems.Document | None) -> None:
        self.limits = limits

    @rule(
        team=st.booleans(),
        weight=st.sampled_from([0, 10]),
        limits=st.sampled_from((None, None, *LIMITS, {"cpu": "4"}, {"nodes": "1"})),
        capacity=st.sampled_from(((), ("on-demand",))),
    )
    def other_pool(
        self, team: bool, weight: int, limits: problems.Document | None, capacity: tuple[str, ...]
    ) -> None:
        self.others = [problems.pool("other", team=team, weight=weight, limits=limits, capacity=capacity)]

    @rule(
        name=st.sampled_from(sorted(problems.TYPES)), zone=ZONES, kind=st.sampled_from(["spot", "on-demand"])
    )
    def sell_out(self, name: str, zone: str, kind: str) -> None:
        self.gone.add((name, zone, kind))

    @invariant()
    def check(self) -> None:
        if not self.pods:
            return
        document = problems.scenario(
            self.pods,
            [problems.pool("general", limits=self.limits), *self.others],
            problems.instance_types(frozenset(self.gone)),
            nodes=self.nodes,
            bound=self.bound,
        )
        note(str(document))
        problem = to_problem(document)
        plan = solve(problem, Budget(work=WORK))
        assert verify(problem, plan) == ()
        hasty = solve(problem, Budget(work=SPARE_WORK))
        assert verify(problem, hasty) == ()
        assert exhaustive.addable(problem, plan) is None
        try:
            # Whom to leave out where limits do not allow all is a question without a quick answer.
            limited = any(pool.limits for pool in problem.pools)
            fuller = None if limited else exhaustive.fuller(problem, plan)
            cheaper = exhaustive.cheaper(problem, plan)
        except (exhaustive.TooLarge, exhaustive.Unsupported):
            return
        assert fuller is None
        least = (cheaper or plan).cost.hourly
        assert plan.cost.lower_bound <= least <= plan.cost.hourly


TestSolver = SolverMachine.TestCase
TestSolver.settings = settings(
    max_examples=30,
    stateful_step_count=12,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
