"""Job: run pods until enough of them have succeeded, or too many have failed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice

from dovetail.api.core import Pod
from dovetail.api.meta import is_true
from dovetail.api.workloads import Job, JobSpec
from dovetail.model.podtemplate import (
    COMPLETION_INDEX,
    at_once,
    from_template,
    index_annotations,
    indexed,
    job_labels,
)
from dovetail.simulate.workloads.base import Controller, Means
from dovetail.simulate.workloads.pods import active
from dovetail.units.timestamp import to_rfc3339


@dataclass(frozen=True, slots=True)
class Tally:
    """The pods of a job by outcome."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Pods to make, or to delete because the job is over; `finished` is "", "Complete" or "Failed"."""

    create: int = 0
    delete: int = 0
    finished: str = ""


def decide(spec: JobSpec, tally: Tally) -> Verdict:
    """Without completions, the first success means no new pods, and the job ends with the last active one."""
    if spec.suspend:
        return Verdict(delete=tally.active)
    if tally.failed > spec.backoff_limit:
        return Verdict(delete=tally.active, finished="Failed")
    if spec.completions is None:
        if tally.succeeded:
            return Verdict(finished="" if tally.active else "Complete")
    elif tally.succeeded >= spec.completions:
        return Verdict(delete=tally.active, finished="Complete")
    wanted = at_once(spec, tally.succeeded)
    return Verdict(create=max(0, wanted - tally.active), delete=max(0, tally.active - wanted))


class Jobs(Controller):
    """Acts on `decide`; finished pods stay until the job is deleted, or until their node is gone.

    A pod that has finished stays counted when its node takes it along: its work is done. Kubernetes keeps
    such pods by a finalizer until they are counted; here they are counted as soon as their end is seen.
    """

    kind = Job

    def __init__(self, means: Means) -> None:
        super().__init__(means)
        # UID of a job -> UID of a finished pod -> its last phase, and its number if the job is indexed.
        self._ended: dict[str, dict[str, tuple[str, str]]] = {}

    async def sync(self, key: str) -> None:
        job = self.view.get(Job, key)
        if job is None:
            return
        if self.view.is_deleting(job) or finished(job):
            self._ended.pop(job.metadata.uid, None)
            return
        pods = self.view.owned(job, Pod)
        running = active(pods)
        ended = self._ended.setdefault(job.metadata.uid, {})
        ended.update({pod.metadata.uid: (pod.status.phase, _number(pod)) for pod in pods if pod.terminal})
        phases = [phase for phase, _ in ended.values()]
        tally = Tally(len(running), phases.count("Succeeded"), phases.count("Failed"))
        verdict = decide(job.spec, tally)
        for pod in running[len(running) - verdict.delete :]:
            await self.remove(pod)
        taken = {_number(pod) for pod in running} | {
            number for phase, number in ended.values() if phase == "Succeeded"
        }
        for number in _free(job.spec, taken, verdict.create):
            await self.create(self._pod(job, number))
        await self._report(job, tally, verdict)

    def _pod(self, job: Job, number: int) -> Pod:
        owner, base, labels, annotations = f"Job {job.key}", job.metadata.name, job_labels(job), {}
        if indexed(job.spec):
            base = f"{base}-{number}"
            labels[COMPLETION_INDEX] = str(number)
            annotations = index_annotations(job.spec, number)
        name = self.names.child(owner, base)
        return from_template(job, job.spec.template, name, labels=labels, annotations=annotations)

    async def _report(self, job: Job, tally: Tally, verdict: Verdict) -> None:
        now = to_rfc3339(self.clock.now())
        status: dict[str, object] = {
            "active": tally.active + verdict.create - verdict.delete,
            "succeeded": tally.succeeded,
            "failed": tally.failed,
            "startTime": job.status.start_time or now,
        }
        if verdict.finished:
            status["conditions"] = [{"type": verdict.finished, "status": "True", "lastTransitionTime": now}]
            if verdict.finished == "Complete":
                status["completionTime"] = now
        known = job.status
        before = {
            "active": known.active,
            "succeeded": known.succeeded,
            "failed": known.failed,
            "startTime": known.start_time,
        }
        if status == before:
            return
        meta = job.metadata
        self.view.learn(
            await self.client.patch(Job, meta.name, meta.namespace, merge={"status": status}, status=True)
        )


def _number(pod: Pod) -> str:
    return pod.metadata.annotations.get(COMPLETION_INDEX, "")


def _free(spec: JobSpec, taken: Collection[str], count: int) -> Iterator[int]:
    """Numbers for `count` new pods, the lowest first; of a job whose pods have none, any."""
    numbers = range(spec.completions or 0) if indexed(spec) else range(count)
    return islice((number for number in numbers if str(number) not in taken), count)


def finished(job: Job) -> bool:
    """True iff the job is over, for better or worse."""
    return is_true(job.status.conditions, "Complete") or is_true(job.status.conditions, "Failed")
