package connect

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/registration"
)

// importPrefix is the path prefix of manifests: {token}_{clusterId}.yaml. (docs/wire/endpoints.md#import.)
const importPrefix = registration.ImportPath

// AgentManifests describes how to install cluster agents.
type AgentManifests struct {
	// Clusters are the management clusters. Required.
	Clusters ManagementClusters
	// Source is common to all clusters. Its address and checksum are replaced by those of the endpoints.
	clustermanifest.Source
}

// imports handles all paths below importPrefix, because they may contain a token and must not be forwarded.
func (s *server) imports(w http.ResponseWriter, r *http.Request) {
	switch {
	case s.Agent == nil || r.URL.EscapedPath() != r.URL.Path:
		http.NotFound(w, r)
	case reads(w, r):
		s.importManifest(w, r, strings.TrimPrefix(r.URL.Path, importPrefix))
	}
}

// importManifest serves the manifest of a cluster's agent to clients with an agent registration token of that cluster.
// The query authImage is for a program that Drover does not install. It is only validated, as in the reference.
func (s *server) importManifest(w http.ResponseWriter, r *http.Request, file string) {
	stem, isYAML := strings.CutSuffix(file, ".yaml")
	at := strings.LastIndex(stem, "_")
	if !isYAML || at < 0 || strings.Contains(stem, "/") {
		http.NotFound(w, r)
		return
	}
	token, id := stem[:at], stem[at+1:]
	if token == "" || len(validation.IsDNS1123Label(id)) > 0 {
		bad(w, "invalid filename format, expected {token}_{clusterId}.yaml")
		return
	}
	if found, ok := s.Registrations.Lookup(token, registration.ForAgent); !ok || found != id {
		bad(w, "cluster not found or invalid token")
		return
	}
	if image := r.URL.Query().Get("authImage"); image != "" {
		if _, err := name.ParseReference(image, name.WeakValidation); err != nil {
			bad(w, "invalid authImage - it must name an image, such as "+
				"registry.example.com/rancher/kube-api-auth:v0.2.4")
			return
		}
	}
	body, err := s.agentManifest(r, id, token)
	if err != nil {
		s.Log.WithError(err).WithField("cluster", id).Error("Cannot render the manifest of a cluster's agent")
		http.Error(w, "the server cannot render the manifest of this cluster; see its log",
			http.StatusInternalServerError)
		return
	}
	w.Header().Set("Cache-Control", "no-store") // contains a token
	text(w, string(body))
}

// bad answers an invalid request with exactly this text. (docs/wire/endpoints.md#import.)
func bad(w http.ResponseWriter, message string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write([]byte(message)) // fails only when the client has disconnected
}

// agentManifest never includes the token in its errors.
func (s *server) agentManifest(r *http.Request, id, token string) ([]byte, error) {
	cluster, err := s.Agent.Clusters.Get(id)
	if err != nil {
		return nil, fmt.Errorf("read management cluster %s: %w", id, err)
	}
	source := s.Agent.Source
	source.ServerURL, source.CAChecksum = s.baseURL(r), naming.CAChecksum(string(s.CACerts))
	pullSecrets, err := source.ReadPullSecrets(cluster, s.SecretCache.Get,
		func(secret types.NamespacedName, problem string) {
			s.Log.WithField("secret", secret.String()).Warn(problem)
		})
	if err != nil {
		return nil, err
	}
	objects, err := clustermanifest.Render(source.Input(cluster, token, pullSecrets))
	if err != nil {
		return nil, err
	}
	return clustermanifest.YAML(objects)
}
