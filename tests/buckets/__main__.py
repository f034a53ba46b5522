"""Buckets as datasets: real clients of S3 and Google Cloud Storage under libshard, against real servers.

    .venv/bin/python -m tests.buckets [NAME...]     all parts, or those named

What each client finds without libshard says what the ranks must find together. Clients are those of
.venv-buckets. Everything is made in a temporary folder.
"""
import os
import sys

from tests.buckets.apart import apart
from tests.buckets.contents import fill
from tests.buckets.faults import before_prefix, counts, disorder, errors, faults, late, others, said
from tests.buckets.fixture import ACCESS, PYTHON, SECRET, Buckets
from tests.buckets.google import google
from tests.buckets.matrix import clients, empty, oldest, pages, strategies, versions
from tests.buckets.refused import refused
from tests.buckets.second import second
from tests.buckets.tars import tars
from tests.buckets.tools import awscli, ended, epochs, imports, remainders, samples, statistics, tables, tls
from tests.harness import confine, parts, processes, s3
from tests.harness.options import temporary_folder

PARTS = [strategies, pages, clients, empty, versions, oldest, counts, said, faults, before_prefix, disorder, late, errors, refused, others, awscli,
         epochs, remainders, tables, samples, imports, ended, tls, statistics, tars, google, apart, second]


def main():
    """Run the parts; the exit status is 1 if anything fails."""
    confine.begin()
    processes.end_jobs_on_signals()
    wanted = parts.chosen(PARTS)
    if not os.path.exists(PYTHON):
        sys.exit(f"{PYTHON} does not exist: scripts/setup.sh test makes it")
    with temporary_folder("shard-buckets-") as folder:
        state = os.path.join(folder, "server")
        with s3.server(state, ACCESS, SECRET) as endpoint:
            fixture = Buckets(folder, state, endpoint)
            fill(fixture)
            try:
                parts.run(wanted, fixture)
            finally:
                fixture.close()
    return fixture.verdicts.conclude()


if __name__ == "__main__":
    sys.exit(main())
