package cmd

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientauthv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// runOne executes one command. A server of an earlier test may still end and log, because all use the same logger.
func runOne(cmd *cobra.Command, args ...string) (code int, out, problems string) {
	var stdout, stderr printedBuffer
	root := &cobra.Command{Use: "drover", SilenceUsage: true}
	root.AddCommand(cmd)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code = execute(context.Background(), root, append([]string{cmd.Name()}, args...))
	return code, stdout.next(), stderr.next()
}

// withAddress adds a cluster with a management Cluster and the published settings of its server.
func withAddress(t *testing.T) *memkube.Server {
	t.Helper()
	api := management(t)
	check(t, api.Add(&provv1.Cluster{
		TypeMeta: metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: defaultNamespace, Name: "demo",
			Annotations: map[string]string{rkev1.InstanceAnnotation: "i1"}},
		Status: provv1.ClusterStatus{ClusterName: "c-m-1"},
	}))
	settings := controllers.Settings{ServerURL: "https://drover.example.com", CACerts: "authority\n"}.ConfigMap("i1")
	settings.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	check(t, api.Add(settings))
	return api
}

// TestKubeconfig: kubeconfigs contain no credential, and merging keeps existing entries.
func TestKubeconfig(t *testing.T) {
	home := t.TempDir()
	existing := filepath.Join(home, "config")
	present := clientcmdapi.NewConfig()
	present.Clusters["management"] = &clientcmdapi.Cluster{Server: "https://management.example.com"}
	present.AuthInfos["me"] = &clientcmdapi.AuthInfo{Token: "mine"}
	present.Contexts["management"] = &clientcmdapi.Context{Cluster: "management", AuthInfo: "me"}
	present.CurrentContext = "management"
	check(t, clientcmd.WriteToFile(*present, existing))
	t.Setenv("KUBECONFIG", existing)
	authority := filepath.Join(home, "ca.pem")
	check(t, os.WriteFile(authority, []byte("other"), 0o600))
	for name, c := range map[string]struct {
		args    []string
		want    string
		problem string
	}{
		"at the published address": {args: []string{"demo"},
			want: "demo https://drover.example.com/k8s/clusters/c-m-1 authority drover token --context=management"},
		"at the user's address": {args: []string{"demo", "--server=https://other/",
			"--certificate-authority=" + authority},
			want: "demo https://other/k8s/clusters/c-m-1 other drover token --context=management"},
		"under another name": {args: []string{"demo", "--name=mine"},
			want: "mine https://drover.example.com/k8s/clusters/c-m-1 authority drover token --context=management"},
		"merged": {args: []string{"demo", "--merge"},
			want: "demo https://drover.example.com/k8s/clusters/c-m-1 authority drover token --context=management"},
		"a missing cluster": {args: []string{"absent"},
			problem: "there is no Cluster absent in namespace fleet-default"},
		"a cluster without a management cluster": {args: []string{"young"}, problem: "has no management cluster yet"},
		"a server without https": {args: []string{"demo", "--server=http://other"},
			problem: `--server: "http://other" is not an https URL`},
		"a missing file of authorities": {args: []string{"demo", "--server=https://other",
			"--certificate-authority=/none"}, problem: "--certificate-authority: "},
		"without published settings": {args: []string{"other"}, problem: "has published no address; use --server"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := withAddress(t)
				check(t, api.Add(&provv1.Cluster{
					TypeMeta: metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"},
					ObjectMeta: metav1.ObjectMeta{Namespace: defaultNamespace, Name: "other",
						Annotations: map[string]string{rkev1.InstanceAnnotation: "i2"}},
					Status: provv1.ClusterStatus{ClusterName: "c-m-2"},
				}))
				o := &kubeconfigOptions{inspectOptions: inspectOptions{config: api.Config("looker")}}
				code, out, problems := runOne(newKubeconfigCommand(nil, o), c.args...)
				if c.problem != "" {
					if code != 1 || !strings.Contains(problems, c.problem) || out != "" {
						t.Errorf("exit code %d, %q, %q; want %q", code, out, problems, c.problem)
					}
					return
				}
				if strings.Contains(name, "merged") {
					merged, err := os.ReadFile(existing)
					check(t, err)
					out = string(merged)
				}
				written, err := clientcmd.Load([]byte(out))
				check(t, err)
				current, _, _ := strings.Cut(c.want, " ")
				if o.merge {
					if written.CurrentContext != "management" || written.AuthInfos["me"].Token != "mine" ||
						len(written.Contexts) != 2 {
						t.Errorf("the existing entries are %v", written)
					}
				} else if written.CurrentContext != current {
					t.Errorf("the context is %q", written.CurrentContext)
				}
				cluster, user := written.Clusters[current], written.AuthInfos[current]
				got := current + " " + cluster.Server + " " +
					strings.TrimSpace(string(cluster.CertificateAuthorityData)) + " " + user.Exec.Command + " " +
					strings.Join(user.Exec.Args, " ")
				if diff := cmp.Diff(c.want, got); diff != "" || code != 0 {
					t.Errorf("exit code %d %s\n%s", code, problems, diff)
				}
			})
		})
	}
}

// TestKubeconfig_OverwritesNoForeignEntries: merging keeps foreign entries with the same name, above all the credential
// for the management cluster.
func TestKubeconfig_OverwritesNoForeignEntries(t *testing.T) {
	const address = "https://drover.example.com/k8s/clusters/c-m-1"
	ours := func(c *clientcmdapi.Config) {
		c.Clusters["demo"], c.AuthInfos["demo"] = &clientcmdapi.Cluster{Server: address}, plugin("", "management")
		c.Contexts["demo"] = &clientcmdapi.Context{Cluster: "demo", AuthInfo: "demo", Namespace: "mine"}
	}
	for name, c := range map[string]struct {
		present func(*clientcmdapi.Config)
		args    []string
		problem string
	}{
		"a new name":   {present: func(*clientcmdapi.Config) {}},
		"an own entry": {present: ours},
		"a foreign cluster of that name": {present: func(c *clientcmdapi.Config) {
			c.Clusters["demo"] = &clientcmdapi.Cluster{Server: "https://other"}
		}, problem: `has a cluster "demo"`},
		"a foreign user of that name": {present: func(c *clientcmdapi.Config) {
			c.AuthInfos["demo"] = &clientcmdapi.AuthInfo{Token: "mine"}
		}, problem: `has a user "demo"`},
		"a foreign context of that name": {present: func(c *clientcmdapi.Config) {
			c.Contexts["demo"] = &clientcmdapi.Context{Cluster: "management", AuthInfo: "me"}
		}, problem: `has a context "demo"`},
		"another user of the cluster": {present: func(c *clientcmdapi.Config) {
			ours(c)
			c.AuthInfos["demo"] = &clientcmdapi.AuthInfo{Token: "mine"}
		}, problem: `has a user "demo"`},
		"an own user for another cluster": {present: func(c *clientcmdapi.Config) {
			ours(c)
			c.Clusters["demo"].Server += "1"
		}, problem: `has a cluster "demo"`},
		"an own user with another credential": {present: func(c *clientcmdapi.Config) {
			ours(c)
			c.AuthInfos["demo"].Token = "mine"
		}, problem: `has a user "demo"`},
		"the management context has that name": {
			present: func(c *clientcmdapi.Config) {
				c.Clusters["demo"], c.AuthInfos["demo"] = &clientcmdapi.Cluster{
					Server: "https://management.example.com"}, &clientcmdapi.AuthInfo{Token: "mine"}
				c.Contexts["demo"], c.CurrentContext = &clientcmdapi.Context{Cluster: "demo", AuthInfo: "demo"}, "demo"
			},
			problem: `context "demo" reaches the management cluster`,
		},
		"the management context, not merged": {
			present: func(*clientcmdapi.Config) {}, args: []string{"--name=management",
				"--merge=false"}, problem: `context "management" reaches the management cluster`,
		},
		"a foreign entry with another name": {
			present: func(c *clientcmdapi.Config) {
				c.AuthInfos["demo"] = &clientcmdapi.AuthInfo{
					Token: "mine"}
			}, args: []string{"--name=other"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			existing := filepath.Join(t.TempDir(), "config")
			present := clientcmdapi.NewConfig()
			present.Clusters["management"], present.AuthInfos["me"] = &clientcmdapi.Cluster{
				Server: "https://management.example.com"}, &clientcmdapi.AuthInfo{Token: "mine"}
			present.Contexts["management"], present.CurrentContext = &clientcmdapi.Context{Cluster: "management",
				AuthInfo: "me"}, "management"
			c.present(present)
			check(t, clientcmd.WriteToFile(*present, existing))
			before, err := os.ReadFile(existing)
			check(t, err)
			t.Setenv("KUBECONFIG", existing)
			synctest.Test(t, func(t *testing.T) {
				o := &kubeconfigOptions{inspectOptions: inspectOptions{config: withAddress(t).Config("looker")}}
				code, _, problems := runOne(newKubeconfigCommand(nil, o),
					append([]string{"demo", "--merge"}, c.args...)...)
				after, err := os.ReadFile(existing)
				check(t, err)
				if c.problem != "" {
					if code != 1 || !strings.Contains(problems, c.problem) ||
						!strings.Contains(problems, "use --name") || !bytes.Equal(before, after) {
						t.Errorf("exit code %d, %q, want %q and nothing written:\n%s", code, problems, c.problem, after)
					}
					return
				}
				written, err := clientcmd.Load(after)
				check(t, err)
				called := map[bool]string{true: "other", false: "demo"}[len(c.args) > 0]
				if code != 0 || written.Clusters[called].Server != address || !isPlugin(written.AuthInfos[called]) ||
					written.AuthInfos["me"].Token != "mine" {
					t.Errorf("exit code %d, %s, written:\n%s", code, problems, after)
				}
				if was := present.Contexts[called]; was != nil && written.Contexts[called].Namespace != was.Namespace {
					t.Errorf("the namespace of the context is %q", written.Contexts[called].Namespace)
				}
			})
		})
	}
}

// TestKubeconfig_AsATenant: permission to get the Cluster and the published settings by name is enough. List permission
// is not needed.
func TestKubeconfig_AsATenant(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "config"))
	synctest.Test(t, func(t *testing.T) {
		api := withAddress(t)
		api.Intercept(func(r memkube.Request) error {
			named := controllers.SettingsName("i1")
			if r.Resource.Resource == "configmaps" &&
				(r.Verb != "get" || r.Name != named || r.Namespace != controllers.SettingsNamespace) {
				return apierrors.NewForbidden(r.Resource.GroupResource(), r.Name, errors.New("a tenant"))
			}
			return nil
		})
		o := &kubeconfigOptions{inspectOptions: inspectOptions{config: api.Config("tenant")}}
		code, out, problems := runOne(newKubeconfigCommand(nil, o), "demo")
		if code != 0 || !strings.Contains(out, "server: https://drover.example.com/k8s/clusters/c-m-1") {
			t.Errorf("exit code %d, %s%s", code, out, problems)
		}
	})
}

// TestToken: the command prints the credential that the kubeconfig presents to the management cluster, of any kind.
func TestToken(t *testing.T) {
	dir := t.TempDir()
	file, script := filepath.Join(dir, "token"), filepath.Join(dir, "plugin")
	check(t, os.WriteFile(file, []byte("of-file"), 0o600))
	check(t, os.WriteFile(script,
		[]byte("#!/bin/sh\necho '"+`{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",`+
			`"status":{"token":"of-plugin"}}`+"'\n"), 0o700))
	claims := func(text string) string { return "x." + base64.RawURLEncoding.EncodeToString([]byte(text)) + ".y" }
	expires := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		config  rest.Config
		want    clientauthv1.ExecCredentialStatus
		problem string
	}{
		"a token": {config: rest.Config{BearerToken: "mine"},
			want: clientauthv1.ExecCredentialStatus{Token: "mine"}},
		"a token with its end": {config: rest.Config{BearerToken: claims(`{"exp":1893553445}`)},
			want: clientauthv1.ExecCredentialStatus{Token: claims(`{"exp":1893553445}`),
				ExpirationTimestamp: &metav1.Time{Time: expires}}},
		"a token of three parts": {config: rest.Config{BearerToken: "a.b.c"},
			want: clientauthv1.ExecCredentialStatus{Token: "a.b.c"}},
		"a file with a token": {config: rest.Config{BearerTokenFile: file},
			want: clientauthv1.ExecCredentialStatus{Token: "of-file"}},
		"a plugin": {
			config: rest.Config{ExecProvider: &clientcmdapi.ExecConfig{Command: script,
				APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}},
			want: clientauthv1.ExecCredentialStatus{Token: "of-plugin"},
		},
		"a certificate": {
			config: rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: []byte("cert"),
				KeyData: []byte("key")}}, want: clientauthv1.ExecCredentialStatus{ClientCertificateData: "cert",
				ClientKeyData: "key"}},
		"a certificate without a key": {
			config:  rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: []byte("cert")}},
			problem: "neither a token nor a client certificate"},
		"nothing": {problem: "neither a token nor a client certificate"},
		"a user name and a password": {config: rest.Config{Username: "me", Password: "secret"},
			problem: "a user name and a password"},
		"a missing plugin": {config: rest.Config{ExecProvider: &clientcmdapi.ExecConfig{Command: "/none",
			APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}},
			problem: "get a credential from the plugin"},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.Host = "https://management.example.com"
			code, out, problems := runOne(newTokenCommand(nil, &tokenOptions{config: &c.config}))
			if c.problem != "" {
				if code != 1 || !strings.Contains(problems, c.problem) || strings.Contains(problems, "secret") {
					t.Errorf("exit code %d, %q, want %q", code, problems, c.problem)
				}
				return
			}
			got := clientauthv1.ExecCredential{}
			check(t, json.Unmarshal([]byte(out), &got))
			if diff := cmp.Diff(c.want, *got.Status); diff != "" || code != 0 || got.Kind != "ExecCredential" {
				t.Errorf("exit code %d, %s (-want +got):\n%s", code, problems, diff)
			}
		})
	}
}
