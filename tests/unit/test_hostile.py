"""The grammar of hostile objects: the embedded API server answers as the real one, and draws repeat."""

from __future__ import annotations

import json

import pytest

from dovetail.api.scheme import BY_GVK
from dovetail.base.errors import ApiError
from dovetail.kube.memory.server import MemoryServer
from dovetail.testing.hostile import AUTHORS, Attack, Place, attacks, hostile


class Noon:
    """A clock that stands."""

    def now(self) -> int:
        return 1_772_452_800_000_000_000

    async def sleep(self, nanoseconds: int) -> None:
        raise AssertionError(f"nothing here waits, and {nanoseconds} were asked for")


def refusal(server: MemoryServer, attack: Attack, place: Place) -> str:
    """What the server says to the attack; empty where it takes all of it, deletions too."""
    for document in attack.make(place):
        try:
            server.create(document)
        except ApiError as error:
            return str(error)
        meta = document["metadata"]
        if "deletionTimestamp" in meta:
            kind = BY_GVK[document["apiVersion"], document["kind"]]
            server.delete(kind, meta["name"], meta.get("namespace", ""))
    return ""


@pytest.mark.parametrize("author", AUTHORS)
def test_the_embedded_server_admits_what_the_real_one_admits(author: str) -> None:
    server = MemoryServer(Noon())
    found = {}
    for number, attack in enumerate(attacks()):
        if attack.author == author and not attack.twin:
            said = refusal(server, attack, Place(name=f"a{number}", many=2))
            if bool(said) == attack.admitted:
                found[attack.name] = said
    assert found == {}


def test_names_of_attacks_are_unique() -> None:
    names = [attack.name for attack in attacks()]
    assert len(set(names)) == len(names)


def test_draws_repeat_and_names_are_their_own() -> None:
    drawn = [(name, json.dumps(document)) for name, document in hostile(7, 40, Place(many=5))]
    assert drawn == [(name, json.dumps(document)) for name, document in hostile(7, 40, Place(many=5))]
    assert drawn != [(name, json.dumps(document)) for name, document in hostile(8, 40, Place(many=5))]
    documents = [json.loads(document) for _, document in drawn]
    keys = [(item["kind"], item["metadata"]["name"]) for item in documents]
    assert len(set(keys)) == len(keys)
    assert any(", and " in name for name, _ in drawn), "two attacks on one pod"
