package server

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/operate/adopt"
	"github.com/drover-io/drover/pkg/operate/inspect"
)

// imported creates a cluster to import. It returns the cluster's identifier and its agent's token once both exist.
func (w *world) imported() (id, token string) {
	w.Helper()
	w.until("the namespace", time.Minute, func() string {
		_, err := w.user.Core.Namespace().Get(fleet, metav1.GetOptions{})
		return map[bool]string{true: "it does not exist"}[err != nil]
	})
	_, err := w.user.Provisioning.Cluster().Create(
		&provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: demo}})
	check(w.T, err)
	w.until("the token of the agent", time.Minute, func() string {
		id, token = w.agentToken()
		return map[bool]string{true: "it does not exist"}[token == ""]
	})
	time.Sleep(10 * time.Minute)
	return id, token
}

// agentToken returns the identifier of the imported cluster and its agent's token.
func (w *world) agentToken() (id, token string) {
	w.Helper()
	cluster, err := w.user.Provisioning.Cluster().Get(fleet, demo, metav1.GetOptions{})
	check(w.T, err)
	if cluster.Status.ClusterName == "" {
		return "", ""
	}
	secret, err := w.user.Core.Secret().Get(cluster.Status.ClusterName, "crt-token-"+naming.DefaultRegistrationToken,
		metav1.GetOptions{})
	if err != nil {
		return cluster.Status.ClusterName, ""
	}
	return cluster.Status.ClusterName, string(secret.Data["token"])
}

// managed expects that an imported cluster is managed as before, with the agent that it has, and that it can be
// deleted.
func (w *world) managed(id, token string) {
	w.Helper()
	a := w.look()
	var fields []string
	for _, object := range a.Objects {
		if object.Kind == "Cluster.management.cattle.io" && object.Verb == applyset.Update {
			continue // it has a copy of the mark
		}
		for _, cause := range object.Fields {
			fields = append(fields, string(object.Verb)+" "+object.Kind+" "+cause.Field)
		}
	}
	// The annotation that blocks "clusterctl move" comes and goes with the mark.
	if diff := cmp.Diff([]string{"Update Cluster.provisioning.cattle.io metadata.annotations[" +
		rkev1.BlockMoveAnnotation + "]"}, fields); diff != "" || len(a.Objects) > 2 {
		w.Errorf("adopting an imported cluster is more than a mark (-want +got):\n%s", diff)
	}
	if a.Owner != inspect.OwnerReleased || a.Result != planner.ClassNone || len(a.Problems)+len(a.Machines) > 0 {
		w.Errorf("%+v", a)
	}
	check(w.T, w.take(a, w.limits("")))
	time.Sleep(time.Minute)
	if a = w.look(); a.Owner != inspect.OwnerSame || len(a.Problems)+len(a.Objects) > 0 {
		w.Errorf("after the adoption: %+v", a)
	}
	if gotID, gotToken := w.agentToken(); gotID != id || gotToken != token {
		w.Errorf("the cluster is %s now and was %s; its agent has the same token: %t", gotID, id, gotToken == token)
	}
	check(w.T, w.user.Provisioning.Cluster().Delete(fleet, demo, &metav1.DeleteOptions{}))
	w.until("the end of the cluster", 5*time.Minute, func() string {
		if _, err := w.user.Provisioning.Cluster().Get(fleet, demo, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return "it still exists"
		}
		if _, err := w.user.Management.Cluster().Get(id, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return "its management cluster still exists"
		}
		return ""
	})
}

// An imported cluster moves to another management cluster with a backup. It is adopted there like any other.
func TestStory_AnImportedClusterIsRestored(t *testing.T) {
	tell(t, func(w *world) {
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		w.start()
		id, token := w.imported()
		saved := w.saved()
		w.elsewhere(ctx)
		w.restoredUntouched(ctx, saved)
		w.managed(id, token)
	})
}

// An imported cluster moves from one Drover to another.
func TestStory_AnImportedClusterIsHandedOver(t *testing.T) {
	tell(t, func(w *world) {
		w.instance = "theirs"
		w.start()
		id, token := w.imported()
		w.stop()
		w.instance = ""
		published, err := w.user.Core.ConfigMap().List("drover-system", metav1.ListOptions{})
		check(t, err)
		for i := range published.Items {
			check(t, w.user.Core.ConfigMap().Delete("drover-system", published.Items[i].Name, &metav1.DeleteOptions{}))
		}
		w.start()
		time.Sleep(time.Hour)
		if a := w.look(); a.Owner != inspect.OwnerOther || a.Mark != "theirs" || len(a.Problems) > 0 {
			t.Errorf("%+v", a)
		} else if err := adopt.Check(a, w.limits("")); err == nil || !strings.Contains(err.Error(), "--from theirs") {
			t.Errorf("without --from: %v", err)
		}
		r := w.reader()
		has, err := r.HasChildren(demo)
		r.Close()
		if err != nil || !has {
			t.Errorf("objects were created for the cluster: %t, %v", has, err)
		}
		w.released("theirs")
		time.Sleep(10 * time.Minute)
		w.managed(id, token)
	})
}

// For clusters without spec.rkeConfig, adoption reports what it cannot adopt, and why.
func TestAdoption_OfClustersWithoutConfiguration(t *testing.T) {
	cases := map[string]struct {
		name, clusterName string
		want              string // the obstacle; empty: none
	}{
		"of Rancher": {name: "theirs", clusterName: "c-m-aaaaaaaa"},
		"of Rancher, with an older management cluster": {name: "c-a2b4c", clusterName: "c-a2b4c",
			want: "its management cluster is older than it"},
		"the cluster of Rancher itself": {name: "local", clusterName: "local",
			want: "its management cluster is older than it"},
	}
	tell(t, func(w *world) {
		w.start()
		w.until("the settings", time.Minute, func() string {
			published, err := w.user.Core.ConfigMap().List("drover-system", metav1.ListOptions{})
			return map[bool]string{true: "none"}[err != nil || len(published.Items) == 0]
		})
		for _, name := range slices.Sorted(maps.Keys(cases)) {
			tc := cases[name]
			cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: tc.name},
				Status: provv1.ClusterStatus{ClusterName: tc.clusterName}}
			cluster.SetGroupVersionKind(provv1.SchemeGroupVersion.WithKind("Cluster"))
			check(t, w.api.Add(cluster))
			reader := w.reader()
			a, err := reader.Adoption(w.Context(), tc.name, "")
			reader.Close()
			check(t, err)
			problems := strings.Join(a.Problems, "; ")
			if a.Owner != inspect.OwnerUnmarked || (problems == "") != (tc.want == "") ||
				!strings.Contains(problems, tc.want) {
				t.Errorf("%s: %s, %q; want %q", name, a.Owner, problems, tc.want)
			}
			if err := adopt.Check(a, w.limits("")); err == nil || !strings.Contains(err.Error(), "--from rancher") {
				t.Errorf("%s: without --from: %v", name, err)
			}
		}
		if got, err := w.user.Management.Cluster().List(metav1.ListOptions{}); err != nil || len(got.Items) > 0 {
			t.Errorf("the report wrote %v, %v", got.Items, err)
		}
	})
}
