# Builds libpawl, its tests, benchmarks and tools. `make help` lists the targets.
#
# Every kind of build has a folder of its own, build/<BUILD>-<compiler>, so that gcc, clang and
# the sanitizers never mix their objects.

BUILD ?= release
PREFIX ?= /usr/local
DESTDIR ?=

# Make's own default is "cc", which names a different compiler on each system.
ifeq ($(origin CC),default)
CC := gcc
endif

# Races are looked for with clang: gcc ships an older copy of the same sanitizer.
ifeq ($(BUILD),tsan)
ifeq ($(findstring clang,$(CC)),)
override CC := clang
endif
endif

B := build/$(BUILD)-$(notdir $(lastword $(CC)))

# ---- flags -------------------------------------------------------------------------------------

# Asserts stay on in every build: a broken invariant must stop before it is written to disk.
MODE_release := -O2 -g
MODE_debug := -O0 -g
MODE_asan := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined \
	-fno-omit-frame-pointer
MODE_tsan := -O1 -g -fsanitize=thread
# A fiber is dropped, and its run replayed, wherever that may happen at all.
MODE_replay := -O2 -g -DPAWL_ALWAYS_REPLAY
MODE := $(MODE_$(BUILD))
ifeq ($(MODE),)
$(error BUILD=$(BUILD) is not one of release, debug, asan, tsan, replay)
endif

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla \
	-Wformat=2 -Werror

# The libraries that libpawl needs, by their pkg-config names.
PKGS := sqlite3
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS))
PKG_LIBS := $(shell pkg-config --libs $(PKGS))

PAWL_CPPFLAGS := -Iinclude -Isrc -D_POSIX_C_SOURCE=200809L $(PKG_CFLAGS)
PAWL_CFLAGS := -std=c17 $(WARNINGS) -fvisibility=hidden -fPIC -pthread $(MODE)
PAWL_LIBS := $(PKG_LIBS) -pthread -lm -ldl

# The driver for PostgreSQL is a library of its own, made where libpq is.
PG_CFLAGS := $(shell pkg-config --silence-errors --cflags libpq)
PG_LIBS := $(shell pkg-config --silence-errors --libs libpq)

# A shared library with undefined symbols is found here, not by the first program that loads it.
# The sanitizers leave theirs to the program.
ifneq ($(filter release debug replay,$(BUILD)),)
SO_FLAGS := -Wl,-z,defs
endif

COMPILE = $(CC) $(PAWL_CPPFLAGS) $(CPPFLAGS) $(PAWL_CFLAGS) $(CFLAGS)
LINK = $(CC) $(PAWL_CFLAGS) $(CFLAGS) $(LDFLAGS)

# `make V=1` shows the commands in full.
Q := $(if $(V),,@)

# ---- what there is -----------------------------------------------------------------------------

LIB_DIRS := base fiber db handle journal rows run sched query api
TIERS := unit conformance interleave scenario crash header cli examples

# The programs in bench/ and tools/. The other files of bench/ are linked into each of its programs,
# those of tools/ into tidy.
BENCHES := commit engine
TOOLS := tidy demo

# The public header is the only place that states the version.
VERSION := $(shell sed -n 's/^\#define PAWL_VERSION "\(.*\)"/\1/p' include/pawl.h 2>/dev/null)
VERSION := $(or $(VERSION),0.0.0)
# The part of it that programs are bound to, by the soname: until 1.0 each minor version may change
# signatures, so that a program that was linked with another one must not start.
NUMBERS := $(subst ., ,$(VERSION))
MAJOR := $(firstword $(NUMBERS))
ABI := $(if $(filter 0,$(MAJOR)),$(MAJOR).$(word 2,$(NUMBERS)),$(MAJOR))
SONAME := libpawl.so.$(ABI)
PG_SONAME := libpawl-pg.so.$(ABI)

LIB_FOLDERS := $(wildcard $(LIB_DIRS:%=src/%))
LIB_SRCS := $(wildcard $(LIB_FOLDERS:%=%/*.c))
SCHEMA := $(sort $(wildcard src/db/schema/*.sql))
LIB_ASMS := $(wildcard $(LIB_FOLDERS:%=%/*.S))
LIB_OBJS := $(LIB_SRCS:%.c=$(B)/%.o) $(LIB_ASMS:%.S=$(B)/%.o) $(if $(SCHEMA),$(B)/schema.o)
LIB_A := $(B)/libpawl.a
LIB_SO := $(B)/libpawl.so.$(VERSION)
PG_OBJS := $(patsubst %.c,$(B)/%.o,$(wildcard src/pg/*.c))
PG_SO := $(if $(PG_LIBS),$(B)/libpawl-pg.so.$(VERSION))

# The tool `pawl`, the command-line client.
PAWL := $(B)/pawl
PAWL_OBJS := $(patsubst %.c,$(B)/%.o,$(wildcard src/cli/*.c))

SUPPORT_OBJS := $(patsubst %.c,$(B)/%.o,$(wildcard test/support/*.c))
# The simulator is one program of all the files in its folder.
SIM := $(B)/test/sim/sim
SIM_OBJS := $(patsubst %.c,$(B)/%.o,$(wildcard test/sim/*.c))
TEST_BINS := $(patsubst %.c,$(B)/%,$(wildcard $(TIERS:%=test/%/*.c)))
SHIMS := $(patsubst %.c,$(B)/%.so,$(wildcard test/shim/*.c))

# PostgreSQL is measured where libpq is.
BENCH_PG_SRCS := bench/floor_pg.c bench/floor_pg_read.c bench/pq.c bench/server.c
BENCH_SRCS := $(filter-out $(if $(PG_LIBS),,$(BENCH_PG_SRCS)),$(wildcard bench/*.c))
BENCH_MAINS := $(filter $(BENCHES:%=bench/%.c),$(BENCH_SRCS))
BENCH_SHARED := $(patsubst %.c,$(B)/%.o,$(filter-out $(BENCH_MAINS),$(BENCH_SRCS)))
BENCH_BINS := $(BENCH_MAINS:%.c=$(B)/%)

# Each file is a program of its own, built as a stranger would build it.
EXAMPLES := $(patsubst %.c,$(B)/%,$(wildcard examples/*.c))

TOOL_SRCS := $(wildcard tools/*.c)
TOOL_MAINS := $(filter $(TOOLS:%=tools/%.c),$(TOOL_SRCS))
TOOL_SHARED := $(patsubst %.c,$(B)/%.o,$(filter-out $(TOOL_MAINS),$(TOOL_SRCS)))
TOOL_BINS := $(TOOL_MAINS:%.c=$(B)/%)

SOURCES = $(shell find include src test bench tools examples -name '*.[ch]' 2>/dev/null)

# ---- targets -----------------------------------------------------------------------------------

.PHONY: all test tests examples bench tools install uninstall clean format format-check lint help
.DELETE_ON_ERROR:
.SECONDARY:

all: $(LIB_A) $(LIB_SO) $(PG_SO) $(PAWL)
tests: $(TEST_BINS) $(SHIMS) $(SIM) $(EXAMPLES) $(PG_SO) $(PAWL)
examples: $(EXAMPLES)
bench: $(BENCH_BINS) $(PG_SO)
tools: $(TOOL_BINS)

# One way to test: the script builds every variant that it needs.
test:
	./run test

help:
	@echo "make [BUILD=release|debug|asan|tsan|replay] [CC=gcc|clang] [V=1] [TARGET...]"
	@echo "  all           libpawl.a, libpawl.so, where libpq is libpawl-pg.so, and pawl in $(B)/"
	@echo "  tests         the test programs, $(B)/test/TIER/NAME, and the examples, $(B)/examples/NAME"
	@echo "  test          all of ./run test, which also installs what the tests need"
	@echo "  examples      the examples alone"
	@echo "  bench         the benchmarks, $(B)/bench/NAME"
	@echo "  tools         the tools, $(B)/tools/NAME"
	@echo "  install       headers, libraries, pawl and pawl.pc under DESTDIR/PREFIX ($(PREFIX))"
	@echo "  uninstall     remove what install has put there"
	@echo "  format        lay out all sources with clang-format"
	@echo "  format-check  say which sources are laid out differently"
	@echo "  lint          clang-tidy over src/"
	@echo "  clean         remove build/"
	@echo "TIERS=unit narrows the tests to some tiers."

# A change of flags must reach every object, hence the dependency on this file.
$(B)/%.o: %.c Makefile
	@mkdir -p $(@D)
	@echo "  CC    $@"
	$(Q)$(COMPILE) -MMD -MP -c -o $@ $<

# The processors that a file of assembly is not for make an empty object of it.
$(B)/%.o: %.S Makefile
	@mkdir -p $(@D)
	@echo "  AS    $@"
	$(Q)$(COMPILE) -MMD -MP -c -o $@ $<

# The folder counts too: a migration that was removed has no date of its own.
$(B)/schema.c: $(SCHEMA) $(if $(SCHEMA),src/db/schema) tools/embed-sql
	@mkdir -p $(@D)
	@echo "  SQL   $@"
	$(Q)tools/embed-sql $(SCHEMA) >$@

$(B)/schema.o: $(B)/schema.c Makefile
	@echo "  CC    $@"
	$(Q)$(COMPILE) -MMD -MP -c -o $@ $<

# `ar` only adds, so an archive is made anew; the folders are there for sources that went away.
$(LIB_A): $(LIB_OBJS) $(LIB_FOLDERS)
	@mkdir -p $(@D)
	@echo "  AR    $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $(LIB_OBJS)

$(LIB_SO): $(LIB_OBJS) $(LIB_FOLDERS)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(LINK) -shared $(SO_FLAGS) -Wl,-soname,$(SONAME) -Wl,-rpath,'$$ORIGIN' -o $@ \
		$(LIB_OBJS) $(PAWL_LIBS)
	$(Q)ln -sf libpawl.so.$(VERSION) $(B)/$(SONAME) && ln -sf $(SONAME) $(B)/libpawl.so

# It takes what it needs of libpawl with it, hidden, so that programs may link libpawl either way.
$(B)/src/pg/%.o: PAWL_CPPFLAGS += $(PG_CFLAGS)
$(B)/src/db/open.o: PAWL_CPPFLAGS += -DPOSTGRES_LIBRARY='"$(PG_SONAME)"'
$(PG_SO): $(PG_OBJS) $(LIB_A) src/pg
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(LINK) -shared $(SO_FLAGS) -Wl,-soname,$(PG_SONAME) -o $@ $(PG_OBJS) $(LIB_A) \
		$(PG_LIBS) -pthread -lm
	$(Q)ln -sf libpawl-pg.so.$(VERSION) $(B)/$(PG_SONAME)

$(B)/test/support.a: $(SUPPORT_OBJS) $(wildcard test/support)
	@mkdir -p $(@D)
	@echo "  AR    $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $(SUPPORT_OBJS)

# Where tests find libpawl-pg.so. The old kind of tag: a sanitizer opens libraries in the program's
# name, and the new kind counts only for the file that calls dlopen().
TEST_RPATH := -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/../..'

# Tests see the helpers as "support/...".
$(B)/test/%.o: PAWL_CPPFLAGS += -Itest $(PG_CFLAGS)

# Tests link the static library: only there are the hidden functions within reach. jansson is for
# them alone: it has a second opinion on JSON. So is libpq here: with it they look behind the driver.
# The driver is not linked, but it has to be there when one of them is run alone.
$(TEST_BINS): $(B)/%: $(B)/%.o $(B)/test/support.a $(LIB_A) | $(PG_SO)
	@echo "  LD    $@"
	$(Q)$(LINK) -o $@ $^ -lcmocka -ljansson $(PG_LIBS) $(PAWL_LIBS) $(TEST_RPATH)

# The tests of the tool start it: it has to be there when one of them is run alone, and no older.
$(filter $(B)/test/cli/%,$(TEST_BINS)): | $(PAWL)

# What threads are made of is simulated by the simulator itself (test/sim/threads.c).
SIM_PLAYS := pthread_create pthread_join pthread_self pthread_mutex_lock pthread_cond_wait \
	pthread_cond_signal pthread_cond_broadcast poll
$(SIM): $(SIM_OBJS) $(LIB_A)
	@echo "  LD    $@"
	$(Q)$(LINK) -o $@ $(SIM_PLAYS:%=-Wl,--wrap=%) $^ $(PAWL_LIBS)

# Libraries for servers that tests start: loaded before all others, so without the sanitizers.
$(B)/test/shim/%.so: test/shim/%.c Makefile
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(PAWL_CPPFLAGS) $(CPPFLAGS) -std=c17 $(WARNINGS) -O2 -g -fPIC -shared -o $@ $< -ldl
$(B)/test/crash/test_pg_full: | $(B)/test/shim/full.so

$(B)/bench/%.o: PAWL_CPPFLAGS += $(PG_CFLAGS) $(if $(PG_LIBS),-DBENCH_POSTGRES)
$(BENCH_BINS): $(B)/%: $(B)/%.o $(BENCH_SHARED) $(LIB_A)
	@echo "  LD    $@"
	$(Q)$(LINK) -o $@ $^ $(PG_LIBS) $(PAWL_LIBS) -Wl,-rpath,'$$ORIGIN/..'

# Examples see the public header and the shared library only: no hidden function is within reach.
$(B)/examples/%.o: PAWL_CPPFLAGS := -Iinclude
$(B)/examples/ledger_transact.o: PAWL_CPPFLAGS += $(PKG_CFLAGS)
$(B)/examples/ledger_transact: EXAMPLE_LIBS := $(PKG_LIBS)
$(EXAMPLES): $(B)/%: $(B)/%.o $(LIB_SO)
	@echo "  LD    $@"
	$(Q)$(LINK) -o $@ $^ $(EXAMPLE_LIBS) -Wl,-rpath,'$$ORIGIN/..'

# So does the tool. It finds the library beside it, and where both are installed.
$(B)/src/cli/%.o: PAWL_CPPFLAGS := -Iinclude -Isrc -D_POSIX_C_SOURCE=200809L
$(PAWL): $(PAWL_OBJS) $(LIB_SO) src/cli
	@echo "  LD    $@"
	$(Q)$(LINK) -o $@ $(PAWL_OBJS) $(LIB_SO) -Wl,-rpath,'$$ORIGIN:$$ORIGIN/../lib'

# tidy stands alone, on files of its own: it has to speak when the library does not compile.
$(filter-out $(B)/tools/tidy,$(TOOL_BINS)): $(LIB_A)
$(B)/tools/tidy: $(TOOL_SHARED)
$(TOOL_BINS): $(B)/%: $(B)/%.o
	@echo "  LD    $@"
	$(Q)$(LINK) -o $@ $^ $(PAWL_LIBS)

# pawl.pc is written at the moment of installing, since PREFIX may differ from build to build.
install: all
	install -d $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/lib/pkgconfig \
		$(DESTDIR)$(PREFIX)/bin
	install -m 755 $(PAWL) $(DESTDIR)$(PREFIX)/bin
	install -m 644 $(wildcard include/*.h) $(DESTDIR)$(PREFIX)/include
	install -m 644 $(LIB_A) $(DESTDIR)$(PREFIX)/lib
	install -m 755 $(LIB_SO) $(DESTDIR)$(PREFIX)/lib
	ln -sf libpawl.so.$(VERSION) $(DESTDIR)$(PREFIX)/lib/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(PREFIX)/lib/libpawl.so
	$(if $(PG_SO),install -m 755 $(PG_SO) $(DESTDIR)$(PREFIX)/lib)
	$(if $(PG_SO),ln -sf libpawl-pg.so.$(VERSION) $(DESTDIR)$(PREFIX)/lib/$(PG_SONAME))
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@PKGS@|$(PKGS)|' \
		pawl.pc.in >$(DESTDIR)$(PREFIX)/lib/pkgconfig/pawl.pc

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/pawl $(DESTDIR)$(PREFIX)/lib/pkgconfig/pawl.pc \
		$(addprefix $(DESTDIR)$(PREFIX)/include/,$(notdir $(wildcard include/*.h))) \
		$(addprefix $(DESTDIR)$(PREFIX)/lib/,libpawl.a libpawl.so $(SONAME) libpawl.so.$(VERSION) \
		$(PG_SONAME) libpawl-pg.so.$(VERSION))

clean:
	rm -rf build

format:
	clang-format -i $(SOURCES)

format-check:
	clang-format --dry-run --Werror $(SOURCES)

# One target per file, so that -j spreads them.
LINTS := $(LIB_SRCS:%=lint/%) $(patsubst %,lint/%,$(wildcard src/pg/*.c src/cli/*.c))
.PHONY: $(LINTS)
lint: $(LINTS)
$(LINTS): lint/%:
	@echo "  TIDY  $*"
	$(Q)clang-tidy --quiet $* -- $(PAWL_CPPFLAGS) $(PG_CFLAGS) -DPOSTGRES_LIBRARY='""' -std=c17 -pthread

-include $(shell find $(B) -name '*.d' 2>/dev/null)
