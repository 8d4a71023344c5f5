"""Writing what a sweep found to one HTML file: a picture of all combinations, and the best in a list."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dovetail import __version__
from dovetail.simulate.experiment.dataset import Point
from dovetail.simulate.experiment.measures import MEASURES
from dovetail.views.page.document import one_file, part, write_page

_PAGE = "dovetail.views.comparison"


def write_sweep(found: Sequence[Point], counted: Sequence[str], path: Path) -> None:
    """The page; raises InputError when it cannot be written."""
    data = {
        "version": __version__,
        "counted": list(counted),
        "measures": [{"key": one.key, "label": one.label} for one in MEASURES],
        "points": [
            {
                "settings": dict(point.settings),
                "seeds": point.seeds,
                "best": point.best,
                "values": {one.key: point.means[one.key] for one in MEASURES},
                "text": {one.key: one.formatted(point.means[one.key]) for one in MEASURES},
            }
            for point in found
        ],
    }
    page = one_file("Dovetail: a sweep", part("sweep.html", _PAGE), part("sweep.js", _PAGE), data)
    write_page(page, path)
