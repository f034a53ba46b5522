/* SPDX-License-Identifier: MIT */
/*
 * cmd_plan.c - shardctl plan: the memory a run needs for its list of files, before it is started.
 *
 * Unmodified, a rank of a job of P ranks, and a worker of one, keep
 *
 *   all + own / P bytes per file of the dataset
 *
 * all: what it keeps of every file: the list of all paths, and copies of it; own: of the rank's own
 * files, the map of their samples, one a file. The two are fitted to the growth of the PSS of all
 * processes of a node, from 60,000 to 300,000 files, in DLIO's PyTorch loader (CPython 3.11, JPEG,
 * paths of some 65 bytes), bytes per file of the dataset, on the node:
 *
 *   ranks, workers each     1, 2   1, 6   2, 2   4, 1   4, 2
 *   main e1919d7            2475   5768   3024   2912   4152 B    all 190, own 635: 4 % off
 *   2.0.0                   1899   4193   2172   2760   3852 B    all 200, own 390: 15 % off
 *   v1.0 2fcdbfa            1488          2910                B    all 490: 1 % off
 *   mlcommons cbe2001       1214          2498   3328        B    a rank all 430, a worker 400: 2 %
 *   mlcommons-f f6796ed     1080          1568   1258        B    a rank all 160, all own 320: 18 %
 *   the same, skip_listing                1235               B    all own 410
 *
 * The 635 and 390 are dict entries, tuples, numbers, paths, and the text that DLIO makes of the
 * whole map for each sample. Of mlcommons-f, what is left of rank 0's telling all differs from run
 * to run (from 1,000,000 to 2,000,000 files: 1335 B at 2, 2); of mlcommons-skip 8,345,048 files
 * took 10.3 GB at 2, 2. A report of mlcommons (mlcommons/storage#449) puts it at about 430 GB for
 * 7,646,857 files on nodes of 12 ranks x 16 workers: 275.6 B a process, what the two lists of
 * strings alone weigh.
 *
 * A longer path counts once per copy.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl/arguments.h"
#include "ctl/ctl.h"
#include "ctl/human.h"
#include "ctl/json.h"
#include "listing/format.h"

#define VERSIONS "mlcommons, mlcommons-f, mlcommons-skip, main, v1.0 or 2.0.0"
#define POSITION 4       /* bytes of a position in a shuffled list */
#define MEASURED_NAME 27 /* bytes of img_0000001_of_1000000.jpeg, as measured */

struct kept { /* bytes per file, and how many of them are copies of the path */
  double all, own, all_copies, own_copies;
};

static const struct version {
  const char *name, *is;
  struct kept rank, worker; /* by each */
  bool counts;              /* it makes its names by counting: there is no listing */
} versions[] = {
    {"mlcommons", "MLCommons' fork until June 2026", {430, 0, 4, 0}, {400, 0, 4, 0}, false},
    {"mlcommons-f", "MLCommons' fork since June 2026", {160, 320, 1, 3}, {0, 320, 0, 3}, false},
    {"mlcommons-skip", "MLCommons' fork, skip_listing", {0, 410, 0, 3}, {0, 410, 0, 3}, true},
    {"main", "argonne-lcf's main, MLPerf Storage v2.0", {190, 635, 1, 1}, {190, 635, 1, 1}, false},
    {"v1.0", "MLPerf Storage v1.0", {490, 0, 2, 0}, {490, 0, 2, 0}, false},
    {"2.0.0", "PyPI's 2.0.0", {200, 390, 1, 1}, {200, 390, 1, 1}, false},
};

static struct plan {
  uint64_t files, ranks, nodes, workers, memory, name_length; /* memory 0: not given */
  const char *memory_text;                                    /* as it was given */
  const struct version *version;
  uint64_t ranks_per_node, processes;
} plan = {.nodes = 1, .name_length = MEASURED_NAME, .version = &versions[0]};

static int take_version(const struct ctl_option *of) {
  size_t n = sizeof(versions) / sizeof(versions[0]), i = 0;
  while (i < n && strcmp(versions[i].name, optarg) != 0) {
    i++;
  }
  plan.version = &versions[i < n ? i : 0];
  return i < n ? CTL_DONE : ctl_arguments_refuse(of);
}

#define NUMBER(field, from, to)                                                                    \
  .number = &plan.field, .least = (from), .most = (to), .takes = "a number from " #from " to " #to

static const struct ctl_option rows[] = {
    CTL_ROW_JSON,
    {"files", NUMBER(files, 1, 1000000000000000) ", such as 8345048 or 8.3M", .needed = true,
     .count = true},
    {"ranks", NUMBER(ranks, 1, 100000000)},
    {"ranks-per-node", NUMBER(ranks_per_node, 1, 1000000)},
    {"nodes", NUMBER(nodes, 1, 100000000)},
    {"workers", NUMBER(workers, 0, 1000000)},
    {"memory", .text = &plan.memory_text, .bytes = &plan.memory, .least = 1,
     .takes = "a size such as 256G (256 GiB)"},
    {"name-length", NUMBER(name_length, 1, 255)},
    {"dlio", .take = take_version, .takes = VERSIONS},
    CTL_ROW_END};

struct need {
  double per_process, per_file; /* bytes per file: of a process, on the node */
  double bytes;                 /* on the node */
  uint64_t most;                /* files that fit */
};

/* Bytes per file of the dataset that a process keeps. */
static double keeps(const struct plan *p, const struct kept *k) {
  double longer = (double)p->name_length - MEASURED_NAME, ranks = (double)p->ranks;
  return k->all + longer * k->all_copies + (k->own + longer * k->own_copies) / ranks;
}

static struct need unmodified(const struct plan *p) {
  const struct version *v = p->version;
  struct need n;
  n.per_file =
      (double)p->ranks_per_node * (keeps(p, &v->rank) + (double)p->workers * keeps(p, &v->worker));
  n.per_process = n.per_file / (double)p->processes;
  return n;
}

/*
 * As if there were gaps in the numbers, so that no run can be made of the names: a name takes three
 * lengths and 1.11 digits on average, the first of a block its length and two bytes, and a block 12
 * bytes of index (format.h).
 */
static struct need with_libshard(const struct plan *p) {
  double block = SHARD_BLOCK_NAMES;
  struct need n = {.per_process = 0};
  if (p->version->counts) {
    n.per_file = POSITION * (double)p->ranks_per_node / (double)p->ranks;
    return n;
  }
  n.per_file =
      ((double)p->name_length + 2 + SHARD_INDEX_ENTRY + (block - 1) * (3 + 1 + 1.0 / 9)) / block;
  return n;
}

static void fill(const struct plan *p, struct need *n) {
  double most = (double)p->memory / n->per_file;
  n->bytes = n->per_file * (double)p->files;
  n->most = most < 1e18 ? (uint64_t)most : (uint64_t)1e18;
}

static struct json_object *make_need(const struct plan *p, const struct need *n) {
  struct json_object *o = ctl_json_object();
  ctl_json_add_decimal(o, "bytes_per_file_per_process", n->per_process, 1);
  ctl_json_add_decimal(o, "bytes_per_file", n->per_file, 2);
  ctl_json_add_decimal(o, "bytes_per_node", n->bytes, 0);
  if (p->memory) {
    ctl_json_add_bool(o, "fits", n->bytes <= (double)p->memory);
  } else {
    ctl_json_add(o, "fits", NULL);
  }
  ctl_json_add_known(o, "most_files", n->most, p->memory);
  return o;
}

static int print_json(const struct plan *p, const struct need *bare, const struct need *shim) {
  struct json_object *o = ctl_json_object();
  ctl_json_add_number(o, "files", p->files);
  ctl_json_add_number(o, "ranks", p->ranks);
  ctl_json_add_number(o, "nodes", p->nodes);
  ctl_json_add_number(o, "workers", p->workers);
  ctl_json_add_number(o, "name_length", p->name_length);
  ctl_json_add_text(o, "dlio", p->version->name);
  ctl_json_add_bool(o, "adapted", true);
  ctl_json_add_number(o, "ranks_per_node", p->ranks_per_node);
  ctl_json_add_number(o, "processes_per_node", p->processes);
  ctl_json_add_known(o, "memory", p->memory, p->memory);
  ctl_json_add(o, "unmodified", make_need(p, bare));
  ctl_json_add(o, "libshard", make_need(p, shim));
  return ctl_json_print(o, stdout);
}

static void print_need(const struct plan *p, const char *who, const struct need *n,
                       const char *what) {
  printf("%-11s %8s a node: %s\n", who, ctl_human_bytes(n->bytes).text, what);
  if (p->memory) {
    bool fits = n->bytes <= (double)p->memory;
    bool ample = n->most / 1000 > p->files;
    printf("%20s %s %s; %s%s\n", "", fits ? "fits" : "does NOT fit", p->memory_text,
           ample ? "a thousand times as many files would, too" : "the most files that do: ",
           ample ? "" : ctl_human_count(n->most).text);
  }
}

static int print_text(const struct plan *p, const struct need *bare, const struct need *shim) {
  char what[160];
  printf("%s files; a node has %" PRIu64 " of %" PRIu64 " ranks, each with %" PRIu64
         " workers: %" PRIu64 " processes\n\n",
         ctl_human_count(p->files).text, p->ranks_per_node, p->ranks, p->workers, p->processes);
  snprintf(what, sizeof(what), "%.0f B per file in a process, on average (%s)", bare->per_process,
           p->version->is);
  print_need(p, "unmodified", bare, what);
  snprintf(what, sizeof(what),
           p->version->counts
               ? "no listing; if files are shuffled, %.1f B per file, and 0 B in each worker"
               : "one listing of at most %.1f B per file, and 0 B per file in each process",
           shim->per_file);
  print_need(p, "libshard", shim, what);
  return CTL_DONE;
}

static int run(char **operands) {
  (void)operands; /* none */
  if (!plan.ranks == !plan.ranks_per_node) {
    return ctl_usage("plan takes --ranks, those of the whole job, or --ranks-per-node");
  }
  plan.ranks = plan.ranks ? plan.ranks : plan.ranks_per_node * plan.nodes;
  if (plan.nodes > plan.ranks) {
    return ctl_usage("--nodes %" PRIu64 " is more than --ranks %" PRIu64
                     ": --ranks counts those of the whole job",
                     plan.nodes, plan.ranks);
  }
  plan.ranks_per_node = (plan.ranks + plan.nodes - 1) / plan.nodes;
  plan.processes = plan.ranks_per_node * (1 + plan.workers);
  struct need bare = unmodified(&plan), shim = with_libshard(&plan);
  fill(&plan, &bare);
  fill(&plan, &shim);
  return (ctl_given.json ? print_json : print_text)(&plan, &bare, &shim);
}

const struct ctl_command ctl_cmd_plan = {ctl_help_plan, rows, CTL_NONE,
                                         "--files N, and no arguments but options", run};
