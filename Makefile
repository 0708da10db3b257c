# oscarfed: `make help` lists the targets. All of them can be run again at any time.
# Needed: Go, make, git. `make test` also uses gcc for the race detector, and Node.js
# with npm for an OpenID provider to talk to, and Chromium; on Debian it installs them when
# they are missing and we are root. A Node.js before 20.12 is used for npm alone.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory
.DEFAULT_GOAL := help

GO       ?= go
BUILD    := build
BIN      := bin
FUZZTIME ?= 60s
BENCH    ?= .
PROOFTIME ?= 20m
# What to test: make test PKG=./store/...
PKG      ?= ./...

# RELEASE=v1.2.3 names a release; without it the binaries say their commit.
LDFLAGS := $(if $(RELEASE),-X github.com/oscarfed/oscarfed/internal/version.release=$(RELEASE))

# The commit goes into the binaries where git may be asked (not in an archive, nor in
# a working copy of somebody else).
VCS := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo auto || echo false)

# The linter is kept under its version: a new version is built once, the next run is quick.
LINT_VERSION := $(shell awk '$$1 == "github.com/golangci/golangci-lint/v2" { print $$2 }' tools/lint.mod)
LINT         := $(BUILD)/tools/golangci-lint-$(LINT_VERSION)

# So are the API server and the controllers of Kubernetes, which tests talk to.
KUBE_VERSION := $(shell awk '$$1 == "require" && $$2 == "k8s.io/kubernetes" { print $$3 }' tools/kube.mod)
KUBE         := $(BUILD)/tools/kube-$(KUBE_VERSION)

# And what a real node runs.
NODE         := $(BUILD)/tools/kubenode-$(KUBE_VERSION)
KUBE_STAMP   := k8s.io/component-base/version
KUBE_LDFLAGS := -s -w -X $(KUBE_STAMP).gitVersion=$(KUBE_VERSION) \
	-X $(KUBE_STAMP).gitMajor=$(subst v,,$(word 1,$(subst ., ,$(KUBE_VERSION)))) -X $(KUBE_STAMP).gitMinor=$(word 2,$(subst ., ,$(KUBE_VERSION)))

# So is the release before this one, from its commit.
PREVIOUS_VERSION := 0.1.0
PREVIOUS_COMMIT  := deeb41f8
PREVIOUS         := $(BUILD)/tools/previous-$(PREVIOUS_COMMIT)

# And so is an OpenID provider, by npm.
OPENID_VERSION := $(shell awk -F '"' '$$2 == "oidc-provider" { print $$4 }' test/openid/package.json)
OPENID         := $(BUILD)/tools/openid-$(OPENID_VERSION)

.PHONY: help build images release demo demo-keep test previous previous-images kube kube-node e2e-kube node-programs openid lint fuzz bench contract proof proof-ha proof-jobs outages campaign campaign-coverage browser ui ui-check ui-tools screenshots recording

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the commands into bin/
	@mkdir -p $(BIN)
	CGO_ENABLED=0 $(GO) build -buildvcs=$(VCS) -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/...

images: ## container images as tarballs in build/images, amd64 and arm64; RELEASE=v1.2.3 names them
	@$(GO) run ./deploy/release -images -ko "$$(tools/tool.sh ko)" -out $(BUILD)/images -version '$(RELEASE)'

release: ## all of release VERSION=v1.2.3 in build/release: archives, images, charts, lists of contents, checksums
	@$(GO) run ./deploy/release -version '$(VERSION)' -out $(BUILD)/release -ko "$$(tools/tool.sh ko)" -helm "$$(tools/tool.sh helm)"

demo: build ## a whole federation on this machine: create, repair, refusal, delete; ends by itself
	@CGO_ENABLED=0 $(GO) build -buildvcs=false -o $(BUILD)/demo ./test/demo
	@$(BUILD)/demo -oscarfed $(BIN)/oscarfed

demo-keep: build ## the same up to the repair, and keeps the federation running until Ctrl-C
	@CGO_ENABLED=0 $(GO) build -buildvcs=false -o $(BUILD)/demo ./test/demo
	@$(BUILD)/demo -oscarfed $(BIN)/oscarfed -keep

test: kube openid browser ui-tools previous ## all tests, with the race detector where there is a C compiler
	@tools/test.sh $(PKG)

kube: $(KUBE)/built ## build the Kubernetes that tests talk to

# What is not stamped with a version is taken for an unreleased one by clients.
$(KUBE)/built: tools/kube.mod tools/kube.sum
	@echo "building kube-apiserver and kube-controller-manager $(KUBE_VERSION), once: some minutes"
	@mkdir -p $(@D)
	CGO_ENABLED=0 $(GO) build -modfile=tools/kube.mod -buildvcs=false -trimpath -o $(@D)/ -ldflags '$(KUBE_LDFLAGS)' \
		k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager
	@touch $@

kube-node: node-programs ## start a real Kubernetes node in namespaces, run a pod on it (or COMMAND="kubectl get nodes"), end it without a trace; root, Linux
	@$(BUILD)/kubenode -kube $(KUBE) -node $(NODE) -- $(COMMAND)

e2e-kube: node-programs previous-images ## the charts and images on such a node; E2E_KUBE=auto skips where a machine refuses
	@mkdir -p $(BUILD)/e2ekube
	@CGO_ENABLED=0 $(GO) build -buildvcs=false -o $(BUILD)/e2ekube/ filippo.io/age/cmd/age-keygen ./cmd/oscarfed ./test/oscarpod ./test/e2ekube/...
	@CGO_ENABLED=0 $(GO) build -buildvcs=false -o $(BUILD)/e2ekube/etcd go.etcd.io/etcd/server/v3
	@ln -sf "$$(tools/tool.sh helm)" $(BUILD)/e2ekube/helm
	@$(GO) run ./deploy/release -images -ko "$$(tools/tool.sh ko)" -out $(BUILD)/e2ekube/images -arch "$$($(GO) env GOARCH)"
	@$(BUILD)/kubenode -kube $(KUBE) -node $(NODE) -image localhost/etcd:test=$(BUILD)/e2ekube/etcd \
		-image localhost/oscar:test=$(BUILD)/e2ekube/oscarpod -image localhost/function:test=$(BUILD)/e2ekube/function -- \
		test/e2ekube/run.sh "$(CURDIR)/$(BUILD)/e2ekube" "$(CURDIR)/$(PREVIOUS)/images"

node-programs: kube $(NODE)/built
	@tools/kubenode.sh
	@ln -sf "$$(tools/tool.sh coredns)" $(NODE)/coredns
	@CGO_ENABLED=0 $(GO) build -buildvcs=false -o $(BUILD)/kubenode ./test/kubenode
	@CGO_ENABLED=0 $(GO) build -buildvcs=false -ldflags '-s -w' -o $(NODE)/pause ./test/kubenode/pause

$(NODE)/built: tools/kube.mod tools/kube.sum
	@echo "building kubelet, kube-proxy, kube-scheduler and kubectl $(KUBE_VERSION), once: some minutes"
	@mkdir -p $(@D)
	CGO_ENABLED=0 $(GO) build -modfile=tools/kube.mod -buildvcs=false -trimpath -o $(@D)/ -ldflags '$(KUBE_LDFLAGS)' \
		k8s.io/kubernetes/cmd/kubelet k8s.io/kubernetes/cmd/kube-proxy k8s.io/kubernetes/cmd/kube-scheduler k8s.io/kubernetes/cmd/kubectl
	@touch $@

previous: $(PREVIOUS)/built ## build the release before, beside which this one is tried; needs the history of git
	@ln -sfn "$(notdir $(PREVIOUS))" $(BUILD)/tools/previous

$(PREVIOUS)/built:
	@echo "building the release before ($(PREVIOUS_COMMIT)), once"
	@rm -rf $(PREVIOUS); mkdir -p $(PREVIOUS)/source
	@git archive $(PREVIOUS_COMMIT) | tar x -C $(PREVIOUS)/source || { echo "the commit $(PREVIOUS_COMMIT) is not here: clone with the whole history"; exit 1; }
	cd $(PREVIOUS)/source && CGO_ENABLED=0 $(GO) build -buildvcs=false -trimpath -o .. ./cmd/oscar-controlplane ./cmd/oscar-syncer
	@rm -rf $(PREVIOUS)/source
	@touch $@

# Its images, charts and oscarfed are what an upgrade on a real node begins with. Git is not to name today's commit in them.
previous-images: $(PREVIOUS)/images/built

$(PREVIOUS)/images/built:
	@echo "building the images of the release before ($(PREVIOUS_COMMIT)), once"
	@rm -rf $(@D); mkdir -p $(@D)/source
	@git archive $(PREVIOUS_COMMIT) | tar x -C $(@D)/source || { echo "the commit $(PREVIOUS_COMMIT) is not here: clone with the whole history"; exit 1; }
	@$(GO) build -buildvcs=false -o $(@D)/release ./deploy/release
	@ko=$$(tools/tool.sh ko); export GIT_CEILING_DIRECTORIES="$$(realpath $(@D))"; cd $(@D)/source && \
		../release -images -ko "$$ko" -out .. -version $(PREVIOUS_VERSION) -arch "$$($(GO) env GOARCH)" && \
		CGO_ENABLED=0 $(GO) build -buildvcs=false -trimpath -o .. ./cmd/oscarfed
	@sed -i 's/^appVersion: .*/appVersion: $(PREVIOUS_VERSION)/' $(@D)/source/deploy/helm/*/Chart.yaml
	@mkdir $(@D)/deploy; mv $(@D)/source/deploy/helm $(@D)/deploy/; rm -rf $(@D)/source $(@D)/release $(@D)/sbom-*
	@touch $@

openid: $(OPENID)/built ## install the OpenID provider that tests talk to, and Node.js on Debian as root

$(OPENID)/built: test/openid/package.json test/openid/package-lock.json
	@tools/openid.sh $(@D)
	@touch $@

ui: ## build the web page into api/ui/dist, which is committed; needs npm
	@tools/ui.sh

ui-check: ## is api/ui/dist what its source gives? needs npm
	@tools/ui.sh --check

ui-tools: ## install what the web page is built and tested with; needs npm
	@tools/ui.sh --install

screenshots: browser ## renew the pictures of README and docs/ui.md
	@SCREENSHOTS='$(CURDIR)/docs/ui' $(GO) test -count 1 -run TestScreenshots ./test/ui

recording: ## renew the terminal recording of README, from a run of docs/quickstart.md
	@RECORDING='$(CURDIR)/docs/ui/quickstart.svg' $(GO) test -count 1 -run TestTheQuickstartRuns ./test/e2e

browser: ## find the Chromium that tests drive, and install it on Debian as root
	@tools/browser.sh

proof: ## is the API linearizable under faults? for PROOFTIME (20m); PROOFSEED=n begins with that history
	@rm -f $(BUILD)/proof/summary.txt; status=0; \
	PROOFTIME=$(PROOFTIME) PROOFSEED=$(PROOFSEED) PROOFDIR='$(CURDIR)/$(BUILD)/proof' \
		$(GO) test -count 1 -timeout 0 -v -run TestTheAPIIsLinearizable ./test/linear/ || status=$$?; \
	cat $(BUILD)/proof/summary.txt || status=1; exit $$status

lint: $(LINT) ## formatting, go vet and the linters of .golangci.yml
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) vet -tags realoscar ./...
	$(LINT) run ./...

$(LINT): tools/lint.mod
	@echo "building golangci-lint $(LINT_VERSION), once: a few minutes"
	@mkdir -p $(@D)
	CGO_ENABLED=0 $(GO) build -modfile=tools/lint.mod -buildvcs=false -trimpath -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

fuzz: ## every fuzz target for FUZZTIME (60s); FUZZ=FuzzFDL for one
	@FUZZTIME=$(FUZZTIME) FUZZ=$(FUZZ) tools/fuzz.sh $(PKG)

proof-jobs: ## is a job lost, or started twice? JOBS of them (100000) over ten clusters with faults; JOBSEED=n repeats the draws
	@mkdir -p $(BUILD); status=0; \
	JOBS=$(or $(JOBS),100000) JOBSEED=$(JOBSEED) $(GO) test -count 1 -timeout 0 -v -run TestJobsAreNeitherLostNorStartedTwice \
		./test/jobs/ >$(BUILD)/proof-jobs.log 2>&1 || status=$$?; \
	grep -v level= $(BUILD)/proof-jobs.log; exit $$status

proof-ha: ## is an accepted write lost, and how soon are calls answered, while etcd's leader and a control plane are killed every 20 s? for TIME (10m); SEED=n
	@mkdir -p $(BUILD); status=0; \
	HATIME=$(or $(TIME),10m) HASEED=$(SEED) $(GO) test -count 1 -timeout 0 -v -run TestAcceptedWritesSurvive \
		./test/ha/ >$(BUILD)/proof-ha.log 2>&1 || status=$$?; \
	grep -E '_test.go:|^(---|ok|FAIL)' $(BUILD)/proof-ha.log; exit $$status

outages: ## what do callers see when one of three machines is killed, frozen, cut off, full or slow? each for TIME (40s); writes the table of docs/operations.md; half an hour
	@mkdir -p $(BUILD); tools/tool.sh promtool >/dev/null; status=0; \
	OUTAGETIME=$(or $(TIME),40s) $(GO) test -count 1 -timeout 0 -v -run TestWhatCallersSeeOfAFault ./test/outages -update \
		>$(BUILD)/outages.log 2>&1 || status=$$?; \
	grep -E '_test.go:[0-9]+: |^ *(---|ok|FAIL)' $(BUILD)/outages.log; exit $$status

campaign: ## histories of whole federations in virtual time, for TIME (10m); SEEDS=1-1000; goes on where it ended, failures in build/campaign/found
	@mkdir -p $(BUILD)/campaign
	@CGO_ENABLED=0 $(GO) test -c -buildvcs=false -o $(BUILD)/campaign/history.test ./test/history
	@CGO_ENABLED=0 $(GO) build -buildvcs=false -o $(BUILD)/campaign/campaign ./test/campaign
	@$(BUILD)/campaign/campaign -time '$(or $(TIME),10m)' -seeds '$(SEEDS)' -dir $(BUILD)/campaign -player $(BUILD)/campaign/history.test

campaign-coverage: ## which decisions do histories not make? LAST=40 is the last seed; ALL=1 tells what cannot happen, too
	@$(GO) run ./test/coverage -last '$(or $(LAST),40)' $(if $(ALL),-all)

bench: build ## the figures of docs/performance.md (BENCH=regexp for some of them, BENCH=page for the web page, BENCH=instances for several control planes)
ifeq ($(BENCH),page)
	@$(MAKE) --no-print-directory browser
	@$(GO) test -count 1 -v -run 'TestThePageOfTwoHundredMembersAndTenThousandJobs' ./test/ui
else ifeq ($(BENCH),instances)
	@mkdir -p $(BUILD); status=0; \
	HATHROUGHPUT=20s $(GO) test -count 1 -v -run TestThroughputBesideOne ./test/ha >$(BUILD)/instances.log 2>&1 || status=$$?; \
	grep -E '_test.go:|^(---|ok|FAIL)' $(BUILD)/instances.log; exit $$status
else
	@CGO_ENABLED=0 $(GO) build -buildvcs=false -o $(BUILD)/bench ./test/bench
	@$(BUILD)/bench -run '$(BENCH)'
endif

contract: ## what we rely on, tried on a real OSCAR: OSCAR_URL, OSCAR_USER, OSCAR_PASSWORD_FILE; OSCAR_TOKEN_FILE for what users may do
	@: "$${OSCAR_URL:?address of a real OSCAR Manager}" "$${OSCAR_USER:?its user}" "$${OSCAR_PASSWORD_FILE:?file with its password}"
	$(GO) test -tags realoscar -count 1 -timeout 60m -v ./internal/oscarsim/contract/
