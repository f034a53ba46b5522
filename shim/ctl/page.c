/* SPDX-License-Identifier: MIT */
/*
 * page.c - what a run did, as one page of HTML: shardctl verify --html.
 *
 * Others may have written what is read: numbers are doubles here, so that no sum overflows, and all
 * texts go through put_text(). The page has no script, and its policy forbids what is not in it. It
 * is XML, too, so that a test can read it as strictly as that.
 */
#include "ctl/page.h"

#include <json-c/json.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/plain.h"
#include "ctl/ctl.h"
#include "ctl/human.h"
#include "ctl/output.h"
#include "ctl/proof.h"
#include "libshard.h"

/* What the page shows at most, so that it stays small: of more ranks or epochs, groups. */
#define RANKS 64
#define EPOCHS 40
#define PRINTED 16 /* ranks whose numbers stand in their cells */
#define DATASETS 4
#define TEXTS 60
#define UNFOLDED 10
#define TEXT 400 /* bytes */
#define LEVELS 8 /* of colour */
#define BARS 128

/* A rank. Times are milliseconds since it began; negative: not known. */
struct row {
  struct json_object *json;
  double rank, begun, lasted, seen, listed, first, peak, files, opens, lost;
};

enum kind { COUNT, TIME, BYTES };
static const struct measure {
  const char *title;
  size_t offset; /* in struct row */
  enum kind kind;
  bool drawn;
} measures[] = {
    {"Time to list", offsetof(struct row, listed), TIME, true},
    {"Time to the first open", offsetof(struct row, first), TIME, true},
    {"Peak memory", offsetof(struct row, peak), BYTES, true},
    {"Time to the end", offsetof(struct row, lasted), TIME, false},
    {"Files, all epochs", offsetof(struct row, files), COUNT, false},
    {"Opens", offsetof(struct row, opens), COUNT, false},
    {"Opens not noted", offsetof(struct row, lost), COUNT, false},
};
#define MEASURES (sizeof(measures) / sizeof(measures[0]))

static struct {
  FILE *out;
  struct row *rows; /* in the order of ranks */
  size_t count;
  size_t group, groups; /* how many of them are a column, or a bar; how many of those there are */
  struct json_object *faults, *facts;
  size_t unproven;
} page;

#define PUT(...) fprintf(page.out, __VA_ARGS__)

/* clang-format off */
static const char style[] =
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1f2328;--dim:#59636e;--line:#d1d9e0;--card:#f0f3f6;"
    "--good:#1a7f37;--warn:#9a6700;--bad:#c11f2c;--bar:#1f5f9f;--pale:#5894d0;--on:#10161d;--over:#fff;"
    "--c1:#e3eefa;--c2:#c9ddf4;--c3:#a9caed;--c4:#86b5e5;--c5:#2f78c0;--c6:#2467a9;--c7:#17528b;--c8:#0c3a69}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--dim:#9aa4af;--line:#3d444d;--card:#1c222a;"
    "--good:#4ac26b;--warn:#d9a62e;--bad:#ff7b72;--bar:#8fc0ee;--pale:#3a70a8;--on:#e6edf3;--over:#0d1117;"
    "--c1:#12283f;--c2:#17375a;--c3:#1d4776;--c4:#235992;--c5:#5a9edb;--c6:#7fb5e8;--c7:#a8cdf2;--c8:#d2e6fb}}\n"
    "body{margin:0 auto;max-width:1000px;padding:1.2rem;background:var(--bg);color:var(--fg);font:15px/1.45 system-ui,sans-serif}"
    "h1{font-size:1.5rem;margin:0 0 .6rem}h2{font-size:1.15rem;margin:1.6rem 0 .3rem}h3{font-size:1rem;margin:.8rem 0 0}"
    "h3,li,dd{overflow-wrap:anywhere}p{margin:.3rem 0}.dim,figcaption,dt,th{color:var(--dim);font-size:.85rem}"
    "ul{list-style:none;padding:0;margin:.8rem 0}li{padding-left:1.4em}li b{margin-left:-1.4em}b{display:inline-block;width:1.4em}"
    "summary{cursor:pointer;color:var(--dim)}\n"
    ".verdict{border:1px solid;border-left-width:8px;border-radius:6px;padding:.6rem 1rem;font-size:1.2rem;font-weight:600}"
    ".good{color:var(--good)}.warn{color:var(--warn)}.bad{color:var(--bad)}"
    "dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:.5rem;margin:.8rem 0}"
    "dl div{border:1px solid var(--line);border-radius:6px;padding:.3rem .6rem}dd{margin:0;font-weight:600}\n"
    "table{border-collapse:separate;border-spacing:1px;font-size:13px;font-variant-numeric:tabular-nums}"
    "th{font-weight:500;text-align:left;white-space:nowrap}.scroll{overflow-x:auto;margin:.3rem 0}"
    ".list td,.list th{border-bottom:1px solid var(--line);padding:.15rem .6rem}.list td{text-align:right}"
    ".map td{width:var(--w);min-width:var(--w);padding:0;text-align:center}.map td,.key i{height:22px;background:var(--card)}"
    ".map thead th{text-align:left}.map th{padding:0 .4rem 0 0}.low td,.low th{height:13px;line-height:13px}.key i{display:inline-block;width:26px;height:14px;margin:0 1px;"
    "vertical-align:-2px}.key{font-size:.85rem;color:var(--dim)}\n"
    ".c1,.c2,.c3,.c4{color:var(--on)}.c5,.c6,.c7,.c8{color:var(--over)}"
    "td.c0,i.c0{background:var(--bg)!important;box-shadow:inset 0 0 0 2px var(--bad);color:var(--bad)}"
    "td.u,i.u{box-shadow:inset 0 0 0 2px var(--warn)}td.c1,i.c1{background:var(--c1)!important}"
    "td.c2,i.c2{background:var(--c2)!important}td.c3,i.c3{background:var(--c3)!important}"
    "td.c4,i.c4{background:var(--c4)!important}td.c5,i.c5{background:var(--c5)!important}"
    "td.c6,i.c6{background:var(--c6)!important}td.c7,i.c7{background:var(--c7)!important}"
    "td.c8,i.c8{background:var(--c8)!important}\n"
    "figure{margin:.4rem 0}.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(300px,1fr));gap:.8rem}"
    "svg{width:100%;height:auto;display:block;overflow:visible}svg text{fill:var(--dim);font-size:12px}.axis{stroke:var(--line)}"
    ".most{fill:var(--pale)}.mid{fill:var(--bar)}.key .most{background:var(--pale)}.key .mid{background:var(--bar)}"
    "footer{margin-top:2rem;border-top:1px solid var(--line);padding-top:.5rem;font-size:.85rem;color:var(--dim)}\n";
/* clang-format on */

/* ---- texts and numbers -------------------------------------------------- */

/* Bytes of a character that turns the direction of the text around it; 0: it is
 * none. */
static size_t turns(const char *p) {
  const unsigned char *u = (const unsigned char *)p;
  bool marks =
      u[0] == 0xe2 && u[1] == 0x80 && ((u[2] | 1) == 0x8f || (u[2] >= 0xaa && u[2] < 0xaf));
  return marks || (u[0] == 0xe2 && u[1] == 0x81 && u[2] >= 0xa6 && u[2] < 0xaa) ? 3 : 0;
}

/* A text from elsewhere, its beginning if it is long. */
static void put_text(const char *text) {
  const char *p = text;
  while (*p && p - text < TEXT) {
    size_t turning = turns(p), n = turning ? 0 : shard_plain(p);
    if (strchr("<>&\"'", *p)) {
      PUT("&#%d;", *p++);
      continue;
    }
    for (size_t i = 0; n == 0 && i < (turning ? turning : 1); i++) {
      PUT("\\x%02x", (unsigned char)*p++);
    }
    fwrite(p, 1, n, page.out);
    p += n;
  }
  PUT("%s", *p ? "…" : "");
}

/* The unit in which to tell of a value, or of an axis that goes up to it: at least `from`. */
struct unit {
  double per, from;
  const char *name;
};
static struct unit unit_of(enum kind kind, double v) {
  static const struct unit units[][4] = {
      [COUNT] = {{1, 0, ""},
                 {1e3, 1e4, "thousand "},
                 {1e6, 1e7, "million "},
                 {1e9, 1e10, "billion "}},
      [TIME] = {{1, 0, "ms"}, {1e3, 1e3, "s"}, {60e3, 120e3, "min"}, {3600e3, 7200e3, "h"}},
      [BYTES] = {{1, 0, "bytes"}, {1e3, 1e3, "KB"}, {1e6, 1e6, "MB"}, {1e9, 1e9, "GB"}}};
  size_t i = 3;
  while (i > 0 && v < units[kind][i].from) {
    i--;
  }
  return units[kind][i];
}

static struct ctl_human show(enum kind kind, double v) {
  struct ctl_human out = {"not known"};
  if (v >= 0 && kind == TIME) {
    struct unit unit = unit_of(TIME, v = fmin(v, 1e18));
    snprintf(out.text, sizeof(out.text), "%.*f %s", unit.per > 1, v / unit.per, unit.name);
  } else if (v >= 0) {
    out = kind == BYTES ? ctl_human_bytes(v) : ctl_human_count((uint64_t)fmin(v, 1e18));
  }
  return out;
}

/* 1, 2 or 5 times a power of ten, not less than v > 0. (pow() would ask for a newer glibc.) */
static double round_up(double v) {
  double power = 1;
  while (power * 10 <= v && power < 1e300) {
    power *= 10;
  }
  while (power > v && power > 1e-300) {
    power /= 10;
  }
  double m = v / power;
  return power * (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10);
}

static int by_value(const void *pa, const void *pb) {
  double a = *(const double *)pa, b = *(const double *)pb;
  return (a > b) - (a < b);
}

/* ---- what was read ------------------------------------------------------ */

static struct json_object *get(struct json_object *o, const char *key) {
  struct json_object *value = NULL;
  if (json_object_is_type(o, json_type_object)) {
    json_object_object_get_ex(o, key, &value);
  }
  return value;
}

static double as_number(struct json_object *value) {
  double v = json_object_is_type(value, json_type_int) ? json_object_get_double(value) : -1;
  return v < 0 ? -1 : v;
}

static double number(struct json_object *o, const char *key) { return as_number(get(o, key)); }

static const char *word(struct json_object *o, const char *key) {
  struct json_object *value = get(o, key);
  return value ? json_object_get_string(value) : "none";
}

static size_t length(struct json_object *list) {
  return json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
}

static struct json_object *item(struct json_object *list, size_t i) {
  return i < length(list) ? json_object_array_get_idx(list, i) : NULL;
}

/* Of the i-th rank's k-th dataset. */
static struct json_object *epochs_of(size_t i, size_t k) {
  return get(item(get(page.rows[i].json, "datasets"), k), "epochs");
}

static void read_row(size_t i) {
  struct row *r = &page.rows[i];
  struct json_object *o = r->json = ctl_proof_rank(i), *times = get(o, "times");
  size_t bins = length(get(times, "opens"));
  r->rank = number(o, "rank");
  r->lost = number(o, "lost");
  r->peak = number(o, "peak_rss");
  r->begun = number(times, "begun_ms");
  r->first = number(times, "first_open_ms");
  r->lasted = number(times, "lasted_ms");
  r->seen = fmax(r->lasted, (double)(bins < BARS ? bins : BARS) * number(times, "bin_ms"));
  r->listed = -1;
  for (size_t k = 0; k < length(get(o, "datasets")); k++) {
    r->listed = fmax(r->listed, number(item(get(o, "datasets"), k), "listed_ms"));
    for (size_t e = 0; e < length(epochs_of(i, k)); e++) {
      r->files += fmax(0, number(item(epochs_of(i, k), e), "distinct"));
      r->opens += fmax(0, number(item(epochs_of(i, k), e), "opened"));
    }
  }
}

static double value_of(const struct row *r, const struct measure *m) {
  return *(const double *)((const char *)r + m->offset);
}

struct name {
  char text[64];
};

/* "rank 3", or "ranks 0 to 15" of a group. */
static struct name name_group(size_t g) {
  struct name out;
  size_t first = g * page.group, last = first + page.group - 1;
  last = last < page.count ? last : page.count - 1;
  snprintf(out.text, sizeof(out.text), first == last ? "rank %.0f" : "ranks %.0f to %.0f",
           page.rows[first].rank, page.rows[last].rank);
  return out;
}

/* ---- verdicts, and what was run ----------------------------------------- */

/* The texts of a list; of facts those that say "not proven", or the others. Many are folded. */
static void put_texts(struct json_object *list, const char *class, const char *mark, int unproven) {
  size_t count = 0;
  for (size_t i = 0; i < length(list); i++) {
    const char *text = json_object_get_string(item(list, i));
    if (unproven < 0 || unproven == (strstr(text, "not proven") != NULL)) {
      if (count == UNFOLDED) {
        PUT("<li><details><summary>more</summary><ul>\n");
      }
      if (count++ < TEXTS) {
        PUT("<li><b class=\"%s\">%s</b>", class, mark);
        put_text(text);
        PUT("</li>\n");
      }
    }
  }
  if (count > TEXTS) {
    PUT("<li>and %zu more, which shardctl verify prints</li>\n", count - TEXTS);
  }
  PUT("%s", count > UNFOLDED ? "</ul></details></li>\n" : "");
}

static void put_verdicts(void) {
  size_t faults = length(page.faults);
  PUT("<p class=\"verdict %s</b>", faults          ? "bad\"><b>✗"
                                   : page.unproven ? "warn\"><b>!"
                                                   : "good\"><b>✓");
  if (faults) {
    PUT("Not proven: %zu fault%s</p>\n<ul>", faults, faults == 1 ? "" : "s");
  } else {
    PUT("Proven for %zu rank%s%s</p>\n<ul>", page.count, page.count == 1 ? "" : "s",
        page.unproven ? ", but for what is marked !" : "");
  }
  put_texts(page.faults, "bad", "✗", -1);
  put_texts(page.facts, "warn", "!", 1);
  put_texts(page.facts, "good", "✓", 0);
  PUT("</ul>\n");
}

static void put_tile(const char *title, const char *text) {
  PUT("<div><dt>%s</dt><dd>", title);
  put_text(text);
  PUT("</dd></div>\n");
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* How many nodes there are; ranks of one need not follow each other. */
static size_t count_nodes(void) {
  const char **hosts = calloc(page.count, sizeof(*hosts));
  size_t count = 0;
  for (size_t i = 0; hosts && i < page.count; i++) {
    hosts[i] = word(page.rows[i].json, "host");
  }
  if (hosts) {
    qsort(hosts, page.count, sizeof(*hosts), by_text);
    for (size_t i = 0; i < page.count; i++) {
      count += i == 0 || strcmp(hosts[i], hosts[i - 1]) != 0;
    }
  }
  free(hosts);
  return count;
}

static void put_tiles(double from, double span) {
  static const char *const words[][2] = {{"View", "view"},
                                         {"Strategy", "strategy"},
                                         {"Seed of the shuffle", "seed"},
                                         {"Launcher", "launcher"},
                                         {"libshard", "libshard"}};
  double files = 0, opens = 0;
  char text[64] = "not known";
  struct json_object *first = page.rows[0].json;
  time_t seconds = (time_t)fmin(from / 1000, 2e11);
  struct tm tm;
  for (size_t i = 0; i < page.count; i++) {
    files += page.rows[i].files;
    opens += page.rows[i].opens;
  }
  if (from >= 0 && gmtime_r(&seconds, &tm)) {
    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &tm);
  }
  PUT("<dl>\n");
  put_tile("Began", text);
  put_tile("Lasted", show(TIME, span).text);
  snprintf(text, sizeof(text), "%zu of %s", page.count, show(COUNT, number(first, "size")).text);
  put_tile("Ranks", text);
  snprintf(text, sizeof(text), "%zu", count_nodes());
  put_tile("Nodes", text);
  put_tile("Files opened, all epochs", show(COUNT, files).text);
  put_tile("Opens", show(COUNT, opens).text);
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
    put_tile(words[i][0], word(first, words[i][1]));
  }
  PUT("</dl>\n");
}

/* ---- files by rank and epoch -------------------------------------------- */

struct cell {
  double files, opens, least, most;
  size_t known; /* epochs of all its ranks */
};

/* A dataset's epochs, from the first one on; several are one row if they are too many. */
struct map {
  uint64_t first, last, group;
  size_t rows;
  double most;
  struct cell *cells;
};

static uint64_t epoch_at(size_t i, size_t k, size_t e) {
  return json_object_get_uint64(get(item(epochs_of(i, k), e), "epoch"));
}

static bool read_map(size_t k, struct map *m) {
  *m = (struct map){.first = UINT64_MAX};
  for (size_t i = 0; i < page.count; i++) {
    for (size_t e = 0; e < length(epochs_of(i, k)); e++) {
      uint64_t epoch = epoch_at(i, k, e);
      m->first = epoch < m->first ? epoch : m->first;
      m->last = epoch > m->last ? epoch : m->last;
    }
  }
  m->group = m->first <= m->last ? (m->last - m->first) / EPOCHS + 1 : 1;
  m->rows = m->first <= m->last ? (size_t)((m->last - m->first) / m->group) + 1 : 0;
  m->cells = calloc(m->rows * page.groups + 1, sizeof(*m->cells));
  for (size_t i = 0; m->cells && i < page.count; i++) {
    for (size_t e = 0; e < length(epochs_of(i, k)); e++) {
      struct cell *c =
          &m->cells[(epoch_at(i, k, e) - m->first) / m->group * page.groups + i / page.group];
      double files = fmax(0, number(item(epochs_of(i, k), e), "distinct"));
      c->least = c->known ? fmin(c->least, files) : files;
      c->most = fmax(c->most, files);
      c->files += files;
      c->opens += fmax(0, number(item(epochs_of(i, k), e), "opened"));
      c->known++;
      m->most = fmax(m->most, files);
    }
  }
  return m->cells && m->rows > 0;
}

static struct name name_epochs(const struct map *m, size_t row) {
  struct name out;
  uint64_t first = m->first + row * m->group,
           last = m->last - first < m->group ? m->last : first + m->group - 1;
  snprintf(out.text, sizeof(out.text), first == last ? "epoch %llu" : "epochs %llu to %llu",
           (unsigned long long)first, (unsigned long long)last);
  return out;
}

static void put_cell(const struct map *m, size_t row, size_t g, bool printed) {
  const struct cell *c = &m->cells[row * page.groups + g];
  size_t ranks =
      page.count - g * page.group < page.group ? page.count - g * page.group : page.group;
  double mean = c->known ? c->files / (double)c->known : 0;
  int level = mean > 0 ? (int)fmin(LEVELS, ceil(LEVELS * mean / m->most)) : 0;
  bool uneven = c->known % ranks != 0 || 2 * c->least < c->most;
  if (c->known == 0) {
    PUT("<td></td>");
    return;
  }
  PUT("<td class=\"c%d%s\" title=\"%s, %s: ", level, uneven ? " u" : "", name_group(g).text,
      name_epochs(m, row).text);
  if (c->known > 1) {
    PUT("%s to %s files\"></td>", show(COUNT, c->least).text, show(COUNT, c->most).text);
  } else {
    PUT("%s files, %s opens\">%s</td>", show(COUNT, mean).text, show(COUNT, c->opens).text,
        printed ? show(COUNT, mean).text : "");
  }
}

static void put_map(size_t k) {
  struct map m;
  struct json_object *d = item(get(page.rows[0].json, "datasets"), k);
  size_t every = page.groups / 8 + 1, width = 800 / page.groups;
  PUT("<h3>");
  put_text(word(d, "dataset"));
  PUT("</h3>\n<p class=\"dim\">Names in its listing: %s; digest ",
      show(COUNT, number(d, "entries")).text);
  put_text(word(d, "digest"));
  PUT("</p>\n");
  if (!read_map(k, &m)) {
    PUT("<p>No rank has an epoch of it.</p>\n");
    free(m.cells);
    return;
  }
  bool grouped = page.group > 1 || m.group > 1;
  PUT("<p class=\"key\">Files that a rank opened in an epoch%s: <i class=\"c0\"></i> 0, more than "
      "0 ",
      grouped ? " (mean of a cell)" : "");
  for (int i = 1; i <= LEVELS; i++) {
    PUT("<i class=\"c%d\"></i>", i);
  }
  PUT(" %s; <i></i> no such epoch", show(COUNT, m.most).text);
  if (grouped) {
    PUT("; <i class=\"c6 u\"></i> uneven: a rank has less than half of another's files, or an "
        "epoch less.<br/>"
        "There are too many to show each: a cell has %zu rank%s and %llu epoch%s",
        page.group, page.group == 1 ? "" : "s", (unsigned long long)m.group,
        m.group == 1 ? "" : "s");
  }
  PUT("</p>\n<div class=\"scroll\"><table class=\"map%s\" "
      "style=\"--w:%zupx\"><thead><tr><th>rank</th>",
      m.rows > PRINTED ? " low" : "", width > 64 ? 64 : width);
  for (size_t g = 0; g < page.groups; g += every) {
    size_t span = every < page.groups - g ? every : page.groups - g;
    PUT(span * width < 40 ? "<th colspan=\"%zu\"></th>" : "<th colspan=\"%zu\">%.0f</th>", span,
        page.rows[g * page.group].rank);
  }
  PUT("</tr></thead><tbody>\n");
  for (size_t r = 0; r < m.rows; r++) {
    PUT("<tr><th>%s</th>", name_epochs(&m, r).text);
    for (size_t g = 0; g < page.groups; g++) {
      put_cell(&m, r, g, page.groups <= PRINTED);
    }
    PUT("</tr>\n");
  }
  PUT("</tbody></table></div>\n");
  free(m.cells);
}

/* ---- pictures ----------------------------------------------------------- */

/* Of a group: its median and its largest; negative: not known. */
struct bar {
  double mid, most;
  char label[24], tip[160];
};

enum { HEIGHT = 200, LEFT = 52, TOP = 8, FLOOR = 160, RIGHT = 8 };

/* A picture of bars, with a label at each n-th of them: in its middle, or at its edge. */
static void put_bars(const struct bar *bars, size_t count, double width, double per,
                     const char *y_axis, const char *x_axis, size_t every, bool edge) {
  double top = 0, slot = (width - LEFT - RIGHT) / (double)count, wide = fmin(slot * 0.85, 40);
  for (size_t i = 0; i < count; i++) {
    top = fmax(top, bars[i].most / per);
  }
  double step = round_up((top > 0 ? top : 1) / 5);
  int lines = 1 + (int)(top / step * 0.999);
  double high = (FLOOR - TOP) / (lines * step * per);
  PUT("<svg viewBox=\"0 0 %.0f %d\" role=\"img\"><title>%s by %s</title>\n", width, HEIGHT, y_axis,
      x_axis);
  for (int k = 0; k <= lines; k++) {
    double y = FLOOR - (double)(FLOOR - TOP) * k / lines;
    PUT("<path class=\"axis\" d=\"M%d %.1fH%.0f\"/><text x=\"%d\" y=\"%.1f\" "
        "text-anchor=\"end\">%.4g</text>\n",
        LEFT, y, width - RIGHT, LEFT - 5, y + 4, k * step);
  }
  for (size_t i = 0; i < count; i++) {
    double x = LEFT + slot * (double)i, left = x + (slot - wide) / 2;
    double heights[] = {fmax(0, bars[i].most) * high, fmax(0, bars[i].mid) * high};
    PUT("<g><title>%s</title>", bars[i].tip);
    for (int k = 0; k < 2; k++) {
      PUT("<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>",
          k ? "mid" : "most", left, FLOOR - heights[k], wide, heights[k]);
    }
    PUT("</g>\n");
    if (i % every == 0) {
      PUT("<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", edge ? x : x + slot / 2,
          FLOOR + 15, bars[i].label);
    }
  }
  PUT("<text x=\"%.0f\" y=\"%d\" text-anchor=\"middle\">%s</text></svg>\n", (LEFT + width) / 2,
      HEIGHT - 6, x_axis);
}

struct found {
  double value, rank;
};

/* The values that are known of ranks from `first` on, in order. Returns how many they are. */
static size_t find_values(const struct measure *m, size_t first, size_t after,
                          struct found *found) {
  size_t known = 0;
  for (size_t i = first; i < after && i < page.count; i++) {
    found[known] = (struct found){value_of(&page.rows[i], m), page.rows[i].rank};
    known += found[known].value >= 0;
  }
  qsort(found, known, sizeof(*found), by_value);
  return known;
}

/* A measure of all ranks: a bar for each, or for each group. */
static void put_measure(const struct measure *m, struct found *found) {
  struct bar bars[RANKS];
  double top = -1;
  for (size_t g = 0; g < page.groups; g++) {
    struct bar *b = &bars[g];
    size_t known = find_values(m, g * page.group, (g + 1) * page.group, found);
    b->mid = known ? found[known / 2].value : -1;
    b->most = known ? found[known - 1].value : -1;
    top = fmax(top, b->most);
    snprintf(b->label, sizeof(b->label), "%.0f", page.rows[g * page.group].rank);
    int n =
        snprintf(b->tip, sizeof(b->tip), "%s: %s", name_group(g).text, show(m->kind, b->mid).text);
    if (known > 1) {
      snprintf(b->tip + n, sizeof(b->tip) - (size_t)n, " (median), at most %s (rank %.0f)",
               show(m->kind, b->most).text, found[known - 1].rank);
    }
  }
  struct unit unit = unit_of(m->kind, top);
  PUT("<figure><h3>%s</h3><figcaption>%s%s</figcaption>\n", m->title,
      top < 0 ? "not known" : unit.name,
      top >= 0 && m->kind == TIME ? " since the rank began, imports included" : "");
  if (top >= 0) {
    put_bars(bars, page.groups, 330, unit.per, m->title, "rank", page.groups / 8 + 1, false);
  }
  PUT("</figure>\n");
}

/* Add a rank's opens to the bars of `width` ms each that begin at `from`. */
static void add_opens(const struct row *r, double from, double width, struct bar *bars,
                      size_t count) {
  struct json_object *times = get(r->json, "times"), *opens = get(times, "opens");
  double bin = number(times, "bin_ms");
  for (size_t i = 0; bin > 0 && r->begun >= 0 && i < length(opens) && i < BARS; i++) {
    double at = r->begun - from + (double)i * bin, end = at + bin;
    for (size_t c = (size_t)fmin(at / width, BARS); c < count && (double)c * width < end; c++) {
      double part = fmin(end, (double)(c + 1) * width) - fmax(at, (double)c * width);
      bars[c].most += fmax(0, as_number(item(opens, i))) * fmax(0, part) / bin;
    }
  }
}

static void put_over_time(double from, double span) {
  static struct bar bars[BARS];
  PUT("<h2>Opens over time</h2>\n");
  if (span <= 0) {
    PUT("<p>Not known: the ranks' statistics have no times.</p>\n");
    return;
  }
  struct unit x = unit_of(TIME, span);
  double width = round_up(span / x.per / 100) * x.per, top = 0;
  size_t count = (size_t)fmin(ceil(span / width), BARS);
  memset(bars, 0, sizeof(bars));
  for (size_t i = 0; i < page.count; i++) {
    add_opens(&page.rows[i], from, width, bars, count);
  }
  for (size_t c = 0; c < count; c++) {
    bars[c].mid = bars[c].most = bars[c].most * 1000 / width;
    top = fmax(top, bars[c].most);
    snprintf(bars[c].label, sizeof(bars[c].label), "%.4g", (double)c * width / x.per);
    snprintf(bars[c].tip, sizeof(bars[c].tip), "%s to %.4g %s: %s opens per second", bars[c].label,
             (double)(c + 1) * width / x.per, x.name, show(COUNT, bars[c].most).text);
  }
  struct unit y = unit_of(COUNT, top);
  char axis[64];
  snprintf(axis, sizeof(axis), "%s since the first rank began", x.name);
  PUT("<figure><figcaption>%sopens per second, of all ranks</figcaption>\n", y.name);
  put_bars(bars, count, 960, y.per, "opens per second", axis, 10, true);
  PUT("</figure>\n");
}

/* ---- tables ------------------------------------------------------------- */

/* Of each measure the least, the median and the most, and whose they are. */
static void put_summary(struct found *found) {
  PUT("<div class=\"scroll\"><table class=\"list\"><thead><tr><th>Of all "
      "ranks</th><th>least</th><th>median</th>"
      "<th>most</th></tr></thead><tbody>\n");
  for (size_t m = 0; m < MEASURES; m++) {
    size_t known = find_values(&measures[m], 0, page.count, found);
    PUT("<tr><th>%s</th>", measures[m].title);
    for (size_t i = 0; i < 3; i++) {
      const struct found *f = &found[known ? i * (known - 1) / 2 : 0];
      PUT(known ? "<td>%s (rank %.0f)</td>" : "<td>%s</td>",
          show(measures[m].kind, known ? f->value : -1).text, f->rank);
    }
    PUT("</tr>\n");
  }
  PUT("</tbody></table></div>\n");
}

static void put_ranks(void) {
  PUT("<div class=\"scroll\"><table class=\"list\"><thead><tr><th>Rank</th>");
  for (size_t m = 0; m < MEASURES; m++) {
    PUT("<th>%s</th>", measures[m].title);
  }
  PUT("<th>Node</th></tr></thead><tbody>\n");
  for (size_t i = 0; i < page.count; i++) {
    PUT("<tr><th>%.0f</th>", page.rows[i].rank);
    for (size_t m = 0; m < MEASURES; m++) {
      PUT("<td>%s</td>", show(measures[m].kind, value_of(&page.rows[i], &measures[m])).text);
    }
    PUT("<td>");
    put_text(word(page.rows[i].json, "host"));
    PUT("</td></tr>\n");
  }
  PUT("</tbody></table></div>\n");
}

/* ---- all of it ---------------------------------------------------------- */

/* What is told of ranks: there is one. */
static void put_run(struct found *found) {
  double from = -1, span = -1;
  for (size_t i = 0; i < page.count; i++) {
    double begun = page.rows[i].begun;
    from = begun >= 0 && (from < 0 || begun < from) ? begun : from;
  }
  for (size_t i = 0; i < page.count; i++) {
    const struct row *r = &page.rows[i];
    span = r->begun < 0 ? span : fmax(span, r->begun - from + r->seen);
  }
  put_tiles(from, span);
  size_t datasets = length(get(page.rows[0].json, "datasets"));
  PUT("<h2>Files opened by rank and epoch</h2>\n");
  for (size_t k = 0; k < datasets && k < DATASETS; k++) {
    put_map(k);
  }
  if (datasets > DATASETS) {
    PUT("<p>%zu more datasets are not shown.</p>\n", datasets - DATASETS);
  }
  put_over_time(from, span);
  PUT("<h2>By rank</h2>%s<div class=\"grid\">\n",
      page.group > 1
          ? "<p class=\"key\">A bar is a group of ranks: its <i class=\"mid\"></i> median, and its "
            "<i class=\"most\"></i> largest.</p>"
          : "");
  for (size_t m = 0; m < MEASURES; m++) {
    if (measures[m].drawn) {
      put_measure(&measures[m], found);
    }
  }
  PUT("</div>\n");
  if (page.count > 1) {
    put_summary(found);
  }
  if (page.count <= RANKS) {
    put_ranks();
  }
}

static int print(void *context, FILE *out) {
  page.out = out;
  PUT("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta "
      "http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'\"/><meta name=\"viewport\" "
      "content=\"width=device-width\"/>"
      "<title>libshard: a run of %zu ranks</title>\n<style>%s</style></head><body>\n<h1>What a run "
      "of %zu rank%s did</h1>\n",
      page.count, style, page.count, page.count == 1 ? "" : "s");
  put_verdicts();
  if (page.count > 0) {
    put_run(context);
  }
  PUT("<footer>Made by shardctl verify %s of what the ranks wrote by SHARD_STATS. A file that a "
      "rank opens twice in an "
      "epoch is one file and two opens. Peak memory is that of a rank's largest process. Times of "
      "several nodes are as "
      "exact as their clocks agree.</footer>\n</body></html>\n",
      shard_version());
  return CTL_DONE;
}

bool ctl_page_may_replace(const char *file) {
  static const char begin[] = "<!DOCTYPE html>";
  char text[sizeof(begin)] = "";
  struct stat st;
  if (stat(file, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) {
    return true; /* what is no file is refused later */
  }
  FILE *in = fopen(file, "re");
  bool is_page = in && fread(text, 1, sizeof(begin) - 1, in) > 0 && strcmp(text, begin) == 0;
  if (in) {
    fclose(in);
  }
  return is_page;
}

int ctl_page_write(const char *file, size_t ranks, struct json_object *faults,
                   struct json_object *facts, size_t unproven) {
  struct ctl_output out;
  struct row *rows = calloc(ranks + 1, sizeof(*rows));
  struct found *found = calloc(ranks + 1, sizeof(*found));
  page = (typeof(page)){
      .rows = rows, .count = ranks, .faults = faults, .facts = facts, .unproven = unproven};
  page.group = ranks / (RANKS + 1) + 1;
  page.groups = (ranks + page.group - 1) / page.group;
  for (size_t i = 0; rows && i < ranks; i++) {
    read_row(i);
  }
  int rc = rows && found ? ctl_output_open(file, NULL, SHARD_WHOLE_LAZY, &out)
                         : ctl_fail("out of memory");
  if (rc == CTL_DONE) {
    rc = ctl_output_print(&out, print, found);
    int ended = ctl_output_end(&out, rc == CTL_DONE);
    rc = rc == CTL_DONE ? ended : rc;
  }
  free(rows);
  free(found);
  return rc;
}
