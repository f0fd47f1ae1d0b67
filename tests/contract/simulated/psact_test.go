package simulated

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

const (
	psactFile = "/etc/rancher/rke2/config/rancher-psact.yaml"
	psactName = "spec.defaultPodSecurityAdmissionConfigurationTemplateName"
)

// TestPSACT: a cluster gets a template for Pod Security admission in place. The file and the argument reach the server
// and not the worker. An edit of the template reaches the server, too. While the template is missing, the cluster keeps
// what it has and names the field. Without the field, file, argument and Secret are gone.
func TestPSACT(t *testing.T) {
	st, namespace := stage.Start(t, stage.Settings{}), plane.Namespace(t)
	w := &secured{t, st, namespace, "strict-" + namespace}
	st.Cluster(namespace, "demo", stage.RKE2, stage.Pool("server", "ec", 1), stage.Pool("worker", "w", 1))
	plane.Until(t, 5*time.Minute, func() string { return st.WaitingFor(namespace, "demo") })
	_, worker := w.applied("false")

	w.name(w.template)
	w.await("a missing template", func() string { return w.understood("False", psactName+": Not found") })
	w.await("a missing template", func() string { return w.uses("") })

	w.create("restricted")
	w.await("a new template", func() string { return w.uses("enforce: restricted") })
	w.await("a new template", func() string { return w.understood("True", "") })
	w.edit("baseline")
	w.await("an edited template", func() string { return w.uses("enforce: baseline") })

	if err := st.Client.Delete(t.Context(), w.object("")); err != nil {
		t.Fatal(err)
	}
	w.await("a deleted template", func() string { return w.understood("False", psactName+": Not found") })
	w.await("a deleted template", func() string { return w.uses("enforce: baseline") })
	w.create("privileged")
	w.await("a template that is back", func() string { return w.uses("enforce: privileged") })
	w.await("a template that is back", func() string { return w.understood("True", "") })

	w.name("")
	w.await("no template", func() string { return w.uses("") })
	w.await("no template", func() string {
		return st.Gone(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
			Name: "demo-admission-configuration-psact"}})
	})
	if _, now := w.applied("false"); !bytes.Equal(worker, now) {
		t.Error("the plan of the worker has changed")
	}
}

// secured is a cluster that uses a template.
type secured struct {
	*testing.T
	st                  *stage.Stage
	namespace, template string
}

func (w *secured) object(level string) *mgmtv3.PodSecurityAdmissionConfigurationTemplate {
	return &mgmtv3.PodSecurityAdmissionConfigurationTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: w.template},
		Configuration: mgmtv3.PodSecurityAdmissionConfigurationTemplateSpec{
			Defaults: mgmtv3.PodSecurityAdmissionConfigurationTemplateDefaults{Enforce: level,
				EnforceVersion: "latest"},
		},
	}
}

func (w *secured) create(level string) {
	w.Helper()
	object := w.object(level)
	if err := w.st.Client.Create(w.Context(), object); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = w.st.Client.Delete(context.WithoutCancel(w.Context()), object) })
}

func (w *secured) edit(level string) {
	w.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		object := w.object("")
		if err := w.st.Client.Get(w.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		object.Configuration.Defaults.Enforce = level
		return w.st.Client.Update(w.Context(), object)
	})
	if err != nil {
		w.Fatal(err)
	}
}

func (w *secured) name(template string) {
	w.Helper()
	w.st.Edit(w.namespace, "demo", func(c *provv1.Cluster) {
		c.Spec.DefaultPodSecurityAdmissionConfigurationTemplateName = template
	})
}

// await waits until there is nothing left to wait for, and the cluster is ready.
func (w *secured) await(what string, missing func() string) {
	w.Helper()
	plane.Until(w.T, 2*time.Minute, func() string {
		if text := missing(); text != "" {
			return what + ": " + text
		}
		return w.st.WaitingFor(w.namespace, "demo")
	})
}

// understood returns what condition ConfigurationUnderstood lacks, or "".
func (w *secured) understood(status, text string) string {
	cluster := &provv1.Cluster{}
	if err := w.st.Client.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: "demo"},
		cluster); err != nil {
		return err.Error()
	}
	got := stage.Condition(cluster.Status.Conditions, "ConfigurationUnderstood")
	if got.Status != status || !strings.Contains(got.Message, text) {
		return fmt.Sprintf("condition %+v", got)
	}
	return ""
}

// applied returns the plan that the server, or the worker, has applied, and its text.
func (w *secured) applied(server string) (files map[string]string, text []byte) {
	w.Helper()
	var secrets corev1.SecretList
	if err := w.st.Client.List(w.Context(), &secrets, client.InNamespace(w.namespace)); err != nil {
		w.Fatal(err)
	}
	files = map[string]string{}
	for _, secret := range secrets.Items {
		isServer := strconv.FormatBool(secret.Labels[rkev1.ControlPlaneRoleLabel] == "true")
		if secret.Type != rkev1.SecretTypeMachinePlan || isServer != server {
			continue
		}
		text = secret.Data[nodeplan.KeyAppliedPlan]
		decoded, err := nodeplan.Decode(text)
		if err != nil {
			w.Fatal(err)
		}
		for _, file := range decoded.Files {
			if file.Action == plan.FileActionDelete {
				continue
			}
			content, err := base64.StdEncoding.DecodeString(file.Content)
			if err != nil {
				w.Fatal(err)
			}
			files[file.Path] = string(content)
		}
	}
	return files, text
}

// uses returns what is wrong with the file and the argument of the server, or "". An empty text means that there must
// be neither.
func (w *secured) uses(text string) string {
	files, _ := w.applied("true")
	var config struct {
		Arguments []string `json:"kube-apiserver-arg"`
	}
	if err := json.Unmarshal([]byte(files["/etc/rancher/rke2/config.yaml.d/50-rancher.yaml"]), &config); err != nil {
		return err.Error()
	}
	has := slices.Contains(config.Arguments, "admission-control-config-file="+psactFile)
	content, written := files[psactFile]
	if has != (text != "") || written != has || !strings.Contains(content, text) {
		return fmt.Sprintf("arguments %v, file %q, want %q", config.Arguments, content, text)
	}
	return ""
}
