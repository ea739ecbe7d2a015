# muster: `make run` shows it at work; `make test` and `make check` are what a change must pass.
DATA    ?= .muster
LISTEN  ?= 127.0.0.1:7443
NODE    ?= first
RACE    ?= ./...
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
BUILT   := $(shell date -u +%Y-%m-%dT00:00:00Z)
# Inlined calls are a twelfth of the agent, and the gaps before functions at multiples of 32 bytes a hundredth. It waits for most of its
# time, and does its sums in assembler.
AGENT   := CGO_ENABLED=0 go build -trimpath -gcflags=all=-l -tags nethttpomithttp2 -ldflags "-s -w -funcalign=16 -X main.version=$(VERSION)"
# SQLite is C that was translated into Go, and the others are sums. To look for races in those too takes most of the processor's time.
# Only packages without atomics and sync's generic types may be here: others would hide from the race detector what comes before what.
# The go command hands this on to the builds that tests start.
SUMS := compress/flate math/big $(addprefix crypto/internal/fips140/,aes aes/gcm bigmod edwards25519 edwards25519/field hmac nistec nistec/fiat pbkdf2 sha256 sha512)
NOT_LOOKED_AT := $(foreach of,modernc.org/memory modernc.org/sqlite/lib modernc.org/libc/... $(SUMS),'-gcflags=$(of)=-race=false -d=checkptr=0')
# What race leaves to siege: one goroutine that tries or reads everything, memory, and what the race detector has no room for.
ALONE := TestAnyByte|TestConstantMemory|TestDeadNamesAreFound|TestEveryStep|TestHelpFits|TestNoDeadNames|TestOneWayToTheDisk|TestSiege|TestUnreadableJournal|Test[A-Za-z]*PowerCuts
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
WATCHERS := prometheus prometheus-alertmanager
# Debian's Alertmanager reads them there alone.
TEMPLATES := /usr/share/prometheus/alertmanager
REAL := bash chromium chromium-driver debian-archive-keyring fonts-dejavu-core iproute2 less mmdebstrap openssh-client podman rsync \
	skopeo systemd-container tmux util-linux vim
OTHERS := Registry|TestConsole(Fleet|MAAS|Node|Logs|Sessions)?$$|TestConsoleShell|TestPrometheus|TestPromtool|TestReal|TestReach|TestRent|TestRunbook|TestTop$$
TOOLS := binutils busybox curl dash fish gcc ksh93u+m libc6-dev mksh openssl shellcheck util-linux wget zsh
install = { [ $$(id -u) = 0 ] && apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $(1); } >/dev/null || { echo "install these: $(1)"; exit 1; }
# Debian's packages of these start services, and only their programs are wanted: they are unpacked, and not installed.
# They have Go files of their own: the go command passes by a folder whose name begins with a dot.
unpack = { mkdir -p bin/$(1) && cd bin/$(1) && { [ $$(id -u) != 0 ] || apt-get update; } && apt-get download $(2) && \
	for package in *.deb; do dpkg-deb -x $$package . && rm $$package || exit 1; done; } >/dev/null || { echo "these cannot be downloaded: $(2)"; exit 1; }

.PHONY: build run demo tools test race siege test-real lab others real-tools soak check bench fuzz clean
build:
	@mkdir -p bin gateway/agents/linux-amd64 gateway/agents/linux-arm64
	GOOS=linux GOARCH=amd64 $(AGENT) -o gateway/agents/linux-amd64/muster-agent ./agent
	GOOS=linux GOARCH=arm64 $(AGENT) -o gateway/agents/linux-arm64/muster-agent ./agent
	cp gateway/agents/linux-$$(go env GOARCH)/muster-agent bin/.muster-agent && mv -f bin/.muster-agent bin/muster-agent
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION) -X main.builtAt=$(BUILT)" -o bin/muster ./gateway

run: build
	@bin/muster serve --data $(DATA) --listen $(LISTEN) --public-url https://$(LISTEN) & gateway=$$!; \
	trap 'kill $$agent $$gateway 2>/dev/null; wait' EXIT; trap 'exit 0' INT TERM; \
	curl -sSfk -o /dev/null 2>/dev/null --retry 100 --retry-connrefused --retry-delay 1 https://$(LISTEN)/readyz && \
	if [ ! -e $(DATA)/agent/identity.json ]; then \
		MUSTER_TOKEN=$$(bin/muster --data $(DATA) token create -o json | sed -n 's/.*"token": *"\([^"]*\)".*/\1/p') || exit 1; export MUSTER_TOKEN; fi; \
	bin/muster-agent run --gateway https://$(LISTEN) --state $(DATA)/agent --name $(NODE) & agent=$$!; unset MUSTER_TOKEN; \
	bin/muster --data $(DATA) node wait $(NODE) --timeout 60s && bin/muster --data $(DATA) node ls && wait $$gateway

# Renting and bare metal without a company or a rack: a gateway, simulated ones, and an agent on this machine for each of their machines.
demo: build
	@go build -o bin/demo ./gateway/internal/kit/demo && trap 'exit 0' INT TERM && bin/demo -programs bin

# What the tests run beside Go. Without one of these a test is skipped, or fails when CI is set.
tools:
	@dpkg -s $(TOOLS) >/dev/null 2>&1 || $(call install,$(TOOLS))

test:
	go test ./...
	MUSTER_TEST_ENGINE=rqlite go test ./store/...

# The programs that tests start look for races too. They write what they find into files, which are shown at the end. Each of them, and
# each test program, would sleep for a second before it ends. make check has all that vet says.
race:
	@command -v gcc >/dev/null || $(call install,gcc libc6-dev)
	@reports=$$(mktemp -d) && chmod 1777 $$reports && code=0; \
	GOFLAGS="$$GOFLAGS $(NOT_LOOKED_AT)" GORACE="log_path=$$reports/race atexit_sleep_ms=0" CGO_ENABLED=1 \
		go test -race -vet=off -timeout 30m -skip '^($(ALONE))$$' $(RACE) || code=$$?; \
	cat $$reports/* 2>/dev/null && code=1; rm -rf $$reports; exit $$code

siege:
	go test -vet=off -run '^($(ALONE))$$' $$(grep -rlE '^func ($(ALONE))\(' --include=*_test.go --exclude-dir=lab agent gateway store | xargs -n1 dirname | sort -u | sed 's,^,./,')
	MUSTER_TEST_ENGINE=rqlite go test ./store/...

# Machines of the lab wait for most of their time: make -j2 runs the others meanwhile.
test-real: lab others

# Tests with machines wait for most of the time: more run at once than there are processors.
lab: real-tools
	go test -vet=off -tags real -count 1 -v -parallel 6 -timeout 60m ./gateway/internal/kit/lab

# Debian has no rqlited, and the module proxy does not serve it: whoever has its source builds one there with go build ./cmd/rqlited.
others: real-tools
	@[ -n "$$RQLITED" ] || echo "NOT RUN: all tests with nodes of rqlite. Name a rqlited, built from its source: make test-real RQLITED=PATH"
	PATH="$(CURDIR)/bin/.watchers/usr/bin:$(CURDIR)/bin/.reach/usr/sbin:$$PATH" go test -vet=off -tags real -count 1 -v -parallel 6 -timeout 40m -run '$(OTHERS)' \
		./gateway ./gateway/internal/adminapi/metrics ./gateway/internal/health/alert ./gateway/internal/logs/ship ./store/rqlite

real-tools: build
	@[ $$(id -u) != 0 ] || dpkg -s $(REAL) >/dev/null 2>&1 || $(call install,$(REAL))
	@[ $$(id -u) != 0 ] || [ -d /run/systemd/system ] || dpkg -s openssh-server >/dev/null 2>&1 || $(call install,openssh-server) # it would start
	@[ -x bin/.watchers/usr/bin/prometheus-alertmanager ] || $(call unpack,.watchers,$(WATCHERS))
	@[ $$(id -u) != 0 ] || [ -e $(TEMPLATES) ] || { mkdir -p $(dir $(TEMPLATES)) && ln -sfn $(CURDIR)/bin/.watchers$(TEMPLATES) $(TEMPLATES); }
	@[ -x bin/.reach/usr/sbin/nginx ] || $(call unpack,.reach,nginx)

# Long searches. The tests take a sample of each.
soak:
	go test -tags real -count 1 -v -run Minutes ./gateway/internal/nodeapi
	go test -count 20 ./agent/internal/update ./agent/disk/... ./store/...

check: build
	@test -z "$$(gofmt -l agent gateway store install.go)" || { gofmt -l agent gateway store install.go; echo "run gofmt -w on these"; exit 1; }
	go vet -tags real ./... && go vet ./gateway && go run $(STATICCHECK) -tags real ./...
	@{ command -v shellcheck && command -v readelf; } >/dev/null || $(call install,binutils shellcheck)
	@shellcheck .ci/run install.sh gateway/internal/bootstrap/*.sh
	@! go version -m bin/muster-agent | grep '^.dep' && ! readelf -l bin/muster-agent | grep INTERP || { echo "bin/muster-agent must be static and use the standard library alone: see the line above"; exit 1; }
	@size=$$(stat -c %s bin/muster-agent); echo "bin/muster-agent: $$size bytes"; test $$size -le 9500000

# The first run builds the step-ca that it compares with. That takes some minutes and needs the network.
bench:
	@go test -run '^$$' -bench Budgets -benchtime 1x -timeout 60m ./gateway

fuzz:
	@for p in $$(grep -rl '^func Fuzz' --include=*_test.go agent gateway store | xargs -n1 dirname | sort -u); do \
		for f in $$(grep -ho '^func Fuzz[A-Za-z0-9_]*' $$p/*_test.go | cut -c6-); do go test ./$$p -run '^$$' -fuzz "^$$f$$" -fuzztime $${FUZZTIME:-20s} || exit 1; done; done

clean:
	rm -rf bin gateway/agents/linux-*
