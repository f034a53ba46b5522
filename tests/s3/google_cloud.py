"""Requests to Google Cloud Storage: their form, not what Google makes of them."""
import hashlib
import hmac
import os
import re
import urllib.parse

from tests.harness.proxy import Instead, Proxy, Reply, error
from tests.s3.fixture import ACCESS, SECRET, TOKEN


class Google:
    """What Google Cloud Storage documents of its XML API, as far as it is used; in memory.

    It refuses what is not signed its way.
    """

    def __init__(self):
        self.objects, self.faults = {}, []

    def signed(self, request):
        """Whether the signature is right."""
        words = re.fullmatch(
            r"GOOG4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/auto/storage/goog4_request, "
            r"SignedHeaders=(\S+), Signature=(\w+)",
            request.headers.get("authorization", ""))
        if not words:
            return False
        url = urllib.parse.urlsplit(request.target)
        access, day, names, signature = words.groups()
        canonical = "\n".join([request.method, url.path, url.query] +
                              [f"{n}:{request.headers[n]}" for n in names.split(";")] +
                              ["", names, request.headers["x-goog-content-sha256"]])
        text = "\n".join(["GOOG4-HMAC-SHA256", request.headers["x-goog-date"],
                          f"{day}/auto/storage/goog4_request",
                          hashlib.sha256(canonical.encode()).hexdigest()])
        key = b"GOOG4" + SECRET.encode()
        for part in (day, "auto", "storage", "goog4_request", text):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        unsigned = [n for n in request.headers if n.startswith("x-goog-") and n not in names.split(";")]
        return (access == ACCESS and key.hex() == signature and not unsigned and
                hashlib.sha256(request.body).hexdigest() == request.headers["x-goog-content-sha256"])

    def answer(self, request, _):
        """A reply."""
        url = urllib.parse.urlsplit(request.target)
        key = urllib.parse.unquote(url.path[1:])
        hosts = ("bucket.storage.googleapis.com", "storage.googleapis.com")
        if any(n.startswith("x-amz-") for n in request.headers) or url.netloc not in hosts:
            self.faults.append((request.target, request.headers))
        if not self.signed(request):
            return error(403, "SignatureDoesNotMatch")(None, None)
        if not key:
            query = urllib.parse.parse_qs(url.query)
            assert query["list-type"] == ["2"] and query["encoding-type"] == ["url"], query
            after = query.get("start-after", [""])[0]
            prefix = query.get("prefix", [""])[0]
            entries = "".join(
                f"<Contents><Key>{urllib.parse.quote(k)}</Key><Generation>1</Generation></Contents>"
                for k in sorted(self.objects) if k.startswith(prefix) and k > after)
            return Reply(200, (
                "<?xml version='1.0'?>"
                "<ListBucketResult xmlns='http://doc.s3.amazonaws.com/2006-03-01'>"
                "<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
                f"{entries}</ListBucketResult>").encode())
        if key not in self.objects:
            return error(404, "NoSuchKey")(None, None)
        return Reply(200, self.objects[key], [("ETag", f'"{hashlib.md5(self.objects[key]).hexdigest()}"')])


def google(s3):
    """Requests to Google Cloud Storage by its host's name, for which a proxy stands."""
    check, cloud = s3.check, Google()
    cloud.objects.update({k: b"" for k in ("train/a b+c", "train/\u56fe.png", "valid/x")})
    back = os.path.join(s3.folder, "back")
    with Proxy(s3.endpoint, fault=lambda q: Instead(lambda *_: cloud.answer(q, None))) as proxy:
        more = {"endpoint": "http://storage.googleapis.com", "http_proxy": proxy.endpoint,
                "AWS_SESSION_TOKEN": TOKEN, "SHARD_TIMEOUT": "60"}
        s3.lists("Google: a list", "s3://bucket/train/", ["a b+c".encode(), "\u56fe.png".encode()],
                 **more)
        s3.run("index", "s3://bucket/train/", "-o", back, **more)
        with open(back, "rb") as stream:
            cloud.objects["x y.listing"] = stream.read()
        done = s3.run("get", "s3://bucket/x y.listing", "-o", back, **more)
        check("Google: get", done.returncode == 0 and s3.run("ls", back).stdout.count(b"\n") == 2, done)
        done = s3.run("get", "s3://bucket/x y.listing", "-o", back,
                      AWS_SECRET_ACCESS_KEY="wrongSecret/9", **more)
        check("Google: a wrong secret", done.returncode == 1 and b"AWS_SECRET_ACCESS_KEY" in done.stderr,
              done)
        check("Google: no header of AWS, no other host", not cloud.faults and proxy.requests >= 4,
              cloud.faults[:1])
