"""Where plans are made: `inline` on the caller's loop, in the caller's time."""
