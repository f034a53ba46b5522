"""Small faults, planted one at a time in a copy of this tree: the tests of their area must fail.

    python3 -m tests.planted [--filter RE] [--keep]     make planted

Each is a piece of text that occurs once in a file, another piece in its place, and the tests that are to
see it. A fault that no test sees survives, and is named: it gets a test, or the code goes. The last line
counts. Not a part of make test.
"""
import argparse
import dataclasses
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from tests.harness import paths, processes

LIMIT = 300  # seconds of an area's tests; a unit test's is 60


@dataclasses.dataclass
class Fault:
    """What is planted where, and who is to see it: "unit NAME", "behaviour NAME", "adapter CLASS", "pages",
    "s3 PART", "buckets PART"."""
    name: str
    file: str
    old: str
    new: str
    tests: tuple


def fault(name, file, old, new, *tests):
    """A row of the table."""
    return Fault(name, "shim/" + file, old, new, tests)


FAULTS = [
    # What is believed.
    fault("anybody's file is trusted", "base/trust.c", "st->st_uid != 0 && st->st_uid != shard_kernel_euid()",
          "st->st_uid == (uid_t)-2", "unit cache", "behaviour badinput"),
    fault("a file that others may write to is trusted", "base/trust.c", "return group || (st->st_mode & S_IWOTH)",
          "return group && (st->st_mode & S_IWOTH)", "unit cache", "behaviour badinput"),
    fault("a link in the cache is followed", "cache/safe.c", "O_NOCTTY | O_NOFOLLOW, mode", "O_NOCTTY, mode",
          "unit cache", "behaviour badinput"),
    fault("what fakeroot says of owners is believed", "base/kernel.h", "syscall(SYS_newfstatat, at, path, st, flags)",
          "fstatat(at, path, st, flags)", "behaviour coexist"),
    fault("libshard serves shardctl", "interpose/init.c", "|| &shard_is_shardctl;", "|| (&shard_is_shardctl && false);",
          "behaviour coexist"),
    fault("a set-uid program's environment is read", "interpose/init.c", "getauxval(AT_SECURE) != 0",
          "getauxval(AT_SECURE) > 1", "behaviour threats"),
    fault("any user's folder for all users is a common one", "cache/cachedir.c",
          "return overflow && shard_process_in_user_namespace();", "return overflow;", "behaviour threats"),
    fault("a listing is not read back", "build/writer.c", "int rc = whole ? 0 : -EBADMSG;", "int rc = whole ? 0 : -0;",
          "behaviour build"),
    fault("readdir_r gives a name that has no room", "interpose/dir.c", "name_length(entry) > NAME_MAX",
          "name_length(entry) > NAME_MAX + 5", "behaviour manifests"),
    fault("a lock counts though its file has lost the name", "base/kernel.h",
          "return own.st_ino == named.st_ino && own.st_dev == named.st_dev;", "return 1;", "unit cache", "behaviour races"),
    fault("a lock that others can open stays", "cache/lock.c", "!common || renewed || unlink(file) != 0",
          "!common || renewed || true", "unit cache", "behaviour badinput"),
    fault("a ctime is not compared", "listing/identity.c", "return memcmp(a, b, sizeof(*a)) == 0;",
          "return a->ino == b->ino && a->mtime_sec == b->mtime_sec && a->mtime_nsec == b->mtime_nsec;",
          "behaviour identity"),
    fault("a changed directory is true", "cache/user_listing.c", "eye.invented || shard_identity_is_equal(&now, &was)",
          "eye.invented || true || shard_identity_is_equal(&now, &was)", "behaviour identity"),
    fault("another image is true", "listing/identity.c", "out->image = eye->image;", "out->image = 0;",
          "behaviour identity"),
    fault("a directory of this clock tick is not waited for", "source/walk.c", "  wait_a_tick(dir->fd, &before);\n", "",
          "unit walk", "behaviour identity"),
    # Who has a listing, and what is removed.
    fault("a held listing that nobody holds is joined", "cache/lock.c", "alone > 0 && held &&", "alone > 1 && held &&",
          "unit cache"),
    fault("a listing that was removed is joined", "cache/lock.c", "if (rc == 0 && named > 0) {", "if (rc == 0) {", "unit cache"),
    fault("who has made kept bytes has no lock of them", "cache/permutation.c", "flock(fd, LOCK_SH) != 0", "false", "unit cache"),
    fault("gc ignores the lock", "cache/lock.c", "fd >= 0 && try(fd) > 0 &&", "fd >= 0 && try(fd) >= 0 &&", "unit cache"),
    fault("a dry run removes", "cache/collect.c", "c->how->dry               ? !", "false ? !", "unit cache"),
    fault("gc removes a living job's listing", "cache/collect.c", "now.start == owner->start ? LIVES : GONE",
          "now.start == owner->start ? UNTOLD : GONE", "unit cache"),
    fault("a process of a job's number is the job's", "cache/collect.c", "now.start == owner->start ? LIVES : GONE",
          "now.start ? LIVES : GONE", "unit cache"),
    fault("a number of another PID namespace is one of this", "cache/collect.c", "st.st_ino != owner->space", "false",
          "unit cache"),
    fault("gc removes what may be at work", "cache/collect.c", "bool removed = dead &&", "bool removed = (dead || true) &&",
          "unit cache"),
    fault("a name is parsed as strtol takes it", "cache/filenames.c", "owner->pid > 0 && strcmp(text, again) == 0",
          "owner->pid > 0", "unit cache"),
    fault("a held job's files are a process's", "cache/job.c", "if (job->held || !process) {", "if (!process) {",
          "unit launcher"),
    # Bounds.
    fault("a section may end behind the file", "listing/reader.c", "s->size <= l->map_size - s->offset", "true",
          "unit unchecked"),
    fault("a text may be longer than any name", "listing/reader.c", "!nul || nul - at >= SHARD_NAME_MAX", "!nul",
          "unit unchecked"),
    fault("a directory may end behind the file", "listing/reader.c", "if ((size_t)(l->dirs_end - p) > sizeof(*out)) {",
          "if (true) {", "unit unchecked"),
    fault("a record may be longer than the runs", "listing/names.c", "out->size > t->runs_size ||", "",
          "unit unchecked"),
    fault("a record may lie behind the runs", "listing/names.c", "out->where > t->runs_size - out->size", "false",
          "unit unchecked"),
    fault("an extent may have more names than there are", "listing/names.c", "out->count <= t->count - out->first",
          "true", "unit unchecked"),
    fault("a name may be shorter than its directory", "view/serve.c", "if (w->p.length <= s->path_bytes) {",
          "if (w->p.length < 1) {", "unit serve"),
    # Shares.
    fault("a range ends one too early", "shard/shard.c", "*end = range_begin(n, rank + 1, size);",
          "*end = range_begin(n, rank + 1, size) - (rank == 1);", "unit permute"),
    fault("stride takes the next rank's", "shard/shard.c", "i % s->size == s->rank ?", "(i + 1) % s->size == s->rank ?",
          "unit shard"),
    fault("drop drops nothing", "shard/shard.c", ": false;\n  s->count = each + more;",
          ": s->rank < rest;\n  s->count = each + more;", "unit shard"),
    fault("repeat does not wrap around under stride", "shard/shard.c", "k = i == s->wrapped ?", "k = i == s->n + 1 ?", "unit shard"),
    fault("repeat does not wrap around under range", "shard/shard.c", "return wraps ? 2 : 1;", "return 1;", "unit shard",
          "behaviour remainder"),
    fault("drop leaves ranks with nothing", "shard/shard.c", "remainder != SHARD_REMAINDER_DROP || n >= size;", "true;",
          "unit shard", "behaviour remainder"),
    fault("hash takes a remainder", "config/config.c",
          "config.strategy == SHARD_STRATEGY_HASH && config.remainder != SHARD_REMAINDER_KEEP", "false",
          "behaviour remainder"),
    fault("a sub-directory is read in an epoch of its own", "view/datasets.c", "if (!begins && known != UNREAD) {",
          "if (!begins && known == -9) {", "behaviour manifests"),
    fault("an epoch that is wrong lists on", "view/datasets.c", "atomic_store(&d->epoch, rc ? UNREAD : *epoch);",
          "atomic_store(&d->epoch, rc ? known : *epoch);", "behaviour manifests"),
    fault("a bucket's later page is of another epoch", "adapter/buckets/share.py",
          "epoch = None if begun else touched[0].epoch", "epoch = None", "buckets epochs"),
    fault("a later page is of the epoch that was begun last", "adapter/buckets/botocore.py", "        return last, epoch\n",
          "        return last, None\n", "buckets epochs"),
    fault("nobody hears of a class with few files", "view/prepare.c", "last - first + 1 < s->share.size ? FEW : MORE", "MORE",
          "behaviour shardview"),
    fault("a hash's owner is of the half of the hash", "shard/shard.c", "shard_xxh64(name, length, key) * size >> 64",
          "(shard_xxh64(name, length, key) >> 1) * size >> 64", "unit permute"),
    fault("a shuffle has two rounds less", "shard/permute.c", "for (int r = 0; r < SHARD_PERMUTE_ROUNDS; r += 2) {",
          "for (int r = 2; r < SHARD_PERMUTE_ROUNDS; r += 2) {", "unit permute"),
    # Samples and tables.
    fault("a sample begins at another file", "build/writer.c", "(uint64_t)begins << bit % 64;", "(uint64_t)begins << bit % 63;",
          "unit listing"),
    fault("a stem ends at the last dot", "listing/samples.c", "? memchr(name + base + 1, '.', length - base - 1)",
          "? memrchr(name + base + 1, '.', length - base - 1)", "unit listing"),
    fault("sub-directories come before files", "listing/codec.h", "return below - other;", "return other - below;", "unit listing"),
    fault("what lies below a directory ends elsewhere", "listing/names.c", "if (t->order == SHARD_ORDER_SAMPLE) {", "if (false) {",
          "unit listing"),
    fault("nobody looks for sets", "build/sets.c", "return !s->many &&", "return s->many &&", "behaviour samples"),
    fault("a shuffle goes on with another sample", "view/serve.c", "v->next = last < 0 ? v->count : index_in_order(v, (uint64_t)last) + 1;",
          "v->next = last < 0 ? v->count : (uint64_t)last + 1;", "behaviour samples"),
    fault("hash divides samples", "view/serve.c", "shard_sample_name(s->options->sample, name, length), s->key", "length, s->key",
          "behaviour samples"),
    fault("a table's names are listed", "build/intake.c", "if (in->tables_count == 0) {", "if (true) {", "behaviour tables"),
    fault("what lies in a table is listed", "listing/reader.c", "(n == length || name[n] == '/')", "n == length", "behaviour tables"),
    fault("hash lists tables", "view/serve.c", "if (s->source == SHARD_SERVE_HASHED && length < PATH_MAX) {", "if (false) {",
          "behaviour tables"),
    fault("SHARD_INCLUDE leaves no marker out", "listing/markers.c", "return shard_options_match(o, copy, n) ? markers[i].format : NULL;",
          "return markers[i].format;", "behaviour tables"),
    fault("a Go program says nothing", "host/go.c", "!(p->p_flags & PF_W)", "(p->p_flags & PF_W)", "behaviour shardctl"),
    # Failing closed.
    fault("a path that leads elsewhere is believed", "host/locate.c", "if (below && leads_there(l)) {", "if (below) {",
          "behaviour closed"),
    fault("what has been detached is nobody's", "host/locate.c", "if (rc == 0 && (below || (l->length > 0 && !leads_there(l)))) {",
          "if (rc == 0 && false) {", "behaviour closed"),
    fault("a root's path is kept for its inode's sake", "host/locate.c", "if (last && has_path(fd, last->path)) {",
          "if (last) {", "behaviour closed"),
    fault("nested datasets are served", "host/locate.c", "(out->other = find_nested(l, known, out->which)) < l->count",
          "(out->other = find_nested(l, known, out->which)) < 0", "behaviour closed"),
    fault("a root that cannot be looked at is forgotten", "host/locate.c", "  return may_be ? rc : 0;", "  return 0 * may_be;",
          "behaviour closed"),
    fault("other mounts than a root's are believed to be apart", "host/locate.c", "root->mount == l->st->stx_mnt_id;",
          "true;", "behaviour closed", "behaviour calls"),
    fault("a made-up descriptor is nobody's", "interpose/dir.c", "fail_with(rc == -EBADF ? refuse_foreign() : rc);", "fail_with(rc);",
          "behaviour closed"),
    fault("wordexp shows what it has found", "interpose/wordexp.c", "    rc = WRDE_NOSPACE;\n", "    rc = 0;\n",
          "behaviour patterns"),
    fault("wordexp looks at the first word only", "interpose/wordexp.c", "*word && error == 0; word++) {\n    error",
          "*word == *made && *word; word++) {\n    error", "behaviour patterns"),
    fault("glob forgets why a listing call failed", "interpose/dir.c", "errno = shard_dir_refused_errno = -rc;",
          "errno = -rc;", "behaviour closed", "behaviour patterns"),
    fault("a fork does not count up the generation", "interpose/dir.c", "atomic_fetch_add(&generation, 1);",
          "(void)generation;", "behaviour races", "behaviour calls"),
    fault("a builder that was killed has no successor", "cache/make.c",
          "(tries == 1 && rc != 0 && b->signal)", "false", "behaviour races", "behaviour badinput", "behaviour faults"),
    fault("nothing is looked for behind a builder's end", "cache/make.c", "access(w->file, F_OK) != 0) {", "false) {",
          "behaviour races", "behaviour badinput", "behaviour tools", "behaviour faults"),
    fault("waiting ends never", "cache/lock.c", "if (now >= deadline) {", "if (now >= deadline + 3600000) {",
          "unit cache", "behaviour badinput"),
    # PlaceholderNames.
    fault("a name that is not there counts", "source/text.c", "if (there && !S_ISDIR(st.st_mode)) {", "if (!there || !S_ISDIR(st.st_mode)) {", "behaviour lists"),
    fault("a directory counts as a name", "build/writer.c", "name[prefix] == '/';", "name[prefix] == 92;", "behaviour lists"),
    fault("names of a kind are looked up only in the spread", "source/text.c", "r->encoded < r->lookups && is_encoded", "false && is_encoded", "behaviour lists"),
    fault("dwalk's directories are not compared", "source/compare.c", "more >= room || !is_listed", "more >= room || false && !is_listed", "behaviour lists"),
    fault("empty directories are not looked at first", "source/compare.c", "if (is_empty(&c, p.name, p.length)) {", "if (false) {", "behaviour lists"),
    fault("an inventory's sum is not compared", "source/inventory.c", "all == bytes && strcasecmp(text, md5) == 0", "all == bytes", "behaviour lists"),
    fault("older versions are names", "source/inventory.c", "return latest && !marker;", "return !marker;", "behaviour lists"),
    fault("a plus stays in an inventory's key", "source/inventory.c", "name->length, true)", "name->length, false)", "behaviour lists"),
    fault("a part may be cut short", "source/text.c", "if (rc == 0 && open && r->index", "if (false && open && r->index", "behaviour lists"),
    fault("lines are not judged", "source/text.c", ".lines = !o->said}", ".lines = false}", "behaviour lists"),
    fault("a directory of shuffled names is forgotten", "build/intake.c", "if (*added == hash) {", "if (*added != 0) {", "behaviour manifests"),
    fault("a CR before the line's end is a name's", "source/text.c", "text[length - 1] == '\\r'",
          "text[length - 1] == 1", "behaviour build"),
    fault("a manifest may lead out of its root", "source/text.c", "n == 2 && part[0] == '.' && part[1] == '.'",
          "n == 2 && part[0] == 1", "behaviour manifests", "behaviour closed"),
    # Statistics.
    fault("a place without a note is not counted", "ctl/logs.c", "torn += !cell;", "torn += 0;",
          "behaviour stats"),
    fault("a forked child has its parent's log", "stats/log.c", "madvise(memory, sizeof(struct process_log), MADV_WIPEONFORK) != 0",
          "false", "behaviour stats"),
    fault("a loss before the log is forgotten", "stats/log.c", "atomic_exchange(&own->early, 0)", "0", "behaviour stats"),
    fault("what another rank's is one's own", "ctl/logs.c", "listed : c->seen == turn);", "listed : c->seen <= turn);", "behaviour stats"),
    # The adapter.
    fault("any function is a known one", "adapter/recognise.py",
          "if self.fingerprint(file, function) in known:", "if self.fingerprint(file, function):",
          "adapter TestFingerprints", "adapter TestWhatRuns"),
    fault("a list that differs between ranks is none", "adapter/parts/compare_ranks.py",
          "digest = files.listing.digest if len(files) else None", "digest = None", "adapter TestAgree"),
    fault("a shuffle forgets the one before", "adapter/shuffles.py", "indices = before.indices.copy()",
          "indices = numpy.arange(n, dtype=before.indices.dtype)", "adapter TestShuffle"),
    fault("a part of a shuffled list is in order", "adapter/shuffles.py", "numpy.ascontiguousarray(self.indices[part]))",
          "numpy.ascontiguousarray(self.indices[part]), True)", "adapter TestTensorFlow"),
    fault("a slice's step is the list's", "adapter/sequences.py", "_step=self._step * step,", "_step=step,",
          "adapter TestFileList", "adapter TestElements"),
    fault("a name is another one's for C", "adapter/elements.c", "*position = start + i * step;",
          "*position = start + i * step + 1;",
          "adapter TestFileList", "adapter TestElements"),
    fault("a file that is closed stays open", "adapter/sequences.py", "            self.pop(path, None)", "            pass",
          "adapter TestLoaders"),
    fault("a list that DLIO has made stays", "adapter/parts/config.py", "                compressing.enable()", "                pass",
          "adapter TestAgree"),
    fault("a list that is not handed over is none", "adapter/parts/benchmark.py", "if _run.lists_pending:", "if False:",
          "adapter TestAgree"),
    fault("lists of one length are one list", "adapter/parts/compare_ranks.py", "if one[2][1:] != known[0][2][1:]:",
          "if one[2][1:2] != known[0][2][1:2]:", "adapter TestAgree"),
    fault("a rank of other settings makes names, too", "adapter/parts/compare_ranks.py",
          "elif answers[rank] != mine:", "elif answers[rank] is None:",
          "adapter TestSkipped", "adapter TestAgree"),
    fault("a verdict of an earlier benchmark counts", "adapter/parts/compare_ranks.py", "if told == number:", "if told:",
          "adapter TestAgree"),
    fault("a rank of another seed is dealt to, too", "adapter/parts/epochs.py",
          "others.count(mine[kind]) == len(others):", "None not in others:", "adapter TestEpochs"),
    fault("a list that is counted keeps its last, odd files", "adapter/parts/skipped.py",
          "return files[self.rank::self.size][:each]", "return files[self.rank::self.size]", "adapter TestSkipped"),
    # Buckets as datasets.
    fault("the versions of a rank's last key end with a page", "adapter/buckets/share.py",
          "(keys[-1] == self.last and not self._strays)", "keys[-1] == self.last", "buckets versions"),
    fault("a range begins behind its first key", "adapter/buckets/share.py", "listing.name(begin - 1) if begin",
          "listing.name(begin) if begin", "buckets strategies"),
    fault("an empty page, and there is more", "adapter/buckets/botocore.py", "elif shown or not more or", "elif True or",
          "buckets strategies"),
    fault("a page has more than MaxKeys", "adapter/buckets/botocore.py", "if grows and shown > most and", "if False and",
          "buckets strategies"),
    fault("a range ends where keys are in no order", "adapter/buckets/share.py", "if known != sorted(known):", "if False:",
          "buckets disorder"),
    fault("what is cut before it is parsed is parsed as another key", "adapter/buckets/botocore.py",
          "if len(kept) < len(entries):", "if False:", "bodies"),
    fault("a bucket is the same at each endpoint", "adapter/buckets/share.py",
          "if one.endpoint not in (None, _plain(self._endpoint)):", "if False:", "buckets others"),
    fault("a client that is not divided lists all", "adapter/buckets/refused.py", "share.active() and share.is_named(*given)",
          "False", "buckets refused"),
    fault("an object that is called like the prefix is in a range only", "adapter/buckets/share.py",
          " and not self._is_object():", ":", "buckets empty"),
    fault("a key that came late is the next one's", "view/bucket_keys.c",
          "if (!q->every_name && !is_never_listed(name, length)) {", "if (false) {", "buckets late"),
    # Buckets as listings.
    fault("the last key of a range is left out", "source/s3/list.c",
          "shard_codec_compare_bytes(key, n, r->end.bytes, r->end.length) > 0;",
          "shard_codec_compare_bytes(key, n, r->end.bytes, r->end.length) >= 0;", "unit s3_ranges"),
    fault("a server may say that there is more, and not how to get it", "source/s3/list.c",
          "if (rc == 0 && p->truncated && !p->token) {",
          "if (rc == 0 && p->truncated && !p->token && p->count == 0) {", "unit s3_ranges", "unit s3_client", "s3 faults"),
    fault("a server may repeat a key", "source/s3/list.c", "before, before_length) <= 0) {",
          "before, before_length) < 0) {", "unit s3_ranges", "unit s3_client", "s3 faults"),
    fault("a page that is cut short is whole", "source/s3/xml.c", "return x->depth == 0 && x->has_root ?", "return x->has_root ?",
          "unit s3_pages"),
    fault("an element may end by another's name", "source/s3/xml.c", "return same ? end_element(x)", "return same || true ? end_element(x)",
          "unit s3_pages"),
    fault("a page that does not say so is the last one", "source/s3/page.c", "if (rc == 0 && !tells_more) {",
          "if (false) {", "unit s3_pages"),
    fault("an object that is another by its sum is got", "source/s3/object.c",
          "has_md5 && strcmp(now, g->etag) != 0", "has_md5 && strlen(now) != strlen(g->etag)", "s3 objects", "unit s3_client"),
    # Statistics, and what they prove.
    fault("a share of which a part was read is read", "ctl/cmd_verify.c", "all->others == 0 && !idle && (whole || partial_ok)",
          "all->others == 0", "behaviour stats"),
    fault("a rank that has opened nothing is proven", "ctl/cmd_verify.c", "all->others == 0 && !idle && ", "all->others == 0 && ",
          "behaviour stats"),
    fault("lists of as many names are a partition", "ctl/cmd_verify.c", "own == e->owned && e->elsewhere == 0;", "own == own;",
          "behaviour stats"),
    fault("lost notes prove nothing wrong", "ctl/cmd_verify.c", "if (log->lost + log->torn > 0) {",
          "if (log->lost + log->torn > 99999999) {", "behaviour stats"),
    fault("ranks may have used two listings", "ctl/cmd_verify.c", "bool own = s.how == SHARD_LOG_RANKS;", "bool own = true;",
          "behaviour stats"),
    fault("as many opens are the same ones", "ctl/cmd_verify.c", "x->distinct == y->distinct && x->sum == y->sum;",
          "x->distinct == y->distinct;", "behaviour stats"),
    # What is built, and kept.
    fault("the last names are not merged", "build/merge.c", "r->chunks[r->filled % CHUNKS]->used > 0) {",
          "r->chunks[r->filled % CHUNKS]->used > 64) {", "behaviour build"),
    fault("a directory that changes is listed", "source/walk.c",
          "after.ctime_sec != before->st_ctim.tv_sec || after.ctime_nsec", "after.ctime_nsec == -1 && after.ctime_nsec",
          "unit walk", "behaviour races"),
    fault("a dot behind a name's beginning is not seen", "build/facts.c", "h->dotted = dot == name || dot[-1] == '/';",
          "h->dotted = dot == name;", "unit listing", "unit cache", "behaviour listings"),
    fault("a listing through links serves for one without", "cache/user_listing.c",
          "if (strcmp(options, r->options_text) != 0) {", "if (false) {", "behaviour listings"),
    fault("another host's listing of the cache is used", "cache/request.c", "shard_request_hash_add(&h, boot, sizeof(boot));",
          "shard_request_hash_add(&h, boot, 0);", "behaviour identity"),
    fault("a kept permutation may be damaged", "cache/permutation.c", "    wanted.crc = crc;", "    wanted.crc = h.crc;",
          "unit cache", "adapter TestKept"),
    fault("a name is markup on the page", "ctl/cmd_verify.c", "*text == '<' ? ", "false ? ", "behaviour page"),
    fault("numbers of one age need not agree", "config/launcher.c", "(other->age == row->age || inside)",
          "(false || inside)", "unit launcher"),
    fault("the outer of two launchers counts", "config/launcher.c", "out->rows[k].age < out->rows[k - 1].age",
          "out->rows[k].age > out->rows[k - 1].age", "unit launcher"),
    fault("who has written a title is the launcher", "config/launcher.c", "w->ended[i] = whole ||", "w->ended[i] = true ||",
          "unit launcher"),
    fault("a late rank leaves no link", "cache/job.c", "symlink(text, path) == 0", "false", "unit launcher"),
    fault("a rank may change in a process", "view/datasets.c", "} else if (before != now) {", "} else if (false) {", "behaviour shardview"),
    fault("a job in the background writes to its terminal", "build/progress.c", "front > 0 && front != getpgrp()",
          "front > 0 && false", "behaviour progress"),
    fault("progress is told to a pipe", "build/progress.c", "yes && isatty(2) && terminal", "yes && terminal", "behaviour progress"),
    fault("the line of progress stays", "build/build.c", "  shard_progress_end();\n", "", "behaviour progress"),
]


def command(test):
    """The command of a test in the copy, and whether it can be one of this tree."""
    kind, _, name = test.partition(" ")
    if kind == "unit":
        return [f"build/tests/test_{name}"]
    if kind == "behaviour":
        script = f"tests/behaviour/{name}.sh"
        return ["bash", script] if os.path.exists(script) else [sys.executable, "-m", f"tests.behaviour.{name}"]
    if kind == "adapter":
        return [".venv/bin/python", "tests/dlio/adapter_units.py", "-k", name]
    if kind == "bodies":
        return [".venv/bin/python", "-m", "tests.buckets.bodies"]
    if kind in ("s3", "buckets"):
        return [".venv/bin/python", "-m", f"tests.{kind}", name]
    raise ValueError(test)


def run(words, limit=LIMIT):
    """(whether it passed, its output)"""
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="backslashreplace", start_new_session=True)
    try:
        text, _ = process.communicate(timeout=limit)
        return process.returncode == 0, text
    except subprocess.TimeoutExpired:
        processes.kill_tree(process.pid)
        return False, process.communicate()[0] + "it did not end"


def copy_tree():
    """A copy of what git has, with this build, in a folder of its own; its path."""
    folder = tempfile.mkdtemp(prefix="shard-planted-")
    os.chmod(folder, 0o755)  # other users' tests reach it
    names = subprocess.run(["git", "ls-files", "-z"], cwd=paths.REPO, stdout=subprocess.PIPE, text=True, check=True)
    for name in filter(None, names.stdout.split("\0")):
        target = os.path.join(folder, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(os.path.join(paths.REPO, name), target)  # with its time: what is built stays
    shutil.copytree(os.path.join(paths.REPO, "build"), os.path.join(folder, "build"), symlinks=True)
    for name in os.listdir(paths.REPO):
        if name.startswith(".venv"):
            os.symlink(os.path.join(paths.REPO, name), os.path.join(folder, name))
    return folder


def plant(one):
    """What becomes of a fault: "seen by TEST", or what is wrong."""
    with open(one.file, encoding="utf-8") as stream:
        text = stream.read()
    if text.count(one.old) != 1:
        return f"WRONG: {one.file} has {text.count(one.old)} times {one.old!r}"
    with open(one.file, "w", encoding="utf-8") as stream:
        stream.write(text.replace(one.old, one.new))
    try:
        units = {f"build/tests/test_{test[5:]}" for test in one.tests if test.startswith("unit ")}
        built, output = run(["make", f"-j{os.cpu_count()}", *units, *(["all"] if len(units) < len(one.tests) else [])])
        if not built:
            return f"WRONG: it does not compile\n{output[-2000:]}"
        for test in one.tests:
            if not run(command(test), 60 if test.startswith("unit ") else LIMIT)[0]:
                return f"seen by {test}"
        return f"SURVIVES {', '.join(one.tests)}"
    finally:
        with open(one.file, "w", encoding="utf-8") as stream:
            stream.write(text)


def main():
    """Plant all; the exit status is 1 if one survives."""
    processes.end_jobs_on_signals()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--filter", default="", help="only faults whose name this regex is found in")
    parser.add_argument("--keep", action="store_true", help="leave the copy of the tree")
    args = parser.parse_args()
    folder = copy_tree()
    os.chdir(folder)
    seen = failed = 0
    try:
        for one in FAULTS:
            if not re.search(args.filter, one.name):
                continue
            begin = time.monotonic()
            outcome = plant(one)
            seen += outcome.startswith("seen")
            failed += not outcome.startswith("seen")
            print(f"{one.name}: {outcome} ({time.monotonic() - begin:.0f} s)", flush=True)
    finally:
        os.chdir("/")
        if args.keep:
            print(folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{seen} passed, {failed} failed")
    return 1 if failed or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
