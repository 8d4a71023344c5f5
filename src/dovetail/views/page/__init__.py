"""The parts of pages: a document that carries its data, charts, lists and the timeline of nodes."""
