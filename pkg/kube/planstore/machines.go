package planstore

import (
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/registration"
)

// MachineClient is the part of a Machine client that is needed.
type MachineClient interface {
	Get(namespace, name string, options metav1.GetOptions) (*clusterv1.Machine, error)
	Patch(namespace, name string, pt types.PatchType, data []byte, subresources ...string) (*clusterv1.Machine, error)
}

// Machines writes to Cluster API Machines. It remembers writes for a while, until caches show them, so that writers
// that share a store cause no conflicts with each other. It is safe for concurrent use.
type Machines struct {
	client MachineClient

	mu     sync.Mutex
	stored map[types.UID]stored
	// proposed holds conditions that wait for another write to the same Machine.
	proposed map[types.UID]proposal
	// dropping is true while a call of drop is scheduled.
	dropping bool
}

type stored struct {
	machine *clusterv1.Machine
	at      time.Time
}

// shownAfter is how long caches may take to show a write. Forgetting it earlier costs a conflict, or delays a condition
// until the caches show it. Most remembered Machines are not written again, because they are ready or deleted, and each
// takes tens of kilobytes.
const shownAfter = 10 * time.Second

// NewMachines returns a store over a client.
func NewMachines(client MachineClient) *Machines {
	return &Machines{client: client, stored: map[types.UID]stored{}, proposed: map[types.UID]proposal{}}
}

// newest returns the cached Machine, or a newer version that was written.
func (s *Machines) newest(cached *clusterv1.Machine) *clusterv1.Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.stored[cached.UID]
	if !ok {
		return cached
	}
	order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, known.machine.ResourceVersion)
	if err != nil || order >= 0 {
		delete(s.stored, cached.UID)
		return cached
	}
	return known.machine
}

func (s *Machines) remember(machine *clusterv1.Machine) *clusterv1.Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored[machine.UID] = stored{machine, time.Now()}
	s.dropLater()
	return machine
}

// dropLater schedules drop while something is remembered.
func (s *Machines) dropLater() {
	if !s.dropping && len(s.stored)+len(s.proposed) > 0 {
		s.dropping = true
		time.AfterFunc(shownAfter, s.drop)
	}
}

// drop forgets the writes that caches have had time to show. It runs even without further writes.
func (s *Machines) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.stored, func(_ types.UID, one stored) bool { return time.Since(one.at) >= shownAfter })
	maps.DeleteFunc(s.proposed, func(_ types.UID, one proposal) bool { return time.Since(one.at) >= shownAfter })
	s.dropping = false
	s.dropLater()
}

// Forget drops the remembered version of a Machine.
func (s *Machines) Forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stored, uid)
}

// ReadMarks reads the planner's notes on a Machine.
func ReadMarks(machine *clusterv1.Machine) planner.Marks {
	return planner.Marks{
		InitNode:      machine.Labels[rkev1.InitNodeLabel] == "true",
		JoinURL:       machine.Annotations[rkev1.JoinURLAnnotation],
		JoinedTo:      machine.Annotations[rkev1.JoinedToAnnotation],
		RenderVersion: machine.Annotations[rkev1.RenderVersionAnnotation],
		Found:         machine.Annotations[rkev1.FoundAnnotation],
		AgentPin:      machine.Annotations[rkev1.AgentPinAnnotation],
		Version:       machine.Spec.Version,
	}
}

// UID is registration.NodeUID.
func UID(machine *clusterv1.Machine) types.UID { return registration.NodeUID(machine) }

// Mark writes the planner's notes onto the Machine with that UID, and nothing else, so that it never conflicts with
// other writers. A MachineSet with an older view of the Machine may reset the version once. Then the planner writes it
// again.
func (s *Machines) Mark(machine *clusterv1.Machine, marks planner.Marks) (*clusterv1.Machine, error) {
	initNode := ""
	if marks.InitNode {
		initNode = "true"
	}
	patch := map[string]any{"metadata": map[string]any{
		"uid":    machine.UID,
		"labels": map[string]any{rkev1.InitNodeLabel: orNull(initNode)},
		"annotations": map[string]any{
			rkev1.JoinURLAnnotation:       orNull(marks.JoinURL),
			rkev1.JoinedToAnnotation:      orNull(marks.JoinedTo),
			rkev1.RenderVersionAnnotation: orNull(marks.RenderVersion),
			rkev1.MachineUIDAnnotation:    UID(machine),
			rkev1.FoundAnnotation:         orNull(marks.Found),
			rkev1.AgentPinAnnotation:      orNull(marks.AgentPin),
		},
	}}
	if marks.Version != "" {
		patch["spec"] = map[string]any{"version": marks.Version}
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode the annotations of machine %s: %w", machine.Name, err)
	}
	stored, err := s.client.Patch(machine.Namespace, machine.Name, types.MergePatchType, body)
	if err != nil {
		return nil, fmt.Errorf("annotate machine %s: %w", machine.Name, err)
	}
	return s.remember(stored), nil
}

// orNull returns the value for a merge patch: null removes a key.
func orNull(value string) any {
	if value == "" {
		return nil
	}
	return value
}
