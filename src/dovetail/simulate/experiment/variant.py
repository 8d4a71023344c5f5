"""One way to play a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dovetail.base.errors import InputError
from dovetail.reading import Manifest, read
from dovetail.simulate.scenario.changed import Change
from dovetail.simulate.scenario.policy import Policy
from dovetail.simulate.scenario.scenario import Scenario, ScenarioFolder


@dataclass(frozen=True, slots=True)
class Variant:
    """What is played. `settings` are fields to set, `manifests` files whose objects take others' places."""

    name: str
    scenario: Path
    policy: Policy | None = None
    settings: tuple[Change, ...] = ()
    manifests: Path | None = None
    trace: Path | None = None

    def load(
        self, seed: int | None = None, until: int | None = None, folder: ScenarioFolder | None = None
    ) -> Scenario:
        """The scenario, with that seed and for so many nanoseconds at most. Raises InputError.

        `folder` is the scenario's where it was read before, for other variants of it.
        """
        for change in self.settings if seed is not None else ():
            if change.path == "seed" and not change.kind:
                remedy = "name them all: --seeds 1-5"
                raise InputError("runs have the seeds of --seeds", source=change.source, remedy=remedy)
        folder = folder or ScenarioFolder(self.scenario)
        scenario = folder.scenario(trace=self.trace, changes=self.settings)
        if self.policy is not None:
            scenario = scenario.under(self.policy)
        if self.manifests is not None:
            scenario = replace(scenario, manifests=_replaced(scenario.manifests, self.manifests))
        if seed is not None:
            scenario = scenario.seeded(seed)
        return scenario if until is None else scenario.until(min(until, scenario.duration))


def _replaced(manifests: Sequence[Manifest], path: Path) -> tuple[Manifest, ...]:
    """With the objects of the path in place of those of the same kind and name; new ones come last."""
    if not path.exists():
        raise InputError("there is no such file or folder", source=str(path))
    fresh = {item.written: item for item in read([path]).manifests}
    if not fresh:
        remedy = "give manifests in their new form"
        raise InputError("no object that can take another's place is in it", source=str(path), remedy=remedy)
    kept = [fresh.pop(item.written, item) for item in manifests]
    return (*kept, *fresh.values())
