package server

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/operate/supportbundle"
)

// A bundle of a running cluster contains its objects and plans, and none of the values of its Secrets.
func TestStory_ABundleHoldsTheClusterAndNoSecrets(t *testing.T) {
	tell(t, func(w *world) {
		w.start()
		w.apply(k3s, w.servers(1, 1))
		w.until("the cluster", 5*time.Minute, w.ready(2))
		w.edit(func(c *provv1.Cluster) {
			c.Spec.RKEConfig.MachineGlobalConfig.Data = map[string]any{"datastore-cafile": "/x",
				"etcd-s3-secret-key": "aVeryS3cretKey"}
			c.Spec.AgentEnvVars = []rkev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://robot:Pr0xyPassword@proxy:3128"}}
		})
		time.Sleep(3 * time.Minute)
		r := w.reader()
		defer r.Close()
		in := supportbundle.Input{Clusters: []supportbundle.Cluster{{Namespace: fleet, Name: demo}},
			Texts: map[string]string{}}
		r.Collect(t.Context(), []string{demo}, &in)
		files, err := supportbundle.Files(in)
		check(t, err)
		var all bytes.Buffer
		paths := map[string]bool{}
		for _, f := range files {
			paths[f.Path] = true
			all.Write(f.Data)
		}
		for _, path := range []string{
			"objects/namespaces/fleet-default/cluster.provisioning.cattle.io/demo.yaml",
			"objects/namespaces/fleet-default/rkecontrolplane.rke.cattle.io/demo.yaml",
			"objects/namespaces/fleet-default/secret/demo-kubeconfig.yaml",
			"objects/namespaces/cattle-global-data/secret/cc-demo.yaml",
			"objects/namespaces/fleet-default/digitaloceanconfig.rke-machine-config.cattle.io/demo-server.yaml",
			"objects/cluster-scoped/nodedriver.management.cattle.io/digitalocean.yaml",
			"definitions.txt", "README.txt", "unread.txt",
		} {
			if !paths[path] {
				t.Errorf("file %s is missing among %v", path, paths)
			}
		}
		if plans := strings.Count(all.String(), "config.yaml.d/50-rancher.yaml"); plans != 2 {
			t.Errorf("%d plans have a configuration, want 2", plans)
		}
		secrets := []string{"aVeryS3cretKey", "Pr0xyPassword"}
		for _, secret := range w.api.Objects(corev1.SchemeGroupVersion.WithKind("Secret")) {
			secrets = append(secrets, secretsOf(secret)...)
		}
		if len(secrets) < 8 {
			t.Errorf("only %d secrets were found", len(secrets))
		}
		for _, secret := range secrets {
			if strings.Contains(all.String(), secret) ||
				strings.Contains(all.String(), base64.StdEncoding.EncodeToString([]byte(secret))) {
				t.Errorf("the bundle contains %q", secret)
			}
		}
		for _, write := range w.api.Writes("drover/look") {
			t.Errorf("a bundle wrote: %v", write)
		}
	})
}

// secretsOf returns the values of a Secret that are secret as a whole. Only parts of a plan are secret.
func secretsOf(object *unstructured.Unstructured) []string {
	if object.Object["type"] == rkev1.SecretTypeMachinePlan {
		return nil
	}
	var out []string
	data, _, _ := unstructured.NestedStringMap(object.Object, "data")
	for key, value := range data {
		plain, err := base64.StdEncoding.DecodeString(value)
		if err == nil && len(plain) > 0 && key != "namespace" && key != "ca.crt" && key != "username" {
			out = append(out, string(plain))
		}
	}
	return out
}
