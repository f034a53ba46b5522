"""Credentials, profiles, proxies, clocks, and what is said if they are wrong."""
import os
import shutil

from tests.harness.proxy import Instead, Proxy, Reply, error
from tests.s3.fixture import ACCESS, SECRET, TOKEN


def accounts(s3):
    """Credentials, profiles, errors about them, the clock."""
    s3.bucket("small")
    keys = ["a", "b/c", "b/d"]
    s3.put("small", *keys)
    names = [k.encode() for k in keys]
    s3.lists("keys from the environment", "s3://small", names)
    with Proxy(s3.endpoint) as proxy:
        s3.lists("a session token", "s3://small", names, endpoint=proxy.endpoint,
                 AWS_SESSION_TOKEN=TOKEN)
        headers = proxy.seen[-1][1]
        s3.check("it is sent and signed", headers.get("x-amz-security-token") == TOKEN and
                 "x-amz-security-token" in headers["authorization"].partition("SignedHeaders=")[2],
                 headers)
    folder = os.path.join(s3.folder, ".aws")
    os.mkdir(folder)
    with open(os.path.join(folder, "credentials"), "w", encoding="ascii") as stream:
        stream.write(f"[default]\naws_access_key_id = WRONG\naws_secret_access_key = wrong\n"
                     f"[work]\naws_access_key_id = {ACCESS}\naws_secret_access_key = {SECRET}\n")
    with open(os.path.join(folder, "config"), "w", encoding="ascii") as stream:
        stream.write(f"[profile work]\nregion = eu-west-3\nendpoint_url = {s3.endpoint}\n")
    none = dict.fromkeys(["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"])
    s3.lists("a profile", "s3://small", names, AWS_PROFILE="work", AWS_ENDPOINT_URL=None, **none)
    shutil.move(folder, folder + "-elsewhere")
    s3.lists("files elsewhere", "s3://small", names, AWS_PROFILE="work", AWS_ENDPOINT_URL=None,
             AWS_SHARED_CREDENTIALS_FILE=folder + "-elsewhere/credentials", AWS_CONFIG_FILE=folder +
             "-elsewhere/config", **none)
    s3.refuses("no credentials", "s3://small", ["AWS_ACCESS_KEY_ID"], **none)
    s3.refuses("no such profile", "s3://small", ["AWS_PROFILE", "nope"], AWS_PROFILE="nope", **none)
    for name, url, words, more in (
            ("wrong secret", "s3://small", ["SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY"],
             {"AWS_SECRET_ACCESS_KEY": "wrongSecret/9"}),
            ("unknown key", "s3://small", ["InvalidAccessKeyId"], {"AWS_ACCESS_KEY_ID": "NOBODY"}),
            ("no such bucket", "s3://nosuchbucket/x", ["nosuchbucket", "NoSuchBucket"], {}),
            ("no permission", "s3://small", ["AccessDenied"], {"anonymous": True})):
        with Proxy(s3.endpoint) as proxy:
            more = dict(more)
            arguments = ["--no-sign-request"] if more.pop("anonymous", False) else []
            s3.refuses(name, url, words, *arguments, endpoint=proxy.endpoint,
                       most=lambda p=proxy: 1 <= p.requests <= 10, **more)
    s3.client.put_bucket_acl(Bucket="small", ACL="public-read")
    s3.lists("--no-sign-request of a public bucket", "s3://small", names, "--no-sign-request", **none)
    with s3.nobody() as endpoint:
        s3.refuses("nobody listens", "s3://small", [endpoint.rpartition("/")[2], "AWS_ENDPOINT_URL"], endpoint=endpoint)
    s3.refuses("no such host", "s3://small", ["AWS_ENDPOINT_URL"],
               endpoint="http://no-such-host.invalid")
    # A proxy that refuses is asked once; its password, which libcurl's messages have, is not shown.
    for status in (403, 407):
        with Proxy(s3.endpoint, fault=lambda q, s=status: Instead(lambda *_: Reply(s, b""))) as proxy:
            s3.refuses(f"a proxy says {status}", "s3://small", [str(status), "proxy"],
                       endpoint="https://s3.example",
                       https_proxy=proxy.endpoint.replace("//", "//joe:wrongSecret%2F9@"),
                       most=lambda p=proxy: p.requests == 1)
    for url in ("foo://joe:wrongSecret/9@127.0.0.1:1", "http://joe:wrongSecret/9@[::"):
        s3.refuses(f"a bad proxy {url[:3]}", "s3://small", ["s3://small"], http_proxy=url,
                   SHARD_TIMEOUT="2")
    s3.refuses("a bad endpoint", "s3://small", ["AWS_ENDPOINT_URL"], endpoint="127.0.0.1:9000")
    s3.refuses("a bad url", "s3:///x", ["s3:///x"], status=2)
    s3.refuses("bad connections", "s3://small", ["SHARD_S3_CONNECTIONS"], status=2,
               SHARD_S3_CONNECTIONS="0")
    s3.refuses("bad addressing", "s3://small", ["SHARD_S3_ADDRESSING"], status=2,
               SHARD_S3_ADDRESSING="host")
    s3.refuses("an option of texts", "s3://small", ["--unique"], "--unique", status=2)
    done, facts, got = s3.index("s3://small/none/")
    s3.check("an empty result", got == [] and facts["entries"] == 0 and b"warning" in done.stderr and
             b"s3://small/none/" in done.stderr, done)
    with Proxy(s3.endpoint, fault=lambda q: error(403, "RequestTimeTooSkewed")) as proxy:
        s3.refuses("a clock that is wrong", "s3://small", ["clock"], endpoint=proxy.endpoint,
                   most=lambda p=proxy: p.requests == 1)
