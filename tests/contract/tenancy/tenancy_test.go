package tenancy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/fakeagent"
	"github.com/drover-io/drover/tests/charts"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// TestMain aggregates the rules of Kubernetes' own roles, as in every cluster. A test with a tenant without rights
// would prove nothing.
func TestMain(m *testing.M) {
	os.Exit(stage.Main(m, func(o *plane.Options) {
		o.Controllers = append(o.Controllers, "clusterrole-aggregation-controller")
	}))
}

// failing is the name prefix of clusters whose machines can never be created.
const failing = "bad-"

// faults make the Jobs of those clusters fail.
type faults struct{ fakeagent.NoFaults }

func (faults) Job(machine string, remove bool, _ int) string {
	if !remove && strings.HasPrefix(machine, failing) {
		return "the cloud has no capacity"
	}
	return ""
}

// machines makes machines need time to boot and to install, like real machines but less.
func machines(o *fakeagent.Options) {
	o.Faults, o.Boot, o.Install = faults{}, 3*time.Second, 3*time.Second
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tenant returns the client of a user with a tenant's rights in one namespace: Kubernetes' own role edit, and the
// chart's additions.
func tenant(t *testing.T, st *stage.Stage, name, namespace string) client.Client {
	t.Helper()
	objects, err := charts.Objects(filepath.Join(plane.Root(t), "charts", "drover"), charts.Release{}, map[string]any{
		"server": map[string]any{"url": "https://127.0.0.1:1"}, "rbac": map[string]any{"aggregateToDefaultRoles": true},
	})
	check(t, err)
	roles := []string{"edit"}
	for _, object := range objects {
		if kind := object.GetKind(); kind != "ClusterRole" || !strings.HasSuffix(object.GetName(), "-edit") &&
			!strings.HasSuffix(object.GetName(), "-view") {
			continue
		}
		check(t, client.IgnoreAlreadyExists(st.Client.Create(t.Context(), object.DeepCopy())))
		roles = append(roles, object.GetName())
	}
	if len(roles) != 3 {
		t.Fatalf("roles of a tenant: %v", roles)
	}
	for _, role := range roles {
		check(t, st.Client.Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		}))
	}
	config := plane.Config(t, "tenant-"+name)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	user, err := client.New(config, client.Options{Scheme: st.Client.Scheme()})
	check(t, err)
	return user
}

// world is two tenants. The first one tries to get at the second one's objects.
type world struct {
	*testing.T
	st      *stage.Stage
	a, b    string
	alice   client.Client
	opened  int
	rows    []string
	idOfB   string
	secrets map[string]string
}

// shut is the reason why an attempt had no effect although it was not rejected.
type shut string

func (s shut) Error() string { return string(s) }

// door reports one attempt. It is closed if open returns a rejection or shut. Another error proves nothing.
func (w *world) door(what string, open func() error) {
	w.Helper()
	if err := open(); err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		if !apierrors.IsForbidden(err) && !errors.As(err, new(shut)) {
			w.Errorf("%s: the attempt failed with %v", what, err)
		}
		w.rows = append(w.rows, fmt.Sprintf("%-72s closed: %.110s", what, text))
		return
	}
	w.opened++
	w.rows = append(w.rows, fmt.Sprintf("%-72s OPEN", what))
}

// TestTenancy: alice has all rights of a tenant in namespace a. alice's own clusters work, and attempts on tenant b's
// objects fail.
func TestTenancy(t *testing.T) {
	st := stage.Start(t, stage.Settings{Machines: machines, Admission: true})
	w := &world{T: t, st: st, a: plane.Namespace(t), b: plane.Namespace(t)}
	w.alice = tenant(t, st, "alice", w.a)
	w.furnish()
	w.awaitWebhooks()
	w.readDoors()
	w.writeDoors()
	w.referenceDoors()
	w.namedDoors()
	w.endpointDoors()
	w.kubeconfigDoor()
	w.withdrawn()
	for _, row := range w.rows {
		t.Log(row)
	}
	t.Logf("%d doors tried, %d opened", len(w.rows), w.opened)
	if w.opened > 0 {
		t.Errorf("%d doors are open", w.opened)
	}
}

// furnish creates a cluster of the same name for each tenant, and the objects of b that are worth an attempt.
func (w *world) furnish() {
	w.Helper()
	ctx := w.Context()
	check(w.T, w.st.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-global-data", Name: "cc-b", Annotations: map[string]string{
			rkev1.AuthorizedObjectAnnotation: w.b + "/*,demo", rkev1.AuthorizedSecretAnnotation: w.b + "/*,demo",
		}},
		Data: map[string][]byte{"credential": []byte("b's"), "simcredentialConfig-token": []byte("b's")},
	}))
	check(w.T, w.st.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.b, Name: "files", Annotations: map[string]string{
			rkev1.AuthorizedObjectAnnotation: "demo", rkev1.AuthorizedSecretAnnotation: "demo",
		}},
		Data: map[string][]byte{"credential": []byte("b's")},
	}))
	w.st.Cluster(w.b, "demo", stage.RKE2, stage.Pool("server", "ec", 1), stage.Pool("worker", "w", 1))
	w.st.Edit(w.b, "demo", func(c *provv1.Cluster) { c.Spec.CloudCredentialSecretName = "cattle-global-data:cc-b" })
	w.st.Cluster(w.a, "demo", stage.RKE2, stage.Pool("server", "ecw", 1))
	for _, namespace := range []string{w.a, w.b} {
		plane.Until(w.T, 5*time.Minute, func() string { return w.st.WaitingFor(namespace, "demo") })
	}
	w.idOfB = w.cluster(w.b, "demo").Status.ClusterName
	if own := w.cluster(w.a, "demo").Status.ClusterName; own == w.idOfB {
		w.Errorf("both clusters are %s", own)
	}
	w.secrets = map[string]string{}
	var list corev1.SecretList
	check(w.T, w.st.Client.List(ctx, &list, client.InNamespace(w.b)))
	for i := range list.Items {
		w.secrets[list.Items[i].Name] = string(list.Items[i].Type)
	}
}

func (w *world) cluster(namespace, name string) *provv1.Cluster {
	w.Helper()
	cluster := &provv1.Cluster{}
	check(w.T, w.st.Client.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name}, cluster))
	return cluster
}

// awaitWebhooks waits until the API server calls the webhooks, which takes a moment after their registration.
func (w *world) awaitWebhooks() {
	plane.Until(w.T, time.Minute, func() string {
		probe := naming(w.a, "probe", func(c *provv1.Cluster) {
			c.Spec.CloudCredentialSecretName = "cattle-global-data:cc-b"
		})
		if err := w.alice.Create(w.Context(), probe, client.DryRunAll); err == nil {
			return "a reference to another tenant's credential is accepted"
		}
		return ""
	})
}

func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func (w *world) readDoors() {
	ctx := w.Context()
	for name, kind := range w.secrets {
		w.door(fmt.Sprintf("read Secret %s (%s) of b", name, kind), func() error {
			return w.alice.Get(ctx, client.ObjectKey{Namespace: w.b, Name: name}, &corev1.Secret{})
		})
	}
	for _, kind := range []string{
		"v1 Secret", "v1 ConfigMap", "v1 ServiceAccount", "batch/v1 Job", "provisioning.cattle.io/v1 Cluster",
		"rke.cattle.io/v1 RKEControlPlane",
		"rke.cattle.io/v1 RKEBootstrap", "rke.cattle.io/v1 ETCDSnapshot", "cluster.x-k8s.io/v1beta2 Machine",
		"rke-machine-config.cattle.io/v1 SimConfig", "rke-machine.cattle.io/v1 SimMachine",
	} {
		apiVersion, kind, _ := strings.Cut(kind, " ")
		for _, where := range []string{w.b, w.idOfB, "drover-system", "cattle-global-data"} {
			w.door("list "+kind+"s in "+
				strings.ReplaceAll(strings.ReplaceAll(where, w.idOfB, "the management namespace of b"), w.b,
					"b"), func() error {
				list := &unstructured.UnstructuredList{}
				list.SetAPIVersion(apiVersion)
				list.SetKind(kind + "List")
				return w.alice.List(ctx, list, client.InNamespace(where))
			})
		}
	}
	for _, kind := range []string{
		"management.cattle.io/v3 NodeDriver", "management.cattle.io/v3 DynamicSchema",
		"management.cattle.io/v3 Cluster", "management.cattle.io/v3 PodSecurityAdmissionConfigurationTemplate",
		"admissionregistration.k8s.io/v1 MutatingWebhookConfiguration",
	} {
		apiVersion, kind, _ := strings.Cut(kind, " ")
		w.door("list "+kind+"s of the installation", func() error {
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion(apiVersion)
			list.SetKind(kind + "List")
			return w.alice.List(ctx, list)
		})
	}
}

func (w *world) writeDoors() {
	ctx := w.Context()
	driver := object("management.cattle.io/v3", "NodeDriver", "", "mine")
	driver.Object["spec"] = map[string]any{"active": true, "displayName": "mine", "url": "https://example.com/driver"}
	w.door("register a node driver", func() error { return w.alice.Create(ctx, driver) })
	w.door("create a cluster in b", func() error { return w.alice.Create(ctx, naming(w.b, "hers")) })
	w.door("write the status of her own cluster", func() error {
		mine := w.cluster(w.a, "demo")
		mine.Status.ClusterName = w.idOfB
		return w.alice.Status().Update(ctx, mine)
	})
	for _, target := range []*unstructured.Unstructured{
		object("cluster.x-k8s.io/v1beta2", "Machine", w.a, "m"), object("rke.cattle.io/v1", "RKEBootstrap", w.a, "m"),
		object("rke.cattle.io/v1", "RKEControlPlane", w.a, "m"), object("rke.cattle.io/v1", "ETCDSnapshot", w.a, "m"),
		object("rke-machine.cattle.io/v1", "SimMachine", w.a, "m"),
		object("rke-machine.cattle.io/v1", "SimMachineTemplate", w.a, "m"),
		object("management.cattle.io/v3", "ClusterRegistrationToken", w.a, "m"),
	} {
		target.Object["spec"] = map[string]any{"clusterName": "demo"}
		w.door("make a "+target.GetKind()+" by hand, in her own namespace", func() error {
			return w.alice.Create(ctx, target)
		})
	}
	w.door("take the management cluster of b by its name", func() error {
		cluster := naming(w.a, "thief", func(c *provv1.Cluster) {
			c.Annotations = map[string]string{provv1.ManagementClusterNameAnnotation: w.idOfB}
		})
		return w.alice.Create(ctx, cluster)
	})
	w.door("take the identifier of a deleted cluster", func() error {
		return w.alice.Create(ctx, naming(w.a, "heir", func(c *provv1.Cluster) {
			c.Annotations = map[string]string{provv1.ManagementClusterNameAnnotation: "c-m-gone0000"}
		}))
	})
}

// naming returns a cluster of one machine.
func naming(namespace, name string, edits ...func(*provv1.Cluster)) *provv1.Cluster {
	pool := stage.Pool("server", "ecw", 1)
	pool.NodeConfig.Name = name + "-server"
	cluster := &provv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: provv1.ClusterSpec{
			KubernetesVersion: stage.RKE2,
			RKEConfig:         &provv1.RKEConfig{MachinePools: []provv1.RKEMachinePool{pool}},
		},
	}
	for _, edit := range edits {
		edit(cluster)
	}
	return cluster
}

func (w *world) referenceDoors() {
	ctx := w.Context()
	for what, edit := range map[string]func(*provv1.Cluster){
		"the cloud credential of a cluster": func(c *provv1.Cluster) {
			c.Spec.CloudCredentialSecretName = "cattle-global-data:cc-b"
		},
		"the cloud credential of a pool": func(c *provv1.Cluster) {
			c.Spec.RKEConfig.MachinePools[0].CloudCredentialSecretName = "cattle-global-data:cc-b"
		},
		"the credential for snapshots": func(c *provv1.Cluster) {
			c.Spec.RKEConfig.ETCD = &rkev1.ETCD{
				S3: &rkev1.ETCDSnapshotS3{CloudCredentialName: "cattle-global-data:cc-b", Bucket: "x"}}
		},
		"the cloud provider's configuration, from b": func(c *provv1.Cluster) {
			c.Spec.RKEConfig.MachineGlobalConfig.Data = map[string]any{"cloud-provider-config": "secret://" + w.b +
				":files"}
		},
		"the cloud provider's configuration, from drover-system": func(c *provv1.Cluster) {
			c.Spec.RKEConfig.MachineGlobalConfig.Data = map[string]any{
				"cloud-provider-config": "secret://drover-system:drover-grants"}
		},
	} {
		w.door("name as "+what+" a foreign Secret, in a new cluster demo", func() error {
			return w.alice.Create(ctx, naming(w.a, "x", edit), client.DryRunAll)
		})
		w.door("name as "+what+" a foreign Secret, in her cluster demo", func() error {
			return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				mine := &provv1.Cluster{}
				check(w.T, w.alice.Get(ctx, client.ObjectKey{Namespace: w.a, Name: "demo"}, mine))
				edit(mine)
				mine.Annotations[rkev1.GrantsAnnotation] =
					`[{"secret":"cattle-global-data/cc-b","author":{"username":"admin"},"signature":"x"}]`
				return w.alice.Update(ctx, mine, client.DryRunAll)
			})
		})
		// An administrator may do the same, so nothing else is wrong with the request.
		check(w.T, w.st.Client.Create(ctx, naming(w.a, "x", edit), client.DryRunAll))
	}
	unnamed := naming(w.a, "", func(c *provv1.Cluster) {
		c.GenerateName, c.Spec.CloudCredentialSecretName = "x-", "cattle-global-data:cc-b"
	})
	if err := w.st.Client.Create(ctx, unnamed, client.DryRunAll); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "metadata.generateName") {
		w.Errorf("a cluster without a name names a credential: %v", err)
	}
	wrong := object("provisioning.cattle.io/v1", "Cluster", w.a, "x")
	wrong.Object["spec"] = map[string]any{
		"rkeConfig": map[string]any{"machinePools": []any{map[string]any{"name": "a", "quantity": "x"}}}}
	if err := w.alice.Create(ctx, wrong, client.DryRunAll); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "machinePools[0].quantity") {
		w.Errorf("a manifest without permission to read it: %v", err)
	}
}

// endpointDoors tries the endpoints for machines with the token of a's machine and the Secret of b's.
func (w *world) endpointDoors() {
	planOf := func(namespace string) corev1.Secret {
		var list corev1.SecretList
		check(w.T, w.st.Client.List(w.Context(), &list, client.InNamespace(namespace)))
		for i := range list.Items {
			if list.Items[i].Type == rkev1.SecretTypeMachinePlan {
				return list.Items[i]
			}
		}
		w.Fatalf("%s has no plan", namespace)
		return corev1.Secret{}
	}
	token, planOfB := w.st.TokenOf(planOf(w.a)), planOf(w.b).Name
	for _, path := range []string{
		"/api/v1/namespaces/" + w.b + "/secrets/" + planOfB, "/api/v1/namespaces/" + w.b + "/secrets",
		"/api/v1/namespaces/" + w.b + "/secrets?fieldSelector=metadata.name%3D" + planOfB, "/api/v1/secrets",
		"/api/v1/namespaces/" + w.a + "/secrets", "/api/v1/namespaces/drover-system/secrets/drover-grants",
	} {
		w.door("request from the endpoint for machines: "+strings.ReplaceAll(strings.ReplaceAll(path, w.b, "b"), w.a,
			"a"), func() error {
			request := httptest.NewRequestWithContext(w.Context(), http.MethodGet, path, nil)
			request.Header.Set("Authorization", "Bearer "+token)
			return refusal(w.st.Server.Handler(), request)
		})
	}
	w.door("request a signature of the webhook for an administrator", func() error {
		body, err := json.Marshal(map[string]any{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"})
		check(w.T, err)
		request := httptest.NewRequestWithContext(w.Context(), http.MethodPost, "/admission/grants/guess",
			bytes.NewReader(body))
		return refusal(w.st.Server.AdmissionHandler(), request)
	})
}

func refusal(handler http.Handler, request *http.Request) error {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	if recorder.Code < 400 {
		return nil
	}
	text := fmt.Sprintf("%d %s", recorder.Code, strings.TrimSpace(recorder.Body.String()))
	switch recorder.Code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return shut(text)
	}
	return errors.New(text)
}

// kubeconfigDoor gives Drover a kubeconfig that would send a file of the server to an address of alice's choice.
func (w *world) kubeconfigDoor() {
	file := filepath.Join(w.TempDir(), "token")
	check(w.T, os.WriteFile(file, []byte("the-server-s-own-token"), 0o600))
	var caught atomic.Bool
	hers := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Authorization"), "the-server-s-own-token") {
			caught.Store(true)
		}
		rw.WriteHeader(http.StatusInternalServerError)
	}))
	w.Cleanup(hers.Close)
	w.st.Cluster(w.a, failing+"kubeconfig", stage.RKE2, stage.Pool("server", "ec", 1))
	check(w.T, w.alice.Create(w.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.a, Name: failing + "kubeconfig-kubeconfig",
			Labels: map[string]string{
				clusterv1.ClusterNameLabel: failing + "kubeconfig",
			}},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"value": fmt.Appendf(nil, `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {tokenFile: %q}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, hers.URL, file)},
	}))
	w.door("have the server send its own token to her, by tokenFile in a kubeconfig", func() error {
		plane.Until(w.T, time.Minute, func() string {
			cluster := &clusterv1.Cluster{}
			if err := w.st.Client.Get(w.Context(), client.ObjectKey{Namespace: w.a, Name: failing + "kubeconfig"},
				cluster); err != nil {
				return err.Error()
			}
			if done := cluster.Status.Initialization.InfrastructureProvisioned; done == nil || !*done {
				return "Cluster API does not connect yet"
			}
			return ""
		})
		deadline, cancel := context.WithTimeout(w.Context(), 10*time.Second)
		defer cancel()
		for deadline.Err() == nil && !caught.Load() {
			time.Sleep(100 * time.Millisecond)
		}
		if caught.Load() {
			return nil
		}
		return shut("no request came within 10 s")
	})
}

// withdrawn: bob may get a credential and uses it. When the right is withdrawn, bob's cluster reports that, creates no
// machine, and can be deleted.
func (w *world) withdrawn() {
	ctx := w.Context()
	bob := tenant(w.T, w.st, "bob", w.b)
	check(w.T, w.st.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-global-data", Name: "cc-bob"},
		Data:       map[string][]byte{"simcredentialConfig-token": []byte("x")},
	}))
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-global-data", Name: "cc-bob"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"},
			ResourceNames: []string{"cc-bob"}, Verbs: []string{"get"}}},
	}
	check(w.T, w.st.Client.Create(ctx, role))
	check(w.T, w.st.Client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-global-data", Name: "cc-bob"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "cc-bob"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "bob"}},
	}))
	config := object("rke-machine-config.cattle.io/v1", "SimConfig", w.b, "bobs-server")
	config.Object["size"], config.Object["disk"] = "small", "20"
	check(w.T, bob.Create(ctx, config))
	plane.Until(w.T, time.Minute, func() string {
		err := bob.Create(ctx, naming(w.b, "bobs", func(c *provv1.Cluster) {
			c.Spec.CloudCredentialSecretName = "cattle-global-data:cc-bob"
		}))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err.Error() // the API server's cache of rights may lag
		}
		return ""
	})
	w.replayed(bob)
	plane.Until(w.T, 3*time.Minute, func() string { return w.st.WaitingFor(w.b, "bobs") })
	check(w.T, w.st.Client.Delete(ctx, role))
	plane.Until(w.T, 2*time.Minute, func() string {
		condition := stage.Condition(w.cluster(w.b, "bobs").Status.Conditions, provv1.ConditionRKECluster)
		if condition.Reason != "AccessDenied" {
			return fmt.Sprintf("the cluster does not say that the credential is denied: %+v", condition)
		}
		return ""
	})
	w.st.Edit(w.b, "bobs", func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[0].Quantity = new(int32(3)) })
	w.st.AwaitMachines(w.b, 3) // two of demo, one of bob's: none is created
	check(w.T, bob.Delete(ctx, naming(w.b, "bobs")))
	plane.Until(w.T, 3*time.Minute, func() string { return w.st.Gone(naming(w.b, "bobs")) })
	w.Log("after a permission is withdrawn, no object is created with it, and the cluster can be deleted")
}
