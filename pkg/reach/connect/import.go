package connect

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/decide/registration"
)

// importPrefix begins the paths of manifests: {token}_{clusterId}.yaml. (docs/wire/endpoints.md#import.)
const importPrefix = "/v3/import/"

// AgentManifests is what the agents inside clusters are installed with.
type AgentManifests struct {
	// Clusters are the management clusters. Required.
	Clusters ManagementClusters
	// Source is the same for all of them. The address and the checksum in it do not count: they are those of the endpoints.
	clustermanifest.Source
}

// imports answers paths below importPrefix itself: they may hold a token, and go nowhere else.
func (s *server) imports(w http.ResponseWriter, r *http.Request) {
	switch {
	case s.Agent == nil || r.URL.EscapedPath() != r.URL.Path:
		http.NotFound(w, r)
	case reads(w, r):
		s.importManifest(w, r, strings.TrimPrefix(r.URL.Path, importPrefix))
	}
}

// importManifest answers the manifest of a cluster's agent to whoever knows a token for agents of that cluster. The query authImage is for a
// program that Drover does not install; it is checked, as others do.
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
			bad(w, "invalid authImage - it must name an image, such as registry.example.com/rancher/kube-api-auth:v0.2.4")
			return
		}
	}
	body, err := s.agentManifest(r, id, token)
	if err != nil {
		s.Log.WithError(err).WithField("cluster", id).Error("Cannot make the manifest of a cluster's agent")
		http.Error(w, "the manifest of this cluster cannot be made; the server's log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Cache-Control", "no-store") // it holds a token
	text(w, string(body))
}

// bad answers a request that can never succeed, with exactly this text. (docs/wire/endpoints.md#import.)
func bad(w http.ResponseWriter, message string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write([]byte(message)) // the client is gone if this fails
}

// agentManifest never names the token in its errors.
func (s *server) agentManifest(r *http.Request, id, token string) ([]byte, error) {
	cluster, err := s.Agent.Clusters.Get(id)
	if err != nil {
		return nil, fmt.Errorf("read management cluster %s: %w", id, err)
	}
	source := s.Agent.Source
	source.ServerURL, source.CAChecksum = s.baseURL(r), CAChecksum(s.CACerts)
	pullSecrets, err := source.ReadPullSecrets(cluster, s.SecretCache.Get, func(secret types.NamespacedName, problem string) {
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
