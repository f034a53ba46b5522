"""What the Python tests, the demo and the benchmarks share.

    confine.py    where a step runs: nothing else changes its result, and nothing of it stays
    paths.py      where the repository, its build and its preloads are
    options.py    the command line of a driver
    processes.py  MPI jobs, and ending whole process trees
    verdicts.py   a line for each check, and the sums
    idle.py       whether a job still works
    opens.py      which files a process has opened, and comparing that
    s3.py         an S3 server that lasts as long as a test
    proxy.py      what goes wrong between a client and that server
"""
