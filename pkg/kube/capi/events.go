package capi

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
)

// remembered is of how many events it is known whether they come again. The default of 4096, in each of three lists, takes as long to fill as
// a thousand clusters take to come and go, and grows all that time.
const remembered = 1024

// announcing is a manager whose recorders remember less: of more than that many events it begins to count and to limit anew. The manager's own option for a
// broadcaster leaves another one running when the manager ends. Unlike the manager's, this one writes no debug lines of events, which are in the API.
type announcing struct {
	ctrl.Manager
	broadcaster record.EventBroadcaster
}

func announce(manager ctrl.Manager) (*announcing, error) {
	client, err := typedcorev1.NewForConfigAndClient(manager.GetConfig(), manager.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make client of events: %w", err)
	}
	broadcaster := record.NewBroadcasterWithCorrelatorOptions(record.CorrelatorOptions{LRUCacheSize: remembered})
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.Events("")})
	return &announcing{Manager: manager, broadcaster: broadcaster}, nil
}

// GetEventRecorderFor implements ctrl.Manager.
func (a *announcing) GetEventRecorderFor(name string) record.EventRecorder {
	return a.broadcaster.NewRecorder(a.GetScheme(), corev1.EventSource{Component: name})
}
