//go:build linux

package runbook_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/test/await"
)

// TestTheProceduresOfAnExternalEtcd: three members of etcd get users, and a control plane works over them; a backup is
// made and restored; a member loses its data and is replaced; a cluster joins through a gateway.
func TestTheProceduresOfAnExternalEtcd(t *testing.T) {
	s := newSite(t, federation, "etcd-1", "etcd-2", "etcd-3", "oscar-a", "gateway", "oscar-d")
	h := s.hosts[federation]
	h.run(s.block(operations, external, 0))
	flags := s.block(operations, external, 1)
	for _, m := range s.members() {
		m.write(work+"/etcd.pem", s.certificate(m.name), "etcd")
		m.write(work+"/clients.crt", h.read(work+"/clients.crt"), "etcd")
		m.member(flags)
		m.run("install -d -o etcd -g etcd -m 700 /var/lib/etcd\nsystemctl start etcd\n")
	}
	setUp := s.block(operations, external, 2)
	await.Until(t, "etcd lets in its users to be", func() bool {
		out, err := h.try(t.Context(), strings.TrimSuffix(setUp, "\n")+" --dry-run\n")
		return err == nil && strings.Contains(out, "would ")
	})
	printed := h.run(setUp)
	found := regexp.MustCompile(`(?m)^each control plane +(.+)$`).FindStringSubmatch(printed)
	if found == nil {
		t.Fatalf("it prints no flags of a control plane:\n%s", printed)
	}
	h.run("age-keygen -o identity.age\nchown -R oscarfed: etcd-users identity.age\n")
	command := "oscar-controlplane --data-dir /var/lib/oscarfed --admin-password-file admin-password " +
		"--listen 0.0.0.0:8443 --tls-cert-file api.crt --tls-key-file api.key --identity-file identity.age " + found[1]
	h.install(command)
	h.start()
	s.join("a", h.run("oscarfed cluster join oscar-cluster-a https://oscar-a.example.org\n"))
	h.apply("changed", "128Mi", "a")

	s.makeSpace()
	s.restoreMembers()
	s.replaceMember(flags)
	s.joinThroughTheGateway(command)
	h.apply("both", "128Mi", "a", "d")
}

// members are the machines of etcd.
func (s *site) members() []*host {
	return []*host{s.hosts["etcd-1"], s.hosts["etcd-2"], s.hosts["etcd-3"]}
}

// member makes etcd a service, with these flags beside those that each member has of its own.
func (h *host) member(flags ...string) {
	own := fmt.Sprintf("etcd --name %[1]s --data-dir /var/lib/etcd --cert-file etcd.pem --key-file etcd.pem "+
		"--peer-cert-file etcd.pem --peer-key-file etcd.pem --listen-client-urls https://0.0.0.0:2379 "+
		"--advertise-client-urls https://%[1]s:2379 --listen-peer-urls https://0.0.0.0:2380 "+
		"--initial-advertise-peer-urls https://%[1]s:2380", h.name)
	own += " --initial-cluster etcd-1=https://etcd-1:2380,etcd-2=https://etcd-2:2380,etcd-3=https://etcd-3:2380 "
	h.unit("etcd", "etcd", "exec "+own+strings.ReplaceAll(strings.Join(flags, " "), "\n", " "))
}

// restoreMembers makes a backup, changes a service and restores the backup.
func (s *site) restoreMembers() {
	s.t.Helper()
	h := s.hosts[federation]
	h.run("age-keygen -o recovery.age\nage-keygen -y recovery.age >recovery.pub\nmkdir /backup\n")
	h.run(s.block(operations, backup, 2))
	h.run(s.block(operations, restore, 2))
	h.run("cmp keys/identity.age identity.age\ncmp keys/pki/ca.key etcd-users/ca.key\nrm -r keys\n")
	h.apply("changed", "256Mi", "a")
	h.run("systemctl stop oscar-controlplane\n")
	for _, m := range s.members() {
		m.run("systemctl stop etcd\nmv /var/lib/etcd /var/lib/etcd.before\n")
	}
	etcdutl := tool(s.t, "etcdutl")
	for _, m := range s.members() {
		m.Program("etcdutl", etcdutl)
		m.write("/backup/oscarfed", h.read("/backup/oscarfed"), "root")
	}
	restored := s.block(operations, restore, 4)
	for _, m := range s.members() {
		m.run(restored)
	}
	h.start()
	h.joined("a")
	h.differences("oscar-cluster-a/changed0 ahead")
	h.run("oscarfed resolve oscar-cluster-a/changed0 --keep store\n")
	h.differences()
}

// replaceMember has a member lose its data, and replaces it.
func (s *site) replaceMember(flags string) {
	s.t.Helper()
	m := s.hosts["etcd-2"]
	m.kill("etcd")
	m.run("rm -r /var/lib/etcd/member\n")
	var out await.Output
	end := s.hosts[federation].begin(s.t.Context(), s.block(operations, replaced, 0), &out)
	started := regexp.MustCompile(`(?m)^  (--initial-cluster-state existing --initial-cluster .+)$`)
	await.Until(s.t, "it says how the member is started", func() bool { return started.MatchString(out.String()) })
	m.member(flags, started.FindStringSubmatch(out.String())[1])
	m.run("systemctl start etcd\n")
	if err := end(); err != nil {
		s.t.Fatal(err)
	}
}

// joinThroughTheGateway has a cluster join that reaches no member of etcd.
func (s *site) joinThroughTheGateway(command string) {
	s.t.Helper()
	h, g := s.hosts[federation], s.hosts["gateway"]
	certificate := s.certificate(fqdn(g.name))
	g.write(work+"/gateway.crt", certificate, "oscarfed")
	g.write(work+"/gateway.key", certificate, "oscarfed")
	for _, file := range []string{"ca.crt", "ca.key"} {
		g.write(work+"/etcd-users/"+file, h.read(work+"/etcd-users/"+file), "oscarfed")
	}
	g.unit("oscar-etcd-gateway", "oscarfed", "exec "+s.block(operations, gateway, 0))
	g.run("systemctl start oscar-etcd-gateway\n")
	h.install(command + " --etcd-advertise https://gateway.example.org:2379")
	h.run("systemctl stop oscar-controlplane\n")
	h.start()
	d := s.hosts["oscar-d"]
	var names []string
	for line := range strings.Lines(s.names()) {
		if !strings.Contains(line, " etcd-") {
			names = append(names, line)
		}
	}
	d.write("/etc/hosts", []byte(strings.Join(names, "")), "root")
	s.join("d", h.run("oscarfed cluster join oscar-cluster-d https://oscar-d.example.org\n"))
}
