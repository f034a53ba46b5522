"""shardctl and S3: against a real server (scripts/s3-server.sh), and one that is at fault (proxy.py).

    python -m tests.s3 [NAME...]     all parts, or those named

Everything is made in a temporary folder.
"""
import os
import sys

from tests.harness import confine, parts, processes, s3
from tests.harness.options import temporary_folder
from tests.s3.accounts import accounts
from tests.s3.faults import faults
from tests.s3.fixture import ACCESS, SECRET, S3
from tests.s3.google_cloud import google
from tests.s3.hosts import addressing, tls
from tests.s3.inventories import inventories
from tests.s3.keys import hostile
from tests.s3.leaks import secrets
from tests.s3.mounted import mounted
from tests.s3.objects import objects
from tests.s3.ranges import ranges
from tests.s3.tar_shards import tars

# The last one looks at what all before it have written.
PARTS = [hostile, accounts, addressing, tls, faults, ranges, mounted, objects, inventories, tars, google,
         secrets]


def main():
    """Run the parts; the exit status is 1 if anything fails."""
    confine.begin()
    processes.end_jobs_on_signals()
    wanted = parts.chosen(PARTS)
    with temporary_folder("shard-s3-") as folder:
        state = os.path.join(folder, "server")
        with s3.server(state, ACCESS, SECRET) as endpoint:
            fixture = S3(folder, state, endpoint)
            parts.run(wanted, fixture)
    return fixture.verdicts.conclude()


if __name__ == "__main__":
    sys.exit(main())
