package cmd

import (
	"bytes"
	"context"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

// twoContexts is a kubeconfig with two management clusters. Its contexts are "here", the current one, "team", which has
// a namespace, and "there". Both clusters have the Cluster young, and "there" has more. The context "gone" leads to no
// server.
func twoContexts(t *testing.T) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	for _, name := range []string{"here", "there"} {
		api := management(t)
		if name == "there" {
			for _, namespace := range []string{defaultNamespace, "default"} {
				check(t, api.Add(&provv1.Cluster{
					TypeMeta:   metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"},
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "far-" + namespace},
				}))
			}
		}
		server := httptest.NewServer(api)
		t.Cleanup(server.Close)
		config.Clusters[name], config.Contexts[name] = &clientcmdapi.Cluster{Server: server.URL},
			&clientcmdapi.Context{Cluster: name}
	}
	config.Contexts["there"].Namespace = defaultNamespace
	config.Contexts["team"] = &clientcmdapi.Context{Cluster: "here", Namespace: "team-a"}
	config.Clusters["gone"], config.Contexts["gone"] = &clientcmdapi.Cluster{Server: "http://127.0.0.1:1"},
		&clientcmdapi.Context{Cluster: "gone"}
	config.CurrentContext = "here"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	check(t, clientcmd.WriteToFile(*config, path))
	return path
}

// runWith runs the program in an environment.
func runWith(environ []string, args ...string) (code int, out, problems string) {
	var stdout, stderr bytes.Buffer
	root := NewCommand(environ)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code = execute(context.Background(), root, args)
	return code, stdout.String(), stderr.String()
}

// Every command with --kubeconfig has --context, except the server, whose kubeconfig is its own.
func TestContext_IsAFlagOfEveryCommand(t *testing.T) {
	t.Parallel()
	for _, cmd := range NewCommand(nil).Commands() {
		if cmd.Name() != "server" && cmd.Flags().Lookup("kubeconfig") != nil && cmd.Flags().Lookup("context") == nil {
			t.Errorf("%s has no --context", cmd.Name())
		}
	}
}

func TestContext_ChoosesTheManagementCluster(t *testing.T) {
	file := twoContexts(t)
	for name, tc := range map[string]struct {
		environ, args []string
		want          string
		code          int
	}{
		"the current context": {args: []string{"explain", "far-fleet-default"},
			want: "far-fleet-default", code: 1},
		"the context of a flag": {args: []string{"explain", "far-fleet-default", "--context", "there"},
			want: "fleet-default/far-fleet-default"},
		"the context of the environment": {environ: []string{"DROVER_CONTEXT=there"},
			args: []string{"explain", "far-fleet-default"}, want: "fleet-default/far-fleet-default"},
		"for diagnose": {args: []string{"diagnose", "far-fleet-default", "--context", "there"},
			want: "fleet-default/far-fleet-default", code: 2},
		"for a release": {args: []string{"adopt", "far-fleet-default", "--release", "--context",
			"there"}, want: "far-fleet-default", code: 1},
		"a missing context": {args: []string{"explain", "young", "--context", "nowhere"},
			want: `"nowhere"`, code: 1},
		"a context with an unreachable cluster": {args: []string{"backup", "-o", "-", "--context", "gone"},
			want: "127.0.0.1:1", code: 1},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, problems := runWith(append(tc.environ, "DROVER_KUBECONFIG="+file), tc.args...)
			if code != tc.code || !strings.Contains(out+problems, tc.want) {
				t.Errorf("exit code %d, want %d; want %q in:\n%s%s", code, tc.code, tc.want, out, problems)
			}
		})
	}
}

// A preview uses the namespace to which kubectl apply writes.
func TestPreview_NamespaceOfAFileWithoutOne(t *testing.T) {
	kubeconfig := twoContexts(t)
	inDefault := strings.Replace(newCluster, "  name: demo\n", "  name: demo\n  namespace: default\n", 1)
	for name, tc := range map[string]struct {
		file          string
		environ, args []string
		want          string
	}{
		"a context without a namespace": {file: newCluster, want: "no Secret cc in namespace default"},
		"the namespace of the context": {file: newCluster, args: []string{"--context=there"},
			want: "fleet-default/demo"},
		"the file's namespace before the context's": {file: inDefault, args: []string{"--context=there"},
			want: "no Secret cc in namespace default"},
		"the namespace of the flag": {file: newCluster, args: []string{"-n", "fleet-default"},
			want: "fleet-default/demo"},
		"the namespace of the environment": {file: newCluster,
			environ: []string{"DROVER_NAMESPACE=fleet-default"}, want: "fleet-default/demo"},
		"another namespace than the file's": {file: inDefault,
			environ: []string{"DROVER_NAMESPACE=fleet-default"}, want: "is in namespace default, not in fleet-default"},
		"a context that is not in the kubeconfig": {file: newCluster, args: []string{"--context=nowhere"},
			want: "find the management cluster; set --kubeconfig or --context: "},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, "cluster.yaml", tc.file)
			_, out, problems := runWith(append(tc.environ, "DROVER_KUBECONFIG="+kubeconfig),
				append([]string{"preview", "-f", path}, tc.args...)...)
			if !strings.Contains(out+problems, tc.want) {
				t.Errorf("want %q in:\n%s%s", tc.want, out, problems)
			}
		})
	}
}

func TestCompletion_UsesTheCommandsCluster(t *testing.T) {
	file := twoContexts(t)
	for name, tc := range map[string]struct {
		environ, args []string
		want          string
	}{
		"clusters of the current context": {args: []string{"diagnose", ""}, want: "young\n:4\n"},
		"clusters of another context": {args: []string{"roll", "--context", "there", ""},
			want: "far-fleet-default\nyoung\n:4\n"},
		"clusters of another namespace": {args: []string{"adopt", "--context=there", "-n", "default", ""},
			want: "far-default\n:4\n"},
		"a namespace of the environment": {environ: []string{"DROVER_CONTEXT=there", "DROVER_NAMESPACE=default"},
			args: []string{"explain", ""}, want: "far-default\n:4\n"},
		"a flag before the environment": {environ: []string{"DROVER_NAMESPACE=default"},
			args: []string{"explain", "-n", defaultNamespace, ""}, want: "young\n:4\n"},
		"for a kubeconfig": {environ: []string{"DROVER_CONTEXT=there"},
			args: []string{"kubeconfig", "-n", "default", ""}, want: "far-default\n:4\n"},
		"a bad variable of another flag": {environ: []string{"DROVER_ALL=many"},
			args: []string{"support-bundle", ""}, want: "young\n:4\n"},
		"a file, which the shell completes": {args: []string{"support-bundle", "-o", ""}, want: ":0\n"},
		"an unreachable cluster":            {args: []string{"explain", "--context", "gone", ""}, want: ":1\n"},
		"contexts": {args: []string{"restore", "--context", ""},
			want: "gone\nhere\nteam\nthere\n:4\n"},
		"contexts for a token": {args: []string{"token", "--context", ""},
			want: "gone\nhere\nteam\nthere\n:4\n"},
		"contexts of a missing file": {args: []string{"explain", "--kubeconfig", "/none", "--context", ""},
			want: ":4\n"},
		"namespaces": {args: []string{"preview", "-n", ""},
			want: "default\nfleet-default\nkube-system\n:4\n"},
		"a namespace of another context": {args: []string{"backup", "--context", "there", "-n", "default,"},
			want: "default,default\ndefault,fleet-default\ndefault,kube-system\n:4\n"},
		"namespaces of an unreachable cluster": {args: []string{"kubeconfig", "--context", "gone", "--namespace", ""},
			want: ":4\n"},
		"namespaces of a missing context": {environ: []string{"DROVER_CONTEXT=nowhere"},
			args: []string{"explain", "-n", ""}, want: ":4\n"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, _ := runWith(append(tc.environ, "DROVER_KUBECONFIG="+file),
				append([]string{cobraComplete}, tc.args...)...)
			if diff := cmp.Diff(tc.want, out); diff != "" || code != 0 {
				t.Errorf("exit code %d (-want +got):\n%s", code, diff)
			}
		})
	}
}

func TestFindManagement_NamesTheFile(t *testing.T) {
	home, empty := t.TempDir(), write(t, "empty", "apiVersion: v1\nkind: Config\n")
	gone, half := filepath.Join(home, "gone"),
		write(t, "half",
			"apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a}}]\n")
	for name, tc := range map[string]struct {
		kubeconfig, context, variable string
		want                          string
	}{
		"the variable names a missing file": {variable: gone, want: "KUBECONFIG names " + gone +
			", which does not exist"},
		"one of two missing files": {variable: gone + ":" + empty, want: "KUBECONFIG names " + gone +
			", which does not exist"},
		"a context of a missing file": {variable: gone, context: "there", want: "KUBECONFIG names " +
			gone + ", which does not exist"},
		"the flag names a missing file": {kubeconfig: gone, want: gone + ": no such file or directory"},
		"the flag's file has no current context": {kubeconfig: empty, variable: gone, want: empty +
			" selects no cluster; check its current-context"},
		"the variable's file has no current context": {variable: empty, want: empty +
			" selects no cluster; check its current-context"},
		"the file's context has no cluster": {kubeconfig: half, want: half +
			" selects no cluster; check its current-context"},
		"a context that is not in the flag's file": {kubeconfig: empty, context: "there", variable: gone,
			want: "there"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", tc.variable)
			_, err := findManagement(tc.kubeconfig, tc.context, "--kubeconfig")
			if err == nil || !strings.HasPrefix(err.Error(), "find the management cluster; set --kubeconfig: ") ||
				!strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "KUBERNETES_MASTER") {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
