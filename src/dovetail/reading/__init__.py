"""Input as kubectl knows it, for every command.

`read` gives typed objects that were admitted as an API server admits them, `documents` what is below: every
document of files, folders, lists and pipes as it is written, of whatever kind and generation. Both name file,
line and column of every field (`Located.place_of`).
"""

from dovetail.reading.documents import documents
from dovetail.reading.located import Located
from dovetail.reading.manifests import (
    Manifest,
    Owned,
    Reading,
    read,
    read_leniently,
    read_objects,
    without_auto_mode,
)

__all__ = [
    "Located",
    "Manifest",
    "Owned",
    "Reading",
    "documents",
    "read",
    "read_leniently",
    "read_objects",
    "without_auto_mode",
]
