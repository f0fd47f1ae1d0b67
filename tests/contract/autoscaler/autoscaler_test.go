package autoscaler

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// TestAutoscaler sends the calls of the cluster-autoscaler with the credential of the cluster's account. A pool grows
// from zero to three machines and shrinks to one. Drover does not change the size, and the account can do nothing else.
func TestAutoscaler(t *testing.T) {
	w := newWorld(t)
	all, err := readCalls()
	w.must(err)
	w.awaitDeployed()

	w.replay(all.Grow, nil)
	w.await(3)
	machines := w.machines()
	w.st.Edit(w.namespace, name, func(c *provv1.Cluster) {
		pool := &c.Spec.RKEConfig.MachinePools[1]
		if pool.Quantity == nil || *pool.Quantity != 0 {
			t.Errorf("the pool's quantity is %v", pool.Quantity)
		}
		pool.Quantity = new(int32(2)) // without effect
		pool.Labels["example.com/edited"] = "yes"
	})
	w.awaitLabel("example.com/edited")
	w.await(3)

	w.awaitPermitted(machines)
	w.replay(all.Shrink, machines)
	w.await(1)
	if left := w.machines(); !slices.Equal(left, machines[2:]) {
		t.Errorf("machines %v are left of %v, and the autoscaler marked the first two", left, machines)
	}
	w.expectOwnRights()
	w.expectRefusedSizes()
}

// awaitLabel waits until the edit of a user has reached the MachineDeployment.
func (w *world) awaitLabel(label string) {
	w.Helper()
	plane.Until(w, time.Minute, func() string {
		found := &clusterv1.MachineDeployment{}
		w.must(w.st.Client.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: deployment}, found))
		if found.Labels[label] == "" {
			return "the MachineDeployment has no label " + label
		}
		return ""
	})
}

// awaitPermitted waits until the account may mark the machines.
func (w *world) awaitPermitted(machines []string) {
	w.Helper()
	for _, machine := range machines {
		plane.Until(w, time.Minute, func() string {
			if code, body := w.send(w.config, call{Method: http.MethodGet,
				Path: w.path("machines/" + machine)}); code != http.StatusOK {
				return string(body)
			}
			return ""
		})
	}
}

func (w *world) path(resource string) string {
	return "/apis/cluster.x-k8s.io/v1beta2/namespaces/" + w.namespace + "/" + resource
}

// replay sends calls, and expects the recorded codes.
func (w *world) replay(sent []call, machines []string) {
	w.Helper()
	names := []string{"{namespace}", w.namespace, "{cluster}", name, "{deployment}", deployment}
	for i, machine := range machines {
		names = append(names, fmt.Sprintf("{machine%d}", i+1), machine)
	}
	fill := strings.NewReplacer(names...)
	for _, c := range sent {
		c.Path = fill.Replace(c.Path)
		c.Body = json.RawMessage(fill.Replace(string(c.Body)))
		plane.Until(w, time.Minute, func() string {
			if len(c.Annotations) > 0 {
				c.Body = w.annotated(c)
			}
			code, body := w.send(w.config, c)
			if code == http.StatusConflict && c.Code != code {
				return string(body) // another program has changed the object since it was read
			}
			if code != c.Code {
				w.Fatalf("%s %s: %d, want %d: %.500s", c.Method, c.Path, code, c.Code, body)
			}
			return ""
		})
	}
}

// annotated returns an object as the API has it, with additional annotations.
func (w *world) annotated(c call) []byte {
	w.Helper()
	code, body := w.send(w.config, call{Method: http.MethodGet, Path: c.Path})
	if code != http.StatusOK {
		w.Fatalf("GET %s: %d %s", c.Path, code, body)
	}
	object := &unstructured.Unstructured{}
	w.must(object.UnmarshalJSON(body))
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	for _, key := range c.Annotations {
		annotations[key] = time.Now().String()
	}
	object.SetAnnotations(annotations)
	body, err := object.MarshalJSON()
	w.must(err)
	return body
}

// send sends a call and returns its answer. Of a watch, it reads nothing but the code.
func (w *world) send(config *rest.Config, c call) (int, []byte) {
	w.Helper()
	transport, err := rest.TransportFor(config)
	w.must(err)
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, c.Method, config.Host+c.Path, bytes.NewReader(c.Body))
	w.must(err)
	if c.Type != "" {
		request.Header.Set("Content-Type", c.Type)
	}
	answer, err := transport.RoundTrip(request)
	w.must(err)
	defer answer.Body.Close()
	if strings.Contains(c.Path, "watch=true") {
		return answer.StatusCode, nil
	}
	body, err := io.ReadAll(answer.Body)
	w.must(err)
	return answer.StatusCode, body
}

// expectOwnRights fails if the account can do more than scale its own pool, through Drover or directly.
func (w *world) expectOwnRights() {
	w.Helper()
	direct := w.st.Config("autoscaler")
	direct.BearerToken = w.config.BearerToken
	direct.CertData, direct.KeyData, direct.CertFile, direct.KeyFile = nil, nil, "", ""
	const patch = "application/merge-patch+json"
	more, marked := json.RawMessage(`{"spec":{"replicas":3}}`), json.RawMessage(`{"metadata":{"labels":{"a":"b"}}}`)
	for title, config := range map[string]*rest.Config{"through Drover": w.config, "directly": direct} {
		for what, c := range map[string]call{
			"scale another cluster": {Method: http.MethodPatch, Type: patch, Body: more,
				Path: w.path("machinedeployments/other-server/scale")},
			"scale its servers": {Method: http.MethodPatch, Type: patch, Body: more,
				Path: w.path("machinedeployments/" + name + "-server/scale")},
			"change its pool": {Method: http.MethodPatch, Type: patch, Body: marked,
				Path: w.path("machinedeployments/" + deployment)},
			"change a server": {Method: http.MethodPatch, Type: patch, Body: marked,
				Path: w.path("machines/" + w.server())},
			"delete a machine": {Method: http.MethodDelete, Path: w.path("machines/" + w.machines()[0])},
			"read Secrets":     {Method: http.MethodGet, Path: "/api/v1/namespaces/" + w.namespace + "/secrets"},
			"read templates": {Method: http.MethodGet,
				Path: "/apis/rke-machine.cattle.io/v1/namespaces/" + w.namespace + "/simmachinetemplates"},
			"read another namespace": {Method: http.MethodGet,
				Path: strings.Replace(w.path("machines"), w.namespace, "default", 1)},
		} {
			if code, body := w.send(config, c); code != http.StatusForbidden {
				w.Errorf("%s, the autoscaler can %s: %d %.300s", title, what, code, body)
			}
		}
	}
	_, body := w.send(w.config, call{Method: http.MethodGet, Path: w.path("machinedeployments")})
	list := &clusterv1.MachineDeploymentList{}
	w.must(json.Unmarshal(body, list))
	for _, found := range list.Items {
		if found.Spec.ClusterName != name {
			w.Errorf("the autoscaler sees MachineDeployment %s of another cluster", found.Name)
		}
	}
	if len(list.Items) != 2 {
		w.Errorf("the autoscaler sees %d MachineDeployments", len(list.Items))
	}
	groups := &metav1.APIGroupList{}
	_, body = w.send(w.config, call{Method: http.MethodGet, Path: "/apis"})
	if w.must(json.Unmarshal(body, groups)); len(groups.Groups) != 1 {
		w.Errorf("the autoscaler sees %d API groups", len(groups.Groups))
	}
}

// server returns the name of the Machine of the server.
func (w *world) server() string {
	w.Helper()
	list := &clusterv1.MachineList{}
	w.must(w.st.Client.List(w.Context(), list, client.InNamespace(w.namespace),
		client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: name + "-server"}))
	return list.Items[0].Name
}

// expectRefusedSizes applies a minimum above the maximum.
func (w *world) expectRefusedSizes() {
	w.Helper()
	pool := stage.Pool("auto", "w", 1)
	pool.NodeConfig.Name = "none"
	pool.AutoscalingMinSize, pool.AutoscalingMaxSize = new(int32(4)), new(int32(3))
	err := w.st.Client.Create(w.Context(), &provv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "refused"},
		Spec: provv1.ClusterSpec{KubernetesVersion: stage.K3s,
			RKEConfig: &provv1.RKEConfig{MachinePools: []provv1.RKEMachinePool{pool}}},
	})
	const field = "spec.rkeConfig.machinePools[0].autoscalingMinSize"
	if err == nil || !strings.Contains(err.Error(), field) {
		w.Errorf("a minimum above the maximum is answered by %v, which must name %s", err, field)
	}
}
