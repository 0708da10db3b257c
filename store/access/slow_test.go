package access_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/record"
)

// deaf is a client that asks and takes no answer: the window that it gives is closed.
type deaf struct {
	t      *testing.T
	framer *http2.Framer
	next   uint32
}

// clientTLS is for a client of HTTP/2 that is none of etcd's own.
func (g *guarded) clientTLS(user string) *tls.Config {
	g.t.Helper()
	cert, err := tls.LoadX509KeyPair(g.authority.Issue(user))
	if err != nil {
		g.t.Fatal(err)
	}
	ca, err := os.ReadFile(g.authority.CAFile)
	if err != nil {
		g.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		g.t.Fatal("the authority has no certificate")
	}
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}
}

func newDeaf(t *testing.T, g *guarded, user string) *deaf {
	t.Helper()
	conn, err := tls.Dial("tcp", g.clientEndpoint()[len("https://"):], g.clientTLS(user))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(3 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	d := &deaf{t: t, framer: http2.NewFramer(conn, conn), next: 1}
	d.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	d.must(d.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
	return d
}

func (d *deaf) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// ask sends one request of a range, and answers gRPC's status when it is refused, which
// needs no window; "0" is never seen, since the answer stands before it.
func (d *deaf) ask(r *pb.RangeRequest) (stream uint32) {
	d.t.Helper()
	var head bytes.Buffer
	enc := hpack.NewEncoder(&head)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":path", pb.KV_Range_FullMethodName}, {":authority", "etcd"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		d.must(enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	body, err := proto.Marshal(r)
	d.must(err)
	stream, d.next = d.next, d.next+2
	d.must(d.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: head.Bytes(), EndHeaders: true}))
	message := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body)))
	d.must(d.framer.WriteData(stream, true, append(message, body...)))
	return stream
}

// answered waits for the head of the answer: the status of a refusal, or empty for an
// answer that is on its way.
func (d *deaf) answered(stream uint32) string {
	d.t.Helper()
	for {
		if of, status := d.answer(); of == stream || of == 0 {
			return status
		}
	}
}

// answer is the next head of an answer, as answered tells it, with its stream.
func (d *deaf) answer() (stream uint32, status string) {
	d.t.Helper()
	for {
		frame, err := d.framer.ReadFrame()
		if errors.Is(err, io.EOF) {
			return 0, "cut"
		}
		d.must(err)
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				d.must(d.framer.WriteSettingsAck())
			}
		case *http2.MetaHeadersFrame:
			for _, h := range f.Fields {
				if h.Name == "grpc-status" {
					return f.StreamID, h.Value
				}
			}
			return f.StreamID, ""
		}
	}
}

// A client that asks for much and takes nothing is refused more once 64 MiB wait for it,
// whatever connection it asks on; others are answered.
func TestAnswersThatAreNotTakenAreLimited(t *testing.T) {
	embeddedAndGateway(t, func(t *testing.T, g *guarded) {
		fill(t, g, 10, 700_000)
		whole := &pb.RangeRequest{Key: []byte(record.ObservedPrefix(clusterA)), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(record.ObservedPrefix(clusterA)))}
		hostile := newDeaf(t, g, access.Syncer(clusterA, uidA))
		held := 0
		for hostile.answered(hostile.ask(whole)) == "" {
			if held++; held > 100 {
				t.Fatal("seven hundred megabytes wait for one client")
			}
		}
		t.Logf("%d answers of 7 MB wait", held)
		again := newDeaf(t, g, access.Syncer(clusterA, uidA))
		if status := again.answered(again.ask(whole)); status != "8" {
			t.Errorf("on another connection: status %q", status)
		}
		if _, err := raw(t, g, access.Syncer(clusterB, uidB)).Get(t.Context(), record.SessionKey(clusterB)); err != nil {
			t.Errorf("another cluster: %v", err)
		}
	})
}

// Requests that came together were all let in, since nothing waited for the client when they came.
func TestAnswersToRequestsThatComeTogetherAreLimited(t *testing.T) {
	embeddedAndGateway(t, func(t *testing.T, g *guarded) {
		fill(t, g, 10, 700_000)
		whole := &pb.RangeRequest{Key: []byte(record.ObservedPrefix(clusterA)), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(record.ObservedPrefix(clusterA)))}
		hostile := newDeaf(t, g, access.Syncer(clusterA, uidA))
		const asked = 40
		for range asked {
			hostile.ask(whole)
		}
		held := 0
		for range asked {
			if _, status := hostile.answer(); status == "" {
				held++
			}
		}
		if t.Logf("%d answers of 7 MB wait", held); held > asked/2 {
			t.Errorf("%d answers of 7 MB wait for one client", held)
		}
	})
}
