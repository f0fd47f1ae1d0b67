package clients

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// Typed makes clients for the kinds of NewScheme, without caches. It is safe for concurrent use.
type Typed struct {
	codecs serializer.CodecFactory
}

// NewTyped returns a Typed. It makes no API call.
func NewTyped() (*Typed, error) {
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	return &Typed{serializer.NewCodecFactory(scheme)}, nil
}

// Client returns a client for the kinds of one group. Its requests have no time limit of their own, because watches
// last longer than other requests.
func (t *Typed) Client(config *rest.Config, version schema.GroupVersion) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &version, "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = t.codecs.WithoutConversion()
	config.ContentType = runtime.ContentTypeJSON
	limited, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make clients: %w", err)
	}
	return rest.RESTClientForConfigAndClient(config, &http.Client{Transport: limited.Transport})
}
