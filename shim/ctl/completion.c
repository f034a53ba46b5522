/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "ctl/arguments.h"
#include "ctl/ctl.h"

static const struct ctl_option help = {.name = "help", .flag = &ctl_given.json}; /* all have it */

/* Print each option of a command. */
static void print_options(const struct ctl_entry *c,
                          void (*print)(const struct ctl_entry *c, const struct ctl_option *o)) {
  for (const struct ctl_option *o = c->command->options; o->name || o->letter; o++) {
    print(c, o);
  }
  print(c, &help);
}

/* A summary as one line between single quotes, without a character that stands for something there.
 */
static void print_summary(const char *text, char left_out) {
  for (; *text; text++) {
    if (*text == '\'') {
      fputs("'\\''", stdout);
    } else if (*text != left_out) {
      putchar(*text == '\n' ? ' ' : *text);
    }
  }
}

static void print_bash_option(const struct ctl_entry *c, const struct ctl_option *o) {
  (void)c;
  if (o->name) {
    printf("--%s ", o->name);
  } else {
    printf("-%c ", o->letter);
  }
}

static void print_bash(void) {
  fputs("_shardctl() {\n"
        "  local word=${COMP_WORDS[COMP_CWORD]} words=\n"
        "  if [ \"$COMP_CWORD\" = 1 ]; then\n"
        "    words='",
        stdout);
  for (const struct ctl_entry *c = ctl_entries; c->name; c++) {
    printf("%s ", c->name);
  }
  fputs("--help --version'\n"
        "  else\n"
        "    case ${COMP_WORDS[1]} in\n",
        stdout);
  for (const struct ctl_entry *c = ctl_entries; c->name; c++) {
    printf("    %s) words='", c->name);
    print_options(c, print_bash_option);
    fputs("' ;;\n", stdout);
  }
  fputs("    esac\n"
        "  fi\n"
        "  case $COMP_CWORD$word in\n"
        "  1* | *-*) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\") ;;\n"
        "  *) mapfile -t COMPREPLY < <(compgen -f -- \"$word\") ;;\n"
        "  esac\n"
        "}\n"
        "complete -o filenames -F _shardctl shardctl\n",
        stdout);
}

static void print_zsh_option(const struct ctl_entry *c, const struct ctl_option *o) {
  const char *argument = o->flag ? "" : ":argument:_files";
  (void)c;
  if (o->letter) {
    printf(" '-%c%s'", o->letter, argument);
  }
  if (o->name) {
    printf(" '--%s%s'", o->name, argument);
  }
}

static void print_zsh(void) {
  fputs("#compdef shardctl\n"
        "if (( CURRENT == 2 )); then\n"
        "  local -a commands\n"
        "  commands=(\n",
        stdout);
  for (const struct ctl_entry *c = ctl_entries; c->name; c++) {
    printf("    '%s:", c->name);
    print_summary(c->summary, ':');
    fputs("'\n", stdout);
  }
  fputs("  )\n"
        "  _describe command commands\n"
        "  return\n"
        "fi\n"
        "case $words[2] in\n",
        stdout);
  for (const struct ctl_entry *c = ctl_entries; c->name; c++) {
    printf("%s) _arguments", c->name);
    print_options(c, print_zsh_option);
    fputs(" '*:file:_files' ;;\n", stdout);
  }
  fputs("esac\n", stdout);
}

static void print_fish_option(const struct ctl_entry *c, const struct ctl_option *o) {
  printf("complete -c shardctl -n '__fish_seen_subcommand_from %s'", c->name);
  if (o->letter) {
    printf(" -s %c", o->letter);
  }
  if (o->name) {
    printf(" -l %s", o->name);
  }
  puts(o->flag ? "" : " -r");
}

static void print_fish(void) {
  for (const struct ctl_entry *c = ctl_entries; c->name; c++) {
    printf("complete -c shardctl -n __fish_use_subcommand -a %s -d '", c->name);
    print_summary(c->summary, 0);
    fputs("'\n", stdout);
    print_options(c, print_fish_option);
  }
}

int ctl_completion_print(const char *shell) {
  static const struct {
    const char *name;
    void (*print)(void);
  } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
  for (size_t i = 0; shell && i < sizeof(shells) / sizeof(shells[0]); i++) {
    if (strcmp(shell, shells[i].name) == 0) {
      shells[i].print();
      return CTL_DONE;
    }
  }
  return ctl_usage("--completion takes bash, zsh or fish");
}
