package record_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/store/record"
)

// keyOf builds the key that a parsed one must have come from; "" for kinds whose
// key is not built from parts.
func keyOf(r record.Ref) string {
	switch r.Kind {
	case record.KindMeta:
		return record.MetaKey
	case record.KindFence:
		return record.FenceKey
	case record.KindElapsed:
		return record.ElapsedKey
	case record.KindCluster:
		return record.ClusterKey(r.Cluster)
	case record.KindFederation:
		return record.FederationKey(r.Name)
	case record.KindRequest:
		return record.RequestKey(r.Name)
	case record.KindDeleted:
		return record.DeletedKey(r.Name)
	case record.KindInstance:
		return record.InstanceKey(r.Name)
	case record.KindJoin:
		return record.JoinKey(r.Name)
	case record.KindAudit:
		return record.AuditKey(r.Name)
	case record.KindName:
		return record.NameKey(r.Owner, r.Name)
	case record.KindSession:
		return record.SessionKey(r.Cluster)
	case record.KindDesiredCluster:
		return record.DesiredClusterKey(r.Cluster)
	case record.KindObservedCluster:
		return record.ObservedClusterKey(r.Cluster)
	case record.KindDesiredService:
		return record.DesiredServiceKey(r.Cluster, r.Name)
	case record.KindObservedService:
		return record.ObservedServiceKey(r.Cluster, r.Name)
	case record.KindOwner:
		return record.OwnerKey(r.Owner)
	case record.KindTokens:
		return record.TokensKey(r.Cluster, r.Name)
	case record.KindHold:
		return record.HoldKey(r.Cluster, r.Name)
	case record.KindHolding:
		return record.HoldingKey(r.Cluster, r.Name)
	case record.KindTokenAsk:
		return record.TokenAskKey(r.Cluster, r.Name, r.Rest)
	case record.KindGranted:
		return record.GrantedKey(r.Cluster, r.Name, r.Rest)
	case record.KindWant:
		return record.WantKey(r.Cluster, r.Name)
	case record.KindGrant:
		return record.GrantKey(r.Cluster, r.Name)
	case record.KindReading:
		return record.ReadingKey(r.Cluster, r.Name)
	case record.KindJob:
		return record.JobKey(r.Name)
	case record.KindEvent:
		return record.EventKey(r.Name)
	case record.KindDecision:
		return record.DecisionKey(r.Name, r.AttemptOf())
	case record.KindReserved:
		return record.ReservedKey(r.Cluster)
	case record.KindAssignment:
		return record.AssignmentKey(r.Cluster, r.Name, r.AttemptOf())
	case record.KindAssignedEvent:
		return record.AssignedEventKey(r.Cluster, r.Name, r.AttemptOf())
	case record.KindJobReport:
		return record.JobReportKey(r.Cluster, r.Name, r.AttemptOf())
	case record.KindOffer:
		return record.OfferKey(r.Cluster, r.Name)
	case record.KindOfferedEvent:
		return record.OfferedEventKey(r.Cluster, r.Name)
	case record.KindOfferAnswer:
		return record.OfferAnswerKey(r.Cluster, r.Name)
	case record.KindCapacity:
		return record.CapacityKey(r.Cluster)
	case record.KindSpec:
		return record.SpecKey(r.Cluster, r.Name+"/"+r.Rest)
	case record.KindPart:
		return record.PartKey(r.Name, r.Rest)
	case record.KindHistory:
		return record.HistoryPrefix + r.Name + "/" + r.Rest
	}
	return ""
}

// keys has one key of each kind.
func keys() map[string]record.Ref {
	return map[string]record.Ref{
		record.MetaKey:                                    {Kind: record.KindMeta},
		record.FenceKey:                                   {Kind: record.KindFence},
		record.ElapsedKey:                                 {Kind: record.KindElapsed},
		record.ClusterKey("a"):                            {Kind: record.KindCluster, Cluster: "a"},
		record.FederationKey("u1"):                        {Kind: record.KindFederation, Name: "u1"},
		record.RequestKey("00ff"):                         {Kind: record.KindRequest, Name: "00ff"},
		record.AuditKey("u1"):                             {Kind: record.KindAudit, Name: "u1"},
		record.InstanceKey("u1"):                          {Kind: record.KindInstance, Name: "u1"},
		record.JoinKey("00ff"):                            {Kind: record.KindJoin, Name: "00ff"},
		record.DeletedKey("u1"):                           {Kind: record.KindDeleted, Name: "u1"},
		record.NameKey("a/b c@d%\n", "g"):                 {Kind: record.KindName, Owner: "a/b c@d%\n", Name: "g"},
		record.HistoryKey("u1", 7):                        {Kind: record.KindHistory, Name: "u1", Rest: "7"},
		record.SessionKey("a"):                            {Kind: record.KindSession, Cluster: "a"},
		record.DesiredClusterKey("a"):                     {Kind: record.KindDesiredCluster, Cluster: "a"},
		record.ObservedClusterKey("a"):                    {Kind: record.KindObservedCluster, Cluster: "a"},
		record.DesiredServiceKey("a", "s"):                {Kind: record.KindDesiredService, Cluster: "a", Name: "s"},
		record.ObservedServiceKey("a", "s"):               {Kind: record.KindObservedService, Cluster: "a", Name: "s"},
		record.OwnerKey("a/b c@d%\n"):                     {Kind: record.KindOwner, Owner: "a/b c@d%\n"},
		record.TokensKey("a", "u1"):                       {Kind: record.KindTokens, Cluster: "a", Name: "u1"},
		record.HoldKey("a", "u1"):                         {Kind: record.KindHold, Cluster: "a", Name: "u1"},
		record.HoldingKey("a", "u1"):                      {Kind: record.KindHolding, Cluster: "a", Name: "u1"},
		record.TokenAskKey("a", "u1", "b"):                {Kind: record.KindTokenAsk, Cluster: "a", Name: "u1", Rest: "b"},
		record.GrantedKey("a", "u1", "b"):                 {Kind: record.KindGranted, Cluster: "a", Name: "u1", Rest: "b"},
		record.WantKey("a", "u1"):                         {Kind: record.KindWant, Cluster: "a", Name: "u1"},
		record.GrantKey("a", "u1"):                        {Kind: record.KindGrant, Cluster: "a", Name: "u1"},
		record.ReadingKey("a", "u1"):                      {Kind: record.KindReading, Cluster: "a", Name: "u1"},
		record.SpecKey("a", record.SpecName("s", "u", 2)): {Kind: record.KindSpec, Cluster: "a", Name: "s", Rest: "u.2"},
		record.PartKey("u1", "00ff"):                      {Kind: record.KindPart, Name: "u1", Rest: "00ff"},
		record.JobKey("j1"):                               {Kind: record.KindJob, Name: "j1"},
		record.EventKey("j1"):                             {Kind: record.KindEvent, Name: "j1"},
		record.DecisionKey("j1", 2):                       {Kind: record.KindDecision, Name: "j1", Rest: "2"},
		record.ReservedKey("a"):                           {Kind: record.KindReserved, Cluster: "a"},
		record.AssignmentKey("a", "j.1", 2):               {Kind: record.KindAssignment, Cluster: "a", Name: "j.1", Rest: "2"},
		record.AssignedEventKey("a", "j1", 2):             {Kind: record.KindAssignedEvent, Cluster: "a", Name: "j1", Rest: "2"},
		record.JobReportKey("a", "j1", 12):                {Kind: record.KindJobReport, Cluster: "a", Name: "j1", Rest: "12"},
		record.OfferKey("a", "j1"):                        {Kind: record.KindOffer, Cluster: "a", Name: "j1"},
		record.OfferedEventKey("a", "j1"):                 {Kind: record.KindOfferedEvent, Cluster: "a", Name: "j1"},
		record.OfferAnswerKey("a", "j1"):                  {Kind: record.KindOfferAnswer, Cluster: "a", Name: "j1"},
		record.CapacityKey("a"):                           {Kind: record.KindCapacity, Cluster: "a"},
	}
}

func TestParseKeyOfEachKind(t *testing.T) {
	kinds := make(map[record.Kind]bool)
	for key, want := range keys() {
		if got := record.ParseKey(key); got != want {
			t.Errorf("%s is %+v, not %+v", key, got, want)
		}
		kinds[want.Kind] = true
		// Whatever hangs below a key is none.
		if got := record.ParseKey(key + "/x/y"); got.Kind != record.KindUnknown {
			t.Errorf("%s/x/y is %+v", key, got)
		}
	}
	if len(kinds) != len(keys()) {
		t.Errorf("%d kinds", len(kinds))
	}
	for _, key := range []string{"", "/", record.Root, record.ClustersPrefix, "/oscarfed/v2/meta", record.ClusterTreePrefix + "a/", record.Root + "names/%zz/g"} {
		if got := record.ParseKey(key); got != (record.Ref{}) {
			t.Errorf("%q is %+v", key, got)
		}
	}
}

// FuzzParseKey takes any key apart. What is understood is complete, and names
// one key: putting the parts together gives it back, unless its owner was
// escaped in another way than ours.
func FuzzParseKey(f *testing.F) {
	for key := range keys() {
		f.Add(key)
	}
	f.Add(record.Root + "names/%41/g")
	f.Add(record.Root + "c//session")
	f.Add(record.Root + "c/a/desired/specs/s//")
	f.Fuzz(func(t *testing.T, key string) {
		r := record.ParseKey(key)
		if r.Kind == record.KindUnknown {
			if r != (record.Ref{}) {
				t.Errorf("%q is unknown, and %+v", key, r)
			}
			return
		}
		again := keyOf(r)
		if again == "" {
			t.Fatalf("%q is of kind %s, which this test does not know", key, r.Kind)
		}
		if again != key && r.Kind != record.KindName && r.Kind != record.KindOwner {
			t.Errorf("%q is %+v, whose key is %q", key, r, again)
		}
		if record.ParseKey(again) != r {
			t.Errorf("%q is %+v, but %q is %+v", key, r, again, record.ParseKey(again))
		}
		if strings.Contains(r.Cluster+r.Rest, "/") || r.Kind != record.KindName && strings.Contains(r.Name, "/") {
			t.Errorf("%q has a part with a slash: %+v", key, r)
		}
	})
}

// records has an empty value of each record.
func records() []any {
	var out []any
	seen := map[reflect.Type]bool{}
	for _, ref := range keys() {
		rec := record.New(ref.Kind)
		if t := reflect.TypeOf(rec); !seen[t] {
			seen[t] = true
			out = append(out, rec)
		}
	}
	return out
}

// FuzzRecord decodes any bytes as each record. What is accepted is written again
// as one line, begins with its version, and reads as the same record.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"v":1,"uid":"u","owner":"o","group_id":"g","generation":2,"phase":"ready","members":[{"type":"oscar","cluster_id":"a","service_name":"s","priority":0,"uid":"u"}],"created_at":"2026-11-20T13:03:58.001Z"}`))
	f.Add([]byte(`{"v":1,"intent":"apply","generation":9223372036854775807,"sees":["a/b"],"deadline":"2026-11-20T13:03:58+02:00"}`))
	f.Add([]byte(`{"v":1,"service":{"name":"x","script":"<&>\u2028"},"sealed":"YQ=="}`))
	f.Add([]byte(`{"v":1,"vote":{"answer":"yes","revision":3,"delay_s":0},"buckets_made":null,"last_transition_time":"0001-01-01T00:00:00.000Z"}`))
	f.Add([]byte(`{"v":1,"service":{"name":"x"},"sealed":"YQ==","origin":{"cluster_id":"a","endpoint":"https://a.example.org","ssl_verify":true,"minio_endpoint":"https://minio.a.example.org","minio_region":"us-east-1","minio_verify":true}}`))
	f.Add([]byte(`{"v":1,"inputs":{"readable":false,"reason":"InputsUnreadable","message":"no answer","at":"2026-11-20T13:03:58.001Z"},"minio_verify":false,"bucket_event":true}`))
	f.Add([]byte(`{"v":1,"created_at":"9999-12-31T23:59:59.999999999Z"}`))
	f.Add([]byte(`{"v":1,"created_at":"9999-12-31T23:59:59-23:59"}`))
	f.Add([]byte(`{"v":1,"created_at":"0000-01-01T00:00:00+23:59"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, first := range records() {
			if json.Unmarshal(data, first) != nil {
				continue
			}
			line, err := record.Encode(first)
			if err != nil {
				t.Errorf("%T was read and cannot be written: %v", first, err)
				continue
			}
			if bytes.ContainsAny(line, "\n\r") || !bytes.HasPrefix(line, []byte(`{"v":`)) {
				t.Errorf("%T is written as %q", first, line)
			}
			second := reflect.New(reflect.TypeOf(first).Elem()).Interface()
			if err := json.Unmarshal(line, second); err != nil {
				t.Errorf("%T is written as %q, which cannot be read: %v", first, line, err)
				continue
			}
			again, err := record.Encode(second)
			if err != nil || !bytes.Equal(line, again) {
				t.Errorf("%T, error %v, differs after reading it: %s", first, err, cmp.Diff(string(line), string(again)))
			}
		}
	})
}
