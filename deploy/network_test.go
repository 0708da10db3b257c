package deploy_test

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// checkServices wants each service to lead to ports of pods.
func checkServices(t *testing.T, m manifest) {
	t.Helper()
	services := map[string]bool{}
	for _, s := range of[*corev1.Service](m) {
		services[s.Name] = true
		found := 0
		for _, w := range workloads(t, m) {
			if !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(w.pod.Labels)) {
				continue
			}
			found++
			for _, p := range s.Spec.Ports {
				if !portsOf(w.pod)[p.TargetPort.String()] {
					t.Errorf("service %s leads to port %s, which %s does not have", s.Name, p.TargetPort.String(), w.name)
				}
			}
		}
		if found != 1 {
			t.Errorf("service %s leads to %d workloads", s.Name, found)
		}
	}
	for _, s := range of[*appsv1.StatefulSet](m) {
		if !services[s.Spec.ServiceName] {
			t.Errorf("%s has no service %q", s.Name, s.Spec.ServiceName)
		}
	}
	for _, i := range of[*networkingv1.Ingress](m) {
		if name := i.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name; !services[name] {
			t.Errorf("the ingress leads to %q", name)
		}
	}
}

// checkPolicies wants one policy for each workload, or none at all, that closes both
// directions and speaks of ports that are there.
func checkPolicies(t *testing.T, m manifest) {
	t.Helper()
	policies := of[*networkingv1.NetworkPolicy](m)
	if len(policies) == 0 {
		return
	}
	for _, w := range workloads(t, m) {
		found := 0
		for _, p := range policies {
			if !selector(t, &p.Spec.PodSelector).Matches(labels.Set(w.pod.Labels)) {
				continue
			}
			found++
			if len(p.Spec.PolicyTypes) != 2 {
				t.Errorf("policy %s closes %v", p.Name, p.Spec.PolicyTypes)
			}
			for _, in := range p.Spec.Ingress {
				if len(in.Ports) == 0 {
					t.Errorf("policy %s lets in to all ports", p.Name)
				}
				if m.chart == "oscar-syncer" && len(in.From) == 0 {
					t.Errorf("policy %s lets everybody in to a syncer", p.Name)
				}
				for _, port := range in.Ports {
					if !portsOf(w.pod)[port.Port.String()] {
						t.Errorf("policy %s lets in to port %s, which is not there", p.Name, port.Port)
					}
				}
			}
			for _, out := range p.Spec.Egress {
				if len(out.Ports) == 0 {
					t.Errorf("policy %s lets out to all ports", p.Name)
				}
				checkDestinations(t, p.Name, out)
			}
		}
		if found != 1 {
			t.Errorf("%s has %d network policies", w.name, found)
		}
	}
}

// checkDestinations wants every rule but those for names and for another's etcd, whose
// addresses a chart does not know, to say where to, and none to lead to link-local
// addresses, at which clouds give out credentials.
func checkDestinations(t *testing.T, policy string, rule networkingv1.NetworkPolicyEgressRule) {
	t.Helper()
	anywhere := map[string]bool{"53": true, "2379": true, "12379": true}
	for _, port := range rule.Ports {
		if len(rule.To) == 0 && !anywhere[port.Port.String()] {
			t.Errorf("policy %s lets out to port %s of everything", policy, port.Port)
		}
	}
	for _, to := range rule.To {
		if to.IPBlock == nil {
			continue
		}
		for _, address := range []string{"169.254.169.254", "fe80::a9fe:a9fe"} {
			if allows(t, to.IPBlock, address) {
				t.Errorf("policy %s lets out to %s", policy, address)
			}
		}
	}
}

func allows(t *testing.T, block *networkingv1.IPBlock, address string) bool {
	t.Helper()
	ip := netip.MustParseAddr(address)
	for _, except := range block.Except {
		if netip.MustParsePrefix(except).Contains(ip) {
			return false
		}
	}
	return netip.MustParsePrefix(block.CIDR).Contains(ip)
}

// A syncer reaches the addresses that it is told, at whatever port they are; where a rule narrows a port, to addresses or to
// some of the pods, that is all.
func TestASyncerReachesWhatItIsTold(t *testing.T) {
	helm := tool(t, "helm")
	for _, c := range []struct {
		values, set string
		open, shut  []string
	}{
		{"oscar-syncer-least", "", []string{"8080", "443", "6443", "2379"}, []string{"8443", "80"}},
		{"oscar-syncer-least", "controlPlane.url=https://federation.example.org:8443,oscar.endpoint=http://oscar.example.org", []string{"8443", "80"}, []string{"8080"}},
		{"oscar-syncer-least", "config.api_endpoint=https://[2001:db8::1]:9443", []string{"8080", "9443"}, nil},
		{"oscar-syncer-apart", "networkPolicy.enabled=true,etcd.endpoints={https://etcd.example.org:12379}", []string{"12379", "8080"}, nil},
		{"oscar-syncer-least", "networkPolicy.egress[0].ports={8080},networkPolicy.egress[0].to[0].namespaceSelector.matchLabels.a=b", nil, []string{"8080"}},
		{"oscar-syncer-least", "networkPolicy.egress[0].ports={8080},networkPolicy.egress[0].to[0].podSelector.matchLabels.a=b", nil, []string{"8080"}},
		{"oscar-syncer-least", "issuers[0].issuer=https://login.example.org:8444/realms/eu", []string{"8444", "8080"}, []string{"8443"}},
		{"oscar-syncer-all", "", []string{"4318"}, []string{"443", "8080"}},
		{"oscar-syncer-all", "controlPlane.url=https://federation.example.org:8443", []string{"8443"}, []string{"443"}},
	} {
		m := render(t, helm, "testdata/values/"+c.values+".yaml", release, namespace, "--set", c.set)
		checkPolicies(t, m)
		for _, port := range slices.Concat(c.open, c.shut) {
			for _, address := range []string{"203.0.113.7", "2001:db8::7"} {
				if got := letsOut(t, only[*networkingv1.NetworkPolicy](t, m), port, address); got != slices.Contains(c.open, port) {
					t.Errorf("%s with %q: port %s of %s is open: %v", c.values, c.set, port, address, got)
				}
			}
		}
	}
}

// A control plane reaches the syslog and the collector of traces that it is told, by the protocol that they have.
func TestAControlPlaneReachesWhereItSends(t *testing.T) {
	helm := tool(t, "helm")
	for _, c := range []struct {
		values, set string
		open, shut  []string
	}{
		{"oscarfed-external", "", []string{"514/UDP", "4318"}, []string{"514", "443"}},
		{"oscarfed-external", "config.audit_syslog=tcp://[2001:db8::1]:6514", []string{"6514"}, []string{"514/UDP", "514"}},
		{"oscarfed-external", "config.audit_syslog=tcp://syslog.example.org:8443", nil, []string{"8443", "514/UDP"}},
		{"oscarfed-external", "config.audit_syslog=udp://syslog.example.org:8443", []string{"8443/UDP"}, []string{"8443"}},
		{"oscarfed-external", "tracing.endpoint=http://collector", []string{"80"}, []string{"4318"}},
		{"oscarfed-embedded", "", []string{"443"}, []string{"514/UDP", "4318", "80"}},
	} {
		m := render(t, helm, "testdata/values/"+c.values+".yaml", release, namespace, "--set", c.set)
		checkPolicies(t, m)
		for _, p := range of[*networkingv1.NetworkPolicy](m) {
			if p.Spec.PodSelector.MatchLabels["app.kubernetes.io/component"] != "control-plane" {
				continue
			}
			for _, port := range slices.Concat(c.open, c.shut) {
				if got := letsOut(t, p, port, "203.0.113.7"); got != slices.Contains(c.open, port) {
					t.Errorf("%s with %q: port %s is open: %v", c.values, c.set, port, got)
				}
			}
		}
	}
}

// letsOut says whether a policy has a rule for an address and a port, of TCP unless PORT/PROTOCOL says another.
func letsOut(t *testing.T, p *networkingv1.NetworkPolicy, port, address string) bool {
	t.Helper()
	port, protocol, _ := strings.Cut(port, "/")
	protocol = cmp.Or(protocol, string(corev1.ProtocolTCP))
	for _, rule := range p.Spec.Egress {
		if !slices.ContainsFunc(rule.Ports, func(of networkingv1.NetworkPolicyPort) bool {
			return of.Port.String() == port && string(*of.Protocol) == protocol
		}) {
			continue
		}
		for _, to := range rule.To {
			if to.IPBlock != nil && allows(t, to.IPBlock, address) {
				return true
			}
		}
	}
	return false
}

// With a gateway, etcd's members let in the pods of the chart alone, and the service that
// clusters are told leads to the gateway.
func TestClustersReachTheGatewayAlone(t *testing.T) {
	seen := 0
	for _, m := range manifests(t) {
		for _, d := range of[*appsv1.Deployment](m) {
			if !strings.HasSuffix(d.Name, "-etcd-gateway") {
				continue
			}
			seen++
			for _, s := range of[*corev1.Service](m) {
				leads := labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(d.Spec.Template.Labels))
				if strings.HasSuffix(s.Name, "-etcd-client") != leads {
					t.Errorf("%s: service %s leads to the gateway: %v", m.values, s.Name, leads)
				}
			}
			for _, p := range of[*networkingv1.NetworkPolicy](m) {
				for _, in := range p.Spec.Ingress {
					open := slices.ContainsFunc(in.From, func(from networkingv1.NetworkPolicyPeer) bool { return from.PodSelector == nil })
					if in.Ports[0].Port.String() == "client" && (len(in.From) == 0 || open) {
						t.Errorf("%s: %s lets others in to etcd", m.values, p.Name)
					}
				}
			}
		}
	}
	if seen != 2 {
		t.Errorf("%d files of values have a gateway", seen)
	}
}
