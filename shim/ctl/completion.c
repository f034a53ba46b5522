/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "ctl/arguments.h"
#include "ctl/ctl.h"

/* A shell's script: the commands stand between `begin` and `middle`, then comes a row for each. */
static const struct shell {
  const char *name, *begin, *middle;
  const char *row; /* a command, and its options */
  const char *end;
} shells[] = {
    {"bash",
     "_shardctl() {\n"
     "  local word=${COMP_WORDS[COMP_CWORD]} words=\n"
     "  case $COMP_CWORD,${COMP_WORDS[1]} in\n"
     "  1,*) words='",
     "' ;;\n", "  *,%s) words='%s' ;;\n",
     "  esac\n"
     "  case $COMP_CWORD$word in\n"
     "  1* | *-*) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\") ;;\n"
     "  *) mapfile -t COMPREPLY < <(compgen -f -- \"$word\") ;;\n"
     "  esac\n"
     "}\n"
     "complete -o filenames -F _shardctl shardctl\n"},
    {"zsh",
     "#compdef shardctl\n"
     "local -a found\n"
     "case $CURRENT,$words[2] in\n"
     "2,*) found=(",
     ") ;;\n", "*,%s) found=(%s) ;;\n",
     "esac\n"
     "case $CURRENT$PREFIX in\n"
     "2* | *-*) compadd -- $found ;;\n"
     "*) _files ;;\n"
     "esac\n"},
    {"fish", "complete -c shardctl -n __fish_use_subcommand -a '", "'\n",
     "complete -c shardctl -n '__fish_seen_subcommand_from %s' -a '%s'\n", ""},
};

static void print_row(const struct shell *shell, const struct ctl_entry *c) {
  char options[1000] = "", *end = options;
  for (const struct ctl_option *o = c->command->options; o->name || o->letter; o++) {
    end += o->letter ? sprintf(end, "-%c ", o->letter) : 0;
    end += o->name ? sprintf(end, "--%s ", o->name) : 0;
  }
  strcpy(end, "--help");
  printf(shell->row, c->name, options);
}

int ctl_completion_print(const char *shell) {
  const struct shell *s = shells, *none = shells + sizeof(shells) / sizeof(shells[0]);
  while (s < none && (!shell || strcmp(shell, s->name) != 0)) {
    s++;
  }
  if (s == none) {
    return ctl_usage("--completion takes bash, zsh or fish");
  }
  fputs(s->begin, stdout);
  for (const struct ctl_entry *c = ctl_entries; c->name; c++) {
    printf("%s ", c->name);
  }
  printf("--help --version%s", s->middle);
  for (const struct ctl_entry *c = ctl_entries; c->name; c++) {
    print_row(s, c);
  }
  fputs(s->end, stdout);
  return CTL_DONE;
}
