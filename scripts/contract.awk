# contract.awk - print as Python what C declares: awk -f contract.awk libshard.h api.h clients.def
#
# Of the headers their numbers, enums and structures, and FUNCTIONS[name] = (result, [parameters]), as
# ctypes has them; of the table its rows. What this cannot read ends the build.

# The Python of a C declaration such as "const char digest[65]"; `name` becomes its name.
function type_of(text,    kind, stars, many, words, n) {
  gsub(/const /, " ", text)
  stars = gsub(/\*/, " ", text)
  many = sub(/\[/, " ", text) && sub(/\]/, "", text)
  n = split(text, words, " ")
  name = words[n - many]
  kind = words[1] ~ /^(struct|enum)$/ ? words[1] " " words[2] : words[1]
  if (stars && (kind "*") in types) {
    kind = kind "*"
    stars--
  }
  if (!(kind in types)) {
    print "contract.awk: Python has no type for: " text > "/dev/stderr"
    failed = 1
  }
  kind = types[kind]
  while (stars-- > 0) {
    kind = "POINTER(" kind ")"
  }
  return many ? kind " * " words[n] : kind
}

function print_struct(of, body,    fields, n, i, names, k, j, base, kind) {
  print "class " of "(Structure):\n    _fields_ = ["
  n = split(body, fields, ";")
  for (i = 1; i < n; i++) {
    k = split(fields[i], names, ",") # "int rank, size" is two
    base = names[1]
    sub(/[ *]*[a-z0-9_]+(\[.*)?$/, " ", base)
    for (j = 1; j <= k; j++) {
      kind = type_of(j == 1 ? names[1] : base names[j])
      print "        (\"" name "\", " kind "),"
    }
  }
  print "    ]"
  types["struct " of] = of
}

function print_function(head, parameters,    parts, i, of, result, list) {
  result = type_of(head)
  of = name
  gsub(/[a-z_]+\[[0-9]+\]/, "*&", parameters) # an array is given by its address
  gsub(/\[[0-9]+\]/, "", parameters)
  for (i = split(parameters == "void" ? "" : parameters, parts, ","); i > 0; i--) {
    list = type_of(parts[i]) (list ? ", " : "") list
  }
  print "FUNCTIONS[\"" of "\"] = " result ", [" list "]"
}

# One declaration, with what is in its braces or brackets.
function declare(text,    words, inner, n, i) {
  inner = text
  gsub(/^[^{(]*[{(]|[})][^})]*$/, "", inner)
  split(text, words, /[ ({]+/)
  if (text ~ /^struct [a-z_]+$/) {
    types[text "*"] = "c_void_p"
  } else if (text ~ /^struct [a-z_]+ \{/) {
    print_struct(words[2], inner)
  } else if (text ~ /^enum [a-z_]+ \{/) {
    types["enum " words[2]] = "c_int"
    gsub(/ /, "", inner)
    n = split(inner, words, ",")
    for (i = 1; i <= n; i++) {
      print words[i] " = " i - 1
    }
  } else {
    print_function(substr(text, 1, index(text, "(") - 1), inner)
  }
}

BEGIN {
  n = split("void None void* c_void_p char c_char char* c_char_p int c_int unsigned c_uint size_t" \
            " c_size_t ssize_t c_ssize_t uint8_t c_uint8 uint32_t c_uint32 uint64_t c_uint64" \
            " int64_t c_int64", words, " ")
  for (i = 1; i < n; i += 2) {
    types[words[i]] = words[i + 1]
  }
  print "\"\"\"contract: made of libshard.h, api.h and clients.def by scripts/contract.awk; do not edit.\"\"\""
  print "from ctypes import *\n\nFUNCTIONS, CLIENTS = {}, {}"
}

/^CLIENT\(.*\)$/ {
  sub(/^[A-Z]*\(/, "")
  sub(/, /, "] = ")
  sub(/\)$/, "")
  rows = rows "CLIENTS[" $0 "\n"
}
/^#define SHARD_[A-Z_]+ [0-9]+$/ {
  print $2 " = " $3
}
/^[^#]/ && FILENAME ~ /\.h$/ && !/^extern "C" \{|^}$/ {
  sub(/^ +/, " ")
  text = text $0
}

END {
  while ((from = index(text, "/*"))) {
    rest = substr(text, from)
    text = substr(text, 1, from - 1) substr(rest, index(rest, "*/") + 2)
  }
  n = split(text, parts, ";")
  for (i = 1; i < n; i++) {
    whole = whole parts[i]
    if (gsub(/\{/, "{", whole) == gsub(/\}/, "}", whole)) {
      sub(/^ +/, "", whole)
      declare(whole)
      whole = ""
    } else {
      whole = whole ";"
    }
  }
  printf "%s", rows
  exit failed
}
