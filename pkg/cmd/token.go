package cmd

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientauthv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"

	"github.com/drover-io/drover/pkg/operate/kubeconfig"
)

// tokenOptions are the flags of drover token.
type tokenOptions struct {
	kubeconfig, context        string
	cluster, server, authority string
	// client is the ID of the process that runs this program as its plugin, 0 for none. A client asks again if its
	// credential was refused.
	client int
	// config overrides the kubeconfig in tests.
	config *rest.Config
}

func newTokenCommand(environ []string, o *tokenOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Print a credential for the management cluster or for a cluster, as a plugin of kubectl",
		Long: `Print the credential with which the kubeconfig reaches the management cluster. The format is that
of an exec plugin of kubectl and other clients. Drover's endpoints know the same users as the
management cluster, so the clusters behind them need no other credential. Kubeconfigs that drover
kubeconfig writes call this command.

With --cluster, the command prints a token from Drover for the authorized endpoint of that cluster.
The token is valid only there. The command stores it in your cache folder, in a file that only you
can read. It replaces the token in the last third of its life. While Drover is unavailable, the
command uses the stored token until it expires.`,
		Example: `  drover token --kubeconfig ~/.kube/management
  drover token --cluster fleet-default/demo`,
		Args: takes(),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := fillFromEnvironment(cmd.Flags(), environ); err != nil {
				return err
			}
			if _, isPlugin := variable(environ, execInfo); isPlugin && o.client == 0 {
				o.client = os.Getppid()
			}
			return o.check()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := o.load()
			if err != nil {
				return err
			}
			credential, err := o.credential(cmd.Context(), config)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(credential)
		},
	}
	addManagement(cmd, environ, &o.kubeconfig, &o.context, fromKubeconfig)
	f := cmd.Flags()
	f.StringVar(&o.cluster, "cluster", "",
		"`cluster` that the token is for, as NAMESPACE/NAME; empty prints the credential for the management cluster")
	f.StringVar(&o.server, "server", "",
		"`URL` of Drover's endpoints, with --cluster, instead of the one that the server has published")
	f.StringVar(&o.authority, "certificate-authority", "",
		"`file` with the authorities that verify the server, with --server")
	return cmd
}

// execInfo is the variable with which Kubernetes clients pass a request to their plugins.
const execInfo = "KUBERNETES_EXEC_INFO"

func variable(environ []string, name string) (value string, ok bool) {
	for _, pair := range environ {
		if value, ok = strings.CutPrefix(pair, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

func (o *tokenOptions) check() error {
	namespace, name, ok := strings.Cut(o.cluster, "/")
	switch {
	case o.cluster == "" && (o.server != "" || o.authority != ""):
		return errors.New(
			"--server and --certificate-authority: need --cluster; the credential for the management cluster is in " +
				"the kubeconfig")
	case o.cluster != "" && (!ok || namespace == "" || name == "" || strings.Contains(name, "/")):
		return fmt.Errorf("--cluster: %q must be NAMESPACE/NAME", o.cluster)
	}
	return nil
}

// credential returns the requested credential.
func (o *tokenOptions) credential(ctx context.Context, config *rest.Config) (*clientauthv1.ExecCredential, error) {
	if o.cluster == "" {
		return credentialOf(config)
	}
	return o.forCluster(ctx, config)
}

func (o *tokenOptions) load() (*rest.Config, error) {
	if o.config != nil {
		return o.config, nil
	}
	return findManagement(o.kubeconfig, o.context, adviceOfUsers)
}

// credentialOf returns the credential of a configuration: a token or a certificate.
func credentialOf(config *rest.Config) (*clientauthv1.ExecCredential, error) {
	credential := &clientauthv1.ExecCredential{
		TypeMeta: metav1.TypeMeta{APIVersion: clientauthv1.SchemeGroupVersion.String(), Kind: "ExecCredential"},
		Status:   &clientauthv1.ExecCredentialStatus{},
	}
	shown, err := config.TransportConfig()
	if err != nil {
		return nil, fmt.Errorf("read the credential: %w", err)
	}
	token, err := tokenOf(config, shown)
	if err != nil {
		return nil, err
	}
	if token != "" {
		credential.Status.Token = token
		credential.Status.ExpirationTimestamp = expiryOf(token)
		return credential, nil
	}
	certificate, key, err := certificateOf(config)
	if err != nil {
		return nil, err
	}
	credential.Status.ClientCertificateData, credential.Status.ClientKeyData = certificate, key
	return credential, nil
}

// tokenOf returns the token that the configuration adds to requests. It runs the transport wrappers, including the
// kubeconfig's plugins, on a request that is never sent.
func tokenOf(config *rest.Config, shown *transport.Config) (string, error) {
	if config.Username != "" {
		return "", errors.New("the kubeconfig has a user name and a password, which Drover's endpoints do not accept")
	}
	asked := ""
	wrapped, err := transport.HTTPWrappersForConfig(shown, roundTripper(func(r *http.Request) (*http.Response, error) {
		asked = r.Header.Get("Authorization")
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
	}))
	if err != nil {
		return "", fmt.Errorf("read the credential: %w", err)
	}
	request, err := http.NewRequest(http.MethodGet, "https://"+unspecified, http.NoBody) //nolint:noctx // it goes nowhere
	if err != nil {
		return "", fmt.Errorf("read the credential: %w", err)
	}
	response, err := wrapped.RoundTrip(request)
	if err != nil {
		return "", fmt.Errorf("get a credential from the plugin in the kubeconfig: %w", err)
	}
	_ = response.Body.Close()
	token, _ := strings.CutPrefix(asked, "Bearer ")
	return token, nil
}

// unspecified is an address to which nothing is sent.
const unspecified = "management-cluster.invalid"

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func certificateOf(config *rest.Config) (certificate, key string, err error) {
	files := func(data []byte, file string) (string, error) {
		if len(data) > 0 || file == "" {
			return string(data), nil
		}
		content, err := os.ReadFile(file)
		return string(content), err
	}
	if certificate, err = files(config.CertData, config.CertFile); err == nil {
		key, err = files(config.KeyData, config.KeyFile)
	}
	switch {
	case err != nil:
		return "", "", fmt.Errorf("read the client certificate: %w", err)
	case certificate == "" || key == "":
		return "", "", errors.New("the kubeconfig has neither a token nor a client certificate")
	}
	return certificate, key, nil
}

// expiryOf is when a token expires, so that clients ask again before. It is nil if the token does not say.
func expiryOf(token string) *metav1.Time {
	claims := struct {
		Expires int64 `json:"exp"`
	}{}
	if !readClaims(token, &claims) || claims.Expires == 0 {
		return nil
	}
	return new(metav1.NewTime(time.Unix(claims.Expires, 0).UTC()))
}

// readClaims reads the claims of a JWT. It returns false for another kind of token.
func readClaims(token string, claims any) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	return err == nil && json.Unmarshal(data, claims) == nil
}

// isPlugin reports whether the user of a kubeconfig calls drover token and has no other credential.
func isPlugin(user *clientcmdapi.AuthInfo) bool {
	return user.Exec != nil && user.Exec.Command == "drover" && len(user.Exec.Args) > 0 &&
		user.Exec.Args[0] == "token" &&
		user.Token == "" && user.TokenFile == "" && user.ClientCertificate == "" &&
		len(user.ClientCertificateData) == 0 && user.Username == ""
}

// plugin returns a kubeconfig user that calls drover token, with more arguments.
func plugin(file, context string, more ...string) *clientcmdapi.AuthInfo {
	return kubeconfig.Plugin(file, context, more...)
}
