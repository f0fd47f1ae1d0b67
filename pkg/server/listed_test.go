package server

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/operate/adopt"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/recorded"
)

// lines returns the listed changes, one line for each object.
func lines(objects []inspect.ObjectChange) []string {
	var out []string
	for _, object := range objects {
		words := []string{string(object.Verb), object.Kind, object.Namespace + "/" + object.Name}
		for _, field := range object.Fields {
			words = append(words, field.Field)
		}
		if object.Class != planner.ClassNone {
			words = append(words, string(object.Class))
		}
		out = append(out, strings.Join(words, " "))
	}
	slices.Sort(out)
	return out
}

// listed returns the objects that adoption would write, as the request log names them.
func listed(a inspect.Adoption) []string {
	var out []string
	for _, object := range a.Objects {
		kind, group, _ := strings.Cut(object.Kind, ".")
		out = append(out, resourceIn(strings.ToLower(kind)+"s", group)+" "+object.Namespace+"/"+object.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// written returns the objects of the cluster that Drover has written since the log was reset, without Events and the
// provisioning log.
func (w *world) written() []string {
	w.Helper()
	var out []string
	for _, write := range w.api.Writes(ours) {
		token := strings.HasPrefix(write.Name, "proxy-token-")
		if token {
			write.Name = "proxy-token-*"
		}
		ofCluster := token || write.Namespace == fleet || strings.HasPrefix(write.Namespace, "c-m-") ||
			write.Namespace == "" && strings.HasPrefix(write.Name, "c-m-")
		history := strings.HasPrefix(write.Resource, "events") || write.Name == provv1.ProvisioningLogName
		if !ofCluster || write.Code != http.StatusOK || history {
			continue
		}
		resource, _, _ := strings.Cut(write.Resource, "/")
		name, group, _ := strings.Cut(resource, ".")
		out = append(out, resourceIn(name, group)+" "+write.Namespace+"/"+write.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// resourceIn names a resource. Three API groups have a resource clusters, so that name gets its group.
func resourceIn(resource, group string) string {
	if resource == "clusters" {
		return resource + "." + group
	}
	return resource
}

// provesList fails if Drover has written other objects since the adoption than the list contained.
func (w *world) provesList(a inspect.Adoption) {
	w.Helper()
	for _, note := range a.Notes {
		if strings.Contains(note, "not compared") || strings.Contains(note, "cannot be created or updated") {
			w.Errorf("all reads are allowed, but a note says %q", note)
		}
	}
	if diff := cmp.Diff(listed(a), w.written()); diff != "" {
		w.Errorf("the written objects differ from the list (-listed +written):\n%s", diff)
	}
}

// Adoption lists every part of a cluster that is missing or was edited by hand, and nothing else.
func TestRecorded_AdoptionWritesWhatItLists(t *testing.T) {
	crashpoints.SkipRaced(t)
	const server, worker = "demo-pool1-x7k2p-hjv5c", "demo-workers-x7k2p-q8d2m"
	for name, tc := range map[string]struct {
		without []string // kinds and names
		deleted []string // a finalizer holds them
		thief   bool     // another Cluster claims the management cluster
		edit    map[string]func(object map[string]any)
		want    []string
	}{
		"accounts, rights and Secrets of machines": {
			without: []string{"RoleBinding " + worker + "-machine-plan", "ServiceAccount " + worker + "-machine-plan",
				"Secret " + worker + "-machine-plan-token", "Secret " + worker + "-machine-bootstrap"},
			edit: map[string]func(map[string]any){
				"Role " + server + "-machine-plan": func(o map[string]any) { o["rules"] = []any{} },
				"Secret " + server + "-machine-plan": func(o map[string]any) {
					unset(o, "metadata", "labels", "cluster.x-k8s.io/cluster-name")
				},
				"RKEBootstrap " + server: func(o map[string]any) { unset(o, "metadata", "finalizers") },
				"Machine " + server: func(o map[string]any) {
					unset(o, "metadata", "annotations",
						"pre-terminate.delete.hook.machine.cluster.x-k8s.io/rke-bootstrap-cleanup")
				},
			},
			want: []string{
				"Create RoleBinding fleet-default/" + worker + "-machine-plan", "Create ServiceAccount fleet-default/" +
					worker + "-machine-plan",
				"Create Secret fleet-default/" + worker + "-machine-bootstrap", "Create Secret fleet-default/" +
					worker + "-machine-bootstrap-token",
				"Update Role fleet-default/" + server +
					"-machine-plan metadata.annotations[objectset.rio.cattle.io/*] rules",
				"Update Secret fleet-default/" + server +
					"-machine-plan metadata.labels[cluster.x-k8s.io/cluster-name]",
				"Update RKEBootstrap fleet-default/" + server + " metadata.finalizers",
			},
		},
		"objects of the cluster": {
			without: []string{"Secret demo-kubeconfig", "Secret demo-rke-state"},
			edit: map[string]func(map[string]any){
				"RKECluster demo": func(o map[string]any) {
					unset(o, "spec", "controlPlaneEndpoint")
					unset(o, "status")
				},
				"RKEControlPlane demo": func(o map[string]any) { unset(o, "metadata", "finalizers") },
			},
			want: []string{
				"Update RKECluster fleet-default/demo spec.controlPlaneEndpoint.host spec.controlPlaneEndpoint.port " +
					"status.initialization",
			},
		},
		"the ways to the cluster": {
			without: []string{"Secret demo-kubeconfig"},
			edit: map[string]func(map[string]any){
				"Cluster demo": func(o map[string]any) { set(o, true, "spec", "localClusterAuthEndpoint", "enabled") },
				"Cluster " + recordedID: func(o map[string]any) {
					status := o["status"].(map[string]any)
					status["conditions"] = append(status["conditions"].([]any),
						map[string]any{"type": "AgentDeployed", "status": "True"})
				},
			},
			want: []string{"Create Secret fleet-default/demo-kubeconfig", "Create Secret drover-system/proxy-token-*"},
		},
		"a worker without a host": {
			edit: map[string]func(map[string]any){"PodMachine " + worker: unmade},
			want: []string{"Delete Machine fleet-default/" + worker + " Replace"},
		},
		"the first server has no host": { // the other controllers see the deletion of its machine
			edit: map[string]func(map[string]any){"PodMachine " + server: unmade},
			want: []string{"Delete Machine fleet-default/" + server + " Replace", "Update RKEBootstrap fleet-default/" +
				server + " status.conditions"},
		},
		"another server has no host": {
			edit: map[string]func(map[string]any){"PodMachine demo-pool1-x7k2p-q8d2m": unmade},
			want: []string{"Delete Machine fleet-default/demo-pool1-x7k2p-q8d2m Replace", "Update RKEBootstrap " +
				"fleet-default/demo-pool1-x7k2p-q8d2m status.conditions"}, // the cluster does not answer
		},
		"a worker that is being deleted": {deleted: []string{"Machine " + worker, "PodMachine " + worker,
			"RKEBootstrap " + worker}},
		"a server that is being deleted": {deleted: []string{"Machine " + server}},
		"a Cluster of another namespace says that the management cluster is its own": {
			thief: true,
		},
		"a paused cluster": {
			edit: map[string]func(map[string]any){"Cluster demo": func(o map[string]any) {
				if strings.HasPrefix(o["apiVersion"].(string), clusterAPI.Group) {
					set(o, true, "spec", "paused")
				}
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newRecorded(t)
				defer func() { w.stop(); w.user.Stop(); time.Sleep(time.Hour) }()
				objects := w.recording(recorded.RancherThreeServersTwoWorkers, tc.without, tc.edit)
				w.deleted(objects, tc.deleted)
				if tc.thief {
					w.steal()
				}
				w.start()
				time.Sleep(time.Minute)
				a := w.look()
				got := lines(a.Objects)
				for _, line := range tc.want {
					if !slices.Contains(got, line) {
						t.Errorf("%q is not listed", line)
					}
				}
				limits := w.limits(adopt.FromRancher)
				limits.AllowRestart, limits.AllowReplace = true, true // the endpoint is part of the plans
				w.takesWhatIsListed(a, limits)
				if t.Failed() {
					t.Logf("listed:\n%s\nnotes: %q", strings.Join(got, "\n"), a.Notes)
				}
			})
		})
	}
}

// Adoption names the objects that the user may not read, and lists the rest.
func TestRecorded_AdoptionReportsWhatItCannotCompare(t *testing.T) {
	crashpoints.SkipRaced(t)
	const notes = " metadata.annotations[objectset.rio.cattle.io/*]"
	theirs := func(o map[string]any) {
		set(o, "theirs", "metadata", "labels", "objectset.rio.cattle.io/hash")
		set(o, "their-set", "metadata", "annotations", "objectset.rio.cattle.io/id")
	}
	for name, tc := range map[string]struct {
		denies  func(r memkube.Request) bool
		with    error // another error than forbidden
		edit    map[string]func(object map[string]any)
		notes   []string // the beginning of each note
		absent  string   // text that no line contains
		listed  []string // lines
		problem string   // prevents the adoption; empty means none
	}{
		"a control plane of another program": {
			edit: map[string]func(map[string]any){"RKEControlPlane demo": theirs}, absent: "nothing is",
			listed:  []string{"Refuse RKEControlPlane fleet-default/demo"},
			problem: `RKEControlPlane demo belongs to set "their-set" of `,
		},
		"Secrets of the management cluster's namespace": {
			denies: func(r memkube.Request) bool {
				return r.Namespace == recordedID && r.Resource.Resource == "secrets"
			},
			notes: []string{
				"the Secrets of registration tokens are not compared: you may not get secrets in namespace " +
					recordedID},
			absent: "crt-token", listed: []string{"Update Namespace /" + recordedID + notes,
				"Create ClusterRegistrationToken " + recordedID + "/system"},
		},
		"accounts": {
			denies: func(r memkube.Request) bool { return r.Resource.Resource == "serviceaccounts" },
			notes: []string{
				"accounts, rights and Secrets of machine demo-pool1-x7k2p-hjv5c are not compared: you may not get " +
					"serviceaccounts in namespace fleet-default",
				"parts of the host of machine demo-pool1-x7k2p-hjv5c are not compared: you may not list " +
					"serviceaccounts in namespace fleet-default",
			},
			absent: "RoleBinding", listed: []string{"Create Secret " + recordedID + "/crt-token-system"},
		},
		"accounts, because the API server fails": {
			denies: func(r memkube.Request) bool { return r.Resource.Resource == "serviceaccounts" },
			with:   apierrors.NewInternalError(errors.New("the store is down")),
			notes: []string{
				"accounts, rights and Secrets of machine demo-pool1-x7k2p-hjv5c are not compared: list " +
					"serviceaccounts in namespace fleet-default: ",
				"parts of the host of machine demo-pool1-x7k2p-hjv5c are not compared: list serviceaccounts in " +
					"namespace fleet-default: ",
			},
			absent: "RoleBinding", listed: []string{"Create Secret " + recordedID + "/crt-token-system"},
		},
		"Clusters of other namespaces": {
			denies: func(r memkube.Request) bool {
				return r.Resource.Group == provv1.SchemeGroupVersion.Group && r.Namespace == ""
			},
			notes: []string{
				"Clusters of other namespaces with the same management cluster are not compared: you may not list " +
					"clusters.provisioning"},
			absent: "without permissions", listed: []string{"Create Secret " + recordedID + "/crt-token-system"},
		},
		"an account of another program": {
			edit: map[string]func(map[string]any){"ServiceAccount demo-pool1-x7k2p-hjv5c-machine-plan": theirs},
			notes: []string{
				"accounts, rights and Secrets of machine demo-pool1-x7k2p-hjv5c cannot be created or updated: apply " +
					"set rke-bootstrap: "},
			absent: "ServiceAccount fleet-default/demo-pool1-x7k2p-hjv5c-machine-plan",
		},
		"the management side": {
			denies: func(r memkube.Request) bool {
				return r.Resource.Group == "management.cattle.io" && r.Resource.Resource != "dynamicschemas" &&
					r.Namespace != ""
			},
			notes: []string{
				"the Secrets of registration tokens are not compared: you may not list " +
					"clusterregistrationtokens.management.cattle.io in namespace " + recordedID,
				"the objects of the cluster and the management cluster are not compared: you may not list " +
					"clusterregistrationtokens.management.cattle.io in namespace " + recordedID,
			},
			absent: "ClusterRegistrationToken", listed: []string{
				"Update Cluster.management.cattle.io /" + recordedID + " status.conditions status.info status.provider",
				"Create ServiceAccount fleet-default/demo-pool1-x7k2p-hjv5c-machine-bootstrap",
			},
			problem: "the objects of the cluster and the management cluster may belong to another program: you may " +
				"not list ",
		},
		"a control plane of another program, and the kinds of Cluster API": {
			denies: func(r memkube.Request) bool { return r.Resource.Resource == "machinehealthchecks" },
			edit:   map[string]func(map[string]any){"RKEControlPlane demo": theirs}, absent: "nothing is",
			notes: []string{
				"the objects of the cluster and the management cluster are not compared: you may not list " +
					"machinehealthchecks",
			},
			problem: "the objects of the cluster and the management cluster may belong to another program: you may " +
				"not list ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newRecorded(t)
				defer func() { w.stop(); w.user.Stop(); time.Sleep(time.Hour) }()
				w.recording(recorded.RancherOneServer, nil, tc.edit)
				w.start()
				time.Sleep(time.Minute)
				w.api.Intercept(func(r memkube.Request) error {
					if strings.HasPrefix(r.Agent, ours) || tc.denies == nil || !tc.denies(r) {
						return nil
					}
					if tc.with == nil {
						return apierrors.NewForbidden(r.Resource.GroupResource(), r.Name, nil)
					}
					return tc.with
				})
				a := w.look()
				if problems := strings.Join(a.Problems, "; "); (problems == "") != (tc.problem == "") ||
					!strings.HasPrefix(problems, tc.problem) {
					t.Errorf("problems %q, want %q", problems, tc.problem)
				}
				for _, note := range tc.notes {
					if !slices.ContainsFunc(a.Notes, func(told string) bool { return strings.HasPrefix(told, note) }) {
						t.Errorf("%q is not a note: %q", note, a.Notes)
					}
				}
				got := lines(a.Objects)
				for _, line := range tc.listed {
					if !slices.Contains(got, line) {
						t.Errorf("%q is not listed", line)
					}
				}
				if text := strings.Join(got, "\n"); strings.Contains(text, tc.absent) {
					t.Errorf("%s is listed:\n%s", tc.absent, text)
				}
			})
		})
	}
}

// The manager of a cluster replaces a machine whose host could not be created. Adoption needs permission for that, even
// if the user cannot see that it would happen.
func TestRecorded_AdoptionThatReplacesFailedMachinesNeedsConsent(t *testing.T) {
	crashpoints.SkipRaced(t)
	const failed = "demo-workers-x7k2p-q8d2m"
	counts := "machine " + failed + " counts as replaced: its PodMachine " + failed
	refuses := func(resource string, with func(r memkube.Request) error) func(r memkube.Request) error {
		return func(r memkube.Request) error {
			if r.Resource.Resource != resource || strings.HasPrefix(r.Agent, ours) {
				return nil
			}
			return with(r)
		}
	}
	forbidden := func(r memkube.Request) error {
		return apierrors.NewForbidden(r.Resource.GroupResource(), r.Name, nil)
	}
	broken := func(memkube.Request) error { return apierrors.NewInternalError(errors.New("the store is down")) }
	for name, tc := range map[string]struct {
		intercept func(r memkube.Request) error
		begun     bool   // the infra machine says that its host is being created
		note      string // the beginning of a note
	}{
		"all reads are allowed": {},
		"Jobs may not be listed": {intercept: refuses("jobs", forbidden), note: counts +
			" reports CreateError"},
		"the API server fails": {intercept: refuses("jobs", broken), note: counts +
			" reports CreateError"},
		"hosts may not be read": {intercept: refuses("podmachines", forbidden), note: counts +
			" cannot be read, and "},
		"the end of the creation is unknown": {intercept: refuses("jobs", forbidden), begun: true, note: counts +
			" does not show that its host was created"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newRecorded(t)
				defer func() { w.stop(); w.user.Stop(); time.Sleep(time.Hour) }()
				edits := map[string]func(map[string]any){"PodMachine " + failed: unmade, "Machine " +
					failed: func(o map[string]any) { unset(o, "status", "initialization") }}
				if tc.begun {
					edits["PodMachine "+failed] = func(o map[string]any) {
						o["status"] = map[string]any{
							"conditions": []any{map[string]any{"type": "CreateJob", "status": "Unknown"}}}
						unset(o, "spec", "providerID")
					}
				}
				w.recording(recorded.RancherThreeServersTwoWorkers, nil, edits)
				w.start()
				time.Sleep(time.Minute)
				w.api.Intercept(tc.intercept)
				a := w.look()
				if got := lines(a.Objects); a.Result != planner.ClassReplace || tc.intercept == nil &&
					!slices.Contains(got, "Delete Machine fleet-default/"+failed+" Replace") {
					t.Errorf("%s:\n%s", a.Result, strings.Join(got, "\n"))
				}
				for _, m := range a.Machines {
					if want := map[bool]planner.Class{true: planner.ClassReplace,
						false: planner.ClassNone}[m.Name == failed]; m.Class != want {
						t.Errorf("%s: %s", m.Name, m.Class)
					}
				}
				told := slices.ContainsFunc(a.Notes, func(note string) bool {
					return strings.HasPrefix(note, "machine ") && strings.HasPrefix(note, tc.note)
				})
				if told != (tc.note != "") {
					t.Errorf("notes %q", a.Notes)
				}
				if err := w.take(a, w.limits(adopt.FromRancher)); err == nil ||
					!strings.Contains(err.Error(), "--allow-replace") {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// unmade marks a host as failed to create.
func unmade(o map[string]any) {
	o["status"] = map[string]any{
		"failureReason": "CreateError", "failureMessage": "no quota",
		"conditions": []any{map[string]any{"type": "CreateJob", "status": "False", "reason": "CreateError"}},
	}
	unset(o, "spec", "providerID")
}

// deleted deletes the objects with these kinds and names. A finalizer holds them.
func (w *world) deleted(objects []*unstructured.Unstructured, which []string) {
	w.Helper()
	for _, object := range objects {
		if !slices.Contains(which, object.GetKind()+" "+object.GetName()) {
			continue
		}
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		client := w.live.Resource(resource).Namespace(object.GetNamespace())
		held := []byte(`[{"op":"add","path":"/metadata/finalizers","value":["example.com/held"]}]`)
		_, err := client.Patch(w.Context(), object.GetName(), types.JSONPatchType, held, metav1.PatchOptions{})
		check(w.T, err)
		check(w.T, client.Delete(w.Context(), object.GetName(), metav1.DeleteOptions{}))
	}
}

// steal creates a Cluster in another namespace that claims the management cluster.
func (w *world) steal() {
	w.Helper()
	_, err := w.user.Core.Namespace().Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
	check(w.T, err)
	thief, err := w.user.Provisioning.Cluster().Create(
		&provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "thief"}})
	check(w.T, err)
	thief.Status.ClusterName = recordedID
	_, err = w.user.Provisioning.Cluster().UpdateStatus(thief)
	check(w.T, err)
}

// recording creates the objects of a recording and returns them. It leaves out the objects in without and applies
// edits. Both name objects by kind and name.
func (w *world) recording(name string, without []string,
	edits map[string]func(object map[string]any)) []*unstructured.Unstructured {
	w.Helper()
	objects, err := recorded.Load(name)
	check(w.T, err)
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return slices.Contains(without, o.GetKind()+" "+o.GetName())
	})
	edited(objects, edits)
	_, err = recorded.Create(w.Context(), w.live, objects)
	check(w.T, err)
	return objects
}

// takesWhatIsListed adopts the cluster. It expects that Drover writes exactly the listed objects, and that no
// difference remains.
func (w *world) takesWhatIsListed(a inspect.Adoption, limits adopt.Limits) {
	w.Helper()
	w.api.ResetLog()
	check(w.T, w.take(a, limits))
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	w.provesList(a)
	if again := w.look(); len(again.Objects) > 0 {
		w.Errorf("objects differ after the adoption:\n%s", strings.Join(lines(again.Objects), "\n"))
	}
}

// edited applies edits to objects, by their kinds and names.
func edited(objects []*unstructured.Unstructured, edits map[string]func(object map[string]any)) {
	for _, object := range objects {
		if edit := edits[object.GetKind()+" "+object.GetName()]; edit != nil {
			edit(object.Object)
		}
	}
}
