"""`dovetail check userdata`: whether user data is valid, without a machine and without AWS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from dovetail.base.errors import InputError

if TYPE_CHECKING:
    from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
    from dovetail.cloud.aws.amifamily.userdata.nodeconfig import Remark

_BAD = 2  # the exit code of something that the user has to change
_FAMILIES = {
    "al2": "AL2",
    "al2023": "AL2023",
    "bottlerocket": "Bottlerocket",
    "windows": "Windows2022",
    "custom": "Custom",
}
Family = Literal["al2", "al2023", "bottlerocket", "windows", "custom"]


@dataclass(frozen=True, slots=True)
class _Checked:
    """One user data, and all that is said against it."""

    source: str
    family: str
    remarks: tuple[Remark, ...]

    @property
    def valid(self) -> bool:
        return not any(item.fatal for item in self.remarks)


def userdata(
    file: Path,
    /,
    *,
    family: Family | None = None,
    output: Annotated[Literal["table", "json"], Parameter(alias="-o")] = "table",
) -> None:
    """Find out whether user data is valid, without a machine and without AWS.

    It is read as the image reads it: a NodeConfig or a MIME archive (AL2023), scripts (AL2, Windows), TOML
    settings (Bottlerocket); its size counts what Dovetail adds. What no node would come of is an error;
    what would have no effect is a warning, and the user data is valid all the same.

    Ends with code 2 when it is not valid.

    Examples:

    - `dovetail check userdata games.yaml`
    - `dovetail check userdata settings.toml --family bottlerocket -o json`
    - all EC2NodeClasses of a manifest: `dovetail check userdata classes.yaml`

    Parameters
    ----------
    file
        The user data; or a manifest with EC2NodeClasses, whose spec.userData is checked.
    family
        The family of the image. When not given it is that of the class, or what the text looks like.
    output
        Lines to read, or a JSON object per line in the style of `nodeadm config check`.
    """
    checked = [_check(*item) for item in _given(file, family)]
    for item in checked:
        if output == "json":
            _print_json(item)
        else:
            _print(item)
    if not all(item.valid for item in checked):
        raise SystemExit(_BAD)


def _given(file: Path, family: Family | None) -> Iterator[tuple[str, EC2NodeClass]]:
    """(where it is from, a class with the user data)"""
    from dovetail.api.codec import decode
    from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
    from dovetail.cloud.aws.amifamily.userdata.check import family_of
    from dovetail.reading import read

    text = _read(file)
    if any(line.split("#")[0].split() == ["kind:", "EC2NodeClass"] for line in text.splitlines()):
        found = [item.object for item in read((file,)).manifests if isinstance(item.object, EC2NodeClass)]
        for node_class in found:
            yield f"{file}: EC2NodeClass {node_class.metadata.name}: spec.userData", node_class
        return
    chosen = _FAMILIES[family] if family else family_of(text, file.name)
    yield str(file), decode({"spec": {"amiFamily": chosen, "userData": text}}, EC2NodeClass)


def _read(file: Path) -> str:
    try:
        raw = file.read_bytes()
    except OSError as error:
        remedy = "name a file with user data, or with EC2NodeClasses"
        raise InputError(f"cannot be read: {error.strerror}", source=str(file), remedy=remedy) from None
    if not raw.strip():
        raise InputError("there is no user data in it", source=str(file), remedy="leave spec.userData out")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        remedy = "give it as it was before it was compressed"
        message = f"not UTF-8 text: byte {error.start} is invalid"
        raise InputError(message, source=str(file), remedy=remedy) from None


def _check(source: str, node_class: EC2NodeClass) -> _Checked:
    from dovetail.cloud.aws.amifamily.userdata.check import remarks
    from dovetail.cloud.aws.nodeclass.validation import user_data_bytes
    from dovetail.cloud.catalog.settings import ami_family

    family = ami_family(node_class)
    found = remarks(node_class.spec.user_data, family)
    if not any(item.fatal for item in found):
        found += tuple(_size(user_data_bytes(node_class)))
    return _Checked(source, family, found)


def _size(size: int) -> Iterator[Remark]:
    """What is to be said of user data of so many bytes."""
    from dovetail.cloud.aws.amifamily.userdata import LARGE_BYTES, MOST_BYTES
    from dovetail.cloud.aws.amifamily.userdata.nodeconfig import Remark
    from dovetail.cloud.aws.nodeclass.validation import too_large

    remedy = "fetch what is large when the node starts, from S3 for example"
    if message := too_large(size):
        yield Remark(True, message, remedy=remedy)
    elif size > LARGE_BYTES:
        message = (
            f"with what Dovetail adds {size} bytes: EC2 takes {MOST_BYTES}, and labels and taints add more"
        )
        yield Remark(False, message, remedy=remedy)


def _print(checked: _Checked) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    console.print(Text(f"{checked.source}: user data of {checked.family}"))
    for item in checked.remarks:
        word = ("error", "bold red") if item.fatal else ("warning", "yellow")
        console.print(Text.assemble("  ", word, f": {item}"))
        if item.remedy:
            console.print(Text(f"    {item.remedy}"))
    verdict = "Configuration is valid" if checked.valid else "Configuration is not valid"
    console.print(Text(verdict, "green" if checked.valid else "bold red"))


def _print_json(checked: _Checked) -> None:
    _line("info", "Checking configuration", source=checked.source, family=checked.family)
    for item in checked.remarks:
        level = "error" if item.fatal else "warn"
        _line(level, item.message, line=item.line, path=item.path, remedy=item.remedy)
    if checked.valid:
        _line("info", "Configuration is valid")
    else:
        _line("error", "Configuration is not valid")


def _line(level: str, message: str, **more: Any) -> None:
    fields = {name: value for name, value in more.items() if value not in (None, "")}
    print(json.dumps({"level": level, "msg": message, **fields}, ensure_ascii=False))
