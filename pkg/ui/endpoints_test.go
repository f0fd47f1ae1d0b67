package ui

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/operate/diagnose"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/testkit/build"
)

// TestOpenAPI_HasEveryEndpoint checks the document and the table against each other.
func TestOpenAPI_HasEveryEndpoint(t *testing.T) {
	p := newPage(t, options(&rest.Config{Host: "https://api.example.com"}))
	document := decode[struct {
		OpenAPI    string                               `json:"openapi"`
		Paths      map[string]map[string]map[string]any `json:"paths"`
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}](t, p.get("/ui/api/openapi.json"))
	operations := 0
	for _, methods := range document.Paths {
		operations += len(methods)
	}
	for _, each := range endpoints() {
		at := "/ui/api/" + strings.ReplaceAll(each.path, "...}", "}")
		if operation := document.Paths[at][strings.ToLower(each.method)]; operation["summary"] != each.summary {
			t.Errorf("%s %s has %v", each.method, at, operation)
		}
	}
	if operations != len(endpoints()) {
		t.Errorf("%d operations for %d endpoints", operations, len(endpoints()))
	}
	for name, properties := range map[string][]string{
		"ui.sessionBody": {"user", "groups", "csrf", "version", "mode", "expires"},
		"status.Cluster": {"namespace", "name", "state", "conditions", "stages"},
		"status.Machine": {"cluster", "pool", "roles"}, "diagnose.Report": {"result"},
	} {
		for _, property := range properties {
			if document.Components.Schemas[name].Properties[property] == nil {
				t.Errorf("schema %s lacks %s", name, property)
			}
		}
	}
	text, err := json.Marshal(document)
	check(t, err)
	for part := range strings.SplitSeq(string(text), `"#/components/schemas/`) {
		name, _, ok := strings.Cut(part, `"`)
		if _, known := document.Components.Schemas[name]; ok && !known && part[0] != '{' {
			t.Errorf("a reference to %s, which is no schema", name)
		}
	}
}

// Every endpoint except the public ones refuses strangers, and names that no object has.
func TestEndpoints_NeedACaller(t *testing.T) {
	f := newFakeAPI(t)
	p := newPage(t, options(f.serve(t)))
	for _, each := range endpoints() {
		if each.isPublic {
			continue
		}
		path := strings.NewReplacer("{namespace}", "team-a", "{name}", "demo", "{path...}", "version",
			"{snapshot}", "s").Replace(
			each.path)
		t.Run(each.method+" "+each.path, func(t *testing.T) {
			wants(t, p.do(p.request(each.method, "/ui/api/"+path, "")), http.StatusUnauthorized, reasonUnauthorized)
		})
	}
	p.signIn(token)
	for _, path := range []string{"namespaces/Team/access", "namespaces/team-a/clusters/De_mo/explain",
		"namespaces/team-a/clusters/..%2fdemo/explain", "namespaces/team-a//access", "namespaces/a;b/access"} {
		wants(t, p.get("/ui/api/v1/"+path), http.StatusBadRequest, reasonInvalid)
	}
	if len(f.Log()) != 0 {
		t.Errorf("requests to the API server: %v", f.Log())
	}
}

func TestNamespaces_DependOnTheRights(t *testing.T) {
	f := newFakeAPI(t)
	p := signedIn(t, f)
	all := decode[namespacesBody](t, p.get("/ui/api/v1/namespaces"))
	if !all.All || !slices.Contains(all.Namespaces, "team-a") {
		t.Errorf("got %+v", all)
	}
	f.forbid("bob", "")
	f.forbid("bob", "team-b")
	p.signIn("token-of-bob")
	if got := p.get("/ui/api/v1/namespaces").Body.String(); got != `{"all":false,"namespaces":[]}` {
		t.Errorf("got %s", got)
	}
	// Who may list namespaces may lack the Clusters of most of them.
	f.permitKind("bob", "namespaces")
	if got := decode[namespacesBody](t, p.get("/ui/api/v1/namespaces")); got.All || len(got.Namespaces) == 0 {
		t.Errorf("got %+v", got)
	}
	for namespace, want := range map[string]string{"team-a": "view", "team-b": "none"} {
		if got := decode[accessBody](t, p.get("/ui/api/v1/namespaces/"+namespace+"/access")); got.Clusters != want {
			t.Errorf("bob in %s: %s, want %s", namespace, got.Clusters, want)
		}
	}
	p.signIn(token)
	if got := decode[accessBody](t, p.get("/ui/api/v1/namespaces/team-a/access")); got.Clusters != "edit" {
		t.Errorf("ann: %s", got.Clusters)
	}
}

// A tenant gets the API server's refusal for a cluster of another namespace, and an absent cluster is not found.
func TestClusters_AreReadAsTheCaller(t *testing.T) {
	f := newFakeAPI(t, cluster("team-a", "demo"), cluster("team-b", "demo"))
	f.forbid("ann", "team-b")
	p := signedIn(t, f)
	for _, what := range []string{"diagnose", "explain", "logs", "events", "kubeconfig", "manifest"} {
		t.Run(what, func(t *testing.T) {
			wants(t, p.get("/ui/api/v1/namespaces/team-b/clusters/demo/"+what), http.StatusForbidden, reasonForbidden)
			wants(t, p.get("/ui/api/v1/namespaces/team-a/clusters/absent/"+what), http.StatusNotFound, reasonNotFound)
		})
		p.relax()
	}
	wants(t, p.get("/ui/api/v1/namespaces/team-b/clusters/demo/supportbundle"), http.StatusForbidden, reasonForbidden)
	got := p.get("/ui/api/v1/namespaces/team-a/clusters/absent/manifest").Body.String()
	if strings.Contains(got, "-n ") {
		t.Errorf("advice for the command line: %s", got)
	}
}

func TestClusters_DiagnoseExplainPreview(t *testing.T) {
	p := signedIn(t, newFakeAPI(t, cluster("team-a", "demo")))
	base := "/ui/api/v1/namespaces/team-a/clusters/demo/"
	if got := decode[diagnose.Report](t, p.get(base+"diagnose")); got.Result == diagnose.OK || len(got.Findings) == 0 {
		t.Errorf("diagnosis %+v", got)
	}
	if got := decode[inspect.Explanation](t, p.get(base+"explain")); got.Cluster != "team-a/demo" {
		t.Errorf("explanation %+v", got)
	}
	p.relax()
	got := p.do(p.request(http.MethodPost, base+"preview", strings.Repeat("#", maxManifest+1)))
	wants(t, got, http.StatusRequestEntityTooLarge, reasonInvalid)
}

// copyOfObject is an annotation of kubectl.
const copyOfObject = "kubectl.kubernetes.io/last-applied-configuration"

func TestManifest_IsWhatAUserWouldWrite(t *testing.T) {
	demo := cluster("team-a", "demo")
	demo.Status.ClusterName = "c-m-1"
	demo.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x", Operation: "Apply", APIVersion: "v1"}}
	demo.Annotations = map[string]string{copyOfObject: "{}", "own": "value"}
	got := signedIn(t, newFakeAPI(t, demo)).get("/ui/api/v1/namespaces/team-a/clusters/demo/manifest")
	if text := got.Body.String(); got.Code != http.StatusOK || !strings.Contains(text, "name: demo\n") ||
		!strings.Contains(text, "own: value\n") || slices.ContainsFunc([]string{"status:", "managedFields",
		"resourceVersion", "uid", "creationTimestamp", copyOfObject}, func(s string) bool {
		return strings.Contains(text, s)
	}) {
		t.Errorf("got %d %s", got.Code, text)
	}
	if got := got.Header().Get("Content-Type"); got != textYAML {
		t.Errorf("type %s", got)
	}
}

func TestLogs_ShowTheProvisioningLog(t *testing.T) {
	demo := cluster("team-a", "demo")
	demo.Status.ClusterName = "c-m-1"
	log := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-b", Name: provv1.ProvisioningLogName},
		Data:       map[string]string{provv1.ProvisioningLogKey: "one\ntwo\n"}}
	demo.Status.ClusterName = "team-b" // a namespace that exists
	p := signedIn(t, newFakeAPI(t, demo, cluster("team-a", "young"), log))
	got := p.get("/ui/api/v1/namespaces/team-a/clusters/demo/logs")
	if got.Code != http.StatusOK || got.Body.String() != "one\ntwo\n" || got.Header().Get("Content-Type") != textPlain {
		t.Errorf("got %d %q %s", got.Code, got.Body, got.Header().Get("Content-Type"))
	}
	wants(t, p.get("/ui/api/v1/namespaces/team-a/clusters/young/logs"), http.StatusNotFound, reasonNotFound)
}

func TestKubeconfig_HoldsNoCredential(t *testing.T) {
	demo := cluster("team-a", "demo")
	demo.Status.ClusterName = "c-m-1"
	demo.Annotations = map[string]string{rkev1.InstanceAnnotation: "own"}
	settings := controllers.Settings{ServerURL: "https://drover.example.com", CACerts: "authority"}.ConfigMap("own")
	settings.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	got := signedIn(t, newFakeAPI(t, demo, settings)).get("/ui/api/v1/namespaces/team-a/clusters/demo/kubeconfig")
	if got.Code != http.StatusOK || strings.Contains(got.Body.String(), token) ||
		got.Header().Get("Content-Disposition") != "attachment; filename=demo.kubeconfig" {
		t.Fatalf("got %d %s %s", got.Code, got.Header(), got.Body)
	}
	config, err := clientcmd.Load(got.Body.Bytes())
	check(t, err)
	const address = "https://drover.example.com/k8s/clusters/c-m-1"
	if found := config.Clusters["demo"]; found == nil || found.Server != address ||
		config.AuthInfos["demo"].Exec.Command != "drover" || config.AuthInfos["demo"].Token != "" {
		t.Errorf("kubeconfig %s", got.Body)
	}
}

func TestSupportBundle_HasNoSecrets(t *testing.T) {
	f := newFakeAPI(t, cluster("team-a", "demo"),
		secretObject("team-a", "other", map[string]string{"k": "hidden-value"}))
	got := signedIn(t, f).get("/ui/api/v1/namespaces/team-a/clusters/demo/supportbundle")
	if got.Code != http.StatusOK || got.Header().Get("Content-Disposition") !=
		"attachment; filename=drover-support-bundle-team-a-demo.tar.gz" {
		t.Fatalf("got %d %v", got.Code, got.Header())
	}
	unpacked, err := gzip.NewReader(got.Body)
	check(t, err)
	archive, names := tar.NewReader(unpacked), []string{}
	for {
		file, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		check(t, err)
		names = append(names, file.Name)
		data, err := io.ReadAll(archive)
		check(t, err)
		if strings.Contains(string(data), "hidden-value") || strings.Contains(string(data), token) {
			t.Errorf("%s has a secret", file.Name)
		}
	}
	if !slices.Contains(names, "drover-support-bundle/diagnosis/team-a-demo.json") {
		t.Errorf("files %v", names)
	}
}

func TestEvents_AreThoseOfTheClusterNewestFirst(t *testing.T) {
	machine := build.Machine("demo", "m1", "worker")
	machine.Namespace = "team-a"
	at := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	event := func(name, kind, object string, minute int) *corev1.Event {
		when := metav1.NewTime(at.Add(time.Duration(minute) * time.Minute))
		return &corev1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
			ObjectMeta:     metav1.ObjectMeta{Namespace: "team-a", Name: name},
			InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: "team-a", Name: object},
			Type:           "Normal", Reason: name, FirstTimestamp: when, LastTimestamp: when, Count: 2}
	}
	f := newFakeAPI(t, cluster("team-a", "demo"), machine, event("created", "Cluster", "demo", 1),
		event("ready", "Machine", "m1", 3), event("other", "Cluster", "other", 2),
		event("plan", "RKEControlPlane", "demo", 2))
	got := decode[eventsBody](t, signedIn(t, f).get("/ui/api/v1/namespaces/team-a/clusters/demo/events"))
	var reasons []string
	for _, each := range got.Items {
		reasons = append(reasons, each.Reason+" "+each.Object)
	}
	want := []string{"ready Machine/m1", "plan RKEControlPlane/demo", "created Cluster/demo"}
	if diff := cmp.Diff(want, reasons); diff != "" || got.Items[0].Count != 2 {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlan_HasNoContents(t *testing.T) {
	machine := build.Machine("demo", "m1", "worker")
	plan := `{"files":[{"path":"/etc/rancher/k3s/config.yaml.d/50-rancher.yaml","content":"` +
		`dG9rZW46IG15LXNlY3JldC1qb2luLXRva2VuCg=="}],"instructions":[{"name":"install","image":"rancher/k3s:v1",` +
		`"command":"sh","args":["-c","secret-args"],"env":["PASSWORD=env-password"]}],"probes":{"kubelet":{}}}`
	output, err := nodeplan.EncodeOutput(map[string][]byte{
		"install":              []byte("begin\nuses my-secret-join-token and env-password\nfailed\n"),
		nodeplan.OutputFailure: nodeplan.Failure{Instruction: "install", ExitCode: 1}.Encode()})
	check(t, err)
	secret := build.PlanSecret(machine, "plan", plan, "failed-checksum", nodeplan.Checksum([]byte(plan)),
		"failure-count", "3", "agent-version", "v1.2.3", "failed-output", string(output),
		"probe-statuses", `{"kubelet":{"healthy":true}}`)
	secret.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
	secret.Annotations = map[string]string{rkev1.PlanUpdatedTimeAnnotation: "2026-09-01T12:00:00Z"}
	f := newFakeAPI(t, machine, secret, build.Machine("demo", "m2", "worker"))
	p := signedIn(t, f)
	got := p.get("/ui/api/v1/namespaces/" + build.Namespace + "/machines/m1/plan")
	want := `{"delivered":"2026-09-01T12:00:00Z","applied":null,"failed":{"instruction":"install","attempts":3,` +
		`"output":"begin\nuses *** and ***\nfailed\n"},"instructions":[{"name":"install","image":"rancher/k3s:v1"}],` +
		`"files":["/etc/rancher/k3s/config.yaml.d/50-rancher.yaml"],"probes":[{"name":"kubelet","healthy":true}],` +
		`"agentVersion":"v1.2.3"}`
	if diff := cmp.Diff(want, got.Body.String()); got.Code != http.StatusOK || diff != "" {
		t.Errorf("code %d (-want +got):\n%s", got.Code, diff)
	}
	for _, path := range []string{"m2/plan", "absent/plan", "absent/logs"} {
		wants(t, p.get("/ui/api/v1/namespaces/"+build.Namespace+"/machines/"+path), http.StatusNotFound, reasonNotFound)
	}
}

func TestFailedOf_TellsWhyNothingRan(t *testing.T) {
	why := "pull image rancher/k3s:v1: connection refused"
	for name, tc := range map[string]struct {
		output map[string][]byte
		want   failedBody
	}{
		"an image that the agent cannot pull": {
			output: map[string][]byte{
				nodeplan.OutputAgentError: []byte(why), "install": []byte("of a former plan"),
				nodeplan.OutputFailure: nodeplan.Failure{Instruction: "install"}.Encode(),
			},
			want: failedBody{Instruction: "install", Attempts: 2, Output: why},
		},
		"a file that the agent cannot write": {
			output: map[string][]byte{nodeplan.OutputAgentError: []byte(why)},
			want:   failedBody{Attempts: 2, Output: why},
		},
		"an agent of another vendor": {
			output: map[string][]byte{"install": []byte("failed")}, want: failedBody{Attempts: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := failedOf(nodeplan.State{FailureCount: 2, FailedOutput: tc.output})
			if diff := cmp.Diff(&tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAdministration_ShowsNoValues(t *testing.T) {
	credential := secretObject("cattle-global-data", "cc-1", map[string]string{
		"amazonec2credentialConfig-secretKey": "hidden-value"})
	credential.Type, credential.Annotations = provv1.SecretTypeCloudCredential,
		map[string]string{"field.cattle.io/name": "ours"}
	demo := build.Cluster("demo", build.Pool("all", "etcd,controlplane,worker", 1))
	demo.Namespace, demo.Spec.CloudCredentialSecretName = "team-a",
		"cattle-global-data:cc-1"
	f := newFakeAPI(t, credential, demo)
	p := signedIn(t, f)
	recorder := p.get("/ui/api/v1/administration")
	got := decode[administrationBody](t, recorder)
	want := []credentialBody{{"cattle-global-data", "cc-1", "ours", "amazonec2", []string{"team-a/demo"}}}
	if diff := cmp.Diff(want, got.Credentials.Items); diff != "" || strings.Contains(recorder.Body.String(), "hidden") {
		t.Errorf("%s (-want +got):\n%s", recorder.Body, diff)
	}
	if !strings.Contains(recorder.Body.String(), `"drivers":{"items":[]}`) || got.Leader.Reason != reasonNotFound ||
		got.Versions.Drover != "v1.2.3" || got.Versions.Kubernetes == "" {
		t.Errorf("got %s", recorder.Body)
	}
	for _, namespace := range []string{"", "cattle-global-data", "drover-system"} {
		f.forbid("bob", namespace)
	}
	p.signIn("token-of-bob")
	got = decode[administrationBody](t, p.get("/ui/api/v1/administration"))
	for part, reason := range map[string]string{"drivers": got.Drivers.Reason, "credentials": got.Credentials.Reason,
		"tokens": got.RegistrationTokens.Reason, "leader": got.Leader.Reason, "replicas": got.Versions.Reason} {
		if reason != reasonForbidden {
			t.Errorf("%s: reason %q", part, reason)
		}
	}
}

func TestLimits_AreForEachCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimits(time.Now)
		try := func(user string, isHeavy bool, want bool) func() {
			t.Helper()
			done, err := l.enter(user, isHeavy)
			if (err == nil) != want {
				t.Errorf("%s: %v", user, err)
			}
			if err != nil {
				if f := failureOf(err); f.status != http.StatusTooManyRequests || f.retry == 0 {
					t.Errorf("got %+v", f)
				}
				return func() {}
			}
			return done
		}
		for range requestsBurst {
			try("ann", false, true)
		}
		try("ann", false, false)
		try("bob", false, true)
		time.Sleep(time.Second)
		try("ann", false, true)
		time.Sleep(time.Minute)
		first := try("ann", true, true)
		try("ann", true, true)
		try("ann", true, false)
		first()
		for range 3 {
			try("ann", true, true)()
		}
		try("ann", true, false)
		time.Sleep(time.Second)
		try("ann", true, true)()
		time.Sleep(2 * idleCaller)
		try("bob", false, true)
		if len(l.callers) != 2 {
			t.Errorf("%d callers, want bob, and ann with a request", len(l.callers))
		}
	})
}

// 429 reaches the caller with Retry-After.
func TestEndpoints_AreLimited(t *testing.T) {
	p := signedIn(t, newFakeAPI(t, []runtime.Object{cluster("team-a", "demo")}...))
	last := p.get("/ui/api/v1/session")
	for range requestsBurst + requestsPerSecond {
		if last = p.get("/ui/api/v1/session"); last.Code != http.StatusOK {
			break
		}
	}
	wants(t, last, http.StatusTooManyRequests, reasonTooMany)
	if last.Header().Get("Retry-After") != "1" {
		t.Errorf("headers %v", last.Header())
	}
}
