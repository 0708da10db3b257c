package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// meanwhile calls the API beside something else. Its figures are there once stop has returned.
type meanwhile struct {
	stop func() error
	// took are the times of reads.
	took samples
	// created is how many creates were asked for, and accepted how many were.
	created, accepted int
}

func (m *meanwhile) rows() [][]string {
	return [][]string{
		{"meanwhile: GET of one service", m.took.both(), fmt.Sprintf("%d calls", len(m.took)), "-"},
		{"meanwhile: creates accepted", fmt.Sprint(m.accepted), fmt.Sprintf("of %d", m.created), "-"},
	}
}

// callWhile reads a service again and again, fifty times a second at most, and asks for a create
// each second without waiting for its outcome.
func (w *bench) callWhile(ctx context.Context, service string) *meanwhile {
	ctx, cancel := context.WithCancel(ctx)
	m, ended := &meanwhile{}, make(chan error, 1)
	m.stop = func() error { cancel(); return <-ended }
	go func() {
		read, create := time.NewTicker(20*time.Millisecond), time.NewTicker(time.Second)
		defer read.Stop()
		defer create.Stop()
		for {
			select {
			case <-ctx.Done():
				ended <- nil
				return
			case <-read.C:
				began := time.Now()
				_, err := w.call(ctx, http.MethodGet, "/system/services/"+service, nil, http.StatusOK)
				if ctx.Err() != nil {
					continue // stop has cut it off
				}
				if err != nil {
					ended <- err
					return
				}
				m.took = append(m.took, time.Since(began))
			case <-create.C:
				name := fmt.Sprintf("late-%d", m.created+1)
				_, err := w.call(ctx, http.MethodPost, "/system/services?wait=0s", definition(name, 0, 1), http.StatusAccepted)
				if err != nil && ctx.Err() != nil {
					continue
				}
				m.created++
				if err == nil {
					m.accepted++
				}
			}
		}
	}()
	return m
}
