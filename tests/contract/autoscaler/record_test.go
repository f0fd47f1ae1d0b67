package autoscaler

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/autoscaling"
	"github.com/drover-io/drover/tests/contract/plane"
)

const (
	programVariable = "DROVER_TEST_AUTOSCALER"
	versionVariable = "DROVER_TEST_AUTOSCALER_VERSION"
)

// TestRecordAutoscaler runs a real cluster-autoscaler against the same clusters, and writes testdata/calls.json.
func TestRecordAutoscaler(t *testing.T) {
	program := os.Getenv(programVariable)
	if program == "" {
		t.Skip(programVariable + " names no cluster-autoscaler")
	}
	w := newWorld(t)
	r := &recorder{world: w, seen: map[string]bool{}}
	through := httptest.NewTLSServer(r.proxy()) // clients send a token only over TLS
	t.Cleanup(through.Close)
	w.nodes()
	w.run(program, through.URL)

	for i := range 3 {
		w.pod(i)
	}
	w.await(3)
	machines := w.machines()
	w.nodes()
	w.st.Edit(w.namespace, name, func(c *provv1.Cluster) {
		c.Spec.RKEConfig.MachinePools[1].AutoscalingMinSize = new(int32(1)) // one idle machine stays
	})
	plane.Until(t, time.Minute, func() string {
		found := &clusterv1.MachineDeployment{}
		w.must(w.st.Client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: deployment}, found))
		if found.Annotations[clusterv1.AutoscalerMinSizeAnnotation] != "1" {
			return "the MachineDeployment has the former minimum"
		}
		return ""
	})
	all := calls{Autoscaler: os.Getenv(versionVariable), Recorded: true, Grow: r.take(nil)}
	for i := range 3 {
		w.unpend(i)
	}
	w.await(1)
	kept := w.machines()[0]
	var removed []string
	for _, machine := range machines {
		if machine != kept {
			removed = append(removed, machine)
		}
	}
	all.Shrink = r.take(append(removed, kept))
	w.must(all.write())
}

// run runs the autoscaler until the test ends.
func (w *world) run(program, through string) {
	w.Helper()
	dir := w.TempDir()
	token := []byte(w.config.BearerToken)
	w.must(os.WriteFile(filepath.Join(dir, "token"), token, 0o600))
	config := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: a\n"+
		"clusters: [{name: a, cluster: {server: %q, insecure-skip-tls-verify: true}}]\nusers: [{name: a, user: {tokenFile: token}}]\n"+
		"contexts: [{name: a, context: {cluster: a, user: a}}]\n",
		through+strings.TrimRight(autoscaling.PathPrefix, "/"))
	management, workload := filepath.Join(dir, "value"), filepath.Join(dir, "workload")
	w.must(os.WriteFile(management, []byte(config), 0o600))
	secret := &corev1.Secret{}
	w.must(w.st.Client.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name + "-kubeconfig"}, secret))
	w.must(os.WriteFile(workload, secret.Data["value"], 0o600))
	log, err := os.Create(filepath.Join(plane.Dir(w), "logs", "cluster-autoscaler.log"))
	w.must(err)
	command := exec.CommandContext(w.Context(), program, append(
		autoscaling.Arguments(w.namespace, name, management),
		"--kubeconfig="+workload, "--kube-api-content-type=application/json", "--leader-elect=false", "--v=4",
		"--scan-interval=2s", "--scale-down-unneeded-time=5s", "--scale-down-delay-after-add=5s",
		"--unremovable-node-recheck-timeout=5s", "--write-status-configmap=false",
		"--skip-nodes-with-local-storage=false", "--address=127.0.0.1:0")...)
	command.Stdout, command.Stderr = log, log
	w.must(command.Start())
	w.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		text, _ := os.ReadFile(log.Name())
		if w.Failed() {
			w.Logf("%.20000s", text[max(0, len(text)-20000):])
		}
	})
}

// nodes gives all nodes a capacity.
func (w *world) nodes() {
	w.Helper()
	list, err := w.inside.CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
	w.must(err)
	for i := range list.Items {
		node := &list.Items[i]
		node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"),
			corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("110")}
		node.Status.Allocatable = node.Status.Capacity
		_, err := w.inside.CoreV1().Nodes().UpdateStatus(w.Context(), node, metav1.UpdateOptions{})
		w.must(err)
	}
}

// pod creates a pod that needs most of a worker, and for which no node has room.
func (w *world) pod(number int) {
	w.Helper()
	pods := w.inside.CoreV1().Pods("default")
	pod, err := pods.Create(w.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pending-%d", number)},
		Spec: corev1.PodSpec{SchedulerName: "default-scheduler",
			NodeSelector: map[string]string{"example.com/size": "small"},
			Containers: []corev1.Container{{Name: "work", Image: "example.com/work",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("1500m")}}}}},
	}, metav1.CreateOptions{})
	w.must(err)
	pod.Status.Phase = corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.Now()}}
	_, err = pods.UpdateStatus(w.Context(), pod, metav1.UpdateOptions{})
	w.must(err)
}

func (w *world) unpend(number int) {
	w.Helper()
	w.must(w.inside.CoreV1().Pods("default").Delete(w.Context(), fmt.Sprintf("pending-%d", number),
		metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
}

// bodyKey is the context key of the body of a request.
type bodyKey struct{}

// recorder records the calls of an autoscaler.
type recorder struct {
	*world
	mu   sync.Mutex
	all  []call
	seen map[string]bool
}

func (r *recorder) proxy() http.Handler {
	target, err := url.Parse(r.st.URL)
	r.must(err)
	trusted := &rest.Config{Host: r.config.Host, TLSClientConfig: r.config.TLSClientConfig}
	transport, err := rest.TransportFor(trusted)
	r.must(err)
	return &httputil.ReverseProxy{
		FlushInterval: -1, Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			if p.In.Method == http.MethodGet {
				return
			}
			body, _ := io.ReadAll(p.In.Body)
			p.Out.Body = io.NopCloser(bytes.NewReader(body))
			p.Out = p.Out.WithContext(context.WithValue(p.Out.Context(), bodyKey{}, body))
		},
		ModifyResponse: func(answer *http.Response) error {
			r.note(answer)
			return nil
		},
	}
}

var versions = regexp.MustCompile(`(resourceVersion=)[1-9][0-9]*|(timeoutSeconds=)[0-9]+`)

func (r *recorder) note(answer *http.Response) {
	from := answer.Request
	path := "/" + strings.TrimPrefix(from.URL.Path, autoscaling.PathPrefix)
	if from.URL.RawQuery != "" {
		path += "?" + versions.ReplaceAllString(from.URL.RawQuery, "${1}${2}")
	}
	path = strings.NewReplacer("resourceVersion=&", "", "&resourceVersion=", "", "timeoutSeconds=",
		"timeoutSeconds=60").Replace(path + "&")
	c := call{Method: from.Method, Path: strings.TrimRight(path, "&?"), Type: from.Header.Get("Content-Type"),
		Code: answer.StatusCode}
	if body, _ := from.Context().Value(bodyKey{}).([]byte); from.Method == http.MethodPut {
		c.Annotations = []string{"cluster.x-k8s.io/delete-machine"}
		if !bytes.Contains(body, []byte(c.Annotations[0])) {
			c.Annotations = []string{"unknown: " + string(body)}
		}
	} else if len(body) > 0 {
		c.Body = json.RawMessage(body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := fmt.Sprintf("%s %s %d", c.Method, c.Path, c.Code)
	if c.Method == http.MethodGet && r.seen[key] {
		return // the first of equal reads is enough
	}
	r.seen[key] = true
	r.all = append(r.all, c)
}

// take returns the calls since the last take, with placeholders.
func (r *recorder) take(machines []string) []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := []string{r.namespace, "{namespace}", deployment, "{deployment}"}
	for i, machine := range machines {
		names = append([]string{machine, fmt.Sprintf("{machine%d}", i+1)}, names...)
	}
	clean := strings.NewReplacer(names...)
	taken := r.all
	for i := range taken {
		taken[i].Path = clean.Replace(taken[i].Path)
		taken[i].Body = json.RawMessage(clean.Replace(string(taken[i].Body)))
		if len(taken[i].Body) == 0 {
			taken[i].Body = nil
		}
	}
	r.all = nil
	return taken
}
