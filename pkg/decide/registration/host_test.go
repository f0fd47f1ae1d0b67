package registration_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/registration"
)

// worker is the minimal description of a worker.
func worker() map[string][]string {
	return map[string][]string{"id": {"host-1"}, "role-worker": {"true"}}
}

func TestHostHeaders_OmitsOtherHeaders(t *testing.T) {
	t.Parallel()
	headers := http.Header{}
	headers.Set("Authorization", "Bearer secret")
	headers.Set("User-Agent", "curl")
	headers.Set("X-Cattle-Id", "host-1")
	headers.Set("x-cattle-role-etcd", "true")
	headers.Add("X-Cattle-Labels", "a=b")
	headers.Add("X-Cattle-Labels", "c=d")
	said := registration.HostHeaders(headers)
	if diff := cmp.Diff(map[string][]string{"id": {"host-1"}, "role-etcd": {"true"}, "labels": {"a=b", "c=d"}},
		said); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	said["labels"][0] = "changed"
	if headers.Get("X-Cattle-Labels") != "a=b" {
		t.Error("the headers of the request are shared")
	}
}

func TestParseHost_Accepts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		said map[string][]string
		want registration.Host
	}{
		"a worker": {worker(), registration.Host{ID: "host-1", Worker: true}},
		"everything": {
			map[string][]string{
				"id": {" host-1 "}, "role-etcd": {"true"}, "role-control-plane": {"true"}, "role-worker": {"true"},
				"node-name": {"Edge-1.Example.com"},
				"address":   {"203.0.113.7,2001:db8::7"}, "internal-address": {"10.0.0.7"},
				"labels": {"cattle.io/os=linux,site=north", "empty="},
				"taints": {"a=b:NoExecute,c:NoSchedule", "d=:PreferNoSchedule"}, "later": {"is not known yet"},
			},
			registration.Host{
				ID: "host-1", Etcd: true, ControlPlane: true, Worker: true, NodeName: "edge-1.example.com",
				Address:         "203.0.113.7,2001:db8::7",
				InternalAddress: "10.0.0.7", Labels: map[string]string{"cattle.io/os": "linux", "site": "north",
					"empty": ""},
				Taints: []corev1.Taint{
					{Key: "a", Value: "b", Effect: "NoExecute"}, {Key: "c", Effect: "NoSchedule"},
					{Key: "d", Effect: "PreferNoSchedule"},
				},
			},
		},
		"empty values": {
			map[string][]string{"id": {"host-1"}, "role-worker": {"true"}, "role-etcd": {"false"},
				"role-control-plane": {}, "labels": {"", " , "}, "taints": {""}, "address": {""}},
			registration.Host{ID: "host-1", Worker: true},
		},
		"labels of nodes that a kubelet may set": {
			map[string][]string{"id": {"host-1"}, "role-worker": {"true"}, "labels": {
				"node.kubernetes.io/instance-type=x,topology.kubernetes.io/zone=z,kubernetes.io/hostname=h,my.kubelet.kubernetes.io/a=b,example.com/kubernetes.io=c",
			}},
			registration.Host{ID: "host-1", Worker: true, Labels: map[string]string{
				"node.kubernetes.io/instance-type": "x", "topology.kubernetes.io/zone": "z",
				"kubernetes.io/hostname":     "h",
				"my.kubelet.kubernetes.io/a": "b", "example.com/kubernetes.io": "c",
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := registration.ParseHost(tt.said)
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestParseHost_Refuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 64)
	for name, tt := range map[string]struct {
		header, value string
		parts         []string
	}{
		"no identity":                           {"id", "", []string{"the identity of the host"}},
		"an identity that is too long":          {"id", long, []string{"the identity of the host", "63"}},
		"an identity that is not a label value": {"id", "a/b", []string{"the identity of the host"}},
		"no role":                               {"role-worker", "yes", []string{"a role is missing", "--all-roles"}},
		"an invalid name of a node":             {"node-name", "a_b", []string{"--node-name", `"a_b"`}},
		"a name that is too long":               {"node-name", long, []string{"--node-name", "63"}},
		"an invalid address":                    {"address", "10.0.0.1,eth7", []string{`--address "eth7"`}},
		"an invalid internal address": {"internal-address", "10.0.0",
			[]string{`--internal-address "10.0.0"`}},
		"a label without a value":             {"labels", "site", []string{`--label "site"`, "KEY=VALUE"}},
		"a label with two values":             {"labels", "a=b=c", []string{`--label "a=b=c"`}},
		"a label with no key":                 {"labels", "=b", []string{`--label "=b"`}},
		"another operating system":            {"labels", "cattle.io/os=windows", []string{"only linux"}},
		"a label of Drover":                   {"labels", "rke.cattle.io/etcd-role=true", []string{"Drover sets"}},
		"a label of backups":                  {"labels", "resources.cattle.io/backup=false", []string{"Drover sets"}},
		"a label of agents":                   {"labels", "plan.cattle.io/machine-name=x", []string{"Drover sets"}},
		"a label of Cluster API":              {"labels", "cluster.x-k8s.io/cluster-name=x", []string{"Drover sets"}},
		"a label of Cluster API's subdomains": {"labels", "topology.cluster.x-k8s.io/owned=", []string{"Drover sets"}},
		"a role label": {"labels", "node-role.kubernetes.io/master=",
			[]string{"a kubelet may not"}},
		"a label of Kubernetes":         {"labels", "kubernetes.io/x=y", []string{"a kubelet may not"}},
		"a label of node.kubernetes.io": {"labels", "scheduling.k8s.io/x=y", []string{"a kubelet may not"}},
		"a label of k8s.io":             {"labels", "k8s.io/os=linux", []string{"a kubelet may not"}},
		"a label of topology":           {"labels", "topology.kubernetes.io/rack=r1", []string{"a kubelet may not"}},
		"an unknown label of topology":  {"labels", "x.topology.kubernetes.io/zone=z", []string{"a kubelet may not"}},
		"an address with a zone":        {"address", "fe80::1%eth0", []string{`--address "fe80::1%eth0"`}},
		"two taints with one key": {"taints", "a=b:NoSchedule,a=c:NoSchedule",
			[]string{`--taint "a=c:NoSchedule"`, "the same key and effect"}},
		"a taint of roles": {"taints", "node-role.kubernetes.io/etcd=x:NoExecute",
			[]string{"from the roles"}},
		"a taint without an effect":   {"taints", "a=b", []string{`--taint "a=b"`, "KEY=VALUE:EFFECT", "NoExecute"}},
		"a taint with another effect": {"taints", "a=b:Explode", []string{`--taint "a=b:Explode"`}},
		"a taint with two values":     {"taints", "a=b=c:NoExecute", []string{`--taint "a=b=c:NoExecute"`}},
		"a taint with two effects":    {"taints", "a=b:NoExecute:NoSchedule", []string{"--taint"}},
		"a taint without a key":       {"taints", "=b:NoExecute", []string{"--taint"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := worker()
			said[tt.header] = []string{tt.value}
			_, err := registration.ParseHost(said)
			if err == nil {
				t.Fatal("is taken")
			}
			for _, part := range tt.parts {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not contain %q", err, part)
				}
			}
			if lines := strings.Count(err.Error(), "\n"); lines > 0 {
				t.Errorf("%d errors: %q", lines+1, err)
			}
		})
	}
}

// TestParseHost_ReportsAllErrors checks that the error lists all problems, so that the user corrects a command
// once. The identity is read anyway.
func TestParseHost_ReportsAllErrors(t *testing.T) {
	t.Parallel()
	host, err := registration.ParseHost(map[string][]string{
		"id": {"host-1"}, "node-name": {"_"}, "address": {"x"}, "internal-address": {"y"}, "labels": {"z"},
		"taints": {"t"},
	})
	if err == nil || host.ID != "host-1" {
		t.Fatalf("host %+v, error %v", host, err)
	}
	for _, part := range []string{"a role is missing", "--node-name", "--address", "--internal-address", "--label",
		"--taint"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not contain %q", err, part)
		}
	}
}

func request(data string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "c-m-1", Name: "custom-0123456789ab"},
		Data:       map[string][]byte{rkev1.MachineRequestDataKey: []byte(data)},
	}
}

func TestParseRequest(t *testing.T) {
	t.Parallel()
	host, err := registration.ParseRequest(request(`{"id":["host-1"],"role-etcd":["true"]}`))
	if diff := cmp.Diff(registration.Host{ID: "host-1", Etcd: true}, host); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	for _, data := range []string{"", "x", `["id"]`, `{"id":"host-1"}`} {
		if _, err := registration.ParseRequest(request(data)); err == nil ||
			!strings.Contains(err.Error(), "c-m-1/custom-0123456789ab must have headers in data") {
			t.Errorf("%q: error %v", data, err)
		}
	}
}

func TestAnswer_IsForTheRequestOfTheHost(t *testing.T) {
	t.Parallel()
	asked := request(`{"id":["host-1"]}`)
	if got := registration.ReadAnswer(asked); got != nil {
		t.Errorf("an answer without a controller: %+v", got)
	}
	refusal, machine := &registration.Answer{Refusal: "no"},
		&registration.Answer{Namespace: "fleet-default", Name: "custom-1"}
	refused := registration.WithAnswer(asked, refusal)
	if diff := cmp.Diff(refusal, registration.ReadAnswer(refused)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if refused.Annotations[rkev1.RegistrationRefusedAnnotation] != "no" {
		t.Errorf("annotations %v", refused.Annotations)
	}
	refused.Data = request(`{"id":["host-1"],"role-etcd":["true"]}`).Data
	if got := registration.ReadAnswer(refused); got != nil {
		t.Errorf("an answer to another request counts: %+v", got)
	}
	answered := registration.WithAnswer(refused, machine)
	if diff := cmp.Diff(machine, registration.ReadAnswer(answered)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want := map[string]string{rkev1.MachineNamespaceLabel: "fleet-default", rkev1.MachineNameLabel: "custom-1"}
	if diff := cmp.Diff(want, answered.Labels); diff != "" || len(answered.Annotations) != 1 {
		t.Errorf("annotations %v, labels (-want +got):\n%s", answered.Annotations, diff)
	}
	answered.Labels["kept"], answered.Annotations["kept"] = "a", "b"
	taken := registration.WithAnswer(answered, nil)
	if len(taken.Labels) != 1 || len(taken.Annotations) != 1 || registration.ReadAnswer(taken) != nil {
		t.Errorf("labels %v, annotations %v", taken.Labels, taken.Annotations)
	}
	if registration.ReadAnswer(answered) == nil {
		t.Error("the request itself is changed")
	}
}

// TestMachine_Objects checks that a host's description is in three objects of one name, and that each has what its
// readers need.
func TestMachine_Objects(t *testing.T) {
	t.Parallel()
	host, err := registration.ParseHost(map[string][]string{
		"id": {strings.Repeat("3f", 31) + "a"}, "role-etcd": {"true"}, "role-control-plane": {"true"},
		"node-name": {"edge-1"}, "address": {"203.0.113.7"},
		"internal-address": {"10.0.0.7"}, "labels": {"cattle.io/os=linux,site=north"},
		"taints": {"a=b:NoExecute,c:NoSchedule"},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := host.Machine("fleet-default", "demo")
	if err != nil {
		t.Fatal(err)
	}
	const name, taints = "custom-63253e855250",
		`[{"key":"a","value":"b","effect":"NoExecute"},{"key":"c","effect":"NoSchedule"}]`
	meta := func(annotations map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "fleet-default", Name: name, Annotations: annotations,
			Labels: map[string]string{
				"rke.cattle.io/etcd-role": "true", "rke.cattle.io/control-plane-role": "true",
				"cluster.x-k8s.io/control-plane": "true",
				"rke.cattle.io/node-name":        "edge-1", "rke.cattle.io/machine-id": strings.Repeat("3f", 31) + "a",
				"rke.cattle.io/cluster-name":    "demo",
				"cluster.x-k8s.io/cluster-name": "demo", "cattle.io/os": "linux", "site": "north",
			}}
	}
	tainted := map[string]string{"rke.cattle.io/taints": taints}
	guarded := meta(tainted)
	guarded.Finalizers = []string{"wrangler.cattle.io/unmanaged-machine"}
	drain, deletion := int32(600), int32(1500)
	want := registration.Machine{
		Bootstrap: &rkev1.RKEBootstrap{
			ObjectMeta: meta(map[string]string{
				"rke.cattle.io/address": "203.0.113.7", "rke.cattle.io/internal-address": "10.0.0.7",
				"rke.cattle.io/taints": taints,
				"rke.cattle.io/labels": `{"cattle.io/os":"linux","site":"north"}`,
			}),
			Spec: rkev1.RKEBootstrapSpec{ClusterName: "demo"},
		},
		Custom: &rkev1.CustomMachine{ObjectMeta: guarded},
		Machine: &clusterv1.Machine{ObjectMeta: meta(tainted), Spec: clusterv1.MachineSpec{
			ClusterName: "demo",
			Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: "rke.cattle.io", Kind: "RKEBootstrap", Name: name}},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io",
				Kind: "CustomMachine", Name: name},
			Deletion: clusterv1.MachineDeletionSpec{NodeDrainTimeoutSeconds: &drain,
				NodeDeletionTimeoutSeconds: &deletion},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestMachine_HasOnlyDataOfTheHost checks that a worker without flags has no annotations, and only its own role.
func TestMachine_HasOnlyDataOfTheHost(t *testing.T) {
	t.Parallel()
	host, err := registration.ParseHost(worker())
	if err != nil {
		t.Fatal(err)
	}
	got, err := host.Machine("fleet-default", "demo")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"rke.cattle.io/worker-role": "true", "rke.cattle.io/machine-id": "host-1", "rke.cattle.io/cluster-name": "demo",
		"cluster.x-k8s.io/cluster-name": "demo", "cattle.io/os": "linux",
	}
	for _, meta := range []metav1.ObjectMeta{got.Bootstrap.ObjectMeta, got.Custom.ObjectMeta, got.Machine.ObjectMeta} {
		if diff := cmp.Diff(want, meta.Labels); diff != "" || len(meta.Annotations) > 0 {
			t.Errorf("annotations %v, labels (-want +got):\n%s", meta.Annotations, diff)
		}
	}
}

// TestMachine_ObjectsShareNothing checks that a change of one object's labels does not change another object.
func TestMachine_ObjectsShareNothing(t *testing.T) {
	t.Parallel()
	said := worker()
	said["taints"] = []string{"a=b:NoExecute"}
	host, err := registration.ParseHost(said)
	if err != nil {
		t.Fatal(err)
	}
	got, err := host.Machine("fleet-default", "demo")
	if err != nil {
		t.Fatal(err)
	}
	got.Machine.Labels["changed"], got.Machine.Annotations["changed"] = "x", "x"
	for _, meta := range []metav1.ObjectMeta{got.Bootstrap.ObjectMeta, got.Custom.ObjectMeta} {
		if meta.Labels["changed"] != "" || meta.Annotations["changed"] != "" {
			t.Errorf("%+v", meta)
		}
	}
}

func TestCorrection(t *testing.T) {
	t.Parallel()
	wanted := func(said registration.Host) metav1.Object {
		said.ID = "host-1"
		made, err := said.Machine("fleet-default", "demo")
		if err != nil {
			t.Fatal(err)
		}
		made.Bootstrap.ResourceVersion = "7"
		return made.Bootstrap
	}
	all := registration.Host{
		Etcd: true, ControlPlane: true, Worker: true, NodeName: "edge-1", Address: "203.0.113.7",
		Labels: map[string]string{"site": "north"},
		Taints: []corev1.Taint{{Key: "a", Effect: "NoExecute"}},
	}
	one := registration.Host{Worker: true, Labels: map[string]string{"rack": "1"}}
	annotated := wanted(one)
	annotated.GetAnnotations()["example.com/note"] = "of another user"
	for name, tt := range map[string]struct {
		there, wanted metav1.Object
		want          string
	}{
		"the same":                            {wanted(all), wanted(all), ""},
		"with data that a host does not send": {annotated, wanted(one), ""},
		"fewer roles, and another label": {wanted(all), wanted(one),
			`{"metadata":{"annotations":{"rke.cattle.io/address":null,"rke.cattle.io/labels":"{\"rack\":\"1\"}","rke.cattle.io/taints":null},` +
				`"labels":{"cluster.x-k8s.io/control-plane":null,"rack":"1","rke.cattle.io/control-plane-role":null,"rke.cattle.io/etcd-role":null,` +
				`"rke.cattle.io/node-name":null,"site":null},"resourceVersion":"7"}}`},
		"an address": {
			wanted(registration.Host{Worker: true, Address: "203.0.113.7"}),
			wanted(registration.Host{Worker: true, Address: "203.0.113.8"}),
			`{"metadata":{"annotations":{"rke.cattle.io/address":"203.0.113.8"},"labels":{},"resourceVersion":"7"}}`,
		},
		"another role": {
			wanted(registration.Host{Worker: true}), wanted(registration.Host{Worker: true, Etcd: true}),
			`{"metadata":{"annotations":{},"labels":{"rke.cattle.io/etcd-role":"true"},"resourceVersion":"7"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := registration.Correction(tt.there, tt.wanted)
			if diff := cmp.Diff(tt.want, string(got)); diff != "" || err != nil {
				t.Errorf("%v, (-want +got):\n%s", err, diff)
			}
		})
	}
}
