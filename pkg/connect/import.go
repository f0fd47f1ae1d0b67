package connect

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/clustermanifest"
	"github.com/drover-io/drover/pkg/registration"
)

// importPrefix begins the paths of manifests: {token}_{clusterId}.yaml. (spec/06 §4.5.)
const importPrefix = "/v3/import/"

// AgentManifests is what the agents inside clusters are installed with.
type AgentManifests struct {
	// Clusters are the management clusters. Required.
	Clusters ManagementClusters
	// Image is the agent's, without a registry of clusters before it.
	Image string
	// Registry is that of clusters that name none; empty for none.
	Registry string
	// PullSecrets are for Registry, of type kubernetes.io/dockerconfigjson.
	PullSecrets []types.NamespacedName
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

// bad answers a request that can never succeed, with exactly this text. (spec/06 §4.5.)
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
	input := clustermanifest.For(cluster, s.Agent.Image, s.Agent.Registry)
	input.ServerURL, input.CAChecksum, input.Token = s.baseURL(r), CAChecksum(s.CACerts), token
	if input.PullSecrets, err = s.pullSecrets(cluster); err != nil {
		return nil, err
	}
	objects, err := clustermanifest.Render(input)
	if err != nil {
		return nil, err
	}
	return clustermanifest.YAML(objects)
}

// pullSecrets are those of the installation's registry, for clusters whose images come from there.
func (s *server) pullSecrets(cluster *mgmtv3.Cluster) ([]clustermanifest.PullSecret, error) {
	if !(clustermanifest.Source{Registry: s.Agent.Registry}).UsesDefaultRegistry(cluster) {
		return nil, nil
	}
	var found []clustermanifest.PullSecret
	for _, key := range s.Agent.PullSecrets {
		secret, err := s.SecretCache.Get(key.Namespace, key.Name)
		if apierrors.IsNotFound(err) {
			s.Log.WithField("secret", key.String()).Warn("A pull secret of the default registry is not there")
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read pull secret %s: %w", key, err)
		}
		usable, problem := clustermanifest.PullSecretOf(secret)
		if problem != "" {
			s.Log.WithField("secret", key.String()).Warn(problem)
			continue
		}
		found = append(found, usable)
	}
	return found, nil
}
