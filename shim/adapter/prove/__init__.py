# SPDX-License-Identifier: MIT
"""prove: `shardctl prove`, which proves that a DLIO nobody has seen is like a family that is known.

    shapes     what a function is, apart from comments, docstrings, names of locals and log lines
    table      the shapes of the functions that the families' tables know
    functions  a process: DLIO's functions and the adapter's, side by side, on many small lists
    cases      ... one of those lists, for each function
    fakes      ... what stands in for the modules, ranks and objects that these need
    runs       real runs under mpirun, unmodified and under libshard
    rank       ... a program: one rank of them
    main       the order of it all; the file that the adapter trusts

It asks three things of a tree, for the nearest family. Every function of the family's table is
there. Each is one that is known, by text or shape, or a proof of `functions` covers it. Real runs
open the same files, and take the same steps. The processes that are under libshard get a file of
known versions of their own (known.py), which already has the tree: so what is proven is what will
run.
"""
