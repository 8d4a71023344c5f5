"""Which of the images that EC2 describes a class launches from."""

from __future__ import annotations

from dovetail.cloud.aws.amifamily.images import FoundImage, newest, parameters, unsupported
from dovetail.model import labels
from dovetail.model.requirement import Requirement, Requirements

AMD, ARM = (Requirements.of((Requirement.new(labels.ARCH, "In", (arch,)),)) for arch in ("amd64", "arm64"))
GPU = Requirements.of((Requirement.new(labels.AWS + "instance-gpu-count", "Exists"),))


def chosen(
    *found: FoundImage, variants: dict[str, tuple[Requirements, ...]] | None = None
) -> list[tuple[str, Requirements]]:
    return [(item.image.id, item.requirements) for item in newest(found, variants or {})]


def image(identifier: str, created: str, *, arch: str = "amd64", deprecated: bool = False) -> FoundImage:
    return FoundImage(identifier, f"name of {identifier}", arch, created, deprecated)


def test_the_newest_per_architecture_newest_first() -> None:
    old, new, other = image("a", "2024"), image("b", "2025"), image("c", "2026", arch="arm64")
    assert chosen(old, new, other) == [("c", ARM), ("b", AMD)]


def test_one_in_use_before_a_newer_deprecated_one() -> None:
    assert chosen(image("a", "2026", deprecated=True), image("b", "2024")) == [("b", AMD)]


def test_a_deprecated_one_where_there_is_no_other() -> None:
    assert chosen(image("a", "2026", deprecated=True)) == [("a", AMD)]


def test_of_one_age_the_name_decides() -> None:
    assert chosen(image("b", "2026"), image("a", "2026")) == [("a", AMD)]


def test_an_unknown_architecture_boots_nowhere() -> None:
    assert chosen(image("a", "2026", arch="")) == []


def test_an_image_of_several_variants_is_kept_for_each() -> None:
    found = chosen(image("a", "2025"), image("b", "2026"), variants={"a": (GPU, Requirements())})
    wanted = GPU.add(Requirement.new(labels.ARCH, "In", ("amd64",)))
    assert found == [("b", AMD), ("a", wanted)]


def test_an_alias_of_no_known_family_has_no_parameters() -> None:
    assert parameters("ubuntu@latest", "1.33") == ()
    assert unsupported("ubuntu@latest", "1.33") == ""
