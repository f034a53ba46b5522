"""How the server is addressed, and TLS."""
import os
import ssl
import subprocess

from tests.harness.proxy import Proxy


def addressing(s3):
    """Buckets in the host's name, or in the path."""
    s3.bucket("styles")
    s3.put("styles", "a", "b")
    with Proxy(s3.endpoint) as proxy:
        named = proxy.endpoint.replace("127.0.0.1", "localhost")
        for style, endpoint, virtual in (("auto", named, True), ("auto", proxy.endpoint, False),
                                         (None, named, True),
                                         ("path", named, False), ("virtual", named, True)):
            s3.lists(f"addressing {style}, {endpoint.rpartition(':')[0]}", "s3://styles/", [b"a", b"b"],
                     endpoint=endpoint,
                     SHARD_S3_ADDRESSING=style)
            target, headers = proxy.seen[-1]
            s3.check("as asked", headers["host"].startswith("styles.") == virtual and
                     target.startswith("/styles") != virtual,
                     (target, headers))


def certificate(folder, name, subject, ca=None):
    """Makes NAME.pem and NAME.key for a host or a CA."""
    base = os.path.join(folder, name)
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
               "-nodes", "-days", "2",
               "-keyout", base + ".key", "-out", base + ".pem", "-subj", f"/CN={name}"]
    if ca:
        command += ["-CA", os.path.join(folder, ca + ".pem"), "-CAkey",
                    os.path.join(folder, ca + ".key"),
                    "-addext", f"subjectAltName={subject}", "-addext",
                    "basicConstraints=critical,CA:FALSE"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(base + ".pem", base + ".key")
    return context


def tls(s3):
    """TLS is verified: by the CA, and by the host's name."""
    s3.bucket("safe")
    s3.put("safe", "a", "b")
    certificate(s3.folder, "ca", None)
    right = certificate(s3.folder, "right", "IP:127.0.0.1,DNS:localhost", "ca")
    wrong = certificate(s3.folder, "wrong", "DNS:other.example", "ca")
    bundle = os.path.join(s3.folder, "ca.pem")
    with Proxy(s3.endpoint, tls=right) as proxy:
        s3.lists("TLS with an own CA", "s3://safe", [b"a", b"b"], endpoint=proxy.endpoint,
                 AWS_CA_BUNDLE=bundle)
        asked = proxy.requests
        s3.refuses("TLS without it", "s3://safe", ["AWS_CA_BUNDLE", "certificate"],
                   endpoint=proxy.endpoint)
        s3.refuses("TLS with another CA", "s3://safe", ["AWS_CA_BUNDLE"], endpoint=proxy.endpoint,
                   AWS_CA_BUNDLE=os.path.join(s3.folder, "wrong.pem"))
        s3.refuses("no such bundle", "s3://safe", ["AWS_CA_BUNDLE", "/none.pem"],
                   endpoint=proxy.endpoint, AWS_CA_BUNDLE="/none.pem")
        s3.check("nothing was asked then", proxy.requests == asked, proxy.requests)
        s3.refuses("http to a TLS port", "s3://safe", ["s3://safe"],
                   endpoint=proxy.endpoint.replace("https", "http"), SHARD_TIMEOUT="1")
    with Proxy(s3.endpoint, tls=wrong) as proxy:
        s3.refuses("TLS with a wrong host name", "s3://safe", ["127.0.0.1"], endpoint=proxy.endpoint,
                   AWS_CA_BUNDLE=bundle)
        s3.check("nothing was sent", proxy.requests == 0, proxy.requests)
