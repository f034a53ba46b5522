"""A proxy before an S3 server that delays, counts and spoils what passes; with TLS if asked.

    with Proxy("http://127.0.0.1:1234", fault=lambda request: "reset" if request.number == 3 else None) as proxy:
        ... proxy.endpoint, proxy.requests

It runs in a thread of its own. `fault` is called for each request and names what is done with it:
None (passed on), a name of FAULTS, a function of (request, reply) that returns the reply to be
sent, or Instead of one.
"""
import asyncio
import html
import re
import socket
import struct
import threading
import urllib.parse


class Request:
    """A request's head. number: from 1, over all connections."""

    def __init__(self, number, head):
        self.number, self.head, self.body = number, head, b""
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = lines[0].split(" ", 2)
        self.headers = dict((n.lower(), v.strip()) for n, _, v in (x.partition(":") for x in lines[1:] if x))
        query = self.target.partition("?")[2]
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))


class Reply:
    """A reply: length is what Content-Length says, None for the truth."""

    def __init__(self, status, body, headers=(), length=None):
        self.status, self.body, self.headers, self.length = status, body, list(headers), length

    def head(self):
        """The bytes before the body."""
        length = len(self.body) if self.length is None else self.length
        names = {name.lower() for name, _ in self.headers}
        lines = [f"HTTP/1.1 {self.status} X"] + [f"{n}: {v}" for n, v in self.headers]
        if "content-type" not in names:
            lines.append("Content-Type: application/xml")
        return ("\r\n".join(lines + [f"Content-Length: {length}"]) + "\r\n\r\n").encode("latin-1")


def error(status, code, headers=(), more=""):
    """A fault that answers with an error as S3 does."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>a test</Message>{more}</Error>".encode()
    return lambda request, reply: Reply(status, body, headers)


class Instead:
    """A fault that answers by itself: the server is not asked."""

    def __init__(self, fault):
        self.reply = fault(None, None)


def redirect(status, location):
    """A fault that sends the client elsewhere."""
    return lambda request, reply: Reply(status, b"", [("Location", location)])


def escape(text):
    """Bytes as radosgw writes them into XML: control characters too, though XML has no such."""
    return b"".join(b"&#x%02X;" % c if c < 32 or c in b"&<>\"'" else bytes([c]) for c in text)


def shorten(keep):
    """A fault that ends a page after `keep` keys, with a token that radosgw goes on from."""

    def change(request, reply):
        entries = list(re.finditer(rb"<Contents>.*?</Contents>", reply.body, re.S))
        if len(entries) <= keep:
            return reply
        if keep:
            key = re.search(rb"<Key>(.*?)</Key>", entries[keep - 1].group(), re.S).group(1)
            token = urllib.parse.unquote_to_bytes(html.unescape(key.decode()))
        else:
            at = request.query.get("continuation-token") or request.query.get("start-after") or ""
            token = at.encode() + b"\t"
        body = reply.body[:entries[keep].start()] + reply.body[entries[-1].end():]
        body = re.sub(rb"<NextContinuationToken>.*?</NextContinuationToken>", b"", body, flags=re.S)
        body = re.sub(rb"<IsTruncated>.*?</IsTruncated>", b"<IsTruncated>true</IsTruncated><NextContinuationToken>" +
                      escape(token).replace(b"\\", b"\\\\") + b"</NextContinuationToken>", body)
        return Reply(reply.status, body)

    return change


def no_token(_, reply):
    """A page that says that there is more, but not how to get it."""
    body = re.sub(rb"<NextContinuationToken>.*?</NextContinuationToken>", b"", reply.body, flags=re.S)
    return Reply(reply.status, body.replace(b"<IsTruncated>false<", b"<IsTruncated>true<"))


def as_aws(_, reply):
    """A blank as AWS encodes it."""
    return Reply(reply.status, reply.body.replace(b"%20", b"+"))


FAULTS = {
    "500": error(500, "InternalError"),
    "503": error(503, "SlowDown"),
    "error200": error(200, "InternalError"),
    "cut": lambda q, r: Reply(200, r.body[:len(r.body) * 2 // 3]),
    "empty body": lambda q, r: Reply(200, b""),
    "ill-formed": lambda q, r: Reply(200, r.body.replace(b"</Key>", b"</Kex>", 3)),
    "html": lambda q, r: Reply(200, b"<!DOCTYPE html><html><body>Welcome<br>to the hotel</body></html>",
                               [("Content-Type", "text/html")]),
    "too long": lambda q, r: Reply(200, r.body, length=len(r.body) + 100),
    "too short": lambda q, r: Reply(200, r.body, length=len(r.body) // 2),
    "no token": no_token,
    "as AWS": as_aws,
    "reset": None,  # these three are done with the connection
    "stall": None,
    "close": None,
}


class Proxy:
    """See above. tls: (certificate chain, key) files' ssl.SSLContext; delay: seconds for a request."""

    def __init__(self, upstream, fault=None, tls=None, delay=0):
        parts = urllib.parse.urlsplit(upstream)
        self.upstream = (parts.hostname, parts.port)
        self.fault, self.tls, self.delay = fault, tls, delay
        self.requests = 0
        self.seen = []  # (target, headers) of each request
        self.replies = []  # (method, path, status) of each reply that is sent whole
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.loop = self.port = None

    def __enter__(self):
        self.thread.start()
        if not self.ready.wait(600):
            raise TimeoutError("the proxy does not listen")
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    @property
    def endpoint(self):
        """What the client is told."""
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    def _run(self):
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.loop.set_exception_handler(lambda loop, context: None)  # connections end as they like
        server = self.loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls, limit=1 << 20))
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        self.loop.run_forever()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        server.close()

    async def _serve(self, reader, writer):
        link = None
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests += 1
                request = Request(self.requests, head[:-4])
                self.seen.append((request.target, request.headers))
                body = request.body = await reader.readexactly(int(request.headers.get("content-length", 0)))
                if self.delay:
                    await asyncio.sleep(self.delay)
                fault = self.fault(request) if self.fault else None
                if isinstance(fault, Instead):
                    reply, fault = fault.reply, None
                else:
                    if link is None:
                        link = await asyncio.open_connection(*self.upstream, limit=1 << 20)
                    link[1].write(head + body)
                    reply = await self._receive(link[0], request.method)
                if not await self._answer(request, reply, fault, writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError, OSError):
            pass
        finally:
            for end in [writer] + ([link[1]] if link else []):
                end.close()

    @staticmethod
    async def _receive(reader, method):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(head[0].split()[1])
        headers = [(n, v.strip()) for n, _, v in (line.partition(":") for line in head[1:] if line)]
        fields = {n.lower(): v for n, v in headers}
        body, length = b"", None
        if method == "HEAD" or status in (204, 304):
            length = int(fields.get("content-length", 0))
        elif fields.get("transfer-encoding", "").lower() == "chunked":
            while True:
                size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
                body += (await reader.readexactly(size + 2))[:-2]
                if size == 0:
                    break
        else:
            body = await reader.readexactly(int(fields.get("content-length", 0)))
        kept = [(n, v) for n, v in headers
                if n.lower() not in ("content-length", "transfer-encoding", "connection")]
        return Reply(status, body, kept, length)

    async def _answer(self, request, reply, fault, writer):
        """Send the reply, spoiled or not. Whether the connection goes on."""
        if fault in ("reset", "stall", "close"):
            writer.write(reply.head() + reply.body[:len(reply.body) // 2])
            await writer.drain()
            if fault == "stall":
                await asyncio.sleep(3600)
            if fault == "reset":
                connection = writer.get_extra_info("socket")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            return False
        if fault is not None:
            reply = (FAULTS[fault] if isinstance(fault, str) else fault)(request, reply)
        self.replies.append((request.method, request.target.partition("?")[0], reply.status))
        writer.write(reply.head() + (b"" if request.method == "HEAD" else reply.body))
        await writer.drain()
        return reply.length is None
