package registration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// The users that delete objects.
var (
	alice               = &user.DefaultInfo{Name: "alice", Groups: []string{"system:masters"}}
	garbageCollector    = program("kube-system", "generic-garbage-collector")
	namespaceController = program("kube-system", "namespace-controller")
	controllerManager   = &user.DefaultInfo{Name: "system:kube-controller-manager"}
	clusterAPI          = program("capi-system", "capi-manager")
	drover              = program("drover-system", "drover")
	neighbour           = program("drover-system", "default")
	deployer            = program("argocd", "argocd-application-controller")
	tenant              = &user.DefaultInfo{Name: "tenant", Groups: []string{"system:authenticated"}}
	embedded            = &user.DefaultInfo{Name: "drover-admin"}
	installer           = &user.DefaultInfo{Name: `o'"hara`} // the user of the server that installed the policies
)

func program(namespace, name string) user.Info {
	return &user.DefaultInfo{Name: "system:serviceaccount:" + namespace + ":" + name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}}
}

// judge evaluates requests against the policies as an API server does.
type judge struct {
	plugin *validating.Plugin
	scheme *runtime.Scheme
}

// newJudge knows the parameter objects and three namespaces. home stays. doomed and quiet are being deleted.
func newJudge(t *testing.T, parameters ...*unstructured.Unstructured) judge {
	t.Helper()
	scheme := runtime.NewScheme()
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []schema.GroupVersionKind{
		{Group: "provisioning.cattle.io", Version: "v1", Kind: "Cluster"},
		{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Cluster"},
	} {
		scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
		scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind("ClusterList"), &unstructured.UnstructuredList{})
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	known := []runtime.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "home"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "quiet",
			DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}, Finalizers: []string{"kubernetes"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed",
			DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}, Finalizers: []string{"kubernetes"}}},
	}
	objects, err := Objects()
	check(t, err)
	for _, object := range objects {
		check(t, admit(object, installer.Name))
		var typed runtime.Object
		switch object.GetKind() {
		case "ValidatingAdmissionPolicy":
			typed = &admissionregistrationv1.ValidatingAdmissionPolicy{}
		case "ValidatingAdmissionPolicyBinding":
			typed = &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		default:
			continue
		}
		check(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true))
		known = append(known, defaulted(typed))
	}
	dynamic := dynamicfake.NewSimpleDynamicClient(scheme)
	for _, parameter := range parameters {
		check(t, dynamic.Tracker().Create(resourceOf(parameter), parameter, parameter.GetNamespace()))
	}
	client := fake.NewClientset(known...)
	factory := informers.NewSharedInformerFactory(client, 0)
	plugin, err := validating.NewPlugin(nil)
	check(t, err)
	plugin.SetExternalKubeClientSet(client)
	plugin.SetExternalKubeInformerFactory(factory)
	plugin.SetRESTMapper(mapper)
	plugin.SetDynamicClient(dynamic)
	plugin.SetDrainedNotification(t.Context().Done())
	plugin.SetAuthorizer(
		authorizer.AuthorizerFunc(func(_ context.Context, asked authorizer.Attributes) (authorizer.Decision, string,
			error) {
			mayName := asked.GetVerb() == "create" && asked.GetAPIGroup() == "management.cattle.io" &&
				asked.GetResource() == "clusters" && asked.GetNamespace() == ""
			if asked.GetUser().GetName() == tenant.GetName() || !mayName {
				return authorizer.DecisionNoOpinion, "", nil
			}
			return authorizer.DecisionAllow, "", nil
		}))
	check(t, plugin.ValidateInitialization())
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	if !plugin.WaitForReady() {
		t.Fatal("the policies are not ready")
	}
	return judge{plugin, scheme}
}

// defaulted sets the defaults that an API server sets.
func defaulted(object runtime.Object) runtime.Object {
	if policy, ok := object.(*admissionregistrationv1.ValidatingAdmissionPolicy); ok {
		all, equivalent := admissionregistrationv1.AllScopes, admissionregistrationv1.Equivalent
		policy.Spec.MatchConstraints.NamespaceSelector, policy.Spec.MatchConstraints.ObjectSelector =
			&metav1.LabelSelector{}, &metav1.LabelSelector{}
		policy.Spec.MatchConstraints.MatchPolicy = &equivalent
		for i := range policy.Spec.MatchConstraints.ResourceRules {
			if rule := &policy.Spec.MatchConstraints.ResourceRules[i]; rule.Scope == nil {
				rule.Scope = &all
			}
		}
	}
	return object
}

func resourceOf(o *unstructured.Unstructured) schema.GroupVersionResource {
	resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	return resource
}

// ask returns the refusal of a request, "" if it may pass, and the warnings. An update has both objects, a deletion has
// no after.
func (j judge) ask(who user.Info, before, after *unstructured.Unstructured) (refusal string, warnings []string) {
	operation, options, of := admission.Update, runtime.Object(&metav1.UpdateOptions{}), before
	var old, object runtime.Object
	switch {
	case after == nil:
		operation, options, old = admission.Delete, &metav1.DeleteOptions{}, before
	case before == nil:
		operation, options, of, object = admission.Create, &metav1.CreateOptions{}, after, after
	default:
		old, object = before, after
	}
	attributes := admission.NewAttributesRecord(object, old, of.GroupVersionKind(), of.GetNamespace(), of.GetName(),
		resourceOf(of), "", operation, options, false, who)
	var heard recorder
	err := j.plugin.Validate(warning.WithWarningRecorder(context.Background(), &heard), attributes,
		admission.NewObjectInterfacesFromScheme(j.scheme))
	if err != nil {
		refusal = err.Error()
	}
	return refusal, heard
}

// recorder keeps warnings.
type recorder []string

// AddWarning adds a warning.
func (r *recorder) AddWarning(_, text string) { *r = append(*r, text) }

func object(apiVersion, kind, namespace, name string, fields map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	if fields != nil {
		o.Object["spec"] = fields
	}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func labelled(o *unstructured.Unstructured, key, value string) *unstructured.Unstructured {
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	o.SetLabels(labels)
	return o
}

func annotated(o *unstructured.Unstructured, key, value string) *unstructured.Unstructured {
	out := o.DeepCopy()
	annotations := out.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	out.SetAnnotations(annotations)
	return out
}

const protect = "drover.io/protect"

// demo is a Cluster with one pool.
func demo(namespace string) *unstructured.Unstructured {
	return object("provisioning.cattle.io/v1", "Cluster", namespace, "demo",
		map[string]any{"rkeConfig": map[string]any{"machinePools": []any{
			map[string]any{"name": "all", "machineConfigRef": map[string]any{"kind": "SimConfig", "name": "all"}},
		}}})
}

// parts returns the objects of the cluster demo, by their names in the tests.
func parts(namespace string) map[string]*unstructured.Unstructured {
	pooled := map[string]any{"clusterName": "demo", "replicas": int64(1),
		"template": map[string]any{"metadata": map[string]any{
			"labels": map[string]any{"rke.cattle.io/rke-machine-pool-name": "all"},
		}}}
	ofDemo := func(apiVersion, kind string) *unstructured.Unstructured {
		return labelled(object(apiVersion, kind, namespace, "demo-x", nil), "cluster.x-k8s.io/cluster-name", "demo")
	}
	return map[string]*unstructured.Unstructured{
		"Cluster API Cluster": object("cluster.x-k8s.io/v1beta2", "Cluster", namespace, "demo", nil),
		"RKEControlPlane":     object("rke.cattle.io/v1", "RKEControlPlane", namespace, "demo", nil),
		"MachineDeployment":   object("cluster.x-k8s.io/v1beta2", "MachineDeployment", namespace, "demo-all", pooled),
		"MachineSet":          object("cluster.x-k8s.io/v1beta2", "MachineSet", namespace, "demo-all-x", pooled),
		"Machine": object("cluster.x-k8s.io/v1beta2", "Machine", namespace, "demo-x",
			map[string]any{"clusterName": "demo"}),
		"machine config":     object("rke-machine-config.cattle.io/v1", "SimConfig", namespace, "all", nil),
		"host":               ofDemo("rke-machine.cattle.io/v1", "SimMachine"),
		"machine template":   ofDemo("rke-machine.cattle.io/v1", "SimMachineTemplate"),
		"bootstrap":          ofDemo("rke.cattle.io/v1", "RKEBootstrap"),
		"registered machine": ofDemo("rke.cattle.io/v1", "CustomMachine"),
	}
}

// Only Drover and Cluster API may delete parts of a protected cluster, and only machines and their halves. Users, and
// the garbage collector for objects without an owner, are refused.
func TestPolicies_ProtectAllPartsOfAProtectedCluster(t *testing.T) {
	t.Parallel()
	j := newJudge(t, annotated(demo("home"), protect, "true"))
	free := newJudge(t, demo("home"))
	machines := map[string]bool{"Machine": true, "host": true, "machine template": true, "bootstrap": true,
		"registered machine": true}
	for what, part := range parts("home") {
		for _, who := range []user.Info{alice, garbageCollector, namespaceController, controllerManager, clusterAPI,
			drover, neighbour, deployer, embedded, installer} {
			by := fmt.Sprintf("%s by %s", what, who.GetName())
			refusal, _ := j.ask(who, part, nil)
			may := machines[what] && (who == clusterAPI || who == drover || who == embedded || who == installer)
			if (refusal == "") != may || !may && !strings.Contains(refusal, "rotected Cluster demo") &&
				!strings.Contains(refusal, "rotected Cluster: remove") {
				t.Errorf("%s: refusal %q", by, refusal)
			}
			if refusal, _ = free.ask(who, part, nil); refusal != "" {
				t.Errorf("%s, which is not protected: refusal %q", by, refusal)
			}
		}
		if refusal, _ := j.ask(alice, annotated(part, protect, "false"), nil); machines[what] != (refusal == "") {
			t.Errorf("%s with an exception: refusal %q", what, refusal)
		}
		other := part.DeepCopy()
		other.SetName("other")
		other.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "other"})
		if what != "machine config" {
			_ = unstructured.SetNestedField(other.Object, "other", "spec", "clusterName")
		}
		if refusal, _ := j.ask(alice, other, nil); refusal != "" {
			t.Errorf("%s of another cluster: refusal %q", what, refusal)
		}
	}
}

// A deleted namespace keeps its objects while it contains a protected Cluster, whatever the namespace controller's user
// is.
func TestPolicies_ProtectTheNamespaceOfAProtectedCluster(t *testing.T) {
	t.Parallel()
	j := newJudge(t, annotated(demo("home"), protect, "true"), annotated(demo("doomed"), protect, "true"))
	theirs := func(namespace string) *unstructured.Unstructured {
		return object("v1", "ConfigMap", namespace, "theirs", nil)
	}
	for name, tc := range map[string]struct {
		who       user.Info
		namespace string
		kept      bool
	}{
		"the namespace controller":                                    {namespaceController, "doomed", true},
		"the namespace controller with the controller manager's user": {controllerManager, "doomed", true},
		"a user":                {alice, "doomed", false},
		"the garbage collector": {garbageCollector, "doomed", false},
		"the controller manager in a namespace that is not deleted": {controllerManager, "home", false},
		"the namespace controller with an unknown namespace":        {namespaceController, "home", true},
		"the controller manager in a namespace without a Cluster":   {controllerManager, "quiet", false},
	} {
		t.Run(name, func(t *testing.T) {
			if refusal, _ := j.ask(tc.who, theirs(tc.namespace), nil); (refusal != "") != tc.kept || tc.kept &&
				!strings.Contains(refusal, "the namespace has a protected Cluster") {
				t.Errorf("refusal %q", refusal)
			}
		})
	}
}

// The creator of a cluster is recorded once and then stays.
func TestPolicies_ProtectTheCreator(t *testing.T) {
	t.Parallel()
	const creator, none = "field.cattle.io/creatorId", "field.cattle.io/no-creator-rbac"
	j := newJudge(t)
	plain, made := demo("home"), annotated(demo("home"), creator, "alice")
	for name, tc := range map[string]struct {
		before, after *unstructured.Unstructured
		refused       string
	}{
		"made":                          {nil, made, ""},
		"created without annotations":   {nil, plain, ""},
		"created with both annotations": {nil, annotated(made, none, "true"), "no-creator-rbac]: Forbidden"},
		"kept":                          {made, annotated(made, "a", "b"), ""},
		"forgotten":                     {made, plain, ""},
		"added":                         {plain, made, "creatorId]: Invalid value"},
		"changed":                       {made, annotated(made, creator, "bob"), "creatorId]: Invalid value"},
		"marked as without a creator":   {made, annotated(made, none, "true"), "no-creator-rbac]: Forbidden"},
		"both annotations unchanged": {annotated(made, none, "true"),
			annotated(annotated(made, none, "true"), "a", "b"), ""},
		"without a creator and a name": {plain, annotated(plain, none, "true"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if refusal, _ := j.ask(alice, tc.before, tc.after); (refusal == "") != (tc.refused == "") ||
				!strings.Contains(refusal, tc.refused) {
				t.Errorf("refusal %q", refusal)
			}
		})
	}
}

// The creator of a cloud credential is the user who creates it. An administrator who restores it may keep another one.
func TestPolicies_ProtectTheCreatorOfACredential(t *testing.T) {
	t.Parallel()
	const creator = "field.cattle.io/creatorId"
	j := newJudge(t)
	credential := func(kind, creatorID string) *unstructured.Unstructured {
		secret := object("v1", "Secret", "home", "cc", nil)
		secret.Object["type"] = kind
		if creatorID != "" {
			return annotated(secret, creator, creatorID)
		}
		return secret
	}
	const cloud = "provisioning.cattle.io/cloud-credential"
	for name, tc := range map[string]struct {
		who           user.Info
		before, after *unstructured.Unstructured
		refused       bool
	}{
		"created by the creator":          {tenant, nil, credential(cloud, "tenant"), false},
		"created without a creator":       {tenant, nil, credential(cloud, ""), false},
		"created for another user":        {tenant, nil, credential(cloud, "bob"), true},
		"restored by an administrator":    {alice, nil, credential(cloud, "bob"), false},
		"another type":                    {tenant, nil, credential("Opaque", "bob"), false},
		"forgotten":                       {drover, credential(cloud, "bob"), credential(cloud, ""), false},
		"kept":                            {tenant, credential(cloud, "bob"), credential(cloud, "bob"), false},
		"added":                           {tenant, credential(cloud, ""), credential(cloud, "tenant"), true},
		"added by an administrator":       {alice, credential(cloud, ""), credential(cloud, "alice"), true},
		"changed to the user who changes": {tenant, credential(cloud, "bob"), credential(cloud, "tenant"), true},
	} {
		t.Run(name, func(t *testing.T) {
			if refusal, _ := j.ask(tc.who, tc.before, tc.after); (refusal != "") != tc.refused ||
				tc.refused && !strings.Contains(refusal, "creatorId]: Invalid value") {
				t.Errorf("refusal %q", refusal)
			}
		})
	}
}

// A user without the right to create management clusters cannot choose the name of one, because another cluster may
// have had it.
func TestPolicies_ReserveNamesOfManagementClusters(t *testing.T) {
	t.Parallel()
	const name = "provisioning.cattle.io/management-cluster-name"
	j := newJudge(t)
	plain, asking := demo("home"), annotated(demo("home"), name, "c-m-gone0000")
	for what, tc := range map[string]struct {
		before, after *unstructured.Unstructured
		tenantMay     bool
	}{
		"created with a name":           {nil, asking, false},
		"created without a name":        {nil, plain, true},
		"created with an empty name":    {nil, annotated(plain, name, ""), true},
		"added":                         {plain, asking, false},
		"changed":                       {asking, annotated(asking, name, "c-m-other000"), false},
		"unchanged, as after a restore": {asking, annotated(asking, "a", "b"), true},
		"removed":                       {asking, plain, true},
		"another change":                {plain, annotated(plain, "a", "b"), true},
	} {
		t.Run(what, func(t *testing.T) {
			// An administrator who restores, programs, and Drover.
			for _, who := range []user.Info{alice, clusterAPI, embedded} {
				if refusal, _ := j.ask(who, tc.before, tc.after); refusal != "" {
					t.Errorf("%s: refusal %q", who.GetName(), refusal)
				}
			}
			refusal, _ := j.ask(tenant, tc.before, tc.after)
			if (refusal == "") != tc.tenantMay || !tc.tenantMay &&
				!strings.Contains(refusal, "tenant may not create clusters.management.cattle.io; remove it") {
				t.Errorf("a tenant: refusal %q", refusal)
			}
		})
	}
}

// The user who deletes a paused object gets a warning that the deletion will wait.
func TestPolicies_WarnAboutWaitingDeletions(t *testing.T) {
	t.Parallel()
	core := object("cluster.x-k8s.io/v1beta2", "Cluster", "home", "demo", map[string]any{"paused": true})
	running := object("cluster.x-k8s.io/v1beta2", "Cluster", "home", "demo", nil)
	machine := parts("home")["Machine"]
	other := object("provisioning.cattle.io/v1", "Cluster", "home", "other", nil)
	for name, tc := range map[string]struct {
		core, deleted *unstructured.Unstructured
		who           user.Info
		warned        bool
	}{
		"a Cluster":                 {core, demo("home"), alice, true},
		"a Machine":                 {core, machine, alice, true},
		"a Cluster that is running": {running, demo("home"), alice, false},
		"another Cluster":           {core, other, alice, false},
		"a Machine, by Cluster API": {core, machine, clusterAPI, false},
		"while an operation pauses": {annotated(core, "drover.io/paused-by-operation", "restore"), machine, alice,
			false},
		"the Cluster API Cluster too": {core, core, alice, true},
	} {
		t.Run(name, func(t *testing.T) {
			refusal, warnings := newJudge(t, tc.core).ask(tc.who, tc.deleted, nil)
			if told := strings.Contains(strings.Join(warnings, ""),
				"Cluster demo is paused: deleted objects remain"); refusal != "" || told != tc.warned {
				t.Errorf("refusal %q, warnings %q", refusal, warnings)
			}
		})
	}
}

// An administrator who activates a driver that cannot be verified gets a warning, and no refusal.
func TestPolicies_WarnAboutInsecureDrivers(t *testing.T) {
	t.Parallel()
	driver := func(active bool, url string, digits int) *unstructured.Unstructured {
		return object("management.cattle.io/v3", "NodeDriver", "", "sim", map[string]any{"active": active, "url": url,
			"checksum": strings.Repeat("a", digits)})
	}
	const https, http = "https://example.org/x", "http://example.org/x"
	for name, tc := range map[string]struct {
		before, after *unstructured.Unstructured
		want          []string
	}{
		"SHA-256":                     {nil, driver(true, https, 64), nil},
		"SHA-512":                     {nil, driver(true, "HTTPS://example.org/x", 128), nil},
		"a driver of rancher-machine": {nil, driver(true, "local://", 0), nil},
		"an inactive driver":          {nil, driver(false, http, 0), nil},
		"no checksum":                 {nil, driver(true, https, 0), []string{"spec.checksum"}},
		"MD5 and http":                {nil, driver(true, http, 32), []string{"spec.url", "spec.checksum"}},
		"another URL":                 {driver(true, http, 64), driver(true, http+"2", 64), []string{"spec.url"}},
		"an activated driver":         {driver(false, http, 64), driver(true, http, 64), []string{"spec.url"}},
		"a change of something else":  {driver(true, http, 64), annotated(driver(true, http, 64), "a", "b"), nil},
		"a corrected address":         {driver(true, http, 64), driver(true, https, 64), nil},
		"a deactivated driver":        {driver(true, http, 64), driver(false, http, 64), nil},
	} {
		t.Run(name, func(t *testing.T) {
			refusal, warnings := newJudge(t).ask(alice, tc.before, tc.after)
			if refusal != "" || len(warnings) != len(tc.want) {
				t.Errorf("refusal %q, warnings %q, want some about %q", refusal, warnings, tc.want)
			}
			for _, field := range tc.want {
				if !strings.Contains(strings.Join(warnings, " "), field+": must be") {
					t.Errorf("warnings %q, want one about %s", warnings, field)
				}
			}
		})
	}
}
