"""The API server inside the process: full JSON documents in memory, the rules of a real one.

texts       the answers to refused requests
patching    JSON merge patch and JSON patch
selectors   label and field selectors
rules       what each kind keeps, forbids and resets on creation, update and deletion
store       tables, versions, history, owner index; `check()` asserts every invariant
watch       one reader of a table's history
server      the requests, on documents; names and uids, observers, the priority of pods
garbage     owner references: background, foreground, orphan
disruption  PodDisruptionBudgets: their status, and the eviction subresource
client      the typed port over the server
"""

from dovetail.kube.memory.server import MemoryServer

__all__ = ["MemoryServer"]
