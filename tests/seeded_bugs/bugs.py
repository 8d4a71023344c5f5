"""Twenty-odd bugs to be planted on purpose, each as one change of one module's text.

The rules of the simulation must catch every one of them within fifty seeds of its example; else the rules, or
the faults, are too weak. `run.py` plants one and plays; a test sees to it that each still fits.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bug:
    """In `module` the text `old`, which stands there once, becomes `new`."""

    name: str
    module: str
    old: str
    new: str
    example: str = "faults"  # whose seeds must show it


_NODE = "dovetail.controllers.node."
_CLAIM = "dovetail.controllers.nodeclaim."
_BUY = "dovetail.controllers.provisioning."

BUGS = (
    Bug(
        "pod-budget-skipped",
        _NODE + "evict",
        "await self._context.client.evict(meta.name, meta.namespace, uid=uid)",
        "await self._context.client.delete(type(wanted.pod), meta.name, meta.namespace, uid=uid)",
    ),
    Bug("do-not-disrupt-ignored", _NODE + "drain", " and not do_not_disrupt(pod, now)", ""),
    Bug(
        "drain-out-of-order",
        _NODE + "drain",
        'return 2 * (pod.spec.priority_class_name in CRITICAL) + owned_by(pod, "DaemonSet")',
        "return 0",
    ),
    Bug(
        "forced-too-early",
        _NODE + "drain",
        "return deadline - pod.spec.termination_grace_period_seconds * SECOND",
        "return deadline - 10 * pod.spec.termination_grace_period_seconds * SECOND",
    ),
    Bug(
        "deadline-forgotten",
        _NODE + "drain",
        "return now > _last_start(pod, deadline)",
        "return False",
    ),
    Bug(
        "drain-skipped",
        _NODE + "terminate",
        "if step.waiting:\n            return min(",
        "if False:\n            return min(",
    ),
    Bug("taint-forgotten", _NODE + "terminate", "node = await self._taint(node)\n", "\n"),
    Bug(
        "node-finalizer-early",
        _NODE + "terminate",
        "again = await self._end_instance(node, claim)",
        "again = None",
    ),
    Bug(
        "claim-finalizer-early",
        _CLAIM + "terminate",
        "if provider_id and not await instance_gone(context, provider_id):",
        "if provider_id and not await instance_gone(context, provider_id) and not provider_id:",
    ),
    Bug(
        "double-launch",
        _CLAIM + "launch",
        "if adopted is not None:",
        "if adopted is not None and not adopted:",
    ),
    Bug(
        "no-adoption",
        _CLAIM + "launch",
        "if mine and self._makers_time(claim):",
        "if claim.metadata.uid:",
    ),
    Bug(
        "refused-claim-kept",
        _CLAIM + "launch",
        "await self._context.client.delete(NodeClaim, name, uid=uid)",
        "return",
    ),
    Bug(
        "liveness-off",
        _CLAIM + "liveness",
        'if status_of(claim, REGISTERED) == "True":',
        "if True:",
    ),
    Bug(
        "unregistered-taint-kept",
        _CLAIM + "register",
        "return [taint for taint in taints if taint.key != labels.UNREGISTERED_TAINT]",
        "return taints",
    ),
    Bug(
        "strays-kept",
        _CLAIM + "collect",
        "found = stray(claims, instances, now)",
        "found = stray(claims, instances, 0)",
    ),
    Bug(
        "old-reads-acted-on",
        "dovetail.controllers.context",
        "int(known.metadata.resource_version) > int(found.metadata.resource_version)",
        "not known",
    ),
    Bug(
        "watch-never-resumed",
        "dovetail.kube.informer",
        "await asyncio.sleep(pause)",
        "raise",
    ),
    Bug(
        "errors-not-retried",
        "dovetail.controllers.reconciler",
        "again = max(self._backoff(key), asked)",
        "again = None",
    ),
    Bug(
        "full-node-is-empty",
        "dovetail.disrupt.candidates",
        "return not any(one.moves and one.cost > 0 for one in self._evictions)",
        "return True",
    ),
    Bug(
        "nodes-budget-ignored",
        "dovetail.disrupt.allowance",
        "if left.get(view.pool_name, 0) > 0:",
        "if view.pool_name in left:",
    ),
    Bug(
        "deletions-not-repeated",
        "dovetail.controllers.disruption.execute",
        "        except ApiError:\n            self._run(running)\n            raise",
        "        except ApiError:\n            raise",
    ),
    Bug(
        "waiting-pods-forgotten",
        _BUY + "trigger",
        "self.queue.add_after(ALL_PODS, until_repeat(self._context.clock))",
        "pass",
    ),
    Bug(
        "provisioner-dies",
        _BUY + "provision",
        "except (ApiError, PlannerFailed) as error:",
        "except PlannerFailed as error:",
    ),
    # Limits that are far away catch nothing.
    Bug(
        "launching-nodes-uncounted",
        "dovetail.cluster.problem",
        "usage = usage_by_pool(machine for machine, _ in understood)",
        "usage = usage_by_pool(machine for machine, _ in understood if machine.node is not None)",
        "faults-pools",
    ),
)
