package server

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drover-io/drover/pkg/operate/adopt"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/recorded"
)

// Where clusters get agents, adoption lists the Secrets of the agents too, and lists only what it then writes.
func TestRecorded_AdoptionListsWhatAgentsNeed(t *testing.T) {
	crashpoints.SkipRaced(t)
	deployed := func(o map[string]any) {
		status := o["status"].(map[string]any)
		status["conditions"] = append(status["conditions"].([]any),
			map[string]any{"type": "AgentDeployed", "status": "True"},
			map[string]any{"type": "Connected", "status": "True"})
	}
	endpoint := func(o map[string]any) {
		if strings.HasPrefix(o["apiVersion"].(string), "provisioning") {
			set(o, true, "spec", "localClusterAuthEndpoint", "enabled")
		}
	}
	for name, tc := range map[string]struct {
		recording, from string
		edit            map[string]func(object map[string]any)
		without         []string // kinds and names
	}{
		"one server of Rancher":          {recording: recorded.RancherOneServer, from: adopt.FromRancher},
		"servers and workers of Rancher": {recording: recorded.RancherThreeServersTwoWorkers, from: adopt.FromRancher},
		"of another Drover":              {recording: recorded.DroverOtherInstance, from: recorded.OtherInstance},
		"with an agent, and an endpoint in the spec": {
			recording: recorded.RancherOneServer, from: adopt.FromRancher,
			edit: map[string]func(map[string]any){"Cluster demo": endpoint, "Cluster " + recordedID: deployed},
		},
		"with an agent, without a kubeconfig": {
			recording: recorded.DroverOtherInstance, from: recorded.OtherInstance,
			edit: map[string]func(map[string]any){"Cluster " + recordedID: deployed}, without: []string{
				"Secret demo-kubeconfig"},
		},
		"without a token": {
			recording: recorded.DroverOtherInstance, from: recorded.OtherInstance,
			without: []string{"Secret crt-token-system", "Secret crt-token-default-token",
				"ClusterRegistrationToken default-token", "Secret demo-cluster-agent"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newRecorded(t)
				defer func() { w.stop(); w.user.Stop(); time.Sleep(time.Hour) }()
				w.recording(tc.recording, tc.without, tc.edit)
				w.agents = true
				w.start()
				time.Sleep(10 * time.Minute)
				a := w.look()
				limits := w.limits(tc.from)
				limits.AllowRestart = true // the agent is part of the plans
				w.takesWhatIsListed(a, limits)
			})
		})
	}
}

func unset(object map[string]any, path ...string) { unstructured.RemoveNestedField(object, path...) }

func set(object map[string]any, value any, path ...string) {
	_ = unstructured.SetNestedField(object, value, path...)
}
