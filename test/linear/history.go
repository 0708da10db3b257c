package linear

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// checkTimeout bounds the search for an order of one history.
const checkTimeout = 2 * time.Minute

// History is what clients asked and were told, by service name.
type History struct {
	// Seed that the clients and the faults were chosen by.
	Seed uint64
	// services are the names that clients meet at.
	services []service

	start time.Time
	mu    sync.Mutex
	ids   int
	ops   map[string][]porcupine.Operation
	// answers counts the operations of clients by what they were told.
	answers map[Answer]int
	// cut is when the history was cut; 0 before.
	cut int64
}

// NewHistory is one without operations, on so many services. Each has its coordinator on the first
// cluster, and a place for a member on each of the others.
func NewHistory(seed uint64, services int, clusters []string) *History {
	h := &History{Seed: seed, start: time.Now(), ops: map[string][]porcupine.Operation{}, answers: map[Answer]int{}}
	for i := range services {
		h.services = append(h.services, service{name: fmt.Sprintf("h%d%c", seed%1e9, 'a'+i), words: clusters})
	}
	return h
}

// nextID names a request.
func (h *History) nextID() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids++
	return h.ids
}

// now is a moment of the history; between two there is room for what is settled.
func (h *History) now() int64 { return time.Since(h.start).Nanoseconds() * ticks }

const (
	ticks = 4
	// lanes are the rows of one client in the drawing.
	lanes = 3
)

// record keeps an operation that client made of a service since a moment. view is
// what the answer of a write showed; nil for none.
func (h *History) record(client int, name string, in Input, out Output, call int64, view *View) {
	ret := h.now()
	reads := in.Kind == Get || in.Kind == GetService
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cut != 0 {
		if call > h.cut || reads {
			return
		}
		out, view = Output{Answer: Unknown, Text: "the store was restored"}, nil
	}
	h.answers[out.Answer]++
	if out.Answer == Nothing || reads && out.Answer == Unknown {
		return // they say nothing, and mean nothing
	}
	op := porcupine.Operation{ClientId: client * lanes, Input: in, Output: out, Call: call, Return: ret}
	if out.Answer == Unknown {
		op.Return = math.MaxInt64
	}
	h.ops[name] = append(h.ops[name], op)
	if view != nil {
		h.ops[name] = append(h.ops[name], porcupine.Operation{
			ClientId: client*lanes + 1, Input: Input{Kind: Get, ID: in.ID}, Output: Output{Answer: OK, View: *view}, Call: call, Return: ret,
		})
	}
	if slices.Contains([]Answer{OK, Aborted, RolledBack, Gone}, out.Answer) && (in.Kind == Create || in.Kind == Change || in.Kind == Add) {
		h.ops[name] = append(h.ops[name], porcupine.Operation{
			ClientId: client*lanes + 2, Input: Input{Kind: settled, ID: in.ID}, Output: Output{Answer: OK}, Call: ret + 1, Return: ret + 2,
		})
	}
}

// Cut ends the history, as when the store is put back to a backup: what is asked from now on is not of
// it, and it is not known whether what is under way has happened.
func (h *History) Cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cut = h.now()
}

// Verdict of a check.
type Verdict struct {
	Name   string
	Result porcupine.CheckResult
	// Drawing is the file that shows why.
	Drawing string
}

// Check looks for an order of the operations on each service. What cannot be
// ordered, or not in time, is drawn into a file below dir.
func (h *History) Check(dir string) ([]Verdict, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []Verdict
	for name, ops := range h.ops {
		result, info := porcupine.CheckOperationsVerbose(Model(), ops, checkTimeout)
		v := Verdict{Name: name, Result: result}
		if result != porcupine.Ok {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return nil, err
			}
			v.Drawing = filepath.Join(dir, fmt.Sprintf("history-%d-%s.html", h.Seed, name))
			if err := porcupine.VisualizePath(Model(), info, v.Drawing); err != nil {
				return nil, fmt.Errorf("draw %s: %w", v.Drawing, err)
			}
			if err := os.WriteFile(strings.TrimSuffix(v.Drawing, ".html")+".txt", []byte(list(ops, info)), 0o644); err != nil {
				return nil, err
			}
		}
		out = append(out, v)
	}
	return out, nil
}

// Answers counts what clients were told.
func (h *History) Answers() map[Answer]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.answers)
}

// list tells a history in the order of its calls. A star marks what has no place in
// the longest order that was found.
func list(ops []porcupine.Operation, info porcupine.LinearizationInfo) string {
	placed := map[int]int{}
	for _, partition := range info.PartialLinearizations() {
		for _, order := range partition {
			if len(order) > len(placed) {
				clear(placed)
				for i, id := range order {
					placed[id] = i
				}
			}
		}
	}
	order := make([]int, len(ops))
	for i := range ops {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(ops[a].Call, ops[b].Call) })
	var b strings.Builder
	for _, i := range order {
		op := ops[i]
		at := "*"
		if n, ok := placed[i]; ok {
			at = strconv.Itoa(n)
		}
		ended := time.Duration(op.Return / ticks).Round(time.Millisecond).String()
		if op.Return == math.MaxInt64 {
			ended = "never"
		}
		fmt.Fprintf(&b, "%4s  %10s %10s  client %d  %s\n", at, time.Duration(op.Call/ticks).Round(time.Millisecond), ended, op.ClientId/lanes,
			Describe(op.Input.(Input), op.Output.(Output)))
	}
	return b.String()
}
