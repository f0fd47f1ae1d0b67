package autoscaling

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/decide/topology"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func demo() *provv1.Cluster {
	return &provv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "demo", UID: "uid"},
		Spec: provv1.ClusterSpec{KubernetesVersion: "v1.36.2+rke2r1", RKEConfig: &provv1.RKEConfig{
			MachinePools: []provv1.RKEMachinePool{
				{Name: "server", EtcdRole: true, ControlPlaneRole: true},
				{Name: "auto", WorkerRole: true, AutoscalingMinSize: new(int32(0)), AutoscalingMaxSize: new(int32(3))},
			}}},
	}
}

func machine(name, deployment string) *clusterv1.Machine {
	return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		clusterv1.ClusterNameLabel: "demo", clusterv1.MachineDeploymentNameLabel: deployment}}}
}

// token is a token of an account with that UID that is valid for an hour from noon.
func token(uid string) string {
	claims := fmt.Sprintf(`{"iat":%d,"exp":%d,"kubernetes.io":{"serviceaccount":{"uid":%q}}}`, noon.Unix(),
		noon.Add(time.Hour).Unix(), uid)
	return "header." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".signature"
}

func TestAccount_PermitsOnlyItsOwnPools(t *testing.T) {
	t.Parallel()
	cluster := demo()
	for _, c := range []struct {
		deployments []string
		machines    []*clusterv1.Machine
		want        []string
	}{
		{},
		{[]string{"demo-auto"}, nil, nil},
		{[]string{"demo-auto"}, []*clusterv1.Machine{machine("b", "demo-auto"), machine("a", "demo-auto")},
			[]string{"a", "b"}},
	} {
		role := Account(cluster, c.deployments, c.machines)[1].(*rbacv1.Role)
		var names []string
		for _, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				if verb != "list" && verb != "watch" && len(rule.ResourceNames) == 0 {
					t.Errorf("permission %s on all %v", verb, rule.Resources)
				}
			}
			if rule.Resources[0] == "machines" {
				if slices.Contains(rule.Verbs, "update") {
					t.Error("the account may replace a Machine")
				}
				names = append(names, rule.ResourceNames...)
			} else if len(rule.ResourceNames) > 0 && cmp.Diff([]string{"demo-auto"}, rule.ResourceNames) != "" {
				t.Errorf("permissions on %v %v", rule.Resources, rule.ResourceNames)
			}
		}
		if diff := cmp.Diff(c.want, names); diff != "" {
			t.Errorf("machines (-want +got):\n%s", diff)
		}
		if PermitsDeployment(role, "demo-auto") != (len(c.deployments) > 0) {
			t.Errorf("the account may scale %v, and the rules are %v", c.deployments, role.Rules)
		}
	}
	if Sizes(cluster, machine("x", "demo-server")) || !Sizes(cluster, machine("x", "demo-auto")) {
		t.Error("an autoscaler sizes the wrong pool")
	}
}

func TestTokenIn(t *testing.T) {
	t.Parallel()
	secret := func(value string) *corev1.Secret {
		return &corev1.Secret{Data: map[string][]byte{KeyToken: []byte(value)}}
	}
	for name, c := range map[string]struct {
		secret *corev1.Secret
		after  time.Duration
		kept   bool
	}{
		"a new token":                        {secret(token("uid")), time.Minute, true},
		"half of the lifetime is over":       {secret(token("uid")), 30 * time.Minute, false},
		"a token of a former account":        {secret(token("former")), time.Minute, false},
		"no token":                           {secret(""), time.Minute, false},
		"a text that is no token":            {secret("a.b.c"), time.Minute, false},
		"a token without an expiration time": {secret("a.e30.c"), 0, false},
		"no Secret":                          {nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, renewal := TokenIn(c.secret, "uid", noon.Add(c.after))
			if (got != "") != c.kept || c.kept && !renewal.Equal(noon.Add(30*time.Minute)) {
				t.Errorf("token kept: %t, renewal at %s", got != "", renewal)
			}
		})
	}
}

func TestKubeconfig_FollowsTheTokenAndTheRequestForACopy(t *testing.T) {
	t.Parallel()
	cluster := demo()
	desired := Kubeconfig{ServerURL: "https://drover.example.com/", CACerts: "PEM", Copy: true}
	first, err := desired.Secret(cluster, nil, "one")
	if err != nil {
		t.Fatal(err)
	}
	config := string(first.Data[KeyKubeconfig])
	if !strings.Contains(config, "server: https://drover.example.com/k8s/clusters/local\n") ||
		!strings.Contains(config, "tokenFile: token\n") || strings.Contains(config, "one") {
		t.Errorf("kubeconfig:\n%s", config)
	}
	if name, ok := IsKubeconfig(first); name != "demo" || !ok ||
		first.Annotations[provv1.SyncTargetNameAnnotation] != CopyName ||
		first.Annotations[FormerTokenAnnotation] != "" {
		t.Errorf("labels %v, annotations %v", first.Labels, first.Annotations)
	}
	first.Annotations["of"] = "a user"
	second, err := Kubeconfig{ServerURL: "https://drover.example.com"}.Secret(cluster, first, "two")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"of": "a user", FormerTokenAnnotation: naming.SHA256("one")},
		second.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	third, err := Kubeconfig{ServerURL: "https://drover.example.com"}.Secret(cluster, second, "two")
	if diff := cmp.Diff(second, third); diff != "" || err != nil {
		t.Errorf("a settled Secret changes: %v\n%s", err, diff)
	}
}

func TestImage(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"example.com/ca:v1.36.0":     Image("example.com/ca:v{minor}.0", "v1.36.2+rke2r1", ""),
		"example.com/ca:v{minor}.0":  Image("example.com/ca:v{minor}.0", "", ""),
		"registry.local/ca:v1":       Image("ca:v1", "v1.36.2+k3s1", "registry.local"),
		"example.com/ca@sha256:0123": Image("example.com/ca@sha256:0123", "v1.36.2", ""),
	} {
		if got != want {
			t.Errorf("image %s, want %s", got, want)
		}
	}
}

func TestProgram_DigestFollowsTheContent(t *testing.T) {
	t.Parallel()
	program := For(demo(), "example.com/ca:v1", "", "config")
	objects, first, err := program.Objects()
	if err != nil || len(objects) != 6 {
		t.Fatalf("%d objects: %v", len(objects), err)
	}
	paused := *program
	paused.Paused = true
	if _, second, _ := paused.Objects(); second == first {
		t.Error("the digest of a paused autoscaler is the same")
	}
	moved := *program
	moved.Kubeconfig = "another"
	if _, second, _ := moved.Objects(); second == first {
		t.Error("the digest of an autoscaler with another kubeconfig is the same")
	}
	content, err := json.Marshal(objects[5])
	if err != nil || !strings.Contains(string(content),
		`"--node-group-auto-discovery=clusterapi:namespace=fleet-default,clusterName=demo"`) {
		t.Errorf("%s: %v", content, err)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	running, paused := &Program{Image: "ca:v1"}, &Program{Image: "ca:v1", Paused: true}
	for name, c := range map[string]struct {
		program *Program
		state   State
		visited bool
		want    string // "" for no problem
	}{
		"available":             {running, State{Current: true, Available: 1}, true, ""},
		"paused":                {paused, State{Current: true}, true, ""},
		"not visited yet":       {running, State{Current: true, Available: 1}, false, ReasonNotAvailable},
		"no pod is available":   {running, State{Current: true}, true, ReasonNotAvailable},
		"pods of an older spec": {running, State{Available: 1}, true, ReasonNotAvailable},
		"the copy is behind": {running, State{CopyIsBehind: true, Current: true, Available: 1}, true,
			ReasonNotAvailable},
		"refused": {running, State{Refusal: "quota"}, true, ReasonRefused},
		"taken":   {running, State{Foreign: true}, true, ReasonRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			err := Judge(c.program, c.state, c.visited)
			if waiting := outcome.AsWaiting(err); waiting != nil {
				got = waiting.Reason
			} else if stalled := outcome.AsStalled(err); stalled != nil {
				got = stalled.Reason
			}
			if got != c.want {
				t.Errorf("reason %q of %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestAdvice_NamesPoolsThatCannotGrowFromZero(t *testing.T) {
	t.Parallel()
	cluster := demo()
	annotations := map[string]string{}
	of := func(string) map[string]string { return annotations }
	const field = "spec.rkeConfig.machinePools[1].machineDeploymentAnnotations: "
	if got := Advice(cluster, of); !strings.HasPrefix(got, field) {
		t.Errorf("advice %q", got)
	}
	annotations[topology.CPUAnnotation], annotations[topology.MemoryAnnotation] = "2", "4Gi"
	if got := Advice(cluster, of); got != "" {
		t.Errorf("advice %q for a pool with a capacity", got)
	}
	clear(annotations)
	cluster.Spec.RKEConfig.MachinePools[1].AutoscalingMinSize = new(int32(1))
	if got := Advice(cluster, of); got != "" {
		t.Errorf("advice %q for a pool that always has a machine", got)
	}
}
