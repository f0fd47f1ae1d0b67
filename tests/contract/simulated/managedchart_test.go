package simulated

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// chartStage is a stage with Fleet's Bundles and two repositories of the same chart.
type chartStage struct {
	*testing.T
	st        *stage.Stage
	namespace string
	// index and images are the addresses of both repositories.
	index, images string
	// away makes both repositories answer nothing; requests counts what they were asked.
	away     atomic.Bool
	requests atomic.Int32
}

// TestManagedChart: a chart in a repository with an index and the same chart in an OCI registry give the same Bundle.
// The Bundle follows edits, stays while the repositories are away, and goes with the ManagedChart.
func TestManagedChart(t *testing.T) {
	st := stage.Start(t, stage.Settings{})
	s := &chartStage{T: t, st: st, namespace: plane.Namespace(t)}
	s.serve()

	s.create("early", s.index)
	s.await("early", "Unknown", "bundles.fleet.cattle.io")
	s.defineBundles()
	s.create("index", s.index)
	s.create("images", s.images)
	for _, each := range []string{"early", "index", "images"} {
		s.await(each, "True", "")
	}
	want := map[string]string{"Chart.yaml": chartFile("1.0.0"), "templates/a.yaml": "kind: ConfigMap"}
	for _, each := range []string{"index", "images"} {
		if diff := cmp.Diff(want, s.files(each)); diff != "" {
			t.Errorf("files of %s (-want +got):\n%s", each, diff)
		}
	}
	if diff := cmp.Diff(s.bundle("index").Object["spec"], s.bundle("images").Object["spec"]); diff != "" {
		t.Errorf("the repositories give different Bundles:\n%s", diff)
	}
	s.expectRest()

	// Values need no repository, a version does.
	s.away.Store(true)
	s.edit("index", func(c *mgmtv3.ManagedChart) {
		c.Spec.Values = rkev1.GenericMap{Data: map[string]any{"replicas": int64(3), "none": nil}}
	})
	plane.Until(t, time.Minute, func() string {
		values, _, _ := unstructured.NestedMap(s.bundle("index").Object, "spec", "helm", "values")
		_, hasNull := values["none"]
		if values["replicas"] == int64(3) && hasNull {
			return ""
		}
		return fmt.Sprintf("values are %v", values)
	})
	for _, each := range []string{"index", "images"} {
		s.edit(each, func(c *mgmtv3.ManagedChart) { c.Spec.Version = "2.0.0" })
		s.await(each, "False", "spec.repo")
		if diff := cmp.Diff(want, s.files(each)); diff != "" {
			t.Errorf("what runs has changed (-want +got):\n%s", diff)
		}
	}
	s.away.Store(false)
	want["Chart.yaml"] = chartFile("2.0.0")
	for _, each := range []string{"index", "images"} {
		s.awaitIn(3*time.Minute, each, "True", "")
		if diff := cmp.Diff(want, s.files(each)); diff != "" {
			t.Errorf("files of %s (-want +got):\n%s", each, diff)
		}
	}

	// Fleet reports in the status of the Bundle, and its schema names mistakes.
	s.report("index")
	s.edit("images", func(c *mgmtv3.ManagedChart) {
		c.Spec.Targets = []rkev1.GenericMap{{Data: map[string]any{"clusterNmae": "demo"}}}
	})
	s.await("images", "False", "clusterNmae")
	s.edit("images", func(c *mgmtv3.ManagedChart) { c.Spec.Targets = nil })
	s.await("images", "True", "")
	s.expectRest()

	s.delete("index")
}

// serve starts both repositories, with two versions of the chart.
func (s *chartStage) serve() {
	s.Helper()
	images := registry.New()
	files := http.NewServeMux()
	address := s.listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		switch {
		case s.away.Load():
			w.WriteHeader(http.StatusBadGateway)
		case strings.HasPrefix(r.URL.Path, "/v2/"):
			images.ServeHTTP(w, r)
		default:
			files.ServeHTTP(w, r)
		}
	}))
	s.index, s.images = "http://"+address+"/charts", "oci://"+address+"/team"
	var entries strings.Builder
	for _, version := range []string{"1.0.0", "2.0.0"} {
		archive := s.archive(version)
		files.HandleFunc("/charts/web-"+version+".tgz", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(archive)
		})
		fmt.Fprintf(&entries, "  - {name: web, version: %s, urls: [web-%s.tgz]}\n", version, version)
		tag, err := name.NewTag(address + "/team/web:" + version)
		s.must(err)
		image, err := mutate.AppendLayers(empty.Image,
			static.NewLayer(archive, "application/vnd.cncf.helm.chart.content.v1.tar+gzip"))
		s.must(err)
		s.must(remote.Write(tag, image))
	}
	files.HandleFunc("/charts/index.yaml", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "apiVersion: v1\nentries:\n  web:\n"+entries.String())
	})
}

func (s *chartStage) listen(handler http.Handler) string {
	s.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	s.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}

func chartFile(version string) string { return "apiVersion: v2\nname: web\nversion: " + version + "\n" }

func (s *chartStage) archive(version string) []byte {
	s.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	entries := tar.NewWriter(zipped)
	for _, file := range [][2]string{{"web/templates/a.yaml", "kind: ConfigMap"},
		{"web/Chart.yaml", chartFile(version)}} {
		s.must(entries.WriteHeader(&tar.Header{Name: file[0], Mode: 0o644, Size: int64(len(file[1]))}))
		_, err := io.WriteString(entries, file[1])
		s.must(err)
	}
	s.must(entries.Close())
	s.must(zipped.Close())
	return out.Bytes()
}

func (s *chartStage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// defineBundles installs a CRD like that of Fleet, and removes it at the end.
func (s *chartStage) defineBundles() {
	s.Helper()
	open, text := true, apiextv1.JSONSchemaProps{Type: "string"}
	anything := apiextv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &open}
	listOf := func(of apiextv1.JSONSchemaProps) apiextv1.JSONSchemaProps {
		return apiextv1.JSONSchemaProps{Type: "array", Items: &apiextv1.JSONSchemaPropsOrArray{Schema: &of}}
	}
	object := func(properties map[string]apiextv1.JSONSchemaProps) apiextv1.JSONSchemaProps {
		return apiextv1.JSONSchemaProps{Type: "object", Properties: properties}
	}
	spec := object(map[string]apiextv1.JSONSchemaProps{
		"helm": anything, "defaultNamespace": text,
		"resources": listOf(object(map[string]apiextv1.JSONSchemaProps{
			"name": text, "content": text, "encoding": text})),
		"targets": listOf(object(map[string]apiextv1.JSONSchemaProps{
			"clusterName": text, "clusterSelector": anything})),
	})
	definition := &apiextv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "bundles.fleet.cattle.io"},
		Spec: apiextv1.CustomResourceDefinitionSpec{
			Group: "fleet.cattle.io", Scope: apiextv1.NamespaceScoped,
			Names: apiextv1.CustomResourceDefinitionNames{Plural: "bundles", Singular: "bundle", Kind: "Bundle",
				ListKind: "BundleList"},
			Versions: []apiextv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true,
				Schema: &apiextv1.CustomResourceValidation{OpenAPIV3Schema: new(object(
					map[string]apiextv1.JSONSchemaProps{"spec": spec, "status": anything}))},
				Subresources: &apiextv1.CustomResourceSubresources{Status: &apiextv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
	definitions, err := apiextclient.NewForConfig(s.st.Config("contract-tests"))
	s.must(err)
	crds := definitions.ApiextensionsV1().CustomResourceDefinitions()
	_, err = crds.Create(s.Context(), definition, metav1.CreateOptions{})
	s.must(err)
	ctx := context.WithoutCancel(s.Context()) // that of the test has ended by then
	s.Cleanup(func() { _ = crds.Delete(ctx, definition.Name, metav1.DeleteOptions{}) })
}

func (s *chartStage) create(name, repository string) {
	s.Helper()
	s.must(s.st.Client.Create(s.Context(), &mgmtv3.ManagedChart{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: mgmtv3.ManagedChartSpec{Repo: repository, Chart: "web", Version: "1.0.0", DefaultNamespace: "web",
			Values: rkev1.GenericMap{Data: map[string]any{"replicas": int64(2)}}},
	}))
}

func (s *chartStage) stored(name string) *mgmtv3.ManagedChart {
	s.Helper()
	chart := &mgmtv3.ManagedChart{}
	s.must(s.st.Client.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, chart))
	return chart
}

func (s *chartStage) edit(name string, change func(*mgmtv3.ManagedChart)) {
	s.Helper()
	plane.Until(s.T, time.Minute, func() string {
		chart := s.stored(name)
		change(chart)
		if err := s.st.Client.Update(s.Context(), chart); err != nil {
			return err.Error() // a conflict with Drover's status
		}
		return ""
	})
}

func (s *chartStage) await(name, status, word string) {
	s.Helper()
	s.awaitIn(time.Minute, name, status, word)
}

func (s *chartStage) awaitIn(timeout time.Duration, name, status, word string) {
	s.Helper()
	plane.Until(s.T, timeout, func() string {
		defined := stage.Condition(s.stored(name).Status.Conditions, "Defined")
		if defined.Status == status && strings.Contains(defined.Message, word) {
			return ""
		}
		return fmt.Sprintf("condition of %s is %+v, want %s with %q", name, defined, status, word)
	})
}

func (s *chartStage) bundle(name string) *unstructured.Unstructured {
	s.Helper()
	bundle := bundleNamed(s.namespace, name)
	s.must(s.st.Client.Get(s.Context(), client.ObjectKeyFromObject(bundle), bundle))
	return bundle
}

func bundleNamed(namespace, name string) *unstructured.Unstructured {
	bundle := &unstructured.Unstructured{}
	bundle.SetAPIVersion("fleet.cattle.io/v1alpha1")
	bundle.SetKind("Bundle")
	bundle.SetNamespace(namespace)
	bundle.SetName("mcc-" + name)
	return bundle
}

// files returns the content of the files in a Bundle, by name.
func (s *chartStage) files(of string) map[string]string {
	s.Helper()
	resources, _, err := unstructured.NestedSlice(s.bundle(of).Object, "spec", "resources")
	s.must(err)
	out := map[string]string{}
	for _, each := range resources {
		resource, _ := each.(map[string]any)
		packed, err := base64.StdEncoding.DecodeString(fmt.Sprint(resource["content"]))
		s.must(err)
		unzipped, err := gzip.NewReader(bytes.NewReader(packed))
		s.must(err)
		content, err := io.ReadAll(unzipped)
		s.must(err)
		out[fmt.Sprint(resource["name"])] = string(content)
	}
	return out
}

// report plays Fleet, which reports the state of the clusters.
func (s *chartStage) report(name string) {
	s.Helper()
	bundle := s.bundle(name)
	bundle.Object["status"] = map[string]any{"display": map[string]any{"readyClusters": "2/2"},
		"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
	s.must(s.st.Client.Status().Update(s.Context(), bundle))
	plane.Until(s.T, time.Minute, func() string {
		status := s.stored(name).Status
		ready := stage.Condition(status.Conditions, "Ready").Status
		if status.Display.Data["readyClusters"] == "2/2" && ready == "True" {
			return ""
		}
		return fmt.Sprintf("status is %+v", status)
	})
}

// expectRest expects that nothing is written and downloaded for a while after the last change.
func (s *chartStage) expectRest() {
	s.Helper()
	stage.AwaitQuiet(s.T, time.Minute)
	since, asked := time.Now(), s.requests.Load()
	quiet := time.NewTimer(10 * time.Second)
	defer quiet.Stop()
	select {
	case <-quiet.C:
	case <-s.Context().Done():
	}
	for _, write := range plane.Writes(s.T, stage.DroverAgent, since) {
		if write.Resource == "bundles" || strings.HasPrefix(write.Resource, "managedcharts") {
			s.Errorf("Drover writes at rest: %+v", write)
		}
	}
	if now := s.requests.Load(); now != asked {
		s.Errorf("the repositories were asked %d times at rest", now-asked)
	}
}

// delete deletes a ManagedChart. The garbage collector, which this plane may lack, deletes the Bundle by its owner.
func (s *chartStage) delete(name string) {
	s.Helper()
	chart, owners := s.stored(name), s.bundle(name).GetOwnerReferences()
	if len(owners) != 1 || owners[0].UID != chart.UID || owners[0].Controller == nil || !*owners[0].Controller {
		s.Errorf("the owners of the Bundle are %v", owners)
	}
	s.must(s.st.Client.Delete(s.Context(), chart))
	plane.Until(s.T, time.Minute, func() string { return s.st.Gone(chart) + s.st.Gone(bundleNamed(s.namespace, name)) })
}
