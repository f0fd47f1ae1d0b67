package stockprovider

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// The kinds of the provider, and its module.
const (
	group      = "infrastructure.cluster.x-k8s.io"
	version    = "v1beta2"
	apiVersion = group + "/" + version
	provider   = "sigs.k8s.io/cluster-api/test"
)

// module is the module that pins the provider.
func module(t *testing.T) string {
	t.Helper()
	return filepath.Join(plane.Root(t), "codegen", "stockprovider")
}

// installProvider installs the CRDs of the provider.
func installProvider(t *testing.T, p *managementplane.Plane) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-C", module(t), "-m", "-f", "{{.Dir}}", provider)
	list.Stderr = t.Output()
	out, err := list.Output()
	check(t, err)
	definitions := filepath.Join(strings.TrimSpace(string(out)), "infrastructure", "docker", "config", "crd", "bases")
	all, err := crds.Read(os.DirFS(definitions))
	check(t, err)
	for _, definition := range all {
		// The installation of the provider would add the label, and serve other versions by a conversion webhook.
		metav1.SetMetaDataLabel(&definition.ObjectMeta, clusterv1.GroupVersion.Group+"/"+version, version)
		definition.Spec.Versions = slices.DeleteFunc(definition.Spec.Versions,
			func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return !v.Storage })
	}
	stage.InstallCRDs(t, p, all)
}

// startProvider runs the provider until the test ends.
func startProvider(t *testing.T, p *managementplane.Plane) {
	t.Helper()
	stage.StartManager(t, p, module(t), provider+"/infrastructure/docker")
}

// applyInfrastructure applies the objects of the provider that the Cluster names, and the certificate authorities of
// the kubeadm cluster that the provider simulates.
func applyInfrastructure(t *testing.T, st *stage.Stage, namespace string) {
	t.Helper()
	backend := map[string]any{"backend": map[string]any{"inMemory": map[string]any{}}}
	devCluster := object("DevCluster", namespace, clusterName, backend)
	// The provider adds an annotation, and crashes on an object without any.
	devCluster.SetAnnotations(map[string]string{"example.com/team": "tests"})
	check(t, st.Client.Create(t.Context(), devCluster))
	for _, pool := range []string{serverPool, workerPool} {
		check(t, st.Client.Create(t.Context(), object("DevMachineTemplate", namespace, pool,
			map[string]any{"template": map[string]any{"spec": backend}})))
	}
	for _, purpose := range []string{"ca", "etcd"} {
		secret := authority(t, clusterName+"-"+purpose)
		secret.Namespace = namespace
		secret.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(devCluster,
			devCluster.GroupVersionKind())}
		check(t, st.Client.Create(t.Context(), secret))
	}
}

func object(kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	out.SetAPIVersion(apiVersion)
	out.SetKind(kind)
	out.SetNamespace(namespace)
	out.SetName(name)
	return out
}

// authority returns a Secret with a new certificate authority.
func authority(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	check(t, err)
	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, key)
	check(t, err)
	encodedCertificate, err := cert.EncodeCertificates(certificate)
	check(t, err)
	encodedKey, err := keyutil.MarshalPrivateKeyToPEM(key)
	check(t, err)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: clusterName}},
		Type:       clusterv1.ClusterSecretType,
		Data:       map[string][]byte{corev1.TLSCertKey: encodedCertificate, corev1.TLSPrivateKeyKey: encodedKey},
	}
}

// playHosts boots the host of each machine that the provider has made, and powers it off when the provider has deleted
// the machine, until the test ends.
func playHosts(t *testing.T, st *stage.Stage, namespace string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			if err := followMachines(ctx, st, namespace); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func followMachines(ctx context.Context, st *stage.Stage, namespace string) error {
	machines := infrastructure("DevMachine")
	if err := st.Client.List(ctx, machines, client.InNamespace(namespace)); err != nil {
		return err
	}
	exist := map[string]bool{}
	for i := range machines.Items {
		made := &machines.Items[i]
		exist[made.GetName()] = true
		provisioned, _, err := unstructured.NestedBool(made.Object, "status", "initialization", "provisioned")
		if err != nil {
			return err
		}
		if provisioned && made.GetDeletionTimestamp() == nil {
			if err := boot(ctx, st, made); err != nil {
				return err
			}
		}
	}
	for name := range st.World.Machines(namespace) {
		if !exist[name] {
			st.World.Remove(namespace, name)
		}
	}
	return nil
}

// boot boots the host of a machine with its user data. Cluster API gives the Machine and the DevMachine one name. The
// host gets its address in the status of the DevMachine, as with other providers: this one has no network.
func boot(ctx context.Context, st *stage.Stage, made *unstructured.Unstructured) error {
	key := client.ObjectKeyFromObject(made)
	if _, booted := st.World.Machines(key.Namespace)[key.Name]; booted {
		return nil
	}
	machine := &clusterv1.Machine{}
	if err := st.Client.Get(ctx, key, machine); err != nil {
		return client.IgnoreNotFound(err)
	}
	data := &corev1.Secret{}
	name := *machine.Spec.Bootstrap.DataSecretName
	if err := st.Client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: name}, data); err != nil {
		return err
	}
	format, userData := string(data.Data["format"]), string(data.Data["value"])
	if format != "cloud-config" || !strings.HasPrefix(userData, "## template: jinja\n#cloud-config\n") {
		return fmt.Errorf("the user data of %s have format %q and begin with %.40q", key.Name, format, userData)
	}
	id, _, err := unstructured.NestedString(made.Object, "spec", "providerID")
	if err != nil {
		return err
	}
	if err := st.World.Boot(key, id); err != nil {
		return err
	}
	before := made.DeepCopy()
	address := map[string]any{"type": "InternalIP", "address": st.World.Machines(key.Namespace)[key.Name].Address}
	if err := unstructured.SetNestedSlice(made.Object, []any{address}, "status", "addresses"); err != nil {
		return err
	}
	return client.IgnoreNotFound(st.Client.Status().Patch(ctx, made, client.MergeFrom(before)))
}

// infrastructure returns an empty list of a kind of the provider.
func infrastructure(kind string) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(apiVersion)
	list.SetKind(kind + "List")
	return list
}

// infrastructureLeft lists the objects of the provider in a namespace.
func infrastructureLeft(t *testing.T, st *stage.Stage, namespace string) string {
	t.Helper()
	var left []string
	for _, kind := range []string{"DevCluster", "DevMachine", "DevMachineTemplate"} {
		list := infrastructure(kind)
		check(t, st.Client.List(t.Context(), list, client.InNamespace(namespace)))
		for i := range list.Items {
			left = append(left, kind+" "+list.Items[i].GetName())
		}
	}
	return strings.Join(left, ", ")
}
