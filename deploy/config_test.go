package deploy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"go.etcd.io/etcd/server/v3/embed"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/oscarfed/oscarfed/internal/boot"
)

// The daemons take the arguments and the configuration that the charts give them.
func TestTheDaemonsTakeTheirConfiguration(t *testing.T) {
	for _, m := range manifests(t) {
		for _, w := range workloads(t, m) {
			c := w.pod.Spec.Containers[0]
			if c.Name == "etcd" {
				c = w.pod.Spec.InitContainers[0]
			}
			args := append([]string{}, c.Args...)
			for i, a := range args {
				for _, config := range of[*corev1.ConfigMap](m) {
					if name := filepath.Base(a); config.Data[name] != "" && !strings.Contains(a, "=") {
						args[i] = filepath.Join(t.TempDir(), name)
						if err := os.WriteFile(args[i], []byte(config.Data[name]), 0o600); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			switch c.Name {
			case "controlplane":
				cfg, err := boot.Load[boot.ControlPlane]("oscar-controlplane", "", args, io.Discard)
				if err != nil {
					t.Errorf("%s: %v", m.values, err)
				}
				checkControlPlane(t, m, cfg)
			case "gateway":
				cfg, err := boot.Load[boot.Gateway]("oscar-controlplane etcd-gateway", "", args[1:], io.Discard)
				if err != nil || args[0] != "etcd-gateway" || len(cfg.EtcdEndpoints) != 3 {
					t.Errorf("%s: %s: %v, %v", m.values, args[0], cfg.EtcdEndpoints, err)
				}
			case "syncer":
				if _, err := boot.Load[boot.Syncer]("oscar-syncer", "", args, io.Discard); err != nil {
					t.Errorf("%s: %v", m.values, err)
				}
			case "backup":
				cfg, err := boot.Load[boot.Backup]("oscarfed backup", "", args[1:], io.Discard)
				if err != nil || args[0] != "backup" {
					t.Errorf("%s: %s: %v", m.values, args[0], err)
				}
				checkBackup(t, m, w, cfg)
			case "restore":
				if args[0] == "etcd" {
					checkRestoreMember(t, m, w, args)
					continue
				}
				// The file is in a volume that is not here.
				args[1] = os.DevNull
				cfg, err := boot.Load[boot.Restore]("oscarfed restore", "", args[1:], io.Discard)
				if err != nil || args[0] != "restore" || !cfg.Replace || cfg.RecoveryIdentity == "" {
					t.Errorf("%s: %s: %+v, %v", m.values, args[0], cfg, err)
				}
			case "prepare":
				cfg, err := boot.Load[boot.EtcdPrepareMember]("oscarfed etcd prepare-member", "", args[2:], io.Discard)
				if err != nil || args[0] != "etcd" || args[1] != "prepare-member" || !slices.Contains(w.pod.Spec.Containers[0].Args, "--config-file="+cfg.Out+"/etcd.yaml") {
					t.Errorf("%s: %s: %+v, %v", m.values, args[:2], cfg, err)
				}
			case "setup":
				cfg, err := boot.Load[boot.EtcdSetup]("oscarfed etcd setup", "", args[2:], io.Discard)
				if err != nil || args[0] != "etcd" || args[1] != "setup" || len(cfg.Endpoints) != 3 {
					t.Errorf("%s: %s: %+v, %v", m.values, args[:2], cfg, err)
				}
			default:
				t.Errorf("%s: container %q is not known here", m.values, c.Name)
			}
		}
	}
}

// checkControlPlane wants the etcd that the values ask for: a name that is not taken
// would leave the default, an etcd of each instance's own.
func checkControlPlane(t *testing.T, m manifest, cfg boot.ControlPlane) {
	t.Helper()
	embedded := strings.Contains(m.values, "embedded")
	for _, url := range cfg.Advertise {
		if embedded && !serviceAt(m, url) {
			t.Errorf("%s: syncers are told %s, which is no service of the chart", m.values, url)
		}
	}
	if embedded && len(cfg.Advertise) == 0 {
		t.Errorf("%s: syncers are told no address of etcd", m.values)
	}
	if (len(cfg.Endpoints) == 0) != embedded {
		t.Errorf("%s: etcd is at %v", m.values, cfg.Endpoints)
	}
	if !embedded && len(cfg.Endpoints) != 3 {
		t.Errorf("%s: %d endpoints of etcd, not 3", m.values, len(cfg.Endpoints))
	}
	for _, s := range of[*appsv1.StatefulSet](m) {
		domain := s.Spec.ServiceName + "." + namespace + ".svc"
		for _, e := range cfg.Endpoints {
			if u, err := url.Parse(e); strings.HasSuffix(s.Name, "-etcd") && (err != nil || !strings.HasSuffix(u.Hostname(), domain)) {
				t.Errorf("%s: %s is no pod of %s", m.values, e, domain)
			}
		}
	}
}

// checkBackup wants all members of etcd, of which one may be lost, and root's certificate: signed by the authority that signs
// the control plane's, or another than that, which may not copy etcd.
func checkBackup(t *testing.T, m manifest, w workload, cfg boot.Backup) {
	t.Helper()
	embedded := strings.Contains(m.values, "embedded")
	if embedded && (len(cfg.Endpoints) != 1 || !serviceAt(m, cfg.Endpoints[0])) || !embedded && (len(cfg.Endpoints) != 3 || cfg.Authority == "" && cfg.CertFile == "") {
		t.Errorf("%s: the backup is of %v", m.values, cfg.Endpoints)
	}
	claims := map[string]bool{}
	for _, s := range of[*appsv1.StatefulSet](m) {
		for _, c := range s.Spec.VolumeClaimTemplates {
			claims[c.Name+"-"+s.Name+"-0"] = true
		}
	}
	for _, v := range w.pod.Spec.Volumes {
		if v.Name == "data" && !claims[v.PersistentVolumeClaim.ClaimName] {
			t.Errorf("%s: %s is no volume of the control plane", m.values, v.PersistentVolumeClaim.ClaimName)
		}
		if cfg.CertFile != "" && v.Name == "etcd-client" && v.Secret.SecretName == secretOf(t, m, "controlplane", v.Name) {
			t.Errorf("%s: the backup has the certificate of the control plane", m.values)
		}
	}
}

// secretOf is the Secret that the pod of a container has as a volume.
func secretOf(t *testing.T, m manifest, container, volume string) string {
	t.Helper()
	for _, w := range workloads(t, m) {
		for _, v := range w.pod.Spec.Volumes {
			if w.pod.Spec.Containers[0].Name == container && v.Name == volume {
				return v.Secret.SecretName
			}
		}
	}
	t.Fatalf("%s: %s has no volume %s", m.values, container, volume)
	return ""
}

// serviceAt says whether a URL inside of the cluster is that of a service and its port.
func serviceAt(m manifest, address string) bool {
	for _, s := range of[*corev1.Service](m) {
		for _, p := range s.Spec.Ports {
			if address == fmt.Sprintf("https://%s.%s.svc:%d", s.Name, s.Namespace, p.Port) {
				return true
			}
		}
	}
	return false
}

// etcd takes the configuration that the members have in common, once what prepare-member adds is in it.
func TestEtcdTakesItsConfiguration(t *testing.T) {
	members := 0
	for _, m := range manifests(t) {
		for _, w := range workloads(t, m) {
			if w.pod.Spec.Containers[0].Name != "etcd" {
				continue
			}
			members++
			var common map[string]any
			for _, c := range of[*corev1.ConfigMap](m) {
				if c.Name == w.name {
					if err := yaml.UnmarshalStrict([]byte(c.Data["etcd.yaml"]), &common); err != nil {
						t.Errorf("%s: %v", m.values, err)
					}
				}
			}
			name := w.name + "-1"
			own, all := "", strings.Split(fmt.Sprint(common["initial-cluster"]), ",")
			for _, one := range all {
				if url, ok := strings.CutPrefix(one, name+"="); ok {
					own = url
				}
			}
			if own == "" || w.replicas > 0 && len(all) != int(w.replicas) { // there is none during a restore
				t.Errorf("%s: %s is none of %v", m.values, name, all)
			}
			common["name"], common["initial-advertise-peer-urls"], common["advertise-client-urls"] = name, own, "https://"+name+":2379"
			common["initial-cluster-state"] = "existing"
			data, err := yaml.Marshal(common)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "etcd.yaml")
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := embed.ConfigFromFile(file)
			if err != nil {
				t.Errorf("%s: %v", m.values, err)
				continue
			}
			if !cfg.ClientTLSInfo.ClientCertAuth || !cfg.PeerTLSInfo.ClientCertAuth {
				t.Errorf("%s: etcd lets in who has no certificate", m.values)
			}
			if cfg.QuotaBackendBytes < 64<<20 || cfg.AutoCompactionRetention == "" || cfg.Dir == "" {
				t.Errorf("%s: %d %q %q", m.values, cfg.QuotaBackendBytes, cfg.AutoCompactionRetention, cfg.Dir)
			}
		}
	}
	if members == 0 {
		t.Error("no values start an etcd")
	}
}

// schema is the part of a JSON schema that is looked at.
type schema struct {
	Properties map[string]schema `json:"properties"`
	Ref        string            `json:"$ref"`
	Additional any               `json:"additionalProperties"` //nolint:tagliatelle // the name in JSON schemas
	Type       any               `json:"type"`
}

// Every value has a default that shows it, and every object of the schema refuses what it
// does not name.
func TestTheSchemasAreStrict(t *testing.T) {
	for _, chart := range []string{"oscarfed", "oscar-syncer"} {
		var s struct {
			schema
			Definitions map[string]schema `json:"definitions"`
		}
		read(t, filepath.Join("helm", chart, "values.schema.json"), func(data []byte) error { return json.Unmarshal(data, &s) })
		var values map[string]any
		read(t, filepath.Join("helm", chart, "values.yaml"), func(data []byte) error { return yaml.UnmarshalStrict(data, &values) })
		delete(s.Properties, "global") // helm's own
		delete(s.Properties, "config") // TestEverySettingCanBeGiven
		delete(values, "config")
		var compare func(at string, s schema, definitions map[string]schema, v any)
		compare = func(at string, s schema, definitions map[string]schema, v any) {
			if name, ok := strings.CutPrefix(s.Ref, "#/definitions/"); ok {
				s = definitions[name]
			}
			if s.Type == "object" && s.Additional == nil {
				t.Errorf("%s: %s takes everything", chart, at)
			}
			if s.Properties == nil || v == nil {
				return
			}
			fields, ok := v.(map[string]any)
			if !ok {
				t.Errorf("%s: %s is %T", chart, at, v)
				return
			}
			for name, of := range s.Properties {
				if _, ok := fields[name]; !ok {
					t.Errorf("%s: %s.%s has no default", chart, at, name)
				}
				compare(at+"."+name, of, definitions, fields[name])
			}
		}
		compare("values", s.schema, s.Definitions, values)
	}
}

// A chart takes every setting of its daemon that it does not make by itself. Each is given by some file of values, and reaches
// the daemon as it was given.
func TestEverySettingCanBeGiven(t *testing.T) {
	// Of no use in a pod: files beside others in its volume, a Kubernetes elsewhere, and an etcd that listens on loopback alone.
	useless := []string{"client_key_file", "cluster_uid_file", "data_dir", "kubeconfig", "etcd_auth"}
	for chart, all := range map[string][]string{"oscarfed": settings[boot.ControlPlane](t), "oscar-syncer": settings[boot.Syncer](t)} {
		var s schema
		read(t, filepath.Join("helm", chart, "values.schema.json"), func(data []byte) error { return json.Unmarshal(data, &s) })
		var template string
		read(t, filepath.Join("helm", chart, "templates/configmap.yaml"), func(data []byte) error { template = string(data); return nil })
		refused := slices.Clone(useless)
		for _, made := range regexp.MustCompile(`(?m)(?:set \$own|^) +"([a-z_]+)"`).FindAllStringSubmatch(template, -1) {
			refused = append(refused, made[1])
		}
		given := map[string]bool{}
		for _, m := range manifests(t) {
			if m.chart != chart {
				continue
			}
			var v struct {
				Config map[string]any `json:"config"`
			}
			read(t, "testdata/values/"+m.values, func(data []byte) error { return yaml.Unmarshal(data, &v) })
			told := map[string]any{}
			for _, c := range of[*corev1.ConfigMap](m) {
				if err := yaml.Unmarshal([]byte(c.Data["controlplane.yaml"]+c.Data["syncer.yaml"]), &told); err != nil {
					t.Error(err)
				}
			}
			for name, value := range v.Config {
				given[name] = true
				if !reflect.DeepEqual(told[name], value) {
					t.Errorf("%s: config.%s is %v and becomes %v", m.values, name, value, told[name])
				}
			}
		}
		for _, name := range all {
			if _, taken := s.Properties["config"].Properties[name]; taken == slices.Contains(refused, name) {
				t.Errorf("%s: config.%s can be given: %v", chart, name, taken)
			}
			delete(s.Properties["config"].Properties, name)
			if !given[name] && !slices.Contains(refused, name) {
				t.Errorf("%s: no file of values tries config.%s", chart, name)
			}
		}
		for name := range s.Properties["config"].Properties {
			t.Errorf("%s: config.%s is no setting", chart, name)
		}
	}
}

// settings are the names that a daemon's configuration file may have.
func settings[T any](t *testing.T) []string {
	t.Helper()
	parser, err := kong.New(new(T), kong.NoDefaultHelp())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range parser.Model.Flags {
		names = append(names, strings.ReplaceAll(f.Name, "-", "_"))
	}
	return names
}

func read(t *testing.T, path string, parse func([]byte) error) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = parse(data)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// checkRestoreMember wants the first member to be made from the backup, and the others to lose what they have.
func checkRestoreMember(t *testing.T, m manifest, w workload, args []string) {
	t.Helper()
	backup := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "--backup=/backup/") })
	if backup >= 0 {
		args[backup] = "--backup=" + os.DevNull // it is in a volume that is not here
	}
	cfg, err := boot.Load[boot.EtcdRestoreMember]("oscarfed etcd restore-member", "", args[2:], io.Discard)
	if err != nil || args[1] != "restore-member" || (backup >= 0) != strings.HasSuffix(cfg.Name, "-0") {
		t.Errorf("%s: %s: %+v, %v", m.values, args[1], cfg, err)
	}
	for _, v := range w.pod.Spec.Volumes {
		if v.Name == "data" && (v.PersistentVolumeClaim == nil || v.PersistentVolumeClaim.ClaimName != "data-"+cfg.Name) {
			t.Errorf("%s: %s has the volume %+v", m.values, cfg.Name, v.VolumeSource)
		}
	}
}

// The chart takes the values that `oscarfed cluster join --helm` prints.
func TestTheChartTakesWhatClusterJoinPrints(t *testing.T) {
	var script string
	read(t, "../internal/cli/testdata/script/cluster_join.txtar", func(data []byte) error { script = string(data); return nil })
	_, rest, _ := strings.Cut(script, "<<'VALUES'\n")
	values, _, ok := strings.Cut(rest, "VALUES\n")
	if !ok {
		t.Fatal("the command's script has no values")
	}
	file := filepath.Join(t.TempDir(), "oscar-syncer-joins.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	m := render(t, tool(t, "helm"), file, release, namespace)
	if config := only[*corev1.ConfigMap](t, m).Data["syncer.yaml"]; !strings.Contains(config, "control_plane: https://api.example.org\n") ||
		!strings.Contains(config, "https://known.example.org") {
		t.Errorf("the syncer is told\n%s", config)
	}
}

// The command that the chart prints asks the API by a name that its certificate is for: on loopback there is none.
func TestTheNotesNameTheAPI(t *testing.T) {
	helm := tool(t, "helm")
	for _, c := range []struct{ values, set, want string }{
		{"oscarfed-embedded", "", "--endpoint https://NAME:8443"},
		{"oscarfed-external", "", "--endpoint https://federation.example.org "},
		{"oscarfed-external", "api.ingress.enabled=false", "--endpoint http://127.0.0.1:8443"},
	} {
		notes, err := run(t, helm, "install", release, "helm/"+chartOf(c.values), "--dry-run=client", "--values", "testdata/values/"+c.values+".yaml", "--set", c.set)
		if err != nil || !strings.Contains(notes, c.want) || strings.Contains(notes, "https://127.0.0.1") {
			t.Errorf("%s with %q: %v; want %q in\n%s", c.values, c.set, err, c.want, notes)
		}
	}
}

// A value that is for one start stays in the values of a release: each later start of the pod would be another restore.
func TestTheNotesEndARestore(t *testing.T) {
	helm := tool(t, "helm")
	const end = " upgrade fed CHART --reset-then-reuse-values --set config.restored=false"
	for _, c := range []struct{ values, set, want, not string }{
		{"oscarfed-gateway", "config.restored=true", end + " --set replicas=3\n", ""},
		{"oscarfed-embedded", "config.restored=true", end + "\n", "--set replicas"},
		{"oscarfed-gateway", "config.restored=false", "", "config.restored"},
	} {
		notes, err := run(t, helm, "install", release, "helm/oscarfed", "--dry-run=client", "--values", "testdata/values/"+c.values+".yaml", "--set", c.set)
		if err != nil || !strings.Contains(notes, c.want) || c.not != "" && strings.Contains(notes, c.not) {
			t.Errorf("%s with %s: %v; want %q, not %q, in\n%s", c.values, c.set, err, c.want, c.not, notes)
		}
	}
}

// What cannot work is refused when it is installed, and says what to do.
func TestRefusedValues(t *testing.T) {
	helm := tool(t, "helm")
	for _, c := range []struct{ values, set, want string }{
		{"oscarfed-embedded", "admin.passwordSecret.name=", "make a Secret with the administrator's password"},
		{"oscarfed-embedded", "api.tlsSecret=", "api.insecureHTTP=true"},
		{"oscarfed-embedded", "api.insecureHTTP=true", "exclude each other"},
		{"oscarfed-embedded", "replicas=3", "an embedded etcd has one control plane"},
		{"oscarfed-embedded", "etcd.endpoints={https://etcd.example.org:2379}", "etcd.mode=external"},
		{"oscarfed-embedded", "api.ingress.enabled=true", "api.ingress.host"},
		{"oscarfed-embedded", "etcd.mode=none", "etcd/mode"},
		{"oscarfed-embedded", "config.listen=0.0.0.0:80", "listen"},
		{"oscarfed-external", "config.restored=true", "one start of one instance"},
		{"oscarfed-external", "config.audit_syslog=unix:///dev/log", "audit_syslog"}, // no volume has it
		{"oscarfed-external", "config.audit_syslog=udp://syslog.example.org", "audit_syslog"},
		{"oscarfed-external", "config.audit_syslog=tcp://syslog.example.org:514/audit", "audit_syslog"},
		{"oscarfed-embedded", "admin.password=secret", "password"},
		{"oscarfed-embedded", "etcd.quotaBytes=1", "quotaBytes"},
		{"oscarfed-embedded", "backup.claim=", "backup.claim"},
		{"oscarfed-embedded", "backup.schedule=now", "schedule"},
		{"oscarfed-embedded", "backup.recoveryRecipients={AGE-SECRET-KEY-1}", "recoveryRecipients"},
		{"oscarfed-embedded", "restore.enabled=true", "restore.claim"},
		{"oscarfed-embedded", "podMonitor.enabled=true", "networkPolicy.metricsFrom"},
		{"oscarfed-external", "restore.enabled=true,restore.claim=x", "for an etcd of the chart"},
		{"oscarfed-cluster-restore", "restore.identity.secret.name=x", "in Secrets"},
		{"oscarfed-external", "etcd.endpoints=null", "etcd.endpoints is empty"},
		{"oscarfed-external", "etcd.endpoints={http://etcd.example.org:2379}", "endpoints"},
		{"oscarfed-external", "etcd.clientSecret=", "etcd.clientSecret"},
		{"oscarfed-external", "backup.clientSecret=", "only root may copy etcd"},
		{"oscarfed-cluster", "backup.clientSecret=x", "is for etcd.clientSecret"},
		{"oscarfed-external", "etcd.authoritySecret=x", "exclude each other"},
		{"oscarfed-embedded", "etcd.clientSecret=x", "makes its own certificates"},
		{"oscarfed-external", "identity.secret.name=", "age key"},
		{"oscarfed-gateway", "etcd.authoritySecret=,etcd.clientSecret=x", "needs etcd.authoritySecret"},
		{"oscarfed-gateway", "etcd.gateway.tlsSecret=", "etcd.gateway.tlsSecret"},
		{"oscarfed-embedded", "etcd.gateway.enabled=true", "the same limits by itself"},
		{"oscarfed-cluster", "etcd.cluster.image=", "etcd.cluster.image"},
		{"oscarfed-cluster", "etcd.cluster.peerSecret=", "certificates"},
		{"oscar-syncer-least", "clusterID=", "oscarfed cluster join"},
		{"oscar-syncer-least", "clusterID=Cluster_A", "clusterID"},
		{"oscar-syncer-least", "controlPlane.url=", "`oscarfed cluster join` says it"},
		{"oscar-syncer-least", "controlPlane.url=http://federation.example.org", "url"},
		{"oscar-syncer-least", "etcd.clientSecret=x", "exclude each other"},
		{"oscar-syncer-all", "controlPlane.ca=MAA=", "exclude each other"},
		{"oscar-syncer-apart", "etcd.clientSecret=", "etcd.clientSecret"},
		{"oscar-syncer-apart", "controlPlane.ca=MAA=", "controlPlane.url"},
		{"oscar-syncer-least", "oscar.passwordSecret.name=", "password of OSCAR's administrator"},
		{"oscar-syncer-least", "oscar.endpoint=https://oscar:secret@oscar.example.org", "endpoint"},
		{"oscar-syncer-least", "oscar.servicesNamespace=x') || true || ('", "servicesNamespace"},
		{"oscar-syncer-least", "replicas=2", "replicas"},
		{"oscar-syncer-least", "podMonitor.enabled=true", "networkPolicy.metricsFrom"},
		{"oscar-syncer-least", "originStorage.enabled=true", "originStorage.from"},
		{"oscar-syncer-all", "originStorage.port=0", "port"},
		{"oscar-syncer-all", "config.local_listen=:80", "local_listen"},
	} {
		_, err := run(t, helm, "template", release, "helm/"+chartOf(c.values), "--values", "testdata/values/"+c.values+".yaml", "--set", c.set)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: %v; want %q in it", c.values, c.set, err, c.want)
		}
	}
}
