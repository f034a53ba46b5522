/* SPDX-License-Identifier: MIT */
#include "ctl/completion.h"

#include <stdio.h>
#include <string.h>

#include "ctl/arguments.h"
#include "ctl/ctl.h"

static const struct command {
  const char *name, *summary;
  const struct ctl_command *command;
} commands[] = {
#define COMMAND(name, checks, operands, summary) {#name, summary, &ctl_cmd_##name},
#include "ctl/commands.def"
#undef COMMAND
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const struct ctl_option help = {.name = "help", .flag = &ctl_given.json}; /* all have it */

/* The i-th option of a command; NULL behind the last one. */
static const struct ctl_option *option_at(const struct command *c, size_t i) {
  const struct ctl_option *o = c->command->options;
  size_t count = 0;
  while (o[count].name || o[count].letter) {
    count++;
  }
  return i < count ? &o[i] : i == count ? &help : NULL;
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

static void print_bash(void) {
  fputs("_shardctl() {\n"
        "  local word=${COMP_WORDS[COMP_CWORD]} words=\n"
        "  if [ \"$COMP_CWORD\" = 1 ]; then\n"
        "    words='",
        stdout);
  for (size_t i = 0; i < COMMANDS; i++) {
    printf("%s ", commands[i].name);
  }
  fputs("--help --version'\n"
        "  else\n"
        "    case ${COMP_WORDS[1]} in\n",
        stdout);
  for (size_t i = 0; i < COMMANDS; i++) {
    printf("    %s) words='", commands[i].name);
    const struct ctl_option *o;
    for (size_t k = 0; (o = option_at(&commands[i], k)); k++) {
      fputs(k ? " " : "", stdout);
      if (o->name) {
        printf("--%s", o->name);
      } else {
        printf("-%c", o->letter);
      }
    }
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

static void print_zsh(void) {
  fputs("#compdef shardctl\n"
        "if (( CURRENT == 2 )); then\n"
        "  local -a commands\n"
        "  commands=(\n",
        stdout);
  for (size_t i = 0; i < COMMANDS; i++) {
    printf("    '%s:", commands[i].name);
    print_summary(commands[i].summary, ':');
    fputs("'\n", stdout);
  }
  fputs("  )\n"
        "  _describe command commands\n"
        "  return\n"
        "fi\n"
        "case $words[2] in\n",
        stdout);
  for (size_t i = 0; i < COMMANDS; i++) {
    printf("%s) _arguments", commands[i].name);
    const struct ctl_option *o;
    for (size_t k = 0; (o = option_at(&commands[i], k)); k++) {
      const char *argument = o->flag ? "" : ":argument:_files";
      if (o->letter) {
        printf(" '-%c%s'", o->letter, argument);
      }
      if (o->name) {
        printf(" '--%s%s'", o->name, argument);
      }
    }
    fputs(" '*:file:_files' ;;\n", stdout);
  }
  fputs("esac\n", stdout);
}

static void print_fish(void) {
  for (size_t i = 0; i < COMMANDS; i++) {
    printf("complete -c shardctl -n __fish_use_subcommand -a %s -d '", commands[i].name);
    print_summary(commands[i].summary, 0);
    fputs("'\n", stdout);
    const struct ctl_option *o;
    for (size_t k = 0; (o = option_at(&commands[i], k)); k++) {
      printf("complete -c shardctl -n '__fish_seen_subcommand_from %s'", commands[i].name);
      if (o->letter) {
        printf(" -s %c", o->letter);
      }
      if (o->name) {
        printf(" -l %s", o->name);
      }
      puts(o->flag ? "" : " -r");
    }
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
