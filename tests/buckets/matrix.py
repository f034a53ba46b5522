"""Every strategy, by every client: complete, nothing twice, each rank the same share by all ways."""
import os

from tests.buckets.fixture import OLDEST, site
from tests.harness import paths

STRATEGIES = [{"SHARD_STRATEGY": "range"}, {"SHARD_STRATEGY": "stride"}, {"SHARD_STRATEGY": "hash"},
              {"SHARD_STRATEGY": "range", "SHARD_SEED": "5", "SHARD_EPOCH": "2"},
              {"SHARD_STRATEGY": "stride", "SHARD_SEED": "5"}]


def named(how):
    """A strategy, for people."""
    return " ".join(f"{k[6:].lower()}={v}" for k, v in how.items())


def loops(bucket, sizes=(1, 2, 10, 50, 1000)):
    """boto3, in all ways, over a whole bucket."""
    # radosgw's NextMarker is not encoded, and botocore decodes it: a key such as a+b leads it astray.
    marked = {"Prefix": "tame/"} if bucket == "odd" else {}
    asked = [["paginator", {"bucket": bucket}], ["paginator", {"bucket": bucket, "version": 1}],
             ["paginator", {"bucket": bucket, "size": 7}],
             ["paginator", {"bucket": bucket, "version": 1, "size": 7, **marked}],
             ["resource", {"bucket": bucket, "prefix": ""}],
             ["resource", {"bucket": bucket, "prefix": "", "size": 9}],
             ["together", {"bucket": bucket, "size": 4}],
             ["as_url", {"bucket": bucket, "prefix": "", "size": 30}],
             ["as_url", {"bucket": bucket, "prefix": "", "size": 30, "version": 1}],
             ["nothing", {"bucket": bucket, "prefix": ""}],
             ["by_token", {"bucket": bucket, "size": 60, "other_client": True}]]
    ways = ("by_token", "by_start_after", "by_marker", "by_last")
    for number, size in enumerate(sizes):
        for way in ways if size == 10 else (ways[number % 4], ways[(number + 1) % 4]):
            asked.append([way, {"bucket": bucket, "size": size, **(marked if way == "by_marker" else {})}])
    return asked


def prefixes(bucket):
    """Prefixes above, at and below a dataset train/, folder by folder, and from keys in the middle."""
    asked = [["paginator", {"bucket": bucket, "Prefix": prefix, "version": version}] for prefix, version in
             (("", 2), ("tr", 1), ("train", 2), ("train/", 1), ("train/a", 2), ("train/a", 1), ("train/cat/", 2),
              ("train/cat/3", 2), ("train/b+c/", 2), ("train/none", 2), ("valid/", 2), ("train/\u56fe", 1),
              ("train/100%", 2))]
    asked += [["folders", {"bucket": bucket, "prefix": prefix, "size": size, "version": version}]
              for prefix, size, version in (("", 1000, 2), ("train/", 3, 2), ("train/", 1000, 1), ("train/cat", 1, 1), ("", 2, 2))]
    for after in ("a", "train/", "train/cat/5", "train/zz", "u"):
        asked.append(["paginator", {"bucket": bucket, "StartAfter": after}])
        asked.append(["paginator", {"bucket": bucket, "Marker": after, "version": 1}])
    return asked


def strategies(buckets):
    """boto3 on three ranks: hostile keys, and a dataset below a prefix."""
    every = buckets.made["odd"]
    some, get = (["get_all", {"bucket": "odd", "keys": keys}] for keys in (every[::9], every))
    for number, how in enumerate(STRATEGIES):
        size = (3, 2, 3, 3, 2)[number]
        sizes = (1, 2, 10, 50, 1000) if number == 0 else (2, 10, 1000)
        # A GET is the same before a listing and after, whatever the strategy: all keys once, then some.
        asked = [some] + loops("odd", sizes) + [some if number else get] if number < 3 else loops("odd", (2,))[-5:]
        owners = buckets.owners("s3://odd", size, **how)
        if number != 2:
            shares = [list(owners.values()).count(rank) for rank in range(size)]
            buckets.check(f"{named(how)}: shares are equal", max(shares) - min(shares) <= 1, shares)
        buckets.compare(f"boto3, hostile keys, {named(how)}, {size} ranks", asked, buckets.bare(asked),
                        buckets.ranks(size, "s3://odd", asked, **how), owners)
        if number == 4:
            continue
        asked = prefixes("train")
        buckets.compare(f"boto3, prefixes, {named(how)}, {size} ranks", asked, buckets.bare(asked),
                        buckets.ranks(size, "s3://train/train/", asked, **how),
                        buckets.owners("s3://train/train/", size, **how), "train/")
    asked = loops("odd", (10,))
    buckets.compare("boto3, one rank", asked, buckets.bare(asked), buckets.ranks(1, "s3://odd/", asked),
                    buckets.owners("s3://odd/", 1))


def pages(buckets):
    """Several pages of the server's; and a token that goes to another process."""
    asked = [["by_token", {"bucket": "many", "size": 900, "Prefix": "train/00/"}],
             ["by_last", {"bucket": "many", "size": 1000, "Prefix": "train/00/"}],
             ["folders", {"bucket": "many", "prefix": "train/", "size": 4}]]
    asked[2] = ["paginator", {"bucket": "many", "Prefix": "train/", "Delimiter": "/", "size": 4}]
    for how in (STRATEGIES[0], STRATEGIES[2]):
        owners = buckets.owners("s3://many/train/", 3, **how)
        buckets.compare(f"pages, {named(how)}", asked, buckets.bare(asked),
                        buckets.ranks(3, "s3://many/train/", asked, **how), owners, "train/")
        first = [["first_page", {"bucket": "odd", "size": 7}]]
        ((answers, err),) = buckets.ranks(2, "s3://odd", first, some=[1], **how)
        token = answers[0]["whole"][-1] if answers and "whole" in answers[0] else None
        rest = [["go_on", {"bucket": "odd", "token": token}]]
        buckets.jobs -= 1  # the same job
        ((more, err_more),) = buckets.ranks(2, "s3://odd", rest, some=[1], **how)
        keys = [k for part in (answers, more) if part for k, _, _ in part[0].get("keys", [])]
        own = sorted((k for k, rank in buckets.owners("s3://odd", 2, **how).items() if rank == 1), key=str.encode)
        buckets.check(f"a token goes to another process, {named(how)}",
                      token and [k for k in keys if not k.endswith("/")] == own, (err, err_more, more, len(keys), len(own)))


def clients(buckets):
    """The other clients on S3: each finds the same share."""
    train = {"bucket": "train", "prefix": "train/"}
    # s3fs takes train/a for a folder, which it is, too.
    every = [one for one in buckets.made["train"] if one[0].startswith("train/") and one[0] != "train/a" and
             not one[0].endswith("/")]
    # s3fs asks for a key five times: each odd name, and one of four that are numbered.
    some = [one for number, one in enumerate(every) if one[0].count("/") == 1 or number % 4 == 0]
    botocore = [["paginator", {"bucket": "train", "Prefix": "train/"}], ["s3fs_find", train],
                ["s3fs_find", {"bucket": "train", "prefix": ""}], ["s3fs_glob", train], ["s3fs_walk", train],
                ["s3fs_walk", {"bucket": "train", "prefix": ""}], ["s3fs_ls", {"bucket": "train", "prefix": "train/cat"}],
                ["s3fs_ls", {"bucket": "train", "prefix": "train"}], ["s3fs_ls", {"bucket": "train", "prefix": ""}],
                ["s3fs_others", {**train, "keys": some}],
                ["smart_open", train], ["cloudpathlib", {**train, "but": ["train/a"]}]]
    botocore += [["minio", {**train, "recursive": True}], ["minio", {**train, "recursive": True, "use_api_v1": True}],
                 ["minio", {**train, "recursive": False}], ["minio", {"bucket": "train", "prefix": "", "recursive": False}],
                 ["minio", {"bucket": "train", "prefix": "", "recursive": True, "start_after": "train/c"}],
                 ["minio", {**train, "recursive": True, "include_version": True}]]
    # What follows loads PyTorch; tests/buckets/apart.py has more of it.
    slow = [["s3dlio", train], ["s3dlio", {"bucket": "train", "prefix": ""}], ["connector_map", train],
            ["connector_iterable", train]]
    for number, how in enumerate((STRATEGIES[0], STRATEGIES[2])):
        size = (3, 2)[number]
        owners = buckets.owners("s3://train/train/", size, **how)
        buckets.compare(f"s3fs, smart_open, cloudpathlib, minio, {named(how)}", botocore, buckets.bare(botocore),
                        buckets.ranks(size, "s3://train/train/", botocore, **how), owners, "train/")
        if number == 1:
            buckets.compare(f"s3dlio, s3torchconnector, {named(how)}", slow, buckets.bare(slow),
                            buckets.ranks(size, "s3://train/train/", slow, **how), owners, "train/")


def empty(buckets):
    """Eight ranks, five keys: three ranks have nothing, and that is said; nobody has anything twice."""
    asked = loops("few", (1,)) + [["s3fs_find", {"bucket": "few", "prefix": "d"}],
                                    ["s3fs_ls", {"bucket": "few", "prefix": "d"}]]
    for how in STRATEGIES[:1]:
        ranks = buckets.ranks(8, "s3://few/d", asked, **how)
        buckets.compare(f"an empty share, {named(how)}", asked, buckets.bare(asked), ranks,
                        buckets.owners("s3://few/d/", 8, **how), "d/")
        said = sum(err.count("more ranks than keys") for _, err in ranks)
        buckets.check(f"more ranks than keys: said, {named(how)}", 1 <= said <= 8 and all(
            err.count("more ranks than keys") <= 1 for _, err in ranks), [err[-300:] for _, err in ranks])
    # The key that is the prefix itself is everybody's: of those, too, that have no other one.
    buckets.client.create_bucket(Bucket="named")
    for key in ("d", "d/", "d/1", "d/2"):
        buckets.client.put_object(Bucket="named", Key=key, Body=b"x")
    for dataset, prefix in ("d/", "d/"), ("", "d/"), ("", "d"):
        named_so = {"bucket": "named", "prefix": prefix}
        asked = [["paginator", {"bucket": "named", "Prefix": prefix}], ["minio", {**named_so, "recursive": True}],
                 ["connector_iterable", named_so], ["s3dlio", named_so]]
        buckets.compare(f"an empty share of s3://named/{dataset}, by its own name {prefix}", asked, buckets.bare(asked),
                        buckets.ranks(6, "s3://named/" + dataset, asked, SHARD_STRATEGY="range"),
                        buckets.owners("s3://named/" + dataset, 6, SHARD_STRATEGY="range"), dataset)
    # A folder that has folders only is every rank's common prefix, and no file of those that have nothing in it.
    buckets.client.create_bucket(Bucket="nested")
    for key in ("a/0", "a/deep/er/1", "a/deep/er/2"):
        buckets.client.put_object(Bucket="nested", Key=key, Body=b"x")
    asked = [["s3fs_find", {"bucket": "nested", "prefix": "a/deep"}], ["s3fs_walk", {"bucket": "nested", "prefix": "a/deep"}]]
    buckets.compare("an empty share of a folder of folders", asked, buckets.bare(asked),
                    buckets.ranks(3, "s3://nested/a/", asked, SHARD_STRATEGY="range"),
                    buckets.owners("s3://nested/a/", 3, SHARD_STRATEGY="range"), "a/")
    behind = [["one_request", {"bucket": "few", "Prefix": "d/", "StartAfter": "d/9"}]]
    ((answers, err),) = buckets.ranks(2, "s3://few/d", behind, some=[0], SHARD_STRATEGY="hash")
    buckets.check("a listing from behind the last key says nothing", answers == buckets.bare(behind) and not err, (answers, err))


def versions(buckets):
    """All versions of a key are at one rank; s3fs that knows of versions, too."""
    buckets.client.create_bucket(Bucket="versions")
    buckets.client.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
    for turn in range(2):
        for number in range(12):
            if (number + turn) % 3:
                buckets.client.put_object(Bucket="versions", Key=f"v/{number}", Body=b"x" * (turn + 1))
    buckets.client.delete_object(Bucket="versions", Key="v/5")
    buckets.client.put_object(Bucket="versions", Key="v/2", Body=b"xxx")  # the last key of a range
    asked = [["versions", {"bucket": "versions", "prefix": "v/"}],
             ["versions", {"bucket": "versions", "prefix": "v/", "size": 1}],
             ["versions", {"bucket": "versions", "prefix": "v/", "size": 2}],
             ["s3fs_ls", {"bucket": "versions", "prefix": "v", "version_aware": True}]]
    present = [k["Key"] for k in buckets.client.list_objects_v2(Bucket="versions")["Contents"]]
    for how in STRATEGIES[:3]:
        ranks = buckets.ranks(2, "s3://versions/v/", asked, **how)
        owners = buckets.owners("s3://versions/v/", 2, **how)
        bare, lines, seen = buckets.bare(asked), [], {}
        for number, (name, more) in enumerate(asked):
            found = [one for answers, err in ranks for one in (answers[number].get("keys", []) if answers else [err])]
            wanted = bare[number]["keys"]
            # A key that only a version is left of is at one rank, or nowhere: a listing does not have it.
            kept = [one for one in wanted if one[0] in present]
            if sorted(map(str, (one for one in found if one[0] in present))) != sorted(map(str, kept)):
                lines.append(f"{name} {more}: {len(found)} versions for {len(kept)}; {ranks[0][0][number]}")
        for rank, (answers, _) in enumerate(ranks):
            for key, _, _ in answers[0].get("keys", []) if answers else []:
                if seen.setdefault(key, rank) != rank or owners.get(key, rank) != rank:
                    lines.append(f"{key} is at rank {rank}, too")
        buckets.tell(f"versions, {named(how)}", lines)


def oldest(buckets):
    """The oldest botocore that this Python runs, and the newest."""
    asked = loops("odd", (2, 50)) + [["get_all", {"bucket": "odd", "keys": buckets.made["odd"][::9]}]]
    newest = site(os.path.dirname(os.path.dirname(paths.VENV_PYTHON)))
    for label, where in (("the oldest botocore", OLDEST), ("the newest botocore", newest)):
        more = {"PYTHONPATH": f"{paths.REPO}:{where}"}
        for how in (STRATEGIES[0], STRATEGIES[2]) if where == OLDEST else STRATEGIES[:1]:
            buckets.compare(f"{label}, {named(how)}", asked, buckets.bare(asked, **more),
                            buckets.ranks(2, "s3://odd", asked, **how, **more), buckets.owners("s3://odd", 2, **how))
