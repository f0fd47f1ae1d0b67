package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/tests/testbed/lab"
)

const (
	// sequences run in every test, and allSequences with DROVER_TEST_ALL. At most sequencesAtOnce run at the same time.
	sequences, allSequences, sequencesAtOnce = 4, 50, 10
	// sequenceTimeout limits one step of a sequence. A failed Job that removes a machine is repeated after a minute.
	sequenceTimeout = 10 * time.Minute
	mostMachines    = 2

	// serverPart and workerPart are in the names of the machines of the two pools.
	serverPart, workerPart = "-server-", "-worker-"
)

var (
	nspawnResource = schema.GroupVersionResource{Group: "rke-machine.cattle.io", Version: "v1",
		Resource: "nspawnmachines"}
	cloudCredential = types.NamespacedName{Namespace: "cattle-global-data", Name: "cc-lab"}
)

// faultsOf are the faults of each action of a driver.
var faultsOf = map[string][]lab.Mode{
	lab.Check:  {lab.FailsBefore},
	lab.Create: {lab.CloudFails, lab.FailsBefore, lab.FailsAfter, lab.Hangs, lab.Crashes, lab.Slow},
	lab.Delete: {lab.CloudFails, lab.FailsBefore, lab.FailsAfter, lab.Hangs, lab.Crashes, lab.Slow},
}

// TestDriverFailures scales pools while their node driver fails in every way. In the end, the cloud must have exactly
// the machines that are wanted, and after the deletion of the Cluster none. Each seed decides a sequence, which has a
// namespace of its own. The machines never run Kubernetes, because the driver hangs before it creates a server.
func TestDriverFailures(t *testing.T) {
	w := newWorld(t, "failures", "v1.36.3+k3s1")
	count := sequences
	if os.Getenv("DROVER_TEST_ALL") != "" {
		count = allSequences
	}
	ctx, cancel := context.WithCancel(t.Context())
	var hangs sync.WaitGroup
	hangs.Go(func() { w.endHangs(ctx) })
	var running sync.WaitGroup
	free := make(chan struct{}, sequencesAtOnce)
	for seed := range count {
		running.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			start := time.Now()
			s := &sequence{world: w, name: fmt.Sprintf("seed-%d", seed), ctx: ctx,
				random: rand.New(rand.NewPCG(uint64(seed), 0))}
			if err := s.run(); err != nil {
				t.Errorf("%s: %v; its steps: %s", s.name, err, strings.Join(s.steps, ", "))
			}
			t.Logf("%s: %s (%s)", s.name, strings.Join(s.steps, ", "), time.Since(start).Round(time.Second))
		})
	}
	running.Wait()
	cancel()
	hangs.Wait()
	if left := w.Lab.List(); len(left) > 0 {
		t.Errorf("the cloud has machines that no cluster wants: %v", left)
	}
	w.checkFaults(count == allSequences)
}

// checkFaults checks that the driver has failed, with all sequences in every way.
func (w *world) checkFaults(inEveryWay bool) {
	w.t.Helper()
	counts := map[lab.Fault]int{}
	for _, fault := range w.Lab.Occurred() {
		counts[lab.Fault{Action: fault.Action, Mode: fault.Mode}]++
	}
	for fault, n := range counts {
		w.t.Logf("%s %q: %d times", fault.Action, fault.Mode, n)
	}
	if len(counts) == 0 {
		w.t.Error("the driver has never failed")
	}
	for action, modes := range faultsOf {
		for _, mode := range modes {
			if inEveryWay && counts[lab.Fault{Action: action, Mode: mode}] == 0 {
				w.t.Errorf("fault %q of action %s has never occurred", mode, action)
			}
		}
	}
}

// endHangs ends drivers of workers that hang, as an administrator does who does not wait for the deadline of their
// Jobs.
func (w *world) endHangs(ctx context.Context) {
	for ended := 0; ctx.Err() == nil; pause(ctx, 200*time.Millisecond) {
		occurred := w.Lab.Occurred()
		for ; ended < len(occurred); ended++ {
			fault := occurred[ended]
			if fault.Mode != lab.Hangs || strings.Contains(fault.Machine, serverPart) {
				continue
			}
			if err := w.endJob(ctx, fault.Machine, fault.Action == lab.Delete); err != nil {
				break // the next turn tries again
			}
		}
	}
}

// endJob ends the Job that creates or removes a machine, with the command that Drover shows.
func (w *world) endJob(ctx context.Context, machine string, removes bool) error {
	jobs, err := w.objects.Resource(jobsResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, job := range jobs.Items {
		if job.GetAnnotations()[machinejob.InfraMachineAnnotation] != machine ||
			removes != strings.Contains(job.GetName(), "-remove-") {
			continue
		}
		_, err := w.objects.Resource(jobsResource).Namespace(job.GetNamespace()).Patch(ctx, job.GetName(),
			types.MergePatchType, []byte(`{"spec":{"activeDeadlineSeconds":1}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// sequence is the life of one cluster whose driver fails.
type sequence struct {
	*world
	ctx    context.Context
	name   string
	random *rand.Rand
	steps  []string
}

func (s *sequence) run() error {
	if err := s.begin(); err != nil {
		return err
	}
	wanted := 1 + s.random.IntN(mostMachines)
	s.fail(2)
	if err := s.apply(wanted); err != nil {
		return err
	}
	for range 2 {
		if s.random.IntN(2) == 0 { // otherwise the next change comes while the driver works
			if err := s.settles(wanted); err != nil {
				return err
			}
		}
		wanted = s.random.IntN(mostMachines + 1)
		s.fail(1 + s.random.IntN(2))
		if err := s.scale(wanted); err != nil {
			return err
		}
	}
	if err := s.settles(wanted); err != nil {
		return err
	}
	s.fail(1)
	return s.delete()
}

// fail makes the driver fail some times.
func (s *sequence) fail(times int) {
	for range times {
		action := []string{lab.Check, lab.Create, lab.Create, lab.Delete, lab.Delete}[s.random.IntN(5)]
		modes := faultsOf[action]
		mode := modes[s.random.IntN(len(modes))]
		s.Lab.Inject(lab.Fault{Action: action, Machine: s.name + workerPart + "*", Mode: mode,
			Message: "QuotaExceeded: the account may not have more machines"})
		s.steps = append(s.steps, strings.TrimSpace("fault "+action+" "+string(mode)))
	}
}

// begin copies the credential into the namespace of the sequence.
func (s *sequence) begin() error {
	secrets := s.objects.Resource(secretsResource)
	credential, err := secrets.Namespace(cloudCredential.Namespace).Get(s.ctx, cloudCredential.Name,
		metav1.GetOptions{})
	if err != nil {
		return err
	}
	space := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	space.SetName(s.name)
	if _, err := s.objects.Resource(namespacesResource).Create(s.ctx, space, metav1.CreateOptions{}); err != nil {
		return err
	}
	copied := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret",
		"data": credential.Object["data"]}}
	copied.SetName("cloud")
	_, err = secrets.Namespace(s.name).Create(s.ctx, copied, metav1.CreateOptions{})
	return err
}

func (s *sequence) apply(quantity int) error {
	s.steps = append(s.steps, fmt.Sprintf("create with %d", quantity))
	s.Lab.Inject(lab.Fault{Action: lab.Check, Machine: s.name + serverPart + "*", Mode: lab.Hangs})
	text := string(manifest(s.name, "v1.36.3+k3s1", pool{"server", 1, "ec"}, pool{"worker", quantity, "w"}))
	text = strings.ReplaceAll(text, "namespace: "+namespace, "namespace: "+s.name)
	text = strings.ReplaceAll(text, cloudCredential.Namespace+":"+cloudCredential.Name, "cloud")
	return s.Apply(s.ctx, []byte(text))
}

func (s *sequence) scale(quantity int) error {
	s.steps = append(s.steps, fmt.Sprintf("scale to %d", quantity))
	_, err := s.objects.Resource(clustersResource).Namespace(s.name).Patch(s.ctx, s.name, types.JSONPatchType,
		fmt.Appendf(nil, `[{"op":"replace","path":"/spec/rkeConfig/machinePools/1/quantity","value":%d}]`, quantity),
		metav1.PatchOptions{})
	return err
}

// settles waits until the cloud has the wanted machines, and Drover knows exactly these.
func (s *sequence) settles(wanted int) error {
	return s.await(func() error {
		var known []string
		hosts, err := s.objects.Resource(nspawnResource).Namespace(s.name).List(s.ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range hosts.Items {
			host := &hosts.Items[i]
			if !strings.HasPrefix(host.GetName(), s.name+workerPart) {
				continue
			}
			if conditionOf(host, "Ready") != "True" || host.GetDeletionTimestamp() != nil {
				return fmt.Errorf("%s is not ready, or is being deleted: %v", host.GetName(), host.Object["status"])
			}
			known = append(known, naming.Instance(host.GetName()))
		}
		slices.Sort(known)
		if made := s.made(); len(known) != wanted || !slices.Equal(made, known) {
			return fmt.Errorf("the cloud has %v, Drover knows %v, and %d are wanted", made, known, wanted)
		}
		return nil
	})
}

// made returns the names of the machines that the cloud has for the sequence.
func (s *sequence) made() (names []string) {
	for _, m := range s.Lab.List() {
		if strings.HasPrefix(m.Name, s.name+"-") {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// delete deletes the Cluster and waits until nothing is left of its machines.
func (s *sequence) delete() error {
	s.steps = append(s.steps, "delete")
	if err := s.objects.Resource(clustersResource).Namespace(s.name).Delete(s.ctx, s.name,
		metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := s.await(func() error {
		if err := s.endServer(); err != nil {
			return err
		}
		if made := s.made(); len(made) > 0 {
			return fmt.Errorf("the cloud still has %v", made)
		}
		for _, resource := range []schema.GroupVersionResource{clustersResource, machinesResource, nspawnResource,
			jobsResource, secretsResource} {
			list, err := s.objects.Resource(resource).Namespace(s.name).List(s.ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, left := range list.Items {
				if left.GetName() != "cloud" {
					return fmt.Errorf("%s %s still exists", left.GetKind(), left.GetName())
				}
			}
		}
		return nil
	}); err != nil {
		return err
	}
	s.Lab.Withdraw(s.name + workerPart + "*")
	return nil
}

// endServer ends the driver that hangs before it creates the server.
func (s *sequence) endServer() error {
	for _, fault := range s.Lab.Occurred() {
		if strings.HasPrefix(fault.Machine, s.name+serverPart) {
			return s.endJob(s.ctx, fault.Machine, false)
		}
	}
	return nil
}

func (s *sequence) await(problem func() error) error {
	ctx, cancel := context.WithTimeout(s.ctx, sequenceTimeout)
	defer cancel()
	for {
		err := problem()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(fmt.Errorf("not within %s", sequenceTimeout), err)
		}
		pause(ctx, 500*time.Millisecond)
	}
}
