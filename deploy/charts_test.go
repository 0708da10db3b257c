package deploy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// The charts pass helm's own linter, with every file of values.
func TestChartsAreLinted(t *testing.T) {
	helm := tool(t, "helm")
	for _, m := range manifests(t) {
		if out, err := run(t, helm, "lint", "--strict", "helm/"+m.chart, "--namespace", namespace, "--values", "testdata/values/"+m.values); err != nil {
			t.Errorf("%s: %v\n%s", m.values, err, out)
		}
	}
}

func TestCharts(t *testing.T) {
	for _, m := range manifests(t) {
		t.Run(strings.TrimSuffix(m.values, ".yaml"), func(t *testing.T) {
			checkObjects(t, m)
			for _, w := range workloads(t, m) {
				checkPod(t, m, w)
				checkFiles(t, m, w)
			}
			checkServices(t, m)
			checkEnds(t, m)
			checkPolicies(t, m)
			checkBudgets(t, m)
		})
	}
}

// workload is what makes pods.
type workload struct {
	name     string
	replicas int32
	selector labels.Selector
	pod      corev1.PodTemplateSpec
}

func workloads(t *testing.T, m manifest) []workload {
	t.Helper()
	var out []workload
	for _, s := range of[*appsv1.StatefulSet](m) {
		out = append(out, workload{s.Name, *s.Spec.Replicas, selector(t, s.Spec.Selector), s.Spec.Template})
	}
	for _, d := range of[*appsv1.Deployment](m) {
		out = append(out, workload{d.Name, *d.Spec.Replicas, selector(t, d.Spec.Selector), d.Spec.Template})
		kept := slices.ContainsFunc(d.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
		if kept && d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
			t.Errorf("%s: two pods want one volume in a rolling update", d.Name)
		}
	}
	for _, c := range of[*batchv1.CronJob](m) {
		pod := c.Spec.JobTemplate.Spec.Template
		out = append(out, workload{c.Name, 1, labels.SelectorFromSet(c.Spec.JobTemplate.Labels), pod})
	}
	for _, j := range of[*batchv1.Job](m) {
		// Kubernetes adds the label: Jobs may have all others in common.
		j.Spec.Template.Labels[batchv1.JobNameLabel] = j.Name
		out = append(out, workload{j.Name, 1, labels.SelectorFromSet(j.Spec.Template.Labels), j.Spec.Template})
	}
	if len(out) == 0 {
		t.Fatal("there is no workload")
	}
	for _, w := range out {
		if !w.selector.Matches(labels.Set(w.pod.Labels)) {
			t.Errorf("%s does not select its own pods", w.name)
		}
		for _, other := range out {
			if other.name != w.name && w.selector.Matches(labels.Set(other.pod.Labels)) {
				t.Errorf("%s selects the pods of %s", w.name, other.name)
			}
		}
	}
	return out
}

func selector(t *testing.T, s *metav1.LabelSelector) labels.Selector {
	t.Helper()
	out, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	if out.Empty() {
		t.Error("a selector takes everything")
	}
	return out
}

// checkObjects wants names, labels and namespaces, and no Secret.
func checkObjects(t *testing.T, m manifest) {
	t.Helper()
	seen := map[string]bool{}
	for _, o := range m.objects {
		a, err := meta.Accessor(o)
		if err != nil {
			t.Fatal(err)
		}
		kind := o.GetObjectKind().GroupVersionKind().Kind
		id := kind + "/" + a.GetName()
		if seen[id] {
			t.Errorf("%s is there twice", id)
		}
		seen[id] = true
		if kind == "Secret" {
			t.Errorf("%s: secrets are not values of a chart", id)
		}
		for _, label := range []string{"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart"} {
			if a.GetLabels()[label] == "" {
				t.Errorf("%s has no label %s", id, label)
			}
		}
		clusterWide := strings.HasPrefix(kind, "Cluster") || strings.HasPrefix(kind, "Validating")
		switch {
		case clusterWide && a.GetNamespace() != "":
			t.Errorf("%s is in a namespace", id)
		case clusterWide && !strings.Contains(a.GetName(), namespace):
			t.Errorf("%s: releases of one name in two namespaces would share it", id)
		case (kind == "Role" || kind == "RoleBinding") && a.GetNamespace() != namespace: // where they are for
		case !clusterWide && a.GetNamespace() != namespace:
			t.Errorf("%s is in namespace %q", id, a.GetNamespace())
		}
	}
}

// checkPod holds pods to the restricted profile of Kubernetes' pod security, and more.
func checkPod(t *testing.T, m manifest, w workload) {
	t.Helper()
	spec := w.pod.Spec
	security := spec.SecurityContext
	if security == nil || security.RunAsNonRoot == nil || !*security.RunAsNonRoot || security.RunAsUser == nil || *security.RunAsUser == 0 {
		t.Errorf("%s may run as root", w.name)
	}
	if security == nil || security.SeccompProfile == nil || security.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s has no seccomp profile", w.name)
	}
	if security == nil || security.FSGroup == nil || security.FSGroupChangePolicy == nil || *security.FSGroupChangePolicy != corev1.FSGroupChangeOnRootMismatch {
		t.Errorf("%s: its volume is not its own, or its key is opened to the group at each start", w.name)
	}
	if spec.HostNetwork || spec.HostPID || spec.HostIPC {
		t.Errorf("%s uses namespaces of the host", w.name)
	}
	// Only the syncer asks Kubernetes anything.
	needs := m.chart == "oscar-syncer" && len(of[*rbacv1.ClusterRole](m)) > 0
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken != needs {
		t.Errorf("%s: token of the service account mounted: %v, needed: %v", w.name, spec.AutomountServiceAccountToken, needs)
	}
	accounts := map[string]bool{}
	for _, a := range of[*corev1.ServiceAccount](m) {
		accounts[a.Name] = true
	}
	if !accounts[spec.ServiceAccountName] {
		t.Errorf("%s runs as %q, which the chart does not make", w.name, spec.ServiceAccountName)
	}
	if spec.TerminationGracePeriodSeconds == nil || *spec.TerminationGracePeriodSeconds < 60 {
		t.Errorf("%s: requests in flight and the end of etcd need more time than %v", w.name, spec.TerminationGracePeriodSeconds)
	}
	for _, v := range spec.Volumes {
		if v.HostPath != nil {
			t.Errorf("%s mounts %s of the host", w.name, v.HostPath.Path)
		}
		if v.Secret != nil && (v.Secret.DefaultMode == nil || *v.Secret.DefaultMode&0o037 != 0) {
			t.Errorf("%s: the files of Secret %s can be read by everybody in the pod", w.name, v.Secret.SecretName)
		}
	}
	if len(spec.Containers) != 1 {
		t.Fatalf("%s: the checks know of one container that stays", w.name)
	}
	for _, c := range containers(w) {
		checkContainer(t, w, c)
	}
	if spec.RestartPolicy == "" || spec.RestartPolicy == corev1.RestartPolicyAlways {
		checkProbes(t, w, spec.Containers[0])
	}
}

// containers are those that come first, and the one that stays.
func containers(w workload) []corev1.Container {
	return append(slices.Clone(w.pod.Spec.InitContainers), w.pod.Spec.Containers...)
}

func checkContainer(t *testing.T, w workload, c corev1.Container) {
	t.Helper()
	sc := c.SecurityContext
	if sc == nil || sc.AllowPrivilegeEscalation == nil || *sc.AllowPrivilegeEscalation ||
		sc.ReadOnlyRootFilesystem == nil || !*sc.ReadOnlyRootFilesystem || sc.Privileged != nil ||
		sc.Capabilities == nil || len(sc.Capabilities.Drop) != 1 || sc.Capabilities.Drop[0] != "ALL" || len(sc.Capabilities.Add) > 0 {
		t.Errorf("%s: the container may do too much: %+v", w.name, sc)
	}
	if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
		t.Errorf("%s: resources %+v", w.name, c.Resources)
	}
	if !c.Resources.Limits.Cpu().IsZero() {
		t.Errorf("%s: a limit of CPU makes it miss its leases", w.name)
	}
	if _, tag, ok := strings.Cut(c.Image, ":"); !ok || tag == "latest" {
		t.Errorf("%s: image %q names no version", w.name, c.Image)
	}
	for _, e := range c.Env {
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
			t.Errorf("%s: %s is a secret in the environment", w.name, e.Name)
		}
	}
	if len(c.EnvFrom) > 0 {
		t.Errorf("%s takes its environment from elsewhere", w.name)
	}
}

func checkProbes(t *testing.T, w workload, c corev1.Container) {
	t.Helper()
	if c.LivenessProbe == nil {
		t.Errorf("%s: one that hangs is not restarted", w.name)
		return
	}
	if get := c.LivenessProbe.HTTPGet; get != nil && get.Path == "/health" {
		t.Errorf("%s: /health fails while etcd is away, and a restart does not bring it back", w.name)
	}
	ports := portsOf(w.pod)
	for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		switch {
		case p == nil:
		case p.HTTPGet != nil && !ports[p.HTTPGet.Port.String()], p.TCPSocket != nil && !ports[p.TCPSocket.Port.String()]:
			t.Errorf("%s: a probe asks a port that is not there: %+v", w.name, p.ProbeHandler)
		case p.TimeoutSeconds < 5:
			t.Errorf("%s: a probe waits %d s: a busy machine is no failure", w.name, p.TimeoutSeconds)
		}
	}
}

func portsOf(pod corev1.PodTemplateSpec) map[string]bool {
	ports := map[string]bool{}
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			ports[p.Name] = true
			ports[fmt.Sprint(p.ContainerPort)] = true
		}
	}
	return ports
}

// checkFiles wants each file that the arguments or the configuration name to be
// mounted, and each mount to be of a volume that is there.
func checkFiles(t *testing.T, m manifest, w workload) {
	t.Helper()
	volumes := map[string]corev1.Volume{}
	for _, v := range w.pod.Spec.Volumes {
		volumes[v.Name] = v
	}
	for _, s := range of[*appsv1.StatefulSet](m) {
		if s.Name == w.name {
			for _, c := range s.Spec.VolumeClaimTemplates {
				volumes[c.Name] = corev1.Volume{Name: c.Name}
			}
		}
	}
	used := map[string]bool{}
	for _, c := range containers(w) {
		for _, mount := range c.VolumeMounts {
			if _, ok := volumes[mount.Name]; !ok {
				t.Errorf("%s mounts %s, which is no volume", w.name, mount.Name)
			}
			used[mount.Name] = true
		}
		for _, file := range filesIn(c.Args) {
			if problem := findFile(m, volumes, c.VolumeMounts, file); problem != "" {
				t.Errorf("%s: %s names %s: %s", w.name, c.Name, file, problem)
			}
		}
	}
	for name := range volumes {
		if !used[name] {
			t.Errorf("%s: volume %s is not mounted", w.name, name)
		}
	}
	if w.pod.Spec.Containers[0].Name == "restore" {
		return // of etcd's configuration it takes names alone
	}
	// The configuration is that of the container that stays.
	for _, file := range filesIn(configuration(m, w)) {
		if problem := findFile(m, volumes, w.pod.Spec.Containers[0].VolumeMounts, file); problem != "" {
			t.Errorf("%s is configured with %s: %s", w.name, file, problem)
		}
	}
}

// configuration are the words of a workload's configuration.
func configuration(m manifest, w workload) []string {
	var words []string
	for _, v := range w.pod.Spec.Volumes {
		for _, cm := range of[*corev1.ConfigMap](m) {
			if v.ConfigMap != nil && v.ConfigMap.Name == cm.Name {
				for _, text := range cm.Data {
					words = append(words, strings.Fields(text)...)
				}
			}
		}
	}
	return words
}

// filesIn are the absolute paths among words.
func filesIn(words []string) []string {
	var files []string
	for _, word := range words {
		if _, value, ok := strings.Cut(word, "="); ok {
			word = value
		}
		for one := range strings.SplitSeq(word, ",") {
			if strings.HasPrefix(one, "/") {
				files = append(files, one)
			}
		}
	}
	return files
}

// findFile says why a file is not in the pod; "" when it is.
func findFile(m manifest, volumes map[string]corev1.Volume, mounts []corev1.VolumeMount, file string) string {
	for _, mount := range mounts {
		if mount.MountPath == file {
			return "" // the folder itself
		}
		name, inside := strings.CutPrefix(file, mount.MountPath+"/")
		if !inside {
			continue
		}
		v := volumes[mount.Name]
		var have []string
		switch {
		case v.Secret != nil && len(v.Secret.Items) > 0:
			for _, item := range v.Secret.Items {
				have = append(have, item.Path)
			}
		case v.Secret != nil: // of the form that certificates have
			have = []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey, "ca.crt"}
		case v.ConfigMap != nil && len(v.ConfigMap.Items) > 0:
			for _, item := range v.ConfigMap.Items {
				have = append(have, item.Path)
			}
		case v.ConfigMap != nil:
			for _, cm := range of[*corev1.ConfigMap](m) {
				for key := range cm.Data {
					if cm.Name == v.ConfigMap.Name {
						have = append(have, key)
					}
				}
			}
		case mount.ReadOnly && v.PersistentVolumeClaim == nil && v.EmptyDir == nil:
			return "its volume cannot be written"
		default: // a volume to write in
			return ""
		}
		if slices.Contains(have, name) {
			return ""
		}
		return fmt.Sprintf("its volume has %v", have)
	}
	return "nothing is mounted there"
}

// checkBudgets wants a disruption budget where there are several pods, and none where
// it could only keep a node from being emptied.
func checkBudgets(t *testing.T, m manifest) {
	t.Helper()
	for _, w := range workloads(t, m) {
		found := 0
		for _, b := range of[*policyv1.PodDisruptionBudget](m) {
			if selector(t, b.Spec.Selector).Matches(labels.Set(w.pod.Labels)) {
				found++
			}
		}
		if want := max(0, min(1, int(w.replicas)-1)); found != want {
			t.Errorf("%s with %d pods has %d disruption budgets, not %d", w.name, w.replicas, found, want)
		}
	}
}

// A claim cannot be deleted while a pod of it is there, finished or not: a lost volume could not be replaced.
func TestAFinishedBackupHoldsNoClaim(t *testing.T) {
	m := render(t, tool(t, "helm"), "testdata/values/oscarfed-embedded.yaml", release, namespace)
	spec := only[*batchv1.CronJob](t, m).Spec
	if kept := spec.SuccessfulJobsHistoryLimit; kept == nil || *kept != 0 {
		t.Errorf("%v backups that succeeded stay", kept)
	}
	if spec.JobTemplate.Spec.TTLSecondsAfterFinished == nil {
		t.Error("a failed backup stays until three others have failed")
	}
}

// checkEnds wants a pod of the control plane's chart that a Service leads to to go on for a moment when it is to end: Kubernetes
// sends connections to it until all nodes know. The moment is not taken from the time that it has to end in.
func checkEnds(t *testing.T, m manifest) {
	t.Helper()
	if m.chart != "oscarfed" {
		return // OSCAR alone asks a syncer, which has no second pod
	}
	for _, w := range workloads(t, m) {
		if !slices.ContainsFunc(of[*corev1.Service](m), func(s *corev1.Service) bool {
			return labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(w.pod.Labels))
		}) {
			continue
		}
		life := w.pod.Spec.Containers[0].Lifecycle
		if life == nil || life.PreStop == nil || life.PreStop.Sleep == nil || life.PreStop.Sleep.Seconds < 5 {
			t.Errorf("%s refuses connections that still come when it is to end", w.name)
			continue
		}
		if grace := *w.pod.Spec.TerminationGracePeriodSeconds; grace < 60+life.PreStop.Sleep.Seconds {
			t.Errorf("%s has %d s to end, %d of which it sleeps", w.name, grace, life.PreStop.Sleep.Seconds)
		}
	}
}
