"""Virtual time: `loop` is an event loop whose clock jumps to the next timer, `clock` the Clock on it."""
