# help.awk - print what each command's --help says as C: awk -f help.awk shim/man/shardctl.1
#
# It is the command's sections of the man page. Options that mean the same for every command, and
# how sizes are written, are told with it.

# Text without troff's fonts and escapes.
function plain(text) {
  gsub(/\\f./, "", text)
  gsub(/\\\(aq/, "'", text)
  gsub(/\\-/, "-", text)
  gsub(/\\ /, " ", text)
  gsub(/\\e/, "\\", text)
  return text
}

# The arguments of a macro: of one font (.B) with blanks between them, of two (.BR) without.
function arguments(line,    macro, text, word) {
  macro = substr(line, 2, 2)
  sub(/^\.[^ ]+ */, "", line)
  while (match(line, /^("[^"]*"|(\\ |[^ "])+)/)) {
    word = substr(line, 1, RLENGTH)
    gsub(/"/, "", word)
    text = text (text != "" && macro ~ /^[BI] ?$/ ? " " : "") word
    line = substr(line, RLENGTH + 1)
    sub(/^ +/, "", line)
  }
  return plain(text)
}

# A line, as C writes it.
function quote(line,    text, i, c) {
  sub(/ +$/, "", line)
  for (i = 1; i <= length(line); i++) {
    c = substr(line, i, 1)
    text = text (c ~ /["\\]/ ? "\\" : "") c
  }
  return "    \"" text "\\n\"\n"
}

function add(line) { said[part] = said[part] quote(line) }

# End a paragraph: its words become lines, the first of which begins with `lead`.
function end_paragraph(    n, words, i, line) {
  n = split(paragraph, words, " ")
  line = lead
  for (i = 1; i <= n; i++) {
    if (length(line) + length(words[i]) >= 80) {
      add(line)
      line = margin
    }
    line = line words[i] " "
  }
  if (n > 0) {
    add(line)
  }
  paragraph = ""
  lead = margin
}

function begin_paragraph(first, rest) {
  end_paragraph()
  lead = first
  margin = rest
}

# How the command is called: its title, and whether options were told.
function usage(    text) {
  text = title
  if (said[OPTIONS]) {
    sub(text ~ /\[--\]/ ? " \\[--\\]" : "$", " [OPTIONS]&", text)
  }
  return quote("Usage: " text) quote("")
}

# Keep what was said: of a command, or (in DESCRIPTION and Sizes) of all that have such a thing.
function end_section(    i) {
  begin_paragraph("", "")
  if (command != "") {
    help[command] = help[command] (help[command] == "" ? "" : quote("")) usage() said[BEFORE]
    for (i = 1; i <= commons; i++) {
      if (index(title, "[" common[i] "]")) {
        said[OPTIONS] = said[OPTIONS] texts[i]
      }
    }
    if (said[OPTIONS]) {
      help[command] = help[command] quote("") said[OPTIONS] said[AFTER]
    }
  } else if (shared != "") {
    common[++commons] = shared
    texts[commons] = said[OPTIONS]
  } else if (title == "Sizes") {
    sizes = quote("") said[BEFORE]
  }
  command = shared = ""
  delete said
  part = BEFORE
}

BEGIN {
  BEFORE = part = 1
  OPTIONS = 2
  AFTER = 3
}
/^\.S[HS]/ {
  end_section()
  title = arguments($0)
  if (title ~ /^shardctl /) {
    split(title, words, " ")
    command = words[2]
    if (!(command in help)) {
      commands[++count] = command
    }
  }
  next
}
/^\.TP/ { # a tag follows
  getline
  tag = /^\./ ? arguments($0) : plain($0)
  if (title == "DESCRIPTION") {
    end_section()
    shared = tag
  }
  tag = (tag ~ /^--/ ? "      " : "  ") tag
  begin_paragraph(sprintf("%-24s", tag), sprintf("%24s", ""))
  part = OPTIONS
  if (length(tag) > 22) {
    add(tag)
    lead = margin
  }
  next
}
/^\.PP/ {
  begin_paragraph("", "")
  part = part == OPTIONS ? AFTER : part
  add("")
  next
}
/^\.IP/ {
  end_paragraph()
  if (/bu/) {
    begin_paragraph("  - ", "    ")
  }
  next
}
/^\.[BIR]+ / { paragraph = paragraph " " arguments($0); next }
/^\./ { next }
{ paragraph = paragraph " " plain($0) }

END {
  end_section()
  print "#include \"ctl/ctl.h\""
  for (i = 1; i <= count; i++) {
    text = help[commands[i]]
    text = text (text ~ /SIZE/ ? sizes : "")
    printf "\nconst char ctl_help_%s[] =\n%s;\n", commands[i], substr(text, 1, length(text) - 1)
  }
}
