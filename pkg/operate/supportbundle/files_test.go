package supportbundle

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

func object(apiVersion, kind, name string, content map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	maps.Copy(o.Object, content)
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetName(name)
	if kind != "DynamicSchema" && kind != "NodeDriver" {
		o.SetNamespace("fleet-default")
	}
	return o
}

func b64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func gz(text string) string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write([]byte(text)) // writes to memory cannot fail
	_ = w.Close()
	return out.String()
}

func list(items ...any) []any { return items }

type tree = map[string]any

// place is a location of a secret: the objects that contain it, and the form in which logs repeat it.
type place struct {
	name string
	put  func(secret string) []*unstructured.Unstructured
	said string
}

// asIs is the form of logs that repeat a secret that the bundle knows.
const asIs = "the program said %s and ended"

func secretOf(kind string, data tree) func(string) []*unstructured.Unstructured {
	return func(s string) []*unstructured.Unstructured {
		filled := tree{}
		for key, value := range data {
			filled[key] = b64(fmt.Sprintf(value.(string), s))
		}
		return []*unstructured.Unstructured{object("v1", "Secret", "s", tree{"type": kind, "data": filled})}
	}
}

func objectWith(apiVersion, kind string, content func(s string) tree) func(string) []*unstructured.Unstructured {
	return func(s string) []*unstructured.Unstructured {
		return []*unstructured.Unstructured{object(apiVersion, kind, "o", content(s))}
	}
}

// textWith is a place in a message that a program has written.
func textWith(name, format string) place {
	return place{name, func(string) []*unstructured.Unstructured { return nil }, "at noon " + format + " and on"}
}

func planWith(change func(p *plan.NodePlan, s string)) func(string) []*unstructured.Unstructured {
	return func(s string) []*unstructured.Unstructured {
		p := plan.NodePlan{}
		change(&p, s)
		encoded, err := nodeplan.Encode(p)
		if err != nil {
			panic(err)
		}
		output, err := json.Marshal(map[string][]byte{"install": []byte("it printed " + s + " and ended")})
		if err != nil {
			panic(err)
		}
		data := tree{nodeplan.KeyPlan: b64(string(encoded)), nodeplan.KeyAppliedPlan: b64(string(encoded)),
			nodeplan.KeyFailedOutput: b64(gz(string(output)))}
		return []*unstructured.Unstructured{object("v1", "Secret", "m-machine-plan",
			tree{"type": rkev1.SecretTypeMachinePlan, "data": data})}
	}
}

func file(path, format string) func(*plan.NodePlan, string) {
	return func(p *plan.NodePlan, s string) {
		p.Files = append(p.Files, plan.File{Path: path, Content: b64(fmt.Sprintf(format, s))})
	}
}

func spec(path string, value func(s string) any) func(string) []*unstructured.Unstructured {
	return func(s string) []*unstructured.Unstructured {
		content := tree{}
		if err := unstructured.SetNestedField(content, value(s),
			strings.Split("spec.rkeConfig."+path, ".")...); err != nil {
			panic(err)
		}
		cluster := object("provisioning.cattle.io/v1", "Cluster", "demo", content)
		applied, err := json.Marshal(cluster.Object)
		if err != nil {
			panic(err)
		}
		cluster.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": string(applied),
			"objectset.rio.cattle.io/applied": b64(gz(string(applied)))})
		controlPlane := object("rke.cattle.io/v1", "RKEControlPlane", "demo",
			tree{"spec": content["spec"].(tree)["rkeConfig"]})
		controlPlane.SetAnnotations(map[string]string{rkev1.ClusterSpecAnnotation: b64(gz(string(applied)))})
		return []*unstructured.Unstructured{cluster, controlPlane}
	}
}

// places are all locations where users and Drover keep secrets.
var places = []place{
	{"a Secret of a user", secretOf("Opaque", tree{"anything": "%s"}), asIs},
	{"a cloud credential", secretOf("provisioning.cattle.io/cloud-credential",
		tree{"amazonec2credentialConfig-secretKey": "%s"}), asIs},
	{"a registry's password", secretOf(rkev1.SecretTypeAuthConfig, tree{"username": "robot", "password": "%s"}), asIs},
	{"a registry's pair",
		secretOf("kubernetes.io/dockerconfigjson",
			tree{".dockerconfigjson": `{"auths":{"r.example.com":{"username":"robot","password":"%s"}}}`}), asIs},
	{"a basic pair", secretOf("kubernetes.io/basic-auth", tree{"username": "robot", "password": "%s"}), asIs},
	{"a kubeconfig",
		secretOf("cluster.x-k8s.io/secret",
			tree{"value": "apiVersion: v1\nusers:\n- name: a\n  user:\n    token: %s\n"}), asIs},
	{"tokens of a cluster", secretOf(rkev1.SecretTypeClusterState, tree{"serverToken": "%s", "agentToken": "%[1]s"}),
		asIs},
	{"a token of an account",
		secretOf("kubernetes.io/service-account-token", tree{"token": "%s", "namespace": "fleet-default"}), asIs},
	{"bootstrap data", secretOf(rkev1.SecretTypeBootstrap, tree{"value": "#!/bin/sh\nexport CATTLE_TOKEN='%s'\n"}),
		asIs},
	{"a key", secretOf("kubernetes.io/tls",
		tree{"tls.key": "-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----\n"}), asIs},
	{"a request", secretOf(rkev1.SecretTypeMachineRequest, tree{"data": `{"token":["%s"]}`}), asIs},

	{"a token of the configuration", spec("machineGlobalConfig.token", func(s string) any { return s }), ""},
	{"a key of S3", spec("machineGlobalConfig.etcd-s3-secret-key", func(s string) any { return s }), ""},
	{"an unknown key", spec("machineGlobalConfig.new-key", func(s string) any { return tree{"deep": list(s)} }), ""},
	{"an argument", spec("machineGlobalConfig.kube-apiserver-arg", func(s string) any {
		return list("audit-webhook-token=" + s)
	}), ""},
	{"a datastore", spec("machineGlobalConfig.datastore-endpoint", func(s string) any {
		return "postgres://u:" + s + "@db/x"
	}), ""},
	{"a selector's configuration", spec("machineSelectorConfig", func(s string) any {
		return list(tree{"config": tree{"agent-token": s}})
	}), ""},
	{"chart values", spec("chartValues", func(s string) any {
		return tree{"rke2-calico": tree{"x": list(tree{"y": s})}}
	}), ""},
	{"a manifest", spec("additionalManifest", func(s string) any {
		return "kind: Secret\nstringData:\n  a: " + s
	}), ""},
	{"variables", objectWith("provisioning.cattle.io/v1", "Cluster", func(s string) tree {
		return tree{"spec": tree{"agentEnvVars": list(tree{"name": "HTTPS_PROXY", "value": "http://u:" + s + "@proxy"},
			tree{"name": "A", "value": s})}}
	}), asIs},
	{"user data of a pool", spec("machinePools", func(s string) any {
		return list(tree{"name": "a", "userdata": tree{"inlineUserdata": "#cloud-config\nchpasswd: " + s}})
	}), ""},
	{"user data of a bootstrap", objectWith("rke.cattle.io/v1", "RKEBootstrap", func(s string) tree {
		return tree{"spec": tree{"userdata": tree{"inlineUserdata": "#cloud-config\nwrite_files:\n- content: " +
			b64(s+" and more of it")}}}
	}), ""},
	{"a registration token", objectWith("management.cattle.io/v3", "ClusterRegistrationToken", func(s string) tree {
		return tree{"status": tree{"token": s, "nodeCommand": "curl x | sh -s - --token " + s + " --worker",
			"manifestUrl": "https://x/v3/import/" + s + "_c-m.yaml"}}
	}), ""},
	{"a ConfigMap of a user", objectWith("v1", "ConfigMap", func(s string) tree {
		return tree{"data": tree{"a": s}}
	}), asIs},
	{"binary data of a ConfigMap", objectWith("v1", "ConfigMap", func(s string) tree {
		return tree{"binaryData": tree{"b": b64(s)}}
	}), asIs},
	{"an annotation", objectWith("cluster.x-k8s.io/v1beta2", "Machine", func(s string) tree {
		return tree{"metadata": tree{"annotations": tree{"example.com/password": s}}}
	}), asIs},
	{"an archive of unknown content", objectWith("cluster.x-k8s.io/v1beta2", "Machine", func(s string) tree {
		return tree{
			"status":   tree{"message": "got " + b64("the answer was "+s+" and no more")},
			"metadata": tree{"annotations": tree{"example.com/state": b64(gz(`{"a":"` + s + `"}`))}},
		}
	}), ""},
	{"variables of a pod", objectWith("v1", "Pod", func(s string) tree {
		return tree{
			"spec": tree{"containers": list(tree{"name": "c", "env": list(tree{"name": "X", "value": s}),
				"args": list("--sim-ssh-password", s, "--sim-token="+s)})}}
	}), ""},
	{"a driver's URL", objectWith("management.cattle.io/v3", "NodeDriver", func(s string) tree {
		return tree{"spec": tree{"url": "https://u:" + s + "@x/driver?sig=" + s}}
	}), ""},
	{"a field that the schema marks", func(s string) []*unstructured.Unstructured {
		schema := object("management.cattle.io/v3", "DynamicSchema", "simconfig",
			tree{"spec": tree{"resourceFields": tree{"odd": tree{"type": "password"}, "size": tree{"type": "string"}}}})
		return []*unstructured.Unstructured{
			schema, object("rke-machine-config.cattle.io/v1", "SimConfig", "c", tree{"odd": s, "size": "small"}),
			object("rke-machine.cattle.io/v1", "SimMachine", "m", tree{"spec": tree{"odd": s}}),
			object("rke-machine.cattle.io/v1", "SimMachineTemplate", "t",
				tree{"spec": tree{"template": tree{"spec": tree{"odd": s}}}}),
			object("batch/v1", "Job", "j", tree{"spec": tree{"args": list("--sim-odd=" + s)}}),
		}
	}, asIs},
	{"a field that the driver marks", func(s string) []*unstructured.Unstructured {
		driver := object("management.cattle.io/v3", "NodeDriver", "sim", nil)
		driver.SetAnnotations(map[string]string{"privateCredentialFields": "other",
			"nodedriver.cattle.io/file-to-field-aliases": "content:contentFile"})
		return []*unstructured.Unstructured{driver, object("rke-machine-config.cattle.io/v1", "SimConfig", "c",
			tree{"other": s, "content": s})}
	}, ""},
	{"a field of a driver without a schema", func(s string) []*unstructured.Unstructured {
		return []*unstructured.Unstructured{
			object("rke-machine-config.cattle.io/v1", "OddConfig", "c", tree{"rootWord": s, "tags": list("a", s)}),
			object("rke-machine.cattle.io/v1", "OddMachine", "m",
				tree{"spec": tree{"rootWord": s, "deep": tree{"x": s}}}),
			object("rke-machine.cattle.io/v1", "OddMachineTemplate", "t",
				tree{"spec": tree{"template": tree{"spec": tree{"rootWord": s}}}}),
		}
	}, asIs},
	{"a root password of a driver whose schema marks none", func(s string) []*unstructured.Unstructured {
		schema := object("management.cattle.io/v3", "DynamicSchema", "linodeconfig",
			tree{"spec": tree{"resourceFields": tree{"rootPass": tree{"type": "string"}}}})
		return []*unstructured.Unstructured{
			schema, object("rke-machine-config.cattle.io/v1", "LinodeConfig", "c", tree{"rootPass": s}),
			object("batch/v1", "Job", "j", tree{"spec": tree{"args": list("--linode-root-pass", s)}}),
		}
	}, "rootPass: %s"},
	{"a file of a driver", objectWith("rke-machine-config.cattle.io/v1", "SimConfig", func(s string) tree {
		return tree{"script": "#!/bin/sh\n" + s}
	}), asIs},

	{"the configuration in a plan",
		planWith(file("/etc/rancher/rke2/config.yaml.d/50-rancher.yaml", `{"token":%q,"cni":"calico"}`)), ""},
	{"registries in a plan",
		planWith(file("/etc/rancher/rke2/registries.yaml",
			"configs:\n  r.example.com:\n    auth:\n      password: %s\n")), ""},
	{"a file in a plan", planWith(func(p *plan.NodePlan, s string) {
		file("/etc/secret.conf", "key = %s")(p, s)
		p.Instructions = append(p.Instructions,
			plan.OneTimeInstruction{CommonInstruction: plan.CommonInstruction{Name: "x",
				Env: []string{"A_TOKEN=" + s}}})
	}), ""},
	{"variables in a plan", planWith(func(p *plan.NodePlan, s string) {
		p.Instructions = append(p.Instructions,
			plan.OneTimeInstruction{CommonInstruction: plan.CommonInstruction{Name: "install",
				Env: []string{"AWS_SECRET_ACCESS_KEY=" + s}}})
	}), ""},
	{"arguments in a plan", planWith(func(p *plan.NodePlan, s string) {
		p.PeriodicInstructions = append(p.PeriodicInstructions,
			plan.PeriodicInstruction{CommonInstruction: plan.CommonInstruction{Name: "p",
				Args: []string{"--s3-secret-key", s, "--token=" + s}}})
	}), ""},

	textWith("a message", "password: %s"), textWith("a flag in a message", "ran curl --token %s x"),
	textWith("a header in a message", "Authorization: Bearer %s"),
	textWith("a URL in a message", "get https://u:%s@x/"),
	textWith("a signed URL in a message", "get https://x/y?X-Amz-Signature=%s"),
	textWith("JSON in a message", `{"client_secret":"%s"}`),
	textWith("a variable in a message", "AWS_SECRET_ACCESS_KEY=%s"),
}

// A bundle contains no secret from any place, neither in plain text nor encoded.
func TestFiles_HoldNoSecrets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, secrets := Input{Texts: map[string]string{}}, map[string]string{}
		for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(places)-1), 1, 6, rapid.ID[int]).Draw(t,
			"places") {
			p := places[i]
			// Random, and unlike any word.
			secret := rapid.StringMatching(`[A-Z][0-9][a-z][A-Z0-9]{2}[A-Za-z0-9]{9,24}[0-9][A-Z][a-z]`).Draw(t,
				"secret")
			secrets[secret] = p.name
			in.Objects = append(in.Objects, p.put(secret)...)
			if p.said != "" {
				said := fmt.Sprintf(p.said, secret)
				in.Objects = append(in.Objects, object("v1", "Event", fmt.Sprint("e", i), tree{"message": said}))
				in.Texts["logs/a.log"] += said + " encoded " + b64("x"+secret) + "\n"
			}
			in.Unread = append(in.Unread, "token: "+secret)
		}
		files, err := Files(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			for secret, name := range secrets {
				if where := find(string(f.Data), secret, 0); where != "" {
					t.Fatalf("%s: the secret of %s is told, %s:\n%s", f.Path, name, where, f.Data)
				}
			}
		}
	})
}

var encodedWords = regexp.MustCompile(`[A-Za-z0-9+/_-]{8,}`)

// find searches a text for a secret, also inside base64 and gzip.
func find(text, secret string, depth int) string {
	if strings.Contains(text, secret) {
		return fmt.Sprintf("%d times encoded", depth)
	}
	if depth > 3 {
		return ""
	}
	if r, err := gzip.NewReader(strings.NewReader(text)); err == nil {
		plain, _ := io.ReadAll(r) // a partial read suffices
		if where := find(string(plain), secret, depth+1); where != "" {
			return where
		}
	}
	for _, word := range encodedWords.FindAllString(text, -1) {
		for start := range min(4, len(word)) {
			for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
				part := word[start:]
				if plain, err := encoding.DecodeString(part[:len(part)-len(part)%4]); err == nil {
					if where := find(string(plain), secret, depth+1); where != "" {
						return where
					}
				}
			}
		}
	}
	return ""
}

// A bundle shows no value of a driver without a schema, neither in its objects nor in its Jobs. A password can look
// like a word.
func TestFiles_HideShortValuesOfADriverWithoutASchema(t *testing.T) {
	files, err := Files(Input{Objects: []*unstructured.Unstructured{
		object("rke-machine-config.cattle.io/v1", "OddConfig", "c", tree{"word": "hunter2", "size": int64(7)}),
		object("batch/v1", "Job", "j",
			tree{"spec": tree{"args": list("--odd-word=hunter2", "--odd-other", "hunter2",
				"--hostname-override=demo-1")}}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		all.Write(f.Data)
	}
	if strings.Contains(all.String(), "hunter2") {
		t.Errorf("the value is told:\n%s", all.String())
	}
	for _, want := range []string{"--hostname-override=demo-1", "kind: OddConfig", "size: 7"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("%q is not told:\n%s", want, all.String())
		}
	}
}

// A bundle keeps the helpful values.
func TestFiles_TellWhatIsNoSecret(t *testing.T) {
	machine := object("cluster.x-k8s.io/v1beta2", "Machine", "demo-workers-7xk2p",
		tree{"spec": tree{"providerID": "aws:///eu-central-1a/i-0abc"}, "status": tree{"conditions": list(tree{
			"type": "Reconciled", "reason": "Error",
			"message": "Secret fleet-default/cloud, the cloud credential of the machine, does not exist",
		})}})
	cluster := object("provisioning.cattle.io/v1", "Cluster", "demo", tree{"spec": tree{
		"cloudCredentialSecretName": "cattle-global-data:cloud", "kubernetesVersion": "v1.36.2+rke2r1",
		"rkeConfig": tree{"machineGlobalConfig": tree{"cni": "cilium", "token": "a"},
			"registries": tree{"configs": tree{"r.example.com": tree{"authConfigSecretName": "robot"}}}},
	}})
	secret := object("v1", "Secret", "cloud",
		tree{"type": "Opaque", "data": tree{"password": b64("correct"), "namespace": b64("fleet-default")}})
	settings := object("v1", "ConfigMap", "drover-settings",
		tree{"data": tree{"system-default-registry": "r.example.com"}})
	settings.SetLabels(map[string]string{settingsLabel: "true"})
	encoded, err := nodeplan.Encode(
		plan.NodePlan{Files: []plan.File{{Path: "/etc/rancher/rke2/config.yaml.d/50-rancher.yaml",
			Content: b64(`{"cni":"cilium"}`)}}})
	if err != nil {
		t.Fatal(err)
	}
	planSecret := object("v1", "Secret", "m-machine-plan",
		tree{"type": rkev1.SecretTypeMachinePlan,
			"data": tree{"plan": b64(string(encoded)), "failure-count": b64("3")}})
	files, err := Files(Input{Objects: []*unstructured.Unstructured{machine, cluster, secret, settings, planSecret},
		Texts: map[string]string{"logs/drover.log": "level=info msg=\"This replica leads\"\n"}})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]string{
		"objects/namespaces/fleet-default/machine.cluster.x-k8s.io/demo-workers-7xk2p.yaml": {
			"aws:///eu-central-1a/i-0abc", "Secret fleet-default/cloud, the cloud credential of the machine, does"},
		"objects/namespaces/fleet-default/cluster.provisioning.cattle.io/demo.yaml": {"cattle-global-data:cloud",
			"v1.36.2+rke2r1", "cni: cilium", "authConfigSecretName: robot", "token: (hidden, 1 bytes)"},
		"objects/namespaces/fleet-default/secret/cloud.yaml": {"password: (hidden, 7 bytes)",
			"namespace: (hidden, 13 bytes)"},
		"objects/namespaces/fleet-default/configmap/drover-settings.yaml": {"system-default-registry: r.example.com"},
		"plans/fleet-default/m-machine-plan.yaml": {"failureCount: 3", "cni: cilium",
			"/etc/rancher/rke2/config.yaml.d/50-rancher.yaml"},
		"logs/drover.log": {`level=info msg="This replica leads"`}, "unread.txt": {"Everything"},
		"README.txt": {"plans/"},
	} {
		at := slices.IndexFunc(files, func(f File) bool { return f.Path == path })
		if at < 0 {
			t.Errorf("there is no file %s", path)
			continue
		}
		for _, text := range want {
			if !strings.Contains(string(files[at].Data), text) {
				t.Errorf("%s does not say %q:\n%s", path, text, files[at].Data)
			}
		}
	}
}
