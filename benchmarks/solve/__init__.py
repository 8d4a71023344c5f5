"""The solver alone: `python -m benchmarks.solve --help`.

case      one problem: how it is measured           table     rows as text and as JSON
inputs    pods, types and pools for all of them     floor     the resource relaxation, computed apart
check     plans, once the clock has stopped
mix, rules, traces, vectors, scaling, memory        families of cases
"""
