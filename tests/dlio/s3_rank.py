"""One MPI rank of s3_native.py: DLIO's initialize() on buckets, and readers of the list it makes.

    mpirun -n R python tests/dlio/s3_rank.py PLAN.json

The plan: {"out": folder, "storage": options, "runs": [...]}; see s3_native.py. For each run the rank
writes OUT/NAME-RANK.json: how initialize() ended, the two lists, what readers have read of them.
"""
import hashlib
import json
import multiprocessing
import os
import pickle
import sys

import later  # pylint: disable=unused-import
import running  # beside this file


def known():
    """Let the adapter know the modules of these tests, as it knows DLIO's own."""
    from _libshard.dlio import tree
    from _libshard.parts import bucket

    for file, functions in bucket.KNOWN.items():
        prints = {name: tree.fingerprint(file, name) for name in functions}
        functions.clear()
        functions.update({name: (one,) for name, one in prints.items() if one})


def read(data, storage, part, parts, out):
    """A worker: reads its part of a list that has been pickled."""
    import boto3
    import botocore.config

    files = pickle.loads(data)
    client = boto3.session.Session().client(  # a forked worker has the default session of its parent
        "s3", endpoint_url=storage["endpoint_url"], region_name=storage["region"],
        aws_access_key_id=storage["access_key_id"], aws_secret_access_key=storage["secret_access_key"],
        config=botocore.config.Config(s3={"addressing_style": "path"}))
    got = []
    for path in files[part::parts]:
        body = client.get_object(Bucket=path.split("/")[2], Key=path)["Body"].read()
        got.append([path, hashlib.sha256(body).hexdigest()])
    with open(out, "w", encoding="utf-8") as stream:
        json.dump([type(files).__qualname__, got], stream)


def read_by_workers(files, storage, rank, ranks, out):
    """What a forked and a spawned worker read, each its half of this rank's share."""
    workers, results = [], []
    for i, method in enumerate(("fork", "spawn")):
        results.append(f"{out}-{method}-{rank}")
        workers.append(multiprocessing.get_context(method).Process(
            target=read, args=(pickle.dumps(files), storage, rank * 2 + i, ranks * 2, results[-1])))
        workers[-1].start()
    read_in = []
    for worker, result in zip(workers, results):
        worker.join()
        with open(result, encoding="utf-8") as stream:
            read_in.append(json.load(stream))
    return read_in


def initialize(run, plan, module):
    """What comes of DLIO's initialize()."""
    options = running.settings(run["folder"], plan["out"], "npz", "pytorch", {
        "storage.storage_type": "s3", "storage.storage_root": "bucket", "dataset.num_files_train": run["train"],
        "dataset.num_files_eval": run["valid"], "dataset.num_subfolders_train": 0,
        "dataset.num_subfolders_eval": 0, "dataset.num_samples_per_file": 1, "reader.batch_size": 1,
        "reader.batch_size_eval": 1, **run["options"]})
    benchmark = running.make({"options": options})
    args = benchmark.args
    args.storage_options = {**plan["storage"], **run["storage"]}
    benchmark.storage = module.S3PyTorchConnectorStorage("bucket", args.framework)
    before = dict(os.environ)
    result = {"result": "ok"}
    try:
        benchmark.initialize()
        result.update(train=list(args.file_list_train), valid=list(args.file_list_eval),
                      type=type(args.file_list_train).__qualname__, counts=[args.num_files_train, args.num_files_eval])
        if run["workers"]:
            result["read"] = read_by_workers(args.file_list_train, args.storage_options, args.my_rank,
                                             args.comm_size, os.path.join(plan["out"], run["name"]))
    except Exception as error:  # pylint: disable=broad-except
        result = {"result": f"{type(error).__name__}: {error}"}
    after = dict(os.environ)
    for name in ("LIBSHARD_RUN", "LIBSHARD_OBJECTS"):  # tell workers what is counted
        after.pop(name, None)
        before.pop(name, None)
    result["environment"] = before != after
    return result


def main():
    """Do the plan."""
    with open(sys.argv[1], encoding="utf-8") as stream:
        plan = json.load(stream)
    comm = running.start()
    # The adapter is here from the first import on; the class of a version it does not know stays.
    import dlio_benchmark.storage.s3_torch_storage as module

    unknown, adapter = module, sys.modules.get("_libshard")
    if adapter is not None:
        known()
        del sys.modules[module.__name__]
        import dlio_benchmark.storage.s3_torch_storage as module

    def one(run, rank, out):
        if rank == 0 and (run["put"] or run["remove"]):
            import boto3
            import botocore.config

            client = boto3.client(
                "s3", endpoint_url=plan["behind"], region_name="us-east-1",
                aws_access_key_id=plan["storage"]["access_key_id"],
                aws_secret_access_key=plan["storage"]["secret_access_key"],
                config=botocore.config.Config(s3={"addressing_style": "path"}))
            for key in run["put"]:
                client.put_object(Bucket="bucket", Key=key, Body=key.encode())
            for key in run["remove"]:
                client.delete_object(Bucket="bucket", Key=key)
        out.update(initialize(run, plan, unknown if run["unknown"] else module))

    running.every(comm, plan["runs"], lambda run, rank: os.path.join(plan["out"], f"{run['name']}-{rank}.json"), one)


if __name__ == "__main__":
    main()
