# libshard - see README.md. `make V=1` shows the commands.
VERSION := 0.1.0
CC ?= gcc
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
LIBDIR ?= $(PREFIX)/lib
WERROR ?=
CFLAGS ?= -O2 -g
SANITIZE ?=

Q := $(if $(V),,@)

CPPFLAGS += -D_GNU_SOURCE -DSHARD_VERSION='"$(VERSION)"' -Iinclude -Ishim
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
        -Wno-format-truncation $(if $(WERROR),-Werror)
ALL_CFLAGS = -std=gnu17 $(CFLAGS) $(WARN) $(SANITIZE) -fPIC -fvisibility=hidden -pthread -MD -MP

# What both products share: no dependency but libc.
COMMON := listing/crc32c listing/reader listing/options shard/shard config/version
# libshard.so
LIB := $(COMMON) config/config config/world config/log listing/cache interpose/self \
       interpose/init interpose/real interpose/dir view/view adapter/adapter
# shardctl
CTL := $(COMMON) listing/writer listing/build source/posix ctl/main ctl/index ctl/ls ctl/stat

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

$(BUILD)/libshard.so: $(LIB_OBJ) shim/libshard.map
	@echo "  LD   $@"
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) -shared -Wl,-soname,libshard.so -Wl,--version-script=shim/libshard.map \
	  -Wl,-z,relro,-z,now -Wl,--no-undefined -Wl,--as-needed -o $@ $(LIB_OBJ) -ldl -pthread

$(BUILD)/shardctl: $(CTL_OBJ)
	@echo "  LD   $@"
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) -Wl,-z,relro,-z,now -o $@ $(CTL_OBJ) -lcrypto $(if $(SANITIZE),,-ljemalloc) -pthread

.PHONY: clean
clean:
	rm -rf $(BUILD)

-include $(LIB_OBJ:.o=.d) $(CTL_OBJ:.o=.d)
