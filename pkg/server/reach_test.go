package server

import (
	"errors"
	"testing"

	"github.com/drover-io/drover/pkg/reach/endpointtoken"
)

// Without agents, clusters have no authorized endpoint, and users are not asked to wait for its keys.
func TestEndpointOf_WithoutAgents(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]Options{
		"without an endpoint": {Settings: Settings{ServerURL: "https://drover.example.com"},
			Reach: Reach{WithoutAgents: true}},
		"without an address": {},
		"a host's own connections": {Settings: Settings{ServerURL: "https://drover.example.com"},
			Downstream: hostsWay{}},
	} {
		if _, err := (&Server{opts: options}).endpointOf("c-m-1"); !errors.Is(err, endpointtoken.ErrOff) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

type hostsWay struct{ Downstream }
