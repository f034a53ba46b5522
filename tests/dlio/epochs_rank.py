"""One MPI rank of epochs.py: runs configurations as matrix_rank.py does, and marks in the log of opens
where training for an epoch ends, or evaluating after it.

    mpirun -n R python tests/dlio/epochs_rank.py PLAN.json

The plan: {"out": folder, "runs": [{"name": str, "options": {name: value}, "env": {NAME: value},
"fresh": whether DLIO is changed so that each epoch has workers of its own}]}. A run's messages go
to OUT/NAME/rankN.err, its opens and marks to OUT/NAME/rankN.log.
"""
import json
import os
import pickle
import sys

import later  # pylint: disable=unused-import
import matrix_rank as one_rank  # beside this file
import running

fresh = False


def mark(text):
    """A line in the log of opens, between the opens before and after."""
    log = os.open(os.environ["OPENLOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(log, f"0 ={text}\n".encode())
    os.close(log)


def mark_epochs():
    """Let DLIO's own calls at the end of training and evaluating make the marks."""
    from dlio_benchmark.utils.statscounter import StatsCounter
    train, evaluation = StatsCounter.end_train, StatsCounter.end_eval

    def end_train(self, epoch, steps):
        train(self, epoch, steps)
        mark(f"train {epoch}")

    def end_eval(self, epoch):
        evaluation(self, epoch)
        mark(f"eval {epoch}")

    StatsCounter.end_train, StatsCounter.end_eval = end_train, end_eval


def allow_fresh_workers():
    """What SHARD_WORKERS=respawn must be like: workers that do not persist, and get the arguments
    of the epoch, in DLIO's own code."""
    from dlio_benchmark.data_loader import torch_data_loader as module
    loader, following = module.DataLoader, module.TorchDataLoader.next

    def make(*args, **kwargs):
        if fresh:
            kwargs.pop("persistent_workers", None)
        return loader(*args, **kwargs)

    def next_epoch(self):
        self.epochs_read = getattr(self, "epochs_read", 0) + 1
        if fresh and self.epochs_read > 1:
            dataset = self._dataset.dataset
            dataset.serial_args = pickle.dumps(self._args)
            if not self._args.read_threads:
                dataset.worker_init(-1)
        return following(self)

    module.DataLoader, module.TorchDataLoader.next = make, next_epoch


def main():
    """Run the plan named on the command line."""
    with open(sys.argv[1], encoding="utf-8") as stream:
        plan = json.load(stream)
    comm = running.start()
    mark_epochs()
    allow_fresh_workers()
    errors = os.dup(2)

    def path(case, rank, kind="json"):
        return os.path.join(plan["out"], case["name"], f"rank{rank}.{kind}")

    def marked(case, rank, out):
        global fresh
        os.makedirs(os.path.join(plan["out"], case["name"]), exist_ok=True)
        fresh = case["fresh"]
        os.environ.update(case["env"], OPENLOG=path(case, rank, "log"))
        with open(path(case, rank, "err"), "wb") as stream:
            os.dup2(stream.fileno(), 2)
        one_rank.run(case, rank, out)

    def ended(case, out):
        os.dup2(errors, 2)
        for name in (*case["env"], "OPENLOG"):
            del os.environ[name]
        if out["result"] != "ok":
            sys.stderr.write(out["traceback"])
            sys.stderr.flush()
            comm.Abort(3)

    running.every(comm, plan["runs"], path, marked, ended)


if __name__ == "__main__":
    main()
