package guard

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// txn passes a transaction on. Of one that reads many values the reads are done apart, at
// its revision and a few at a time: etcd would build all of them before the first is sent.
func (c *call) txn(ctx context.Context, r *pb.TxnRequest) (any, error) {
	ops := 0
	if err := c.count(ctx, r, &ops); err != nil {
		return nil, err
	}
	reads := max(readsOf(r.Success), readsOf(r.Failure))
	if reads <= readsAtOnce {
		return c.weighed(ctx, r, int64(reads)*2*maxValue)
	}
	success, then, ok := split(r.Success)
	failure, otherwise, also := split(r.Failure)
	if !ok || !also {
		return nil, c.refuse("reads", "a transaction that reads many keys does so after all that it writes, and is not nested")
	}
	short := &pb.TxnRequest{Compare: r.Compare, Success: success, Failure: failure}
	answer, err := c.weighed(ctx, short, int64(max(readsOf(success), readsOf(failure)))*2*maxValue)
	if err != nil {
		return nil, err
	}
	resp, ok := answer.(*pb.TxnResponse)
	if !ok {
		return answer, nil
	}
	wrote, gets := len(failure) > 0, otherwise
	if resp.Succeeded {
		wrote, gets = len(success) > 0, then
	}
	if err := c.readApart(ctx, resp, gets); err != nil {
		if wrote {
			// What was written stands: its client has to find out.
			return nil, status.Error(codes.Unavailable, "the transaction is done, and what it reads is not to be had: "+err.Error())
		}
		return nil, err
	}
	return resp, nil
}

// readApart adds the answers of reads, at the revision of the transaction.
func (c *call) readApart(ctx context.Context, resp *pb.TxnResponse, gets []*pb.RequestOp) error {
	release, err := c.build(ctx, int64(c.cfg.Limits.Answer)+readsAtOnce*maxValue)
	if err != nil {
		return err
	}
	defer release()
	bytes := 0
	for len(gets) > 0 {
		n := min(readsAtOnce, len(gets))
		part := &pb.TxnRequest{}
		for _, get := range gets[:n] {
			read := proto.CloneOf(get.GetRequestRange())
			if read.Revision == 0 {
				read.Revision = resp.Header.GetRevision()
			}
			part.Success = append(part.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: read}})
		}
		gets = gets[n:]
		answer, err := c.next(ctx, part)
		if err != nil {
			return err
		}
		got, ok := answer.(*pb.TxnResponse)
		if !ok {
			return status.Error(codes.Internal, "etcd answered something else")
		}
		resp.Responses = append(resp.Responses, got.Responses...)
		if bytes += proto.Size(got); bytes > c.cfg.Limits.Answer {
			return c.refuse("answer", "what the transaction reads is too large for one message: read fewer keys")
		}
	}
	return nil
}

// count adds up the comparisons and operations of a transaction with its nested ones, and
// refuses what etcd reads as a whole.
func (c *call) count(ctx context.Context, r *pb.TxnRequest, ops *int) error {
	if *ops += len(r.Compare) + len(r.Success) + len(r.Failure); *ops > c.cfg.Limits.Ops {
		c.cfg.OnRefusal(c.user.name, "ops")
		return rpctypes.ErrGRPCTooManyOps
	}
	for _, cmp := range r.Compare {
		if len(cmp.GetRangeEnd()) > 0 {
			return c.refuse("reads", "a comparison is of one key")
		}
	}
	for _, branch := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range branch {
			if err := c.countOp(ctx, op, ops); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *call) countOp(ctx context.Context, op *pb.RequestOp, ops *int) error {
	switch {
	case op.GetRequestRange() != nil:
		if r := op.GetRequestRange(); !single(r) {
			return c.refuse("reads", "a transaction reads single keys: read a range by itself")
		}
	case op.GetRequestPut() != nil:
		return c.mayAttach(ctx, op.GetRequestPut())
	case op.GetRequestDeleteRange() != nil:
		if r := op.GetRequestDeleteRange(); r.PrevKv && len(r.RangeEnd) > 0 {
			return c.refuse("answer", "the former values of a range are not told: read it before")
		}
	case op.GetRequestTxn() != nil:
		return c.count(ctx, op.GetRequestTxn(), ops)
	}
	return nil
}

// readsOf counts the values that the answer of a branch may have.
func readsOf(branch []*pb.RequestOp) (n int) {
	for _, op := range branch {
		switch {
		case op.GetRequestRange() != nil, op.GetRequestPut().GetPrevKv(), op.GetRequestDeleteRange().GetPrevKv():
			n++
		case op.GetRequestTxn() != nil:
			n += max(readsOf(op.GetRequestTxn().Success), readsOf(op.GetRequestTxn().Failure))
		}
	}
	return n
}

// split parts a branch into what it does and what it reads afterwards; false when it is
// not of that form.
func split(branch []*pb.RequestOp) (does, reads []*pb.RequestOp, ok bool) {
	if readsOf(branch) <= readsAtOnce {
		return branch, nil, true
	}
	for i, op := range branch {
		if op.GetRequestRange() != nil {
			reads = branch[i:]
			break
		}
		does = append(does, op)
	}
	for _, op := range reads {
		if op.GetRequestRange() == nil {
			return nil, nil, false
		}
	}
	return does, reads, readsOf(does) <= readsAtOnce
}
