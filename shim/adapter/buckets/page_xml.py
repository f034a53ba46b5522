# SPDX-License-Identifier: MIT
"""page_xml: the XML of a page, without entries that are not this rank's, before botocore parses it.

botocore takes far more time to parse an entry than this takes to see whose it is. A body is changed only
if all its entries have the form that is known: without comments, CDATA and declarations each "<" begins a
tag, so what lies between <Contents> and the next </Contents> is one element, whose key is its first child.
Then the seam compares: if a key that is left is parsed as a key of another rank, its call fails.
"""
import re
import urllib.parse

from .share import ShareError

HEAD = re.compile(rb'(?:<\?xml version=.1\.0. encoding=.(?:UTF|utf)-8.\?>\s*)?<ListBucketResult[ >]')
KEYS = re.compile(rb"[\n -%'-;=?-~]*")  # ASCII without what has a meaning in XML
OPEN, CLOSE, KEY, END = b"<Contents>", b"</Contents>", b"<Key>", b"</Key>"


class Cut:
    """What is left out of the answers to one request. own: the share.KeyFilter; keys: all that the last answer
    had, None if nothing was left out of it."""

    def __init__(self, own):
        self._own, self.keys = own, None

    def body(self, body):
        """What botocore is to parse."""
        self.keys = None
        head, *entries = body.split(OPEN)
        if not entries or not HEAD.match(head) or b"<!" in body or body.count(b"<?") > 1:
            return body
        entries[-1], close, tail = entries[-1].rpartition(CLOSE)
        entries[-1] += close
        each = [entry.partition(END)[0] for entry in entries]
        text = b"\n".join(each)
        if not all(entry.startswith(KEY) and entry.endswith(CLOSE) for entry in entries) or any(
                body.count(one) != len(entries) for one in (b"<Contents", CLOSE, KEY, END)) or not (
                    KEYS.fullmatch(text.replace(KEY, b""))):
            return body
        text = text.replace(KEY, b"").decode("ascii")
        if b"<EncodingType>url</EncodingType>" in body:
            text = urllib.parse.unquote_plus(text)
        keys = text.split("\n")
        if len(keys) != len(entries):
            return body
        try:
            flags = self._own.owned(keys, shown=False)
        except ShareError:
            return body  # the same comes of it when the page is parsed
        self.keys = keys
        return head + b"".join([OPEN + entry for entry, flag in zip(entries, flags) if flag]) + tail
