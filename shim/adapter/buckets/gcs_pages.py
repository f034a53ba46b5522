# SPDX-License-Identifier: MIT
"""gcs_pages: a page of Google's JSON API (objects.list), with this rank's objects only.

An empty page with a token is legal there, but loops written by hand stop at it: where a page would be
empty, the next one is asked for. Those ask for 1,000 objects and are cut to what the client wanted; a
token of our own then says behind which object to go on. It holds in every client and process.
"""
from .seams import TOKEN, read_token, write_token
from .share import ShareError

_MOST = 1000  # objects that a follow-up asks for
_EVERY = float("inf")  # behind all generations of an object


def _behind(token):
    """(name, generation) of a token of ours, None if it is the server's."""
    place = read_token(token, str, int)
    if place is None and str(token).startswith(TOKEN):
        raise ShareError("the page token %r is none of libshard's: pass a token as it was "
                         "returned" % token)
    return place and (place[0], _EVERY if place[1] < 0 else place[1])


def _place(item):
    """Where an object is in the order of the list."""
    try:
        return item["name"], int(item.get("generation") or 0)
    except (KeyError, ValueError):
        raise ShareError("the server's list has no names, so objects cannot be divided: if you "
                         "pass `fields`, let it have items(name)") from None


def _cut(page, most):
    """The first `most` objects and prefixes of a page in the order of their names, and the token that
    goes on behind them."""
    places = sorted([_place(item) for item in page.get("items", ())]
                    + [(prefix, _EVERY) for prefix in page.get("prefixes", ())])
    last = places[most - 1]
    page["items"] = [item for item in page.get("items", ()) if _place(item) <= last]
    if "prefixes" in page:
        page["prefixes"] = [prefix for prefix in page["prefixes"] if (prefix, _EVERY) <= last]
    page["nextPageToken"] = write_token(last[0], -1 if last[1] == _EVERY else last[1])


def _first(found, request):
    """Whether a list of a rank's range may begin at its first object: (that one's predecessor, whether
    an object that is called like the prefix, which is shown to every rank, must be asked for)."""
    start, prefix = request.get("startOffset") or "", request.get("prefix") or ""
    if found.after is None or found.after < start or request.get("pageToken"):
        return None, False
    named = bool(prefix) and start <= prefix <= found.after
    if named and (request.get("versions") or request.get("softDeleted")):
        return None, False  # it may have several generations
    return found.after, named


async def answer(found, params, fetch):
    """The page for the client. found: the share.Pass of the list; params: of the client's request;
    fetch(params), which can be awaited: the server's page."""
    request = dict(params)
    most, delimiter = int(request.get("maxResults") or 0), request.get("delimiter")
    behind = _behind(request.get("pageToken"))
    if behind is not None:
        del request["pageToken"]
        request["startOffset"] = max(request.get("startOffset") or "", behind[0])
    items, prefixes = [], []
    after, named = _first(found, request)
    if after is not None:
        if named:
            page = await fetch(dict(request, maxResults=1))
            items = [item for item in page.get("items", ()) if _place(item)[0] == request["prefix"]
                     and (behind is None or _place(item) > behind)]
        request["startOffset"] = after
    while True:
        page = dict(await fetch(request))
        got = page.get("items", ())
        items += [item for item in found.kept(got, lambda item: _place(item)[0])
                  if behind is None or _place(item) > behind]
        prefixes = [prefix for prefix in page.get("prefixes", ())
                    if behind is None or (prefix, _EVERY) > behind]
        if not delimiter and got and found.is_past(_place(got[-1])[0]):
            page.pop("nextPageToken", None)
        if items or prefixes or not page.get("nextPageToken"):
            break
        request = dict(request, pageToken=page["nextPageToken"])
        if most:
            request["maxResults"] = max(most, _MOST)
    for name, some in (("items", items), ("prefixes", prefixes)):
        page.pop(name, None)
        if some:
            page[name] = some
    if most and len(items) + len(prefixes) > most:
        _cut(page, most)
    if not page.get("nextPageToken"):
        found.end()
    return page
