"""Where plans are made: `inline` on the caller's loop, in the caller's time; `process` in one of its own.

`worker` is that process's program, `wire` how problems and plans travel between the two.
"""
