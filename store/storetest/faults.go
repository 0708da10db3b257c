package storetest

import (
	"context"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Faults does to the calls of a store what networks and etcd's client do to
// them, close to the wire: the code above is the real one. Give DialOptions to
// store.Config. Reads are touched by FailCalls only; a writing transaction is one that
// has a put or a deletion.
type Faults struct {
	mu     sync.Mutex
	next   []fault
	reads  int
	writes int
	// streams counts the streams that were opened, by method, and calls the others.
	streams, calls map[string]int
	refuse         map[string]error
	fail           map[string][]error
	opening        map[string]func()
	hook           func()
	lost           func()
}

type fault int

const (
	none fault = iota
	loseAnswer
	sendTwice
	loseRequest
	passQuota
)

// LoseAnswers lets the next n writing transactions be applied and loses their answers.
func (f *Faults) LoseAnswers(n int) { f.add(loseAnswer, n) }

// OnLostAnswer calls fn once, when the next answer was lost and before its client
// learns of it.
func (f *Faults) OnLostAnswer(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = fn
}

// SendTwice sends the next n writing transactions twice and gives the second
// answer, as etcd's client does after a broken connection: it then says "not
// succeeded" to what the first one did.
func (f *Faults) SendTwice(n int) { f.add(sendTwice, n) }

// PassQuota lets the next n writing transactions be applied and answers that etcd
// is full, as it does to the write that passes its quota while it is applied.
func (f *Faults) PassQuota(n int) { f.add(passQuota, n) }

// LoseRequests lets the next n writing transactions get nowhere; what the client
// sees is the same as with LoseAnswers.
func (f *Faults) LoseRequests(n int) { f.add(loseRequest, n) }

// RefuseStreams makes opening a stream of a method, such as /etcdserverpb.KV/RangeStream,
// fail; nil lets it work again.
func (f *Faults) RefuseStreams(method string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse == nil {
		f.refuse = make(map[string]error)
	}
	f.refuse[method] = err
}

// FailCalls answers the next n calls, or openings of a stream, of a method with err,
// which etcd does not learn of.
func (f *Faults) FailCalls(method string, n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail == nil {
		f.fail = make(map[string][]error)
	}
	f.fail[method] = slices.Repeat([]error{err}, n)
}

// failing takes the next failure of a method; nil for none. It needs mu.
func (f *Faults) failing(method string) error {
	next := f.fail[method]
	if len(next) == 0 {
		return nil
	}
	f.fail[method] = next[1:]
	return next[0]
}

// BeforeStream calls fn each time before a stream of a method is opened.
func (f *Faults) BeforeStream(method string, fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.opening == nil {
		f.opening = make(map[string]func())
	}
	f.opening[method] = fn
}

// BeforeWrite calls fn before the next writing transaction is sent.
func (f *Faults) BeforeWrite(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = fn
}

// Transactions counts the reading and the writing transactions so far.
func (f *Faults) Transactions() (reads, writes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads, f.writes
}

// Streams counts the streams of a method that were opened.
func (f *Faults) Streams(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.streams[method]
}

// Calls counts the calls of a method, such as /etcdserverpb.KV/Range, that are no streams.
func (f *Faults) Calls(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

// DialOptions put the faults into a store's connections.
func (f *Faults) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(f.unary), grpc.WithChainStreamInterceptor(f.stream)}
}

func (f *Faults) add(kind fault, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range n {
		f.next = append(f.next, kind)
	}
}

func (f *Faults) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if err := f.count(method); err != nil {
		return err
	}
	call := func() error { return invoke(ctx, method, req, reply, cc, opts...) }
	txn, ok := req.(*pb.TxnRequest)
	if !ok {
		return call()
	}
	kind, hook := f.take(writing(txn.Success))
	if hook != nil {
		hook()
	}
	lost := status.Error(codes.Unavailable, "the answer is lost")
	switch kind {
	case loseAnswer:
		if err := call(); err != nil {
			return err
		}
		f.tellLost()
		return lost
	case sendTwice:
		if err := call(); err != nil {
			return err
		}
	case loseRequest:
		return lost
	case passQuota:
		if err := call(); err != nil {
			return err
		}
		return rpctypes.ErrGRPCNoSpace
	}
	return call()
}

// count counts a call, and answers how it is to fail.
func (f *Faults) count(method string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls == nil {
		f.calls = make(map[string]int)
	}
	f.calls[method]++
	return f.failing(method)
}

func (f *Faults) tellLost() {
	f.mu.Lock()
	fn := f.lost
	f.lost = nil
	f.mu.Unlock()
	if fn != nil {
		fn()
	}
}

// take counts a transaction and returns what is to be done to it.
func (f *Faults) take(writes bool) (fault, func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !writes {
		f.reads++
		return none, nil
	}
	f.writes++
	hook := f.hook
	f.hook = nil
	if len(f.next) == 0 {
		return none, hook
	}
	kind := f.next[0]
	f.next = f.next[1:]
	return kind, hook
}

func writing(ops []*pb.RequestOp) bool {
	for _, op := range ops {
		if op.GetRequestPut() != nil || op.GetRequestDeleteRange() != nil ||
			op.GetRequestTxn() != nil && writing(op.GetRequestTxn().Success) {
			return true
		}
	}
	return false
}

func (f *Faults) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	f.mu.Lock()
	if f.streams == nil {
		f.streams = make(map[string]int)
	}
	f.streams[method]++
	err, opening := f.refuse[method], f.opening[method]
	if err == nil {
		err = f.failing(method)
	}
	f.mu.Unlock()
	if opening != nil {
		opening()
	}
	if err != nil {
		return nil, err
	}
	return open(ctx, desc, cc, method, opts...)
}
