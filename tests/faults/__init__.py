"""The fault campaign: what gvfx does when processes are killed, disks fail, files are damaged and input is wrong.

`make test-faults` runs every group of trials at full size, `make test` a few trials of most.  A group is a module in
`faults/groups`: its docstring says what is tried, `FULL` and `FAST` how often (0: not in `make test`), and `run(trials)` tries
it.
"""
