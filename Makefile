# Two commands set everything up on a fresh machine: `make demo` and `make test`.

GO ?= go
BIN = bin/kbuild

.PHONY: all kbench demo test test-all test-toolkits torture race lint bench dist wheel install clean

all: $(BIN)

$(BIN): FORCE
	@command -v $(GO) >/dev/null || { echo "make: Go 1.26 or newer is needed: https://go.dev/dl" >&2; exit 1; }
	@CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./cmd/kbuild ./cmd/kbuild-cc ./cmd/kbuild-remote # without cgo it starts in a millisecond less

# The benchmarks against other tools are a module of their own.
kbench:
	cd cmd/kbench && CGO_ENABLED=0 $(GO) build -o ../../bin/ .

demo: $(BIN)
	@.ci/toolkit.sh
	@.ci/demo.sh

# The real compilers are part of the tests: with KBUILD_REQUIRE_TOOLS a test that would skip fails. What takes long for what it adds
# (a third CUDA toolkit, farms of remote execution, long tables of options) is left to test-all: tooltest.Broad. vet is part of lint.
run_tests = CGO_ENABLED=0 PATH="$$PATH:/usr/local/cuda/bin" KBUILD_REQUIRE_TOOLS=1 KBUILD_TEST_BIN="$(CURDIR)/bin" GO="$(GO)" $(GO) run ./cmd/internal/gotest -vet=off -timeout 0

test: $(BIN)
	@.ci/toolkit.sh test
	KBUILD_TEST_CUDA=$$($(BIN) -C .ci/cuda toolkit path) $(run_tests) ./...

test-all: $(BIN)
	@.ci/toolkit.sh test-all
	toolkits=$$($(BIN) -C .ci/cuda-13.0 toolkit path):$$($(BIN) -C .ci/cuda toolkit path) && \
		KBUILD_TEST_ALL=1 KBUILD_TEST_CUDA=$$toolkits KBUILD_TEST_BUILDGRID="$(CURDIR)/bin/buildgrid" $(run_tests) ./...

# The same of HIP with compilers that this system does not have, each in a Debian root of its own, which it makes: needs root.
test-toolkits: $(BIN)
	@.ci/test-toolkits.sh

# Random edits, each held against a clean build: make torture N=20000 [SEED=7], REAL=1 for the real compilers, FAULTS=1 to have it find
# the faults of cmd/kbuild/testdata/torture.
torture: $(BIN)
	PATH="$$PATH:/usr/local/cuda/bin" KBUILD_REQUIRE_TOOLS=1 $(GO) test -timeout 0 -count=1 -v ./cmd/kbuild -run '^TestTorture$(if $(FAULTS),Faults)$$' \
		-args -torture.n=$(or $(N),2000) -torture.seed=$(or $(SEED),1) $(if $(REAL),-torture.real) $(if $(FAULTS),-torture.faults)

race:
	$(GO) test -timeout 0 -race -short ./actions/... ./cache/...

lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l . >&2; echo "make: run gofmt" >&2; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) mod tidy -diff
	staticcheck=$$($(GO) tool -n staticcheck) && cd cmd/kbench && $(GO) mod tidy -diff && $(GO) vet ./... && $$staticcheck ./... && \
		$(GO) test -vet=off -timeout 0 ./...

bench:
	$(GO) test -timeout 0 -run - -bench . ./...

install: $(BIN)
	install -D -m 755 -t $(DESTDIR)$(or $(PREFIX),/usr/local)/bin $(BIN) bin/kbuild-cc bin/kbuild-remote
	$(BIN) cmake --package $(DESTDIR)$(or $(PREFIX),/usr/local)/lib/cmake/kbuild >/dev/null

# Static binaries, with shell completions and man pages. The same commit gives the same bytes wherever it is built with the same Go.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
static = CGO_ENABLED=0 GOOS=linux GOARCH=$(1) $(GO) build -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)' -o $(2)/ \
	./cmd/kbuild ./cmd/kbuild-cc ./cmd/kbuild-remote
dist: $(BIN)
	@rm -rf dist && mkdir -p dist
	@for arch in amd64 arm64; do \
		d=dist/kbuild-$(VERSION)-linux-$$arch && mkdir -p $$d/completion $$d/man && \
		$(call static,$$arch,$$d) && \
		for sh in bash zsh fish; do $(BIN) completion $$sh >$$d/completion/kbuild.$$sh || exit 1; done && \
		$(BIN) man $$d/man >/dev/null && \
		cp LICENSE README.md CHANGELOG.md $$d && \
		tar --sort=name --owner=0 --group=0 --numeric-owner --mode=go-w --mtime=@0 -C dist -cf - $${d#dist/} | gzip -n >$$d.tar.gz || exit 1; \
		rm -rf $$d; \
	done
	@cd dist && sha256sum *.tar.gz | tee SHA256SUMS

# Wheels of the same programs: pip install dist/kbuild-*x86_64.whl
wheel: $(BIN)
	@rm -rf dist/wheel && mkdir -p dist/wheel
	@$(GO) run -buildvcs=false -ldflags '-X main.version=$(VERSION)' ./cmd/kbuild cmake --package dist/wheel/lib/cmake/kbuild >/dev/null
	@for arch in amd64:x86_64 arm64:aarch64; do \
		$(call static,$${arch%:*},dist/wheel/$$arch) && \
		$(GO) run ./cmd/internal/wheel -version $(VERSION) -next 0.1.0 -platform $${arch#*:} -programs dist/wheel/$$arch -cmake dist/wheel/lib/cmake/kbuild || exit 1; \
	done
	@rm -rf dist/wheel

clean:
	rm -rf bin dist

FORCE:
