package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// readSecret reads a Secret from a cache or from the API server.
type readSecret func(namespace, name string) (*corev1.Secret, error)

// reports reduces an agent's update to what it may change. Agents send the complete Secret, but may change only the
// keys in which they report. The server owns labels, annotations, owner references and the plan. A compromised node
// that could change them could claim other roles. The API server receives the stored Secret with the agent's keys from
// the parsed request. So the API server cannot interpret the request differently.
type reports struct {
	cached, live readSecret
}

// compose returns the body to send instead of an agent's update of a plan Secret. The error is errBody, matches
// nodeplan.ErrTooLarge, is a conflict if the Secret has changed meanwhile, or is an error of reading it.
func (s reports) compose(contentType string, raw []byte, namespace, name string) ([]byte, error) {
	sent, err := decodeSent(contentType, raw)
	if err != nil {
		return nil, err
	}
	if sent.Name != name || sent.Namespace != namespace || sent.ResourceVersion == "" {
		return nil, errBody
	}
	if err := nodeplan.CheckReport(sent.Data); err != nil {
		return nil, fmt.Errorf("the report is refused: %w", err)
	}
	stored, err := s.at(sent.ResourceVersion, namespace, name)
	if err != nil {
		return nil, err
	}
	next := stored.DeepCopy()
	next.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
	next.ManagedFields = nil // absent means unchanged
	maps.DeleteFunc(next.Data, func(key string, _ []byte) bool { return nodeplan.AgentKey(key) })
	for key, value := range sent.Data {
		if !nodeplan.AgentKey(key) {
			continue
		}
		if next.Data == nil {
			next.Data = map[string][]byte{}
		}
		next.Data[key] = value
	}
	body, err := json.Marshal(next)
	if err != nil {
		return nil, fmt.Errorf("encode plan secret: %w", err)
	}
	return body, nil
}

// at returns the Secret in a version, which must be the current one. The cache may lag behind the agent's last write,
// so it counts only if it has that version.
func (s reports) at(version, namespace, name string) (*corev1.Secret, error) {
	if secret, err := s.cached(namespace, name); err == nil && secret.ResourceVersion == version {
		return secret, nil
	}
	secret, err := s.live(namespace, name)
	if err != nil {
		return nil, fmt.Errorf("read plan secret: %w", err)
	}
	if secret.ResourceVersion != version {
		return nil, apierrors.NewConflict(corev1.Resource("secrets"), name,
			errors.New("the Secret has changed; read it again"))
	}
	return secret, nil
}

// replaceBody replaces the body of a request.
func replaceBody(r *http.Request, body []byte) {
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
}
