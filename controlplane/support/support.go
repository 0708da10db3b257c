// Package support owns what is given to who helps: an instance's versions, metrics and last log lines, and
// the records of the store without what people entrusted to them.
package support

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/internal/version"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Config of a Controller.
type Config struct {
	Store    *store.Store
	Gate     *gate.Gate
	Metrics  prometheus.Gatherer
	Instance string
	// Log are the last lines of this instance's log, JSON each; nil for none.
	Log func() []byte
	Now func() time.Time
}

// Controller collects.
type Controller struct {
	cfg Config
	// busy has one token: what is collected takes memory.
	busy chan struct{}
}

// New makes a Controller. It starts nothing.
func New(cfg Config) *Controller {
	return &Controller{cfg: cfg, busy: make(chan struct{}, 1)}
}

// Names of files.
const (
	metricsName  = "metrics.txt"
	logName      = "log.ndjson"
	problemsName = "problems.txt"
)

// Limits of what is given, so that it can be sent by mail.
const (
	// fileBytes is about the size of one file of records, in bytes.
	fileBytes = 4 << 20
	// mostBytes is about the size of all files of records.
	mostBytes = 64 << 20
	// mostOf is how many records of a prefix there are, those with the greatest keys.
	mostOf = 20_000
	// mostJobs is that for jobs and the audit, whose keys are in the order of time.
	mostJobs = 2_000
)

// about is the file of that name.
type about struct {
	Instance string    `json:"instance"`
	Version  string    `json:"version"`
	Commit   string    `json:"commit"`
	Go       string    `json:"go"`
	At       time.Time `json:"at"`
	Etcd     etcd      `json:"etcd"`
	// Records that are given, and those that are not for want of space, by kind.
	Records map[record.Kind]int `json:"records"`
	Omitted map[record.Kind]int `json:"omitted"`
}

// etcd is its space, in bytes.
type etcd struct {
	Space string `json:"space"`
	Size  int64  `json:"size_bytes"`
	InUse int64  `json:"in_use_bytes"`
	Quota int64  `json:"quota_bytes"`
}

// Files calls add with each file, until it fails. Only the administrator may have them, one caller at a
// time. What cannot be collected is named in problems.txt. The last file is control-plane.json.
func (c *Controller) Files(ctx context.Context, caller identity.Caller, add func(name string, data []byte) error) error {
	if !caller.Administrator {
		return fault.AdminOnly("collect this")
	}
	select {
	case c.busy <- struct{}{}:
		defer func() { <-c.busy }()
	default:
		return &fault.Error{Code: fault.CodeExhausted, Message: "it is being collected for somebody else", RetryAfter: fault.RetryShort}
	}
	var problems bytes.Buffer
	text, err := c.metrics()
	if err != nil {
		fmt.Fprintf(&problems, "metrics: %v\n", err)
	}
	if err := add(metricsName, text); err != nil {
		return err
	}
	if c.cfg.Log != nil {
		if err := add(logName, c.cfg.Log()); err != nil {
			return err
		}
	}
	records := &records{store: c.cfg.Store, add: add, given: map[record.Kind]int{}, omitted: map[record.Kind]int{}}
	if err := records.write(ctx); err != nil {
		if records.broken {
			return err
		}
		fmt.Fprintf(&problems, "records: %v\n", err)
	}
	if problems.Len() > 0 {
		if err := add(problemsName, problems.Bytes()); err != nil {
			return err
		}
	}
	build, space := version.Get(), c.cfg.Gate.SpaceView()
	data, err := json.MarshalIndent(about{
		Instance: c.cfg.Instance, Version: build.Version, Commit: build.Commit, Go: build.Go, At: c.cfg.Now().UTC(),
		Etcd: etcd{Space: space.Level, Size: space.Size, InUse: space.InUse, Quota: space.Quota}, Records: records.given, Omitted: records.omitted,
	}, "", "  ")
	if err != nil {
		return err
	}
	return add(v1.SupportEnd, data)
}

// metrics are the present values, in the text form of Prometheus. Those that were gathered before an
// error are given beside it.
func (c *Controller) metrics() ([]byte, error) {
	families, err := c.cfg.Metrics.Gather()
	var out bytes.Buffer
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&out, family); err != nil {
			return out.Bytes(), err
		}
	}
	return out.Bytes(), err
}
