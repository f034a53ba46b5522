# SPDX-License-Identifier: MIT
"""bodies: the XML of a page, without entries that are not this rank's, before the client parses it.

A client takes far more time to parse an entry than this takes to see whose it is. An entry is left out
if pages.py would leave it out of what the client has parsed; that one looks at all that is left, so
what stays here does no harm. A body is changed only so far as it is understood:

 -  From its beginning to the first entry it has the form of HEAD, and the entries that follow each other
    have the form of ENTRY. So each of them is a whole element, a child of the root. From the first that
    has another form on, all stays as it is. Whether what is left is XML says whether the whole body is.
 -  The last entry of these stays: it may tell where the server's page ends. So does the witness, whose key
    tells whether the client decodes keys as it was done here (`is_as_read`).
"""
import re
import urllib.parse

from .share import ShareError

TEXT = rb"[ -%'-;=?-~]*"  # ASCII without what has a meaning in XML
TIME = (rb"[12]\d{3}-(?!02-(?:29|3)|(?:0[469]|11)-31)(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
        rb"T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?Z")
HEAD = re.compile(rb'(?:<\?xml version="1\.0" encoding="(?:UTF|utf)-8"\?>\s*)?'
                  rb'<ListBucketResult(?: xmlns="[!#-%(-;=?-~]*")?>'
                  rb"(?:<([A-Za-z]+)>" + TEXT + rb"</\1>|<[A-Za-z]+/>)*?(?=<Contents>)")
ENTRY = re.compile(rb"<Contents><Key>(" + TEXT + rb")</Key>"
                   rb"<LastModified>" + TIME + rb"</LastModified>"
                   rb"<ETag>" + TEXT + rb"(?:&quot;" + TEXT + rb")*</ETag>"
                   rb"(?:<(Checksum(?:Algorithm|Type))>" + TEXT + rb"</\2>)*"
                   rb"<Size>\d{1,18}</Size>"
                   rb"(?:<(StorageClass|Type)>" + TEXT + rb"</\3>|"
                   rb"<Owner>(?:<(ID|DisplayName)>" + TEXT + rb"</\4>)*</Owner>)*"
                   rb"</Contents>")


class Cut:
    """What is left out of the answer to one request. own: the share.Pass that it is asked for."""

    def __init__(self, own):
        self._own = own
        self._witness = None  # (its place in what is left, its key)

    def body(self, body):
        """What the client is to parse."""
        self._witness = None
        entries, keys, witness = _read(body)
        if not keys or keys != sorted(keys):  # pages.py is to see that they are in no order
            return body
        try:
            flags = bytearray(self._own.owned(keys, shown=False))
        except ShareError:
            return body  # the same comes of it when the page is parsed
        flags[-1] = flags[witness] = 1
        self._witness = sum(flags[:witness]), keys[witness]
        left = [entry[0] for entry, flag in zip(entries, flags) if flag]
        return b"".join((body[:entries[0].start()], *left, body[entries[-1].end():]))

    def is_as_read(self, response):
        """Whether the client has parsed keys as they were read here."""
        if self._witness is None:
            return True
        place, key = self._witness
        try:
            return response["Contents"][place]["Key"] == key
        except (LookupError, TypeError):
            return False


def _read(body):
    """([a match of ENTRY], [its key], which of them is the witness) of the entries that are understood."""
    head = HEAD.match(body)
    if head is None or b"<CommonPrefixes" in body:
        return [], [], None
    entries, end = [], head.end()
    for entry in ENTRY.finditer(body, end):
        if entry.start() != end:
            break
        entries.append(entry)
        end = entry.end()
    text = b"\n".join([entry[1] for entry in entries]).decode("ascii")
    raw, decoded = text.split("\n"), urllib.parse.unquote_plus(text).split("\n")
    if not entries or len(raw) != len(decoded):
        return [], [], None
    witness = next((i for i in reversed(range(len(raw))) if raw[i] != decoded[i]), 0)
    return entries, decoded if b"<EncodingType>url</EncodingType>" in body else raw, witness
