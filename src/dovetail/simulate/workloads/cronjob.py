"""CronJob: a Job per hit of the schedule, as far as its concurrency policy lets it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.api.meta import Meta, is_true
from dovetail.api.workloads import CronJob, CronJobSpec, Job
from dovetail.base.clock import MINUTE, SECOND
from dovetail.model.podtemplate import owner_reference
from dovetail.simulate.workloads.base import Controller
from dovetail.simulate.workloads.job import finished
from dovetail.units.cron import schedule_of_jobs
from dovetail.units.timestamp import parse_rfc3339, to_rfc3339


@dataclass(frozen=True, slots=True)
class Run:
    """`scheduled`: the hit to start a job for, or None. `replace`: the running jobs go first."""

    scheduled: int | None = None
    replace: bool = False


def decide(spec: CronJobSpec, last: int, now: int, running: int) -> Run:
    """Start at most the latest hit in (last, now]; hits before it were missed and stay missed.

    Raises ValueError for a schedule or zone that is not valid.
    """
    if spec.suspend:
        return Run()
    cron = schedule_of_jobs(spec.schedule, spec.time_zone or "UTC")
    hit, following = None, cron.next_after(last)
    while following <= now:
        hit, following = following, cron.next_after(following)
    if hit is None:
        return Run()
    deadline = spec.starting_deadline_seconds
    if deadline is not None and now - hit > deadline * SECOND:
        return Run()
    if running and spec.concurrency_policy == "Forbid":
        return Run()
    return Run(scheduled=hit, replace=running > 0 and spec.concurrency_policy == "Replace")


def expired(jobs: Sequence[Job], succeeded: int, failed: int) -> tuple[Job, ...]:
    """Finished jobs beyond the history limits (of jobs kept), given oldest first."""
    good = [job for job in jobs if is_true(job.status.conditions, "Complete")]
    bad = [job for job in jobs if is_true(job.status.conditions, "Failed")]
    limits = ((good, succeeded), (bad, failed))
    return tuple(job for group, limit in limits for job in group[: max(0, len(group) - limit)])


class CronJobs(Controller):
    """Acts on `decide`; `next_due` says when the runner looks again."""

    kind = CronJob

    async def sync(self, key: str) -> None:
        cron_job = self.view.get(CronJob, key)
        if cron_job is None or self.view.is_deleting(cron_job):
            return
        jobs = self.view.owned(cron_job, Job)
        running = [job for job in jobs if not finished(job)]
        run = decide(cron_job.spec, _last(cron_job), self.clock.now(), len(running))
        if run.scheduled is not None:
            for job in running if run.replace else ():
                await self.remove(job)
            await self.create(_job(cron_job, run.scheduled))
            meta = cron_job.metadata
            status = {"lastScheduleTime": to_rfc3339(run.scheduled)}
            self.view.learn(
                await self.client.patch(
                    CronJob, meta.name, meta.namespace, merge={"status": status}, status=True
                )
            )
        spec = cron_job.spec
        limits = (spec.successful_jobs_history_limit, spec.failed_jobs_history_limit)
        for job in expired(jobs, *limits):
            await self.remove(job)

    def next_due(self, key: str) -> int | None:
        """The instant of the next hit after now, None without one."""
        cron_job = self.view.get(CronJob, key)
        if cron_job is None or cron_job.spec.suspend:
            return None
        return schedule_of_jobs(cron_job.spec.schedule, cron_job.spec.time_zone or "UTC").next_after(
            self.clock.now()
        )


def _last(cron_job: CronJob) -> int:
    text = cron_job.status.last_schedule_time or cron_job.metadata.creation_timestamp
    return parse_rfc3339(text)


def _job(cron_job: CronJob, scheduled: int) -> Job:
    meta, template = cron_job.metadata, cron_job.spec.job_template
    return Job(
        metadata=Meta(
            name=f"{meta.name}-{scheduled // MINUTE}",
            namespace=meta.namespace,
            labels=template.metadata.labels,
            annotations={
                **template.metadata.annotations,
                "batch.kubernetes.io/cronjob-scheduled-timestamp": to_rfc3339(scheduled),
            },
            owner_references=(owner_reference(cron_job),),
        ),
        spec=template.spec,
    )
