package capi

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
)

// remembered is the number of Events whose repetitions are counted. The default of 4096, in each of three lists, fills
// only after a thousand clusters have come and gone, and memory grows until then.
const remembered = 1024

// announcing is a manager whose Event recorders remember less. Beyond remembered Events, they start counting and
// limiting again. The manager's own option for a broadcaster leaves another broadcaster running when the manager ends.
// Unlike the manager's, this broadcaster writes no debug lines of Events, which are in the API.
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
	return quiet{a.broadcaster.NewRecorder(a.GetScheme(), corev1.EventSource{Component: name})}
}
