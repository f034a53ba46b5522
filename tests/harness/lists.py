# SPDX-License-Identifier: MIT
"""Lists that others make, written after their formats' descriptions."""
import csv
import gzip
import hashlib
import io
import json
import os
import urllib.parse


def lite(root, more=()):
    """dwalk --lite -o: a line "PATH|T" for the root and all below it, links not followed."""
    lines = [f"{root}|D"]
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            lines.append(path + ("|L" if os.path.islink(path) else "|D" if os.path.isdir(path) else "|F"))
    return [*lines, *more]


def encoded(key):
    """A key in an inventory in CSV."""
    return urllib.parse.quote_plus(key, safe="/")


def inventory(folder, bucket, rows, parts=3, schema=("Bucket", "Key", "Size"), made=1764291600000, prefix="inventories/daily"):
    """
    An S3 Inventory as it lies in its destination, and as aws s3 sync copies it: FOLDER/PREFIX/DATE/manifest.json and
    FOLDER/PREFIX/data/. rows: a dict for each record. The path of manifest.json, and its content.
    """
    data, at = os.path.join(folder, prefix, "data"), os.path.join(folder, prefix, "2025-11-28T01-00Z")
    os.makedirs(data, exist_ok=True)
    os.makedirs(at, exist_ok=True)
    files = []
    for number in range(parts):
        text = io.StringIO()
        writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
        for row in rows[number::parts]:
            full = {"Bucket": bucket, "Size": "1", **row, "Key": encoded(row["Key"])}
            writer.writerow([full[name] for name in schema])
        packed = gzip.compress(text.getvalue().encode())
        name = f"{hashlib.md5(packed).hexdigest()}-{number}.csv.gz"
        with open(os.path.join(data, name), "wb") as stream:
            stream.write(packed)
        files.append({"key": f"{prefix}/data/{name}", "size": len(packed), "MD5checksum": hashlib.md5(packed).hexdigest()})
    manifest = {"sourceBucket": bucket, "destinationBucket": "arn:aws:s3:::inventories", "version": "2016-11-30",
                "creationTimestamp": str(made), "fileFormat": "CSV", "fileSchema": ", ".join(schema), "files": files}
    return write_manifest(os.path.join(at, "manifest.json"), manifest), manifest


def write_manifest(path, manifest, checksum=True):
    """A manifest.json, and the manifest.checksum beside it. The path."""
    text = json.dumps(manifest, indent=2).encode()
    with open(path, "wb") as stream:
        stream.write(text)
    with open(os.path.join(os.path.dirname(path), "manifest.checksum"), "w", encoding="utf-8") as stream:
        stream.write(hashlib.md5(text).hexdigest() if checksum else "0" * 32)
    return path
