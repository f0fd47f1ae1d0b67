package tenancy

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/tests/contract/plane"
)

// ofB is what must never reach a machine of tenant a.
const ofB = "the-secret-of-b-s-tenant"

// namedDoors tries references without a namespace. They must name an object in the cluster's own namespace, however the
// name is written.
func (w *world) namedDoors() {
	ctx := w.Context()
	for name, kind := range map[string]corev1.SecretType{"only-b-file": corev1.SecretTypeOpaque,
		"only-b-registry": corev1.SecretTypeBasicAuth} {
		check(w.T, w.st.Client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.b, Name: name, Annotations: offered()},
			Type:       kind,
			Data:       map[string][]byte{"username": []byte("b"), "password": []byte(ofB)},
		}))
	}
	w.fromOwnNamespace()
	for what, edit := range map[string]func(name string) func(*provv1.Cluster){
		"a file on machines": file,
		"the credential of a registry": func(name string) func(*provv1.Cluster) {
			return func(c *provv1.Cluster) {
				c.Spec.RKEConfig.Registries = &rkev1.Registry{Configs: map[string]rkev1.RegistryConfig{
					"registry.example.org": {AuthConfigSecretName: name + "registry"},
				}}
			}
		},
	} {
		for how, name := range map[string]string{"by its name": "only-b-", "with its namespace": w.b + "/only-b-",
			"as in a URL": "secret://" + w.b + ":only-b-"} {
			w.door("name as "+what+" a Secret of b, "+how, func() error {
				before := w.cluster(w.a, "demo").Spec
				defer func() {
					check(w.T, w.alices(func(c *provv1.Cluster) { c.Spec = before }))
					plane.Until(w.T, time.Minute, func() string { return w.mentions("demo", "only-b-") })
				}()
				if err := w.alices(edit(name)); err != nil {
					return shut(err.Error())
				}
				return w.outcome("demo", name)
			})
		}
	}
	for how, name := range map[string]string{"by its name": "demo-worker", "with its namespace": w.b + "/demo-worker"} {
		w.door("use a machine config of b "+how, func() error {
			thief := naming(w.a, "config-thief", func(c *provv1.Cluster) {
				c.Spec.RKEConfig.MachinePools[0].NodeConfig.Name = name
				c.Spec.RKEConfig.MachinePools[0].NodeConfig.Namespace = w.b
			})
			if err := w.alice.Create(ctx, thief); err != nil {
				return shut(err.Error())
			}
			defer func() {
				check(w.T, w.alice.Delete(ctx, naming(w.a, "config-thief")))
				plane.Until(w.T, time.Minute, func() string { return w.st.Gone(naming(w.a, "config-thief")) })
			}()
			return w.outcome("config-thief", name)
		})
	}
}

// offered returns the annotations of a Secret that clusters named demo may use.
func offered() map[string]string {
	return map[string]string{rkev1.AuthorizedObjectAnnotation: "demo", rkev1.AuthorizedSecretAnnotation: "demo"}
}

// file gives machines a file from a Secret.
func file(name string) func(*provv1.Cluster) {
	return func(c *provv1.Cluster) {
		c.Spec.RKEConfig.MachineSelectorFiles = []rkev1.RKEProvisioningFiles{
			{FileSources: []rkev1.ProvisioningFileSource{{
				Secret: rkev1.K8sObjectFileSource{Name: name + "file",
					Items: []rkev1.KeyToPath{{Key: "password", Path: "/etc/drover-of-b"}}},
			}}}}
	}
}

// fromOwnNamespace shows that the test would detect a leak: with the same Secret in a, machines of a get its content.
func (w *world) fromOwnNamespace() {
	own := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.a, Name: "own-file", Annotations: offered()},
		Data:       map[string][]byte{"password": []byte(ofB)},
	}
	check(w.T, w.alice.Create(w.Context(), own))
	before := w.cluster(w.a, "demo").Spec
	for _, step := range []struct {
		edit   func(*provv1.Cluster)
		leaked bool
	}{{file("own-"), true}, {func(c *provv1.Cluster) { c.Spec = before }, false}} {
		check(w.T, w.alices(step.edit))
		plane.Until(w.T, 2*time.Minute, func() string {
			if w.leaked() != step.leaked {
				return fmt.Sprintf("a plan has the content of a Secret of its own namespace: %v, want %v", !step.leaked,
					step.leaked)
			}
			return ""
		})
	}
	check(w.T, w.alice.Delete(w.Context(), own))
}

// alices changes alice's cluster demo as alice.
func (w *world) alices(edit func(*provv1.Cluster)) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		mine := w.cluster(w.a, "demo")
		edit(mine)
		return w.alice.Update(w.Context(), mine)
	})
}

// outcome returns shut if a condition of a's cluster reports a wrong name, and nil if its machines get b's content.
func (w *world) outcome(cluster, name string) (err error) {
	w.Helper()
	plane.Until(w.T, time.Minute, func() string {
		if w.leaked() {
			err = nil
			return ""
		}
		if said := w.mentions(cluster, name); said != "" {
			err = shut(said)
			return ""
		}
		return fmt.Sprintf("no condition of %s reports the result of %s", cluster, name)
	})
	return err
}

// mentions returns what the conditions of a's cluster report about a name.
func (w *world) mentions(cluster, name string) string {
	w.Helper()
	for _, condition := range w.cluster(w.a, cluster).Status.Conditions {
		if strings.Contains(condition.Message, name) {
			return condition.Message
		}
	}
	return ""
}

// leaked reports whether a plan of a contains b's content.
func (w *world) leaked() bool {
	w.Helper()
	var list corev1.SecretList
	check(w.T, w.st.Client.List(w.Context(), &list, client.InNamespace(w.a)))
	for i := range list.Items {
		if list.Items[i].Type != rkev1.SecretTypeMachinePlan || len(list.Items[i].Data[nodeplan.KeyPlan]) == 0 {
			continue
		}
		sent, err := nodeplan.Decode(list.Items[i].Data[nodeplan.KeyPlan])
		check(w.T, err)
		for _, file := range sent.Files {
			content, err := base64.StdEncoding.DecodeString(file.Content)
			if err == nil && bytes.Contains(content, []byte(ofB)) || strings.Contains(file.Content, ofB) {
				return true
			}
		}
	}
	return false
}
