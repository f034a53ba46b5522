"""S3 Inventories that lie in a bucket: the same names as LIST gives."""
import json
import os
import urllib.parse

from tests.harness import lists
from tests.harness.proxy import Proxy, Reply

ODD = ["a b", "a+b", "p%20q", "\u56fe/\u00e9", 'q"uo"te', "comma,s", "tab\tx", "#?&=;"]


def upload(s3, folder):
    """Put the destination's files where their names say, and remove those of before."""
    for one in s3.client.list_objects_v2(Bucket="inventories").get("Contents", []):
        s3.client.delete_object(Bucket="inventories", Key=one["Key"])
    for at, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(at, name)
            with open(path, "rb") as stream:
                s3.client.put_object(Bucket="inventories", Key=os.path.relpath(path, folder), Body=stream.read())


def shortened(_, reply):
    """Half of an object of the inventory's data, as if it were the whole."""
    return Reply(reply.status, reply.body[:len(reply.body) // 2], reply.headers)


def inventories(s3):
    """Parts by s3://, checked; what is not there or not whole is an error."""
    s3.bucket("inventories")
    s3.bucket("counted")
    keys = [f"train/{k % 5}/img_{k:04}" for k in range(300)] + [f"train/{name}" for name in ODD] + ["valid/x", "train/", "train/0/"]
    for key in keys:
        s3.client.put_object(Bucket="counted", Key=key, Body=b"")
    folder = os.path.join(s3.folder, "destination")
    path, manifest = lists.inventory(folder, "counted", [{"Key": key} for key in keys], parts=5)
    upload(s3, folder)
    url = "s3://inventories/" + os.path.relpath(path, folder)
    _, listed, names = s3.index("s3://counted/train/")
    part, text = os.path.join(s3.folder, "part"), os.path.join(s3.folder, "text")
    s3.index("s3://counted/tra")  # what names begin with is no folder
    os.rename(s3.file, part)
    with open(text, "w", encoding="utf-8") as stream:
        stream.write("s3://counted/train/more\n")
    done, _, got = s3.index(part, text)
    uris = s3.run("ls", "--uri", "-0", s3.file).stdout.split(b"\0")[:-1]
    s3.check("a bucket's listing and a text", uris == sorted([b"s3://counted/train/more", *(b"s3://counted/train/" + name for name in names)]), (done.stderr, uris))
    done, told, got = s3.index(url, "--from", "s3-inventory", "--root", "s3://counted/train/")
    s3.check("an inventory has the names of LIST", got == names and told.get("digest") == listed["digest"], (done.stderr, got))
    s3.check("what is left out is counted as there", (told.get("markers"), told.get("outside")) == (listed["markers"], 1), told)
    s3.check("its requests are its parts, manifest and checksum", done.stderr.count(b"GET") <= 2 * (len(manifest["files"]) + 2), done.stderr)
    done, told, got = s3.index(url, "--from", "s3-inventory")
    s3.check("all of the bucket", got is not None and len(got) == len(keys) - 2, done.stderr)
    done, _, got = s3.index(path, "--from", "s3-inventory", "--root", "s3://counted/train/", AWS_ENDPOINT_URL="http://127.0.0.1:1")
    s3.check("a copy of it needs no bucket", got == names, done.stderr)

    def refused(name, words, *, endpoint=None, at=url, **more):
        done, _, got = s3.index(at, "--from", "s3-inventory", "--root", "s3://counted/train/", endpoint=endpoint, **more)
        s3.check(f"refused: {name}", done.returncode == 1 and got is None and all(w in done.stderr.decode() for w in words), done.stderr)

    first = manifest["files"][0]["key"]
    with Proxy(s3.endpoint, fault=lambda q: shortened if first in urllib.parse.unquote(q.target) else None) as proxy:
        refused("a part that is cut on its way", [first], endpoint=proxy.endpoint, SHARD_TIMEOUT="20")
    refused("no such manifest", ["NoSuchKey"], at="s3://inventories/none/manifest.json")
    s3.client.put_object(Bucket="inventories", Key=first, Body=b"x" * manifest["files"][0]["size"])
    refused("a part of another content", ["MD5", first])
    s3.client.put_object(Bucket="inventories", Key=first, Body=b"x")
    refused("a part of another size", ["MD5", first])
    s3.client.put_object(Bucket="inventories", Key=first, Body=b"x" * 9 * manifest["files"][0]["size"])
    refused("a longer part", [first])
    s3.client.delete_object(Bucket="inventories", Key=first)
    refused("a part that is not there", [first, "NoSuchKey"])
    upload(s3, folder)
    s3.client.put_object(Bucket="inventories", Key=os.path.relpath(os.path.dirname(path), folder) + "/manifest.checksum", Body=b"0" * 32)
    refused("another manifest.checksum", ["manifest.json", "MD5"])
    s3.client.put_object(Bucket="inventories", Key="no/manifest.json", Body=json.dumps(manifest).encode())
    done, _, got = s3.index("s3://inventories/no/manifest.json", "--from", "s3-inventory", "--root", "s3://counted/train/")
    s3.check("no manifest.checksum", got == names, done.stderr)
    s3.check("nothing is left", [one for one in os.listdir(s3.folder) if one.startswith("shard")] == [], os.listdir(s3.folder))
