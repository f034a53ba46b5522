# libshard - see README.md. `make V=1` shows the commands.
VERSION := 0.1.0
CC ?= gcc
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
LIBDIR ?= $(PREFIX)/lib
MANDIR ?= $(PREFIX)/share/man
WERROR ?=
CFLAGS ?= -O2 -g
SANITIZE ?=

Q := $(if $(V),,@)

CPPFLAGS += -D_GNU_SOURCE -DSHARD_VERSION='"$(VERSION)"' -Iinclude -Ishim
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
        -Wno-format-truncation $(if $(WERROR),-Werror)
ALL_CFLAGS = -std=gnu17 $(CFLAGS) $(WARN) $(SANITIZE) -fPIC -fvisibility=hidden -pthread -MD -MP

# The rooms of shim/ (shim/README.md), and what each product has of them. libshard.so needs libc only.
BOTH := $(addprefix base/,crc32c file path size version whole words) \
        $(addprefix config/,config dataset launcher log pattern) \
        $(addprefix listing/,names options reader) \
        $(addprefix shard/,permute shard) \
        $(addprefix cache/,cachedir given stream)
LIB := $(BOTH) \
       $(addprefix host/,real self) \
       cache/cache stats/stats \
       $(addprefix view/,place serve view window) \
       adapter/adapter \
       $(addprefix interpose/,dents dir fts ftw glob guard handles init open scandir wordexp)
CTL := $(BOTH) \
       $(addprefix build/,batch build facts intake merge parts run sort spool writer) \
       $(addprefix source/,directory text walk) \
       $(addprefix source/s3/,answer bucket client credentials folders head list object page provider sigv4 split url) \
       $(patsubst shim/%.c,%,$(wildcard shim/ctl/*.c))

LIB_OBJ := $(LIB:%=$(BUILD)/obj/%.o) $(BUILD)/obj/adapter/source.o
CTL_OBJ := $(CTL:%=$(BUILD)/obj/%.o)

.PHONY: all
all: $(BUILD)/libshard.so $(BUILD)/shardctl

$(BUILD)/obj/%.o: shim/%.c Makefile
	@mkdir -p $(@D)
	@echo "  CC   $*.c"
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -ftls-model=initial-exec -c -o $@ $<

# The adapter's Python source as a C string.
$(BUILD)/gen/adapter_source.c: scripts/embed.sh shim/adapter/adapter.py
	@mkdir -p $(@D)
	$(Q)sh scripts/embed.sh shard_adapter_source shim/adapter/adapter.py > $@.tmp && mv $@.tmp $@

$(BUILD)/obj/adapter/source.o: $(BUILD)/gen/adapter_source.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<

# Which old versions of libc's calls there are depends on the architecture.
$(BUILD)/gen/libshard.map: shim/libshard.map Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) -E -P -x c -o $@ $<

# Bound lazily: a program that lists nothing of a dataset uses few of the imports, and pays for them
# in each process. -Bsymbolic-functions: our scandir calls our opendir, as libc's calls libc's.
$(BUILD)/libshard.so: $(LIB_OBJ) $(BUILD)/gen/libshard.map
	@echo "  LD   $@"
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) -shared -Wl,-soname,libshard.so \
	  -Wl,--version-script=$(BUILD)/gen/libshard.map -Wl,--exclude-libs,ALL -Wl,-Bsymbolic-functions -Wl,-z,relro,-z,lazy \
	  -Wl,--no-undefined -Wl,--as-needed -o $@ $(LIB_OBJ) -ldl -pthread

$(BUILD)/shardctl: $(CTL_OBJ)
	@echo "  LD   $@"
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) -Wl,-z,relro,-z,now -o $@ $(CTL_OBJ) -lm -lcurl -lexpat -lcrypto -ljson-c $(if $(SANITIZE),,-ljemalloc) -pthread

# ---- tests --------------------------------------------------------------------------------

T := $(BUILD)/tests
# Everything but the entry points, and what has versions of symbols, to link unit tests with.
NOT_IN_UNIT := ctl/main interpose/init $(addprefix interpose/,open ftw fts glob wordexp scandir)
ALL_OBJ := $(sort $(filter-out $(NOT_IN_UNIT:%=$(BUILD)/obj/%.o),$(LIB_OBJ) $(CTL_OBJ)))
UNIT := crc32c options shard permute launcher config listing damage whole sort walk faults nameset s3 stream serve s3_ranges
UNIT_BIN := $(UNIT:%=$(T)/test_%)
PROGRAMS := getdents count names
LINKED_BIN := $(T)/access
PROGRAM_BIN := $(PROGRAMS:%=$(T)/%)
PRELOADS := $(T)/openlog.so $(T)/naive.so $(T)/failing.so

$(BUILD)/libshard.a: $(ALL_OBJ)
	$(Q)rm -f $@ && ar rcs $@ $(ALL_OBJ)

$(T)/test_%: tests/unit/test_%.c $(BUILD)/libshard.a
	@mkdir -p $(@D)
	@echo "  CC   $<"
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -Wno-unused-parameter -o $@ $< $(BUILD)/libshard.a -lcmocka -lm -lcurl -lexpat -lcrypto -ljson-c -ldl

$(PROGRAM_BIN): $(T)/%: tests/programs/%.c
	@mkdir -p $(@D)
	@echo "  CC   $<"
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -Wno-deprecated-declarations -o $@ $<

$(LINKED_BIN): $(T)/%: tests/programs/%.c $(BUILD)/libshard.so
	@mkdir -p $(@D)
	@echo "  CC   $<"
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -o $@ $< $(BUILD)/libshard.so -Wl,-rpath,'$$ORIGIN/..'

$(PRELOADS): $(T)/%.so: tests/%.c
	@mkdir -p $(@D)
	@echo "  CC   $<"
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -fvisibility=default -shared -o $@ $< -ldl

.PHONY: tests-built unit behaviour setup test test-dlio demo bench lint format
tests-built: all $(UNIT_BIN) $(PROGRAM_BIN) $(LINKED_BIN) $(PRELOADS)

unit: tests-built
	$(Q)for t in $(UNIT_BIN); do echo "== $$t"; timeout 300 $$t || exit 1; done

behaviour: tests-built
	$(Q)for t in tests/behaviour/*.sh; do echo "== $$t"; BUILD=$(BUILD) timeout 900 bash $$t || exit 1; done
	@echo "== tests/behaviour/faults.py"
	$(Q)BUILD=$(BUILD) timeout 900 $(or $(PYTHON),python3) tests/behaviour/faults.py

# The real DLIO, and everything else the tests need. Quick when it is all there.
setup:
	$(Q)bash scripts/setup.sh

VENV_PYTHON := .venv/bin/python

test: setup
	$(Q)$(MAKE) --no-print-directory lint
	$(Q)$(MAKE) --no-print-directory WERROR=1 tests-built unit behaviour
	$(Q)$(MAKE) --no-print-directory asan ubsan tsan
	$(Q)$(VENV_PYTHON) tests/dlio/adapter_units.py
	$(Q)$(VENV_PYTHON) tests/dlio/matrix.py --control --ranks 2
	$(Q)$(VENV_PYTHON) tests/dlio/situations.py
	$(Q)$(VENV_PYTHON) tests/dlio/cli.py
	$(Q)$(VENV_PYTHON) tests/dlio/stats.py
	$(Q)$(VENV_PYTHON) tests/dlio/matrix.py --active
	$(Q)$(VENV_PYTHON) tests/torch/run.py
	$(Q)BUILD=$(BUILD) $(VENV_PYTHON) tests/s3/run.py
	$(Q)$(VENV_PYTHON) tests/dlio/s3_native.py
	@echo "all tests passed"

# The same-run matrix on another DLIO: make test-dlio DLIO=/path/to/tree [PYTHON=...]; and from a
# bucket, if the tree can and the interpreter has s3torchconnector.
test-dlio: tests-built
	$(Q)test -n "$(DLIO)" || { echo "make test-dlio needs DLIO=/path/to/tree" >&2; exit 2; }
	$(Q)$(or $(PYTHON),$(VENV_PYTHON)) tests/dlio/matrix.py --active --dlio $(DLIO)
	$(Q)$(VENV_PYTHON) tests/dlio/s3_dlio.py --dlio $(DLIO) --python $(or $(PYTHON),$(VENV_PYTHON))

demo: setup
	$(Q)$(MAKE) --no-print-directory all $(PRELOADS)
	$(Q)bash scripts/demo.sh

bench: setup
	$(Q)$(MAKE) --no-print-directory all $(PROGRAM_BIN) $(LINKED_BIN)
	$(Q)$(VENV_PYTHON) scripts/bench.py

SOURCES = $(shell find shim include tests -name "*.[ch]")

lint:
	@echo "  LINT"
	@mkdir -p build
	$(Q)sh scripts/lint.sh

format:
	clang-format --style=file:scripts/clang-format.yaml -i $(SOURCES)

# Sanitizers, each in a tree of its own, for what can run under them.
.PHONY: asan ubsan tsan
asan:
	$(Q)$(MAKE) --no-print-directory BUILD=build-asan WERROR=1 \
	  SANITIZE="-fsanitize=address -fno-sanitize-recover=all -fno-omit-frame-pointer" unit
	$(Q)bash tests/sanitized.sh build-asan address
ubsan:
	$(Q)$(MAKE) --no-print-directory BUILD=build-ubsan WERROR=1 \
	  SANITIZE="-fsanitize=undefined -fno-sanitize-recover=all" unit
	$(Q)BUILD=build-ubsan bash tests/behaviour/build.sh
tsan:
	$(Q)$(MAKE) --no-print-directory BUILD=build-tsan WERROR=1 \
	  SANITIZE="-fsanitize=thread -fno-omit-frame-pointer" unit
	$(Q)bash tests/sanitized.sh build-tsan thread

# ---- installation -------------------------------------------------------------------------

.PHONY: install uninstall clean
install: all
	install -D -m 755 $(BUILD)/libshard.so $(DESTDIR)$(LIBDIR)/libshard.so
	install -D -m 755 $(BUILD)/shardctl $(DESTDIR)$(PREFIX)/bin/shardctl
	install -D -m 644 include/libshard.h $(DESTDIR)$(PREFIX)/include/libshard.h
	install -D -m 644 shim/man/shardctl.1 $(DESTDIR)$(MANDIR)/man1/shardctl.1
	install -D -m 644 shim/man/libshard.7 $(DESTDIR)$(MANDIR)/man7/libshard.7

uninstall:
	rm -f $(DESTDIR)$(LIBDIR)/libshard.so $(DESTDIR)$(PREFIX)/bin/shardctl \
	  $(DESTDIR)$(PREFIX)/include/libshard.h \
	  $(DESTDIR)$(MANDIR)/man1/shardctl.1 $(DESTDIR)$(MANDIR)/man7/libshard.7

clean:
	rm -rf $(BUILD) build-asan build-ubsan build-tsan

-include $(LIB_OBJ:.o=.d) $(CTL_OBJ:.o=.d)
