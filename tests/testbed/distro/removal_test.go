package distro

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// A node keeps the request and the answer when its member has left, and loses the name and address of the member. A new
// member of the same node takes back both.
func TestFollowRemoval_AnnotationsThatRemain(t *testing.T) {
	const prefix = "etcd.k3s.cattle.io/"
	member := func(more ...string) map[string]string {
		out := map[string]string{prefix + "node-name": "n1-1", prefix + "node-address": "192.0.2.1", "other": "kept"}
		for i := 0; i < len(more); i += 2 {
			out[prefix+more[i]] = more[i+1]
		}
		return out
	}
	for name, test := range map[string]struct {
		has, want map[string]string
		etcd      error
		wantLeft  string
		wantErr   bool
	}{
		"no request": {has: member(), want: member()},
		"a request": {has: member("remove", "true"), wantLeft: "n1-1",
			want: map[string]string{prefix + "remove": "true", prefix + "removed-node-name": "n1-1", "other": "kept"}},
		"an unknown request": {has: member("remove", "no"), want: member("remove", "no")},
		"a request that was answered": {
			has:  map[string]string{prefix + "remove": "true", prefix + "removed-node-name": "n1-1"},
			want: map[string]string{prefix + "remove": "true", prefix + "removed-node-name": "n1-1"}},
		"the node has another member": {has: member("remove", "true", "removed-node-name", "n1-0"), want: member()},
		"etcd's only member": {has: member("remove", "true"), want: member(), wantErr: true, wantLeft: "n1-1",
			etcd: rpctypes.ErrMemberNotEnoughStarted},
		"etcd does not answer": {has: member("remove", "true"), want: member("remove", "true"), wantErr: true,
			wantLeft: "n1-1", etcd: errors.New("no leader")},
		"no name of a member": {has: map[string]string{prefix + "remove": "true"},
			want: map[string]string{prefix + "remove": "true"}, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			left := ""
			r := &run{Options: Options{Runtime: K3s, Log: io.Discard}}
			r.leave = func(_ context.Context, _, name string) error {
				left = name
				return test.etcd
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: test.has}}
			client := fake.NewClientset(node)
			if err := r.followRemoval(t.Context(), client, node); (err != nil) != test.wantErr {
				t.Errorf("error %v", err)
			}
			got, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.Annotations); diff != "" || left != test.wantLeft {
				t.Errorf("removed %q, annotations (-want +got):\n%s", left, diff)
			}
		})
	}
}
