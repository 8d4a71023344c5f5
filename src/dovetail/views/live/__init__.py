"""The page that is served: the report's, with its parts beside it."""
