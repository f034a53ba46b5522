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
# Against faults of memory (tests/behaviour/hardened.sh). Left off: -z now of libshard.so, which costs each process; its mark
# of shadow stacks where libc's crti.o has none, as on Debian; _FORTIFY_SOURCE without optimization, and under sanitizers,
# which watch in their own way.
MACHINE := $(shell $(CC) -dumpmachine 2>/dev/null)
HARDEN := -fstack-protector-strong -fstack-clash-protection $(if $(filter x86_64-%,$(MACHINE)),-fcf-protection) \
          $(if $(filter aarch64-%,$(MACHINE)),-mbranch-protection=standard)
FORTIFY = $(if $(SANITIZE),,$(if $(filter -O -O1 -O2 -O3 -Os,$(CFLAGS)),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2))
# The same bytes wherever the source lies.
ALL_CFLAGS = -std=gnu17 $(HARDEN) $(CFLAGS) $(WARN) $(SANITIZE) -ffile-prefix-map="$(CURDIR)"=. -fPIC -fvisibility=hidden -pthread -MD -MP

comma := ,
# Which files of the rooms of shim/ (shim/README.md) each product has. libshard.so needs libc only.
BOTH := $(addprefix base/,crc32c error file filesystem path process size trust utf8 version words workspace) \
        $(addprefix config/,config dataset_list launcher listing_list log path_template) \
        $(addprefix listing/,identity markers names options reader samples) \
        $(addprefix shard/,permute shard) \
        $(addprefix cache/,cachedir collect filenames job lock safe)
LIB := $(BOTH) \
       $(addprefix host/,builder go inode library locate real) \
       $(addprefix cache/,cache make permutation request user_listing) \
       $(addprefix stats/,log opens rank_page stats) \
       $(addprefix view/,bucket_keys datasets load once prepare serve view window) \
       $(addprefix adapter/,adapter compress elements python quicken) \
       $(addprefix interpose/,dents dir fts ftw glob guard handles init open scandir wordexp)
CTL := $(BOTH) base/atomic_file \
       $(addprefix build/,batch build facts intake memory merge progress run sets sorter spool writer) \
       $(addprefix source/,compare directory forms inventory text walk) \
       $(addprefix source/s3/,account answer client folders list object page prefix provider sigv4 split url xml) \
       $(patsubst shim/%.c,%,$(wildcard shim/ctl/*.c))

LIB_OBJ := $(LIB:%=$(BUILD)/obj/%.o) $(BUILD)/obj/adapter/sources.o
CTL_OBJ := $(CTL:%=$(BUILD)/obj/%.o) $(BUILD)/obj/ctl/help.o $(BUILD)/obj/ctl/template.o

.PHONY: all lib
all: $(BUILD)/gen/libraries.ok $(BUILD)/libshard.so $(BUILD)/shardctl $(BUILD)/gen/glibc.ok
# libshard.so needs gcc, make and libc's headers only. Without shardctl beside it, it makes no listings.
lib: $(BUILD)/libshard.so

# What is missing is said before anything is compiled that needs it.
$(filter-out $(LIB_OBJ),$(CTL_OBJ)): | $(BUILD)/gen/libraries.ok
LIBRARIES := $(if $(SANITIZE),,jemalloc) libcurl openssl json-c
$(BUILD)/gen/libraries.ok: scripts/libraries.sh
	@mkdir -p $(@D)
	$(Q)sh $< "$(CC) $(CPPFLAGS) $(CFLAGS)" $(LIBRARIES)
	@touch $@
$(BUILD)/gen/cmocka.ok: scripts/libraries.sh
	@mkdir -p $(@D)
	$(Q)sh $< "$(CC) $(CPPFLAGS) $(CFLAGS)" cmocka
	@touch $@

$(BUILD)/obj/%.o: shim/%.c Makefile
	@mkdir -p $(@D)
	@echo "  CC   $*.c"
	$(Q)$(CC) $(CPPFLAGS) $(FORTIFY) $(ALL_CFLAGS) -ftls-model=initial-exec -c -o $@ $<

# What C declares, as Python.
CONTRACT := $(BUILD)/gen/adapter/contract.py
DECLARED := include/libshard.h shim/adapter/api.h shim/adapter/clients.def
$(CONTRACT): scripts/contract.awk $(DECLARED)
	@mkdir -p $(@D)
	$(Q)awk -f scripts/contract.awk $(DECLARED) > $@.tmp && mv $@.tmp $@

# The adapter's Python package as C strings: every .py below shim/adapter. It depends on the folders,
# too, as their times change when a file is removed.
ADAPTER := $(sort $(shell find shim/adapter -name "*.py"))
$(BUILD)/gen/adapter_sources.c: scripts/embed.sh $(CONTRACT) $(ADAPTER) $(sort $(dir $(ADAPTER)))
	@mkdir -p $(@D)
	$(Q)sh scripts/embed.sh $(CONTRACT) $(ADAPTER) > $@.tmp && mv $@.tmp $@

$(BUILD)/obj/adapter/sources.o: $(BUILD)/gen/adapter_sources.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<

# What each command's --help says: its sections of the man page.
$(BUILD)/gen/help.c: scripts/help.awk shim/man/shardctl.1
	@mkdir -p $(@D)
	$(Q)awk -f scripts/help.awk shim/man/shardctl.1 > $@.tmp && mv $@.tmp $@
# The page of shardctl verify --html.
$(BUILD)/gen/template.c: shim/ctl/page.html
	@mkdir -p $(@D)
	$(Q){ echo 'extern const char ctl_page_template[]; const char ctl_page_template[] = {'; od -An -v -tu1 $< | sed 's/  */,/g; s/^,//; s/$$/,/'; echo '0};'; } > $@.tmp && mv $@.tmp $@
$(BUILD)/obj/ctl/template.o: $(BUILD)/gen/template.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<
$(BUILD)/obj/ctl/help.o: $(BUILD)/gen/help.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<

# The rows of exports.def become the tests' list of exports, and the linker's version script.
EXPORTS := $(BUILD)/gen/exports.txt $(BUILD)/gen/libshard.map
$(BUILD)/gen/exports.txt: SAY := names
$(BUILD)/gen/libshard.map: SAY := map
$(EXPORTS): shim/host/exports.def scripts/exports.sh Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) -E -P -x c -DSHARD_EXPORTS_TEXT -o $@.rows $<
	$(Q)sh scripts/exports.sh $(SAY) < $@.rows > $@.tmp && mv $@.tmp $@

# lazy: each process of each program loads the library, and most use few of its imports.
# -Bsymbolic-functions: our scandir calls our opendir, as libc's calls libc's.
$(BUILD)/libshard.so: $(LIB_OBJ) $(EXPORTS)
	@echo "  LD   $@"
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) -shared -Wl,-soname,libshard.so.1 \
	  -Wl,--version-script=$(BUILD)/gen/libshard.map -Wl,--exclude-libs,ALL -Wl,-Bsymbolic-functions -Wl,-z,relro,-z,lazy,-z,noexecstack \
	  -Wl,--no-undefined -Wl,--as-needed -o $@ $(LIB_OBJ) -ldl -pthread
	$(Q)ln -sf libshard.so $@.1

# A program's LD_LIBRARY_PATH may lead shardctl to libraries that it cannot use: those that it was linked with go first
# (DT_RPATH).
RPATH = $(addprefix -Wl$(comma)--disable-new-dtags$(comma)-rpath$(comma),$(sort $(foreach l,curl crypto json-c,$(dir $(realpath $(shell $(CC) -print-file-name=lib$l.so))))))
$(BUILD)/shardctl: $(CTL_OBJ)
	@echo "  LD   $@"
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) -pie -Wl,--export-dynamic-symbol=shard_is_shardctl -Wl,-z,relro,-z,now,-z,noexecstack $(RPATH) -o $@ $(CTL_OBJ) -lm -lcurl -lcrypto -ljson-c $(if $(SANITIZE),,-ljemalloc) -ldl -pthread

# Where they run there must be a glibc that is as new.
$(BUILD)/gen/glibc.ok: $(BUILD)/libshard.so $(BUILD)/shardctl
	@echo "  $^ need glibc $$(LC_ALL=C objdump -T $^ | grep -o 'GLIBC_2\.[0-9.]*' | sort -Vu | tail -1 | cut -d_ -f2) or newer"
	@touch $@

# ---- tests --------------------------------------------------------------------------------

T := $(BUILD)/tests
# Unit tests link all objects but the entry points, and those that have versioned symbols.
NOT_IN_UNIT := ctl/main interpose/init $(addprefix interpose/,open ftw fts glob wordexp scandir)
ALL_OBJ := $(sort $(filter-out $(NOT_IN_UNIT:%=$(BUILD)/obj/%.o),$(LIB_OBJ) $(CTL_OBJ)))
UNIT := cache memory crc32c text options permute shard rank_page launcher config listing damage unchecked atomic_file sort walk json inode serve once workspace $(addprefix s3_,accounts answers client layouts pages providers ranges signatures splits url)
UNIT_BIN := $(UNIT:%=$(T)/test_%)
PROGRAMS := getdents count names shares forbid slowfs
LINKED_BIN := $(T)/access
PROGRAM_BIN := $(PROGRAMS:%=$(T)/%)
PRELOADS := $(patsubst %,$(T)/%.so,openlog naive failing lossy starving clock patient denied madeup)
VENV_PYTHON := .venv/bin/python
# One job for each CPU, unless the user has given -j.
JOBS = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

$(BUILD)/libshard.a: $(ALL_OBJ)
	$(Q)rm -f $@ && ar rcs $@ $(ALL_OBJ)

$(T)/test_%: tests/unit/test_%.c $(BUILD)/libshard.a | $(BUILD)/gen/cmocka.ok
	@mkdir -p $(@D)
	@echo "  CC   $<"
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -Wno-unused-parameter -o $@ $< $(BUILD)/libshard.a -lcmocka -lm -lcurl -lcrypto -ljson-c -ldl

$(PROGRAM_BIN): $(T)/%: tests/programs/%.c
	@mkdir -p $(@D)
	@echo "  CC   $<"
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -Wno-deprecated-declarations -o $@ $<

$(LINKED_BIN): $(T)/%: tests/programs/%.c $(BUILD)/libshard.so
	@mkdir -p $(@D)
	@echo "  CC   $<"
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -o $@ $< $(BUILD)/libshard.so -Wl,-rpath,'$$ORIGIN/..'

$(PRELOADS): $(T)/%.so: tests/preloads/%.c tests/preloads/real.h
	@mkdir -p $(@D)
	@echo "  CC   $<"
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -fvisibility=default -shared -o $@ $< -ldl

# Targets of the fuzzer; as a rule they only replay inputs.
FUZZ_BIN := $(patsubst tests/fuzz/%.c,$(T)/fuzz_%,$(filter-out %/replay.c,$(wildcard tests/fuzz/*.c)))
FUZZ_MAIN := tests/fuzz/replay.c
# -MMD tells of one of several sources.
$(FUZZ_BIN): $(wildcard tests/fuzz/*.h)
$(FUZZ_BIN): $(T)/fuzz_%: tests/fuzz/%.c $(FUZZ_MAIN) $(BUILD)/libshard.a
	@mkdir -p $(@D)
	@echo "  CC   $<"
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(FUZZ_LINK) -Itests/fuzz -o $@ $< $(FUZZ_MAIN) $(BUILD)/libshard.a -lm -lcurl -lcrypto -ljson-c -ldl

.PHONY: tests-built fuzz-built unit setup
tests-built: all $(UNIT_BIN) $(PROGRAM_BIN) $(LINKED_BIN) $(PRELOADS)
fuzz-built: $(FUZZ_BIN)

# Run the unit tests of this tree one by one; the sanitizers' targets call this.
unit: tests-built
	$(Q)for t in $(UNIT_BIN); do echo "== $$t"; timeout 300 $$t || exit 1; done

# Install what all tests need; quick when it is all there.
setup:
	$(Q)bash scripts/setup.sh all

# make check: units, some of behaviour/ and lint, for every edit. make test: what shows that the product works.
# make test-rest: what make test leaves out, for CI. make test-all: all cases. make test-AREA: all of one area.
# FILTER=REGEX: only the steps in whose names it is found.
# tests/run.py has the table of what they run; logs and times are in build/test-logs/. SETUP is a level of setup.sh.
AREAS := unit behaviour docs clients packages torch s3 hosts sanitizers
.PHONY: check test test-rest test-all test-dlio $(AREAS:%=test-%)
check: run-check
test: run-test
test-rest: run-rest
test-all: run-all
$(AREAS:%=test-%): test-%: run-%
run-check run-unit: SETUP := check
run-test: SETUP := test

run-%: SETUP := all
run-%:
	$(Q)bash scripts/setup.sh $(SETUP)
	$(Q)$(MAKE) --no-print-directory $(JOBS) WERROR=1 tests-built fuzz-built
	$(Q)python3 -m tests.run $* $(if $(value FILTER),--filter '$(value FILTER)')

# make test-dlio DLIO=/path/to/tree [PYTHON=...]: the same-run matrix on another DLIO.
ifeq ($(DLIO),)
test-dlio: run-dlio
else
test-dlio:
	$(Q)$(MAKE) --no-print-directory $(JOBS) tests-built
	$(Q)$(or $(PYTHON),$(VENV_PYTHON)) -m tests.dlio.matrix --active --dlio $(DLIO)
endif

# Races, again and again on a busy machine: make soak ROUNDS=100. Not a part of make test.
.PHONY: soak
soak:
	$(Q)bash scripts/setup.sh test
	$(Q)$(MAKE) --no-print-directory $(JOBS) WERROR=1 tests-built
	$(Q)$(VENV_PYTHON) -m tests.soak $(if $(ROUNDS),--rounds $(ROUNDS))

# Small faults, one at a time in a copy of the tree: which does no test see? Not a part of make test.
.PHONY: planted
planted:
	$(Q)bash scripts/setup.sh test
	$(Q)$(MAKE) --no-print-directory $(JOBS) tests-built
	$(Q)python3 -m tests.planted $(if $(FAULT),--filter "$(FAULT)")

# Any bytes for what reads other people's bytes: make fuzz FUZZ_SECONDS=600 [FUZZ=page]. Not a part of
# make test, which replays tests/fuzz/inputs.
.PHONY: fuzz
fuzz:
	$(Q)bash scripts/setup.sh fuzz
	$(Q)$(MAKE) --no-print-directory $(JOBS) BUILD=$(BUILD)/fuzz CC=clang WARN= CFLAGS="-O1 -g" FUZZ_MAIN= FUZZ_LINK=-fsanitize=fuzzer \
	  SANITIZE="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer" fuzz-built
	$(Q)BUILD=$(BUILD) bash tests/fuzz.sh run $(or $(FUZZ_SECONDS),60) $(FUZZ)

# Other releases of Debian, as root, in chroots that it makes and removes: make test-systems SUITES=trixie
.PHONY: test-systems
test-systems:
	$(Q)bash tests/systems.sh $(SUITES)

# aarch64: a cross compiler, Debian's libraries for it, unit tests by qemu. As root.
.PHONY: test-aarch64
test-aarch64:
	$(Q)bash tests/aarch64.sh

# Beside Darshan's runtime, which is built for it: make test-darshan DARSHAN=/path/to/source
.PHONY: test-darshan
test-darshan: all
	$(Q)bash tests/darshan.sh $(DARSHAN)

# The tests that can run under a sanitizer; each has its own build tree. Under address and undefined
# together unit tests try a fraction; under undefined alone the whole. Under thread: tests of what has threads.
.PHONY: asan ubsan tsan
asan:
	$(Q)$(MAKE) --no-print-directory BUILD=$(BUILD)/asan WERROR=1 CFLAGS="-O1 -g1" \
	  SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer" unit fuzz-built
	$(Q)bash tests/sanitized.sh $(BUILD)/asan address
	$(Q)BUILD=$(BUILD) FUZZ_BUILD=$(BUILD)/asan bash tests/fuzz.sh replay
ubsan:
	$(Q)$(MAKE) --no-print-directory BUILD=$(BUILD)/ubsan WERROR=1 \
	  SANITIZE="-fsanitize=undefined -fno-sanitize-recover=all" unit
	$(Q)BUILD=$(BUILD)/ubsan bash tests/behaviour/build.sh
tsan:
	$(Q)$(MAKE) --no-print-directory BUILD=$(BUILD)/tsan WERROR=1 CFLAGS="-O1 -g1" UNIT="once s3_client sort walk" \
	  SANITIZE="-fsanitize=thread -fno-omit-frame-pointer" unit
	$(Q)bash tests/sanitized.sh $(BUILD)/tsan thread

# clang-tidy checks a file again when the file or one of its headers has changed: when it is compiled. Its analyzer
# follows paths through a function until they have NODES steps. clang's own number is 225000, which make test-all has:
# only a few large functions come so far, and they take two thirds of the time.
NODES := 50000
TIDY := $(patsubst shim/%.c,$(BUILD)/tidy/$(NODES)/%.ok,$(shell find shim -name "*.c"))
$(BUILD)/tidy/$(NODES)/%.ok: shim/%.c $(BUILD)/obj/%.o scripts/clang-tidy.yaml
	@mkdir -p $(@D)
	@echo "  TIDY $*.c"
	$(Q)clang-tidy --quiet --config-file=scripts/clang-tidy.yaml $< -- -std=gnu17 -D_GNU_SOURCE -Iinclude -Ishim \
	  -Xclang -analyzer-config -Xclang max-nodes=$(NODES) 2>$@.log \
	  || { cat $@.log >&2; exit 1; }
	@touch $@

# How much of a stack each function takes, as gcc says of libshard.so's files (scripts/stacks.py).
STACKS := $(LIB:%=$(BUILD)/stacks/%.ci)
$(STACKS): $(BUILD)/stacks/%.ci: shim/%.c $(BUILD)/obj/%.o
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(FORTIFY) $(ALL_CFLAGS) -ftls-model=initial-exec -fcallgraph-info=su -c -o $(@:.ci=.o) $<

# make print-LIB: print the list, for scripts/layers.sh.
.PHONY: print-LIB print-CTL
print-LIB print-CTL:
	@printf '%s\n' $($(@:print-%=%))

.PHONY: lint tidied stacks format
tidied: $(TIDY)
stacks: $(STACKS)
	$(Q)python3 scripts/stacks.py $(STACKS)
lint:
	@echo "  LINT"
	$(Q)sh scripts/lint.sh
	$(Q)$(MAKE) --no-print-directory $(JOBS) -k stacks tidied

format:
	clang-format --style=file:scripts/clang-format.yaml -i $(shell find shim include tests -name "*.[ch]")

# ---- demonstration and figures ------------------------------------------------------------

.PHONY: demo bench
demo:
	$(Q)bash scripts/setup.sh demo
	$(Q)$(MAKE) --no-print-directory $(JOBS) all $(T)/openlog.so
	$(Q)bash scripts/demo.sh

# make bench PART=NAME,...: some parts only; scripts/bench_forks.py tells what the dlio- parts need.
bench: setup
	$(Q)$(MAKE) --no-print-directory $(JOBS) all $(PROGRAM_BIN) $(LINKED_BIN)
	$(Q)$(VENV_PYTHON) -m scripts.bench $(if $(PART),--part $(PART))

# ---- installation -------------------------------------------------------------------------

.PHONY: install uninstall deb wheel dist clean
install: all
	install -D -m 755 $(BUILD)/libshard.so $(DESTDIR)$(LIBDIR)/libshard.so
	ln -sf libshard.so $(DESTDIR)$(LIBDIR)/libshard.so.1
	install -D -m 755 $(BUILD)/shardctl $(DESTDIR)$(PREFIX)/bin/shardctl
	install -D -m 644 include/libshard.h $(DESTDIR)$(PREFIX)/include/libshard.h
	install -D -m 644 shim/man/shardctl.1 $(DESTDIR)$(MANDIR)/man1/shardctl.1
	install -D -m 644 -t $(DESTDIR)$(MANDIR)/man7 shim/man/libshard.7 shim/man/libshard-dlio.7 shim/man/libshard-examples.7 \
	  shim/man/libshard-pytorch.7 shim/man/libshard-s3.7 shim/man/libshard-shares.7
	mkdir -p $(DESTDIR)$(LIBDIR)/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|' scripts/package/libshard.pc \
	  >$(DESTDIR)$(LIBDIR)/pkgconfig/libshard.pc

uninstall:
	rm -f $(DESTDIR)$(LIBDIR)/libshard.so $(DESTDIR)$(LIBDIR)/libshard.so.1 $(DESTDIR)$(PREFIX)/bin/shardctl \
	  $(DESTDIR)$(LIBDIR)/pkgconfig/libshard.pc \
	  $(DESTDIR)$(PREFIX)/include/libshard.h \
	  $(DESTDIR)$(MANDIR)/man1/shardctl.1 $(DESTDIR)$(MANDIR)/man7/libshard.7 \
	  $(DESTDIR)$(MANDIR)/man7/libshard-dlio.7 $(DESTDIR)$(MANDIR)/man7/libshard-examples.7 \
	  $(DESTDIR)$(MANDIR)/man7/libshard-pytorch.7 $(DESTDIR)$(MANDIR)/man7/libshard-s3.7 \
	  $(DESTDIR)$(MANDIR)/man7/libshard-shares.7

# Packages of what is built, in build/packages. dist: the source of the last commit.
deb: all
	$(Q)bash scripts/package/deb.sh
wheel: all
	$(Q)BUILD=$(BUILD) python3 scripts/package/wheel.py
dist:
	$(Q)mkdir -p build/packages
	$(Q)git archive --format=tar --prefix=libshard-$(VERSION)/ HEAD | gzip -9n >build/packages/libshard-$(VERSION).tar.gz
	@echo build/packages/libshard-$(VERSION).tar.gz

clean:
	rm -rf $(BUILD)

-include $(LIB_OBJ:.o=.d) $(CTL_OBJ:.o=.d)
