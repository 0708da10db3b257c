package restore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// lagging is a tale in which the cluster away has missed the last change of the lost federation, to 1Gi.
func lagging(t *testing.T, away string) *tale {
	t.Helper()
	s := tell(t)
	s.Cluster(away).Stop()
	if _, err := s.Client.ChangeService(t.Context(), definition(t, "created", "1Gi"), client.ChangeOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Eventually("it is changed where it can be", func() bool {
		for i, id := range []string{a, b, c} {
			service := fmt.Sprintf("created%d", i)
			if id != away && get[record.Observed](s, record.ObservedServiceKey(id, service)).Applied() != 2 {
				return false
			}
		}
		return true
	})
	s.RestoreEtcd(s.backup, true)
	s.Cluster(away).Start()
	s.Eventually("every cluster has compared", func() bool { return s.compared(all...) })
	s.count()
	return s
}

// statuses are phase and reason of the replicas of the lost federation, by cluster.
func (s *tale) statuses() map[string]string {
	s.T.Helper()
	out := map[string]string{}
	v, err := s.Client.Replicas(s.T.Context(), "created0", "")
	if err != nil {
		return out
	}
	for _, r := range append(v.Replicas, v.Self) {
		out[r.ClusterID] = r.Status.Phase + " " + r.Status.Reason
	}
	return out
}

// kept demands that every service of the lost federation that stands has its secret.
func (s *tale) kept() {
	s.T.Helper()
	for i, id := range []string{a, b, c} {
		if v, ok := s.Cluster(id).Sim.Service(fmt.Sprintf("created%d", i)); ok && v.Secrets["KEY"] != secret {
			s.T.Errorf("%s has secrets %v", id, v.Secrets)
		}
	}
}

// givenAgain changes the lost federation with its secrets, and waits until all have that.
func (s *tale) givenAgain() {
	s.T.Helper()
	s.change("created", "0.5Gi")
	s.settledOf("created")
	for i, id := range []string{a, b, c} {
		if got := s.memory(id, fmt.Sprintf("created%d", i)); got != "0.5Gi" {
			s.T.Errorf("%s has %s", id, got)
		}
	}
	s.kept()
}

// TestALostFederationOfTwoGenerationsIsTakenBackWithItsSecrets: what lags is not written anew without their values.
func TestALostFederationOfTwoGenerationsIsTakenBackWithItsSecrets(t *testing.T) {
	for away, want := range map[string]map[string]string{
		c: {a: "ready Applied", b: "ready Applied", c: "pending SecretsLost"},
		a: {a: "pending SecretsLost", b: "pending SecretsLost", c: "pending SecretsLost"}, // the coordinator, whose definition it gets
	} {
		t.Run(away, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				s := lagging(t, away)
				s.resolve(a, "created0", v1.KeepCluster)
				s.Eventually("it is told what waits for the secrets", func() bool {
					got := s.statuses()
					return fmt.Sprint(got) == fmt.Sprint(want)
				})
				s.untouched()
				// Neither is the end of a pause an order to write without them.
				for _, paused := range []bool{true, false} {
					if _, err := s.Client.Pause(t.Context(), "created0", "", paused); err != nil {
						t.Fatal(err)
					}
				}
				s.untouched()
				for _, secrets := range []map[string]string{{"KEY": ""}, nil} {
					read := definition(t, "created", "2Gi")
					read.Environment.Secrets = secrets
					_, err := s.Client.ChangeService(t.Context(), read, client.ChangeOptions{Wait: await.Limit})
					if e, ok := errors.AsType[*client.Error](err); !ok || e.Code() != "invalid" {
						t.Errorf("a change without the secrets, %v: %v", secrets, err)
					}
				}
				s.kept()
				s.givenAgain()
			})
		})
	}
}

// TestALostFederationWithoutSecretsIsMadeWhole: what lags gets what the coordinator has, and nothing else is written.
func TestALostFederationWithoutSecretsIsMadeWhole(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		s := tell(t)
		open := func(memory string) *oscar.Service {
			d := definition(t, "open", memory)
			d.Environment.Secrets = nil
			return d
		}
		if _, err := s.Client.CreateService(t.Context(), open("0.5Gi"), client.CreateOptions{Wait: await.Limit}); err != nil {
			t.Fatal(err)
		}
		s.Cluster(c).Stop()
		if _, err := s.Client.ChangeService(t.Context(), open("1Gi"), client.ChangeOptions{}); err != nil {
			t.Fatal(err)
		}
		s.Eventually("it is changed where it can be", func() bool { return s.memory(a, "open0") == "1Gi" && s.memory(b, "open1") == "1Gi" })
		s.RestoreEtcd(s.backup, true)
		s.Cluster(c).Start()
		s.Eventually("every cluster has compared", func() bool { return s.compared(all...) })
		s.count()
		s.resolve(a, "open0", v1.KeepCluster)
		s.settledOf("open")
		if got := s.memory(c, "open2"); got != "1Gi" {
			t.Errorf("what lagged has %s", got)
		}
		for _, id := range []string{a, b} {
			if log := s.Cluster(id).Sim.Log(); len(log) != s.before[id] {
				t.Errorf("%s was asked to change something: %+v", id, log[s.before[id]:])
			}
		}
	})
}

// TestWhatBecomesOfAServiceIsNotRepairedWithoutItsSecrets: a repair sends all of them.
func TestWhatBecomesOfAServiceIsNotRepairedWithoutItsSecrets(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		s := restoredTale(t)
		s.resolve(a, "created0", v1.KeepCluster)
		s.settledOf("created")
		s.edit(b, "created1", func(fields map[string]any) { fields["memory"] = "1Gi" })
		s.Cluster(c).Sim.RemoveService("created2")
		s.Eventually("both are told", func() bool {
			got := s.statuses()
			return got[b] == "drifted SecretsLost" && got[c] == "drifted SecretsLost"
		})
		s.kept()
		if got := s.memory(c, "created2"); got != "absent" {
			t.Errorf("it was made again, without its secrets")
		}
		s.givenAgain()
	})
}

// TestAMemberLeavesWhileSecretsAreLost: what is taken away needs none, and the others keep theirs.
func TestAMemberLeavesWhileSecretsAreLost(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		s := restoredTale(t)
		s.resolve(a, "created0", v1.KeepCluster)
		s.settledOf("created")
		if _, err := s.CP.Federations.ChangeReplicas(t.Context(), admin, "created0", federations.ReplicasRequest{
			Remove: []oscar.Member{{Type: oscar.MemberOSCAR, ClusterID: b, ServiceName: "created1"}}, Wait: await.Limit,
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Client.RemoveCluster(t.Context(), c, client.RemoveClusterOptions{Force: true, Wait: await.Limit}); err != nil {
			t.Fatal(err)
		}
		s.Eventually("it goes on without them", func() bool {
			return fmt.Sprint(s.statuses()) == fmt.Sprint(map[string]string{a: "pending SecretsLost"}) && s.memory(b, "created1") == "absent"
		})
		s.kept()
	})
}

// TestASecretThatTheStoreNeverHadIsNotEmptied: the lost change added it, and what a cluster has is kept.
func TestASecretThatTheStoreNeverHadIsNotEmptied(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		s := tell(t)
		more := definition(t, "changed", "1Gi")
		more.Environment.Secrets["MORE"] = secret
		if _, err := s.Client.ChangeService(t.Context(), more, client.ChangeOptions{Wait: await.Limit}); err != nil {
			t.Fatal(err)
		}
		s.RestoreEtcd(s.backup, true)
		s.Eventually("every cluster has compared", func() bool { return s.compared(all...) })
		s.resolve(a, "changed0", v1.KeepCluster)
		s.Eventually("nothing of it is held any more", func() bool {
			for _, d := range s.list().Differences {
				if strings.HasPrefix(d.ServiceName, "changed") {
					return false
				}
			}
			return true
		})
		s.Eventually("it waits for the secrets", func() bool {
			v, err := s.Client.Replicas(t.Context(), "changed0", "")
			return err == nil && v.Self.Status.Reason == string(record.ReasonSecretsLost)
		})
		has := func() {
			t.Helper()
			for i, id := range []string{a, b, c} {
				if v, _ := s.Cluster(id).Sim.Service(fmt.Sprintf("changed%d", i)); v.Secrets["MORE"] != secret || v.Secrets["KEY"] != secret {
					t.Errorf("%s has secrets %v", id, v.Secrets)
				}
			}
		}
		has()
		if _, err := s.Client.ChangeService(t.Context(), more, client.ChangeOptions{Wait: await.Limit}); err != nil {
			t.Fatal(err)
		}
		s.settledOf("changed")
		has()
	})
}
