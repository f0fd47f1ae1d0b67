package credentials

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/credentialjob"
	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/pkg/testkit/build"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/replica"
	"github.com/drover-io/drover/tests/contract/stage"
)

func TestMain(m *testing.M) {
	drover, err := plane.Binary("drover")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(plane.Main(m, plane.Options{
		Components: []string{managementplane.ControllerManager, managementplane.Scheduler,
			managementplane.ProcessKubelet},
		Controllers: []string{"garbage-collector-controller", "namespace-controller", "serviceaccount-controller",
			"root-ca-certificate-publisher-controller", "job-controller", "node-lifecycle-controller"},
		Images: []managementplane.Image{
			{Match: "*drover*", Program: drover},
			// The Jobs that make machines.
			{Match: "rancher/machine*", Program: "/usr/bin/sleep", Args: []string{"infinity"}},
		},
		WithoutCRDs: true,
	}))
}

// small is an EC2 that knows access keys: the code of its answer, or "" for a valid key.
type small struct {
	mu    sync.Mutex
	keys  map[string]string
	asked int
}

func (s *small) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	_, credential, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	key, _, _ := strings.Cut(credential, "/")
	code, known := s.keys[key]
	if !known {
		code = "AuthFailure"
	}
	if code == "" && r.FormValue("Action") == "DescribeRegions" {
		_, _ = io.WriteString(w, "<DescribeRegionsResponse/>")
		return
	}
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = fmt.Fprintf(w, "<Response><Errors><Error><Code>%s</Code></Error></Errors></Response>", code)
}

func (s *small) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// world is a management cluster with Drover and a cloud.
type world struct {
	*testing.T
	client.Client
	namespace string
	cloud     *small
	endpoint  string
}

const (
	name    = "cc-aws"
	secret  = "hunter2-hunter2"
	waiting = 2 * time.Minute
)

func newWorld(t *testing.T) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(provv1.AddToScheme(scheme))
	c, err := client.New(plane.Config(t, "contract-tests"), client.Options{Scheme: scheme})
	w := &world{T: t, Client: c, cloud: &small{keys: map[string]string{"AKIDGOOD": "", "AKIDOLD": "ExpiredToken"}}}
	w.must(err)
	server := httptest.NewServer(w.cloud)
	t.Cleanup(server.Close)
	w.endpoint = strings.TrimPrefix(server.URL, "http://")
	drover := replica.New(t, "drover", plane.Kubeconfig(t), "--shutdown-delay=0s",
		"--cluster-agent-image=drover.test/drover:test", "--admission=install",
		"--admission-address=127.0.0.1:"+stage.FreePort(t))
	drover.Start()
	drover.AwaitReady()
	w.namespace = plane.Namespace(t)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// write writes the credential.
func (w *world) write(access string, options ...client.CreateOption) error {
	return w.writeKeys(map[string][]byte{"amazonec2credentialConfig-accessKey": []byte(access),
		"amazonec2credentialConfig-secretKey": []byte(secret)}, options...)
}

func (w *world) writeKeys(data map[string][]byte, options ...client.CreateOption) error {
	live := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	err := w.Get(w.Context(), client.ObjectKeyFromObject(live), live)
	live.Data = data
	if apierrors.IsNotFound(err) {
		return w.Create(w.Context(), live, options...)
	}
	w.must(err)
	return w.Update(w.Context(), live)
}

// make creates the machine config and the Cluster as soon as the kinds of the driver are served.
func (w *world) make() {
	w.Helper()
	config := &unstructured.Unstructured{Object: map[string]any{"region": "eu-central-1", "endpoint": w.endpoint,
		"insecureTransport": true}}
	config.SetAPIVersion("rke-machine-config.cattle.io/v1")
	config.SetKind("Amazonec2Config")
	config.SetNamespace(w.namespace)
	config.SetName("nodes")
	plane.Until(w.T, waiting, func() string {
		if err := w.Create(w.Context(), config.DeepCopy()); err != nil && !apierrors.IsAlreadyExists(err) {
			return err.Error()
		}
		return ""
	})
	cluster := build.Cluster("demo", build.Pool("nodes", "ecw", 1))
	cluster.ObjectMeta = metav1.ObjectMeta{Namespace: w.namespace, Name: "demo"}
	cluster.Status = provv1.ClusterStatus{}
	cluster.Spec.CloudCredentialSecretName = name
	pool := &cluster.Spec.RKEConfig.MachinePools[0]
	pool.NodeConfig.Kind, pool.NodeConfig.APIVersion = config.GetKind(), config.GetAPIVersion()
	w.must(w.Create(w.Context(), cluster))
}

// expect waits for the condition of the Cluster and the Event on the Secret.
func (w *world) expect(status, reason, text string) {
	w.Helper()
	plane.Until(w.T, waiting, func() string {
		cluster := &provv1.Cluster{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: "demo"}, cluster); err != nil {
			return err.Error()
		}
		got := conditions.Get(cluster.Status.Conditions, provv1.ConditionCloudCredentialValid)
		if got == nil || got.Status != status || got.Reason != reason || !strings.Contains(got.Message, text) {
			return fmt.Sprintf("condition %+v, want %s %s with %q", got, status, reason, text)
		}
		return w.told(reason)
	})
}

// told returns "" if there is an Event on the Secret. Neither it nor another Event shows the secret.
func (w *world) told(reason string) string {
	events := &corev1.EventList{}
	w.must(w.List(w.Context(), events, client.InNamespace(w.namespace)))
	found := "no Event " + reason + " on the Secret"
	for i := range events.Items {
		event := &events.Items[i]
		if event.InvolvedObject.Kind == "Secret" && event.InvolvedObject.Name == name && event.Reason == reason {
			found = ""
		}
		if strings.Contains(event.Message, secret) {
			w.Errorf("an Event shows the credential: %s", event.Message)
		}
	}
	return found
}

// expectRest waits until no Job of a check is left, and checks what the records contain.
func (w *world) expectRest() {
	w.Helper()
	plane.Until(w.T, waiting, func() string {
		jobs := &batchv1.JobList{}
		w.must(w.List(w.Context(), jobs, client.InNamespace(w.namespace)))
		for i := range jobs.Items {
			if jobs.Items[i].Annotations[credentialjob.CredentialAnnotation] != "" {
				return "Job " + jobs.Items[i].Name + " is left"
			}
		}
		return ""
	})
	records := &corev1.SecretList{}
	w.must(w.List(w.Context(), records, client.InNamespace(w.namespace)))
	count := 0
	for i := range records.Items {
		if record := &records.Items[i]; record.Type == credentialjob.SecretType {
			count++
			if len(record.Data) != 1 || strings.Contains(fmt.Sprintf("%s", record.Data), secret) {
				w.Errorf("record %s has more than the result", record.Name)
			}
		}
	}
	if count != 1 {
		w.Errorf("%d records, want 1", count)
	}
}

// TestCredentials: wrong keys are refused, and a Cluster and its credential say whether the cloud accepts it. The cloud
// is asked once for each version of the credential.
func TestCredentials(t *testing.T) {
	w := newWorld(t)
	plane.Until(t, waiting, func() string {
		err := w.writeKeys(map[string][]byte{"amazonec2credentialConfig-acessKey": []byte(secret),
			"amazonec2credentialConfig-secretKey": []byte(secret)}, client.DryRunAll)
		if err == nil {
			return "the webhook does not know the driver yet"
		}
		for _, want := range []string{"data[amazonec2credentialConfig-acessKey]", "did you mean " +
			"amazonec2credentialConfig-accessKey?", "data[amazonec2credentialConfig-accessKey]: Required value"} {
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(),
				secret) {
				return fmt.Sprintf("error %v, want %q", err, want)
			}
		}
		return ""
	})
	w.must(w.write("AKIDGOOD"))
	w.make()
	w.expect("True", credentialjob.ReasonAccepted, "EC2 accepts")
	w.must(w.write("AKIDOLD"))
	w.expect("False", credentialjob.ReasonExpired, "the credential has expired")
	w.must(w.write("AKIDWRONG"))
	w.expect("False", credentialjob.ReasonRejected, "AuthFailure")
	w.must(w.write("AKIDGOOD"))
	w.expect("True", credentialjob.ReasonAccepted, "EC2 accepts")
	w.expectRest()
	if asked := w.cloud.count(); asked != 4 {
		t.Errorf("the cloud was asked %d times for 4 versions of the credential", asked)
	}
}
