package inspect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/redact"
)

// The prefixes with which a user tells a Cluster from a Machine of the same name.
const (
	ClusterPrefix = "cluster/"
	MachinePrefix = "machine/"
)

// LogOptions are the options of Logs.
type LogOptions struct {
	// Follow continues until the log ends.
	Follow bool
	// Tail is the number of last lines. A negative number means all lines.
	Tail int64
}

// Logs writes the provisioning log of a Cluster, or the output of a Machine's Job. target is cluster/NAME, machine/NAME
// or NAME, which means the Cluster if there is one.
func (r *Reader) Logs(ctx context.Context, target string, o LogOptions, out io.Writer) error {
	live, err := r.streaming()
	if err != nil {
		return err
	}
	if name, ok := strings.CutPrefix(target, MachinePrefix); ok {
		machine, err := r.Machine(name)
		if err != nil {
			return err
		}
		return machineLog(ctx, live, machine, o, out)
	}
	name, named := strings.CutPrefix(target, ClusterPrefix)
	cluster, err := r.Cluster(name)
	if absent, ok := errors.AsType[absentError](err); ok && !named {
		machine, other := r.Machine(name)
		if apierrors.IsNotFound(other) {
			return fmt.Errorf("there is no Cluster and no Machine %s in namespace %s; -n names another one",
				absent.name, absent.namespace)
		}
		if other != nil {
			return other
		}
		return machineLog(ctx, live, machine, o, out)
	}
	if err != nil {
		return err
	}
	return clusterLog(ctx, live, cluster, o, out)
}

// streaming returns a client for watches and logs, which last longer than a request.
func (r *Reader) streaming() (kubernetes.Interface, error) {
	config := rest.CopyConfig(r.opts.Config)
	config.Timeout = 0
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnly{next} })
	live, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make clients: %w", err)
	}
	return live, nil
}

// Machine returns a Machine of the namespace.
func (r *Reader) Machine(name string) (*clusterv1.Machine, error) {
	machine, err := r.plans.Machines.Cache().Get(r.namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no Machine %s in namespace %s; -n names another one: %w", name, r.namespace,
			err)
	}
	if err != nil {
		return nil, fmt.Errorf("read Machine %s/%s: %w", r.namespace, name, err)
	}
	return machine, nil
}

// LogNames lists what has a log: the Clusters and the Machines of the namespace.
func (r *Reader) LogNames() ([]string, error) {
	names, err := r.Names()
	if err != nil {
		return nil, err
	}
	machines, err := r.clients.CAPI.Machine().List(r.namespace, metav1.ListOptions{})
	if err != nil {
		return names, nil //nolint:nilerr // the user may not list Machines
	}
	for i := range machines.Items {
		names = append(names, MachinePrefix+machines.Items[i].Name)
	}
	return names, nil
}

func clusterLog(ctx context.Context, live kubernetes.Interface, cluster *provv1.Cluster, o LogOptions,
	out io.Writer) error {
	if cluster.Status.ClusterName == "" {
		return fmt.Errorf("the Cluster %s/%s has no log yet: no Drover server manages it", cluster.Namespace,
			cluster.Name)
	}
	if o.Follow {
		return followLog(ctx, live, cluster, o, out)
	}
	log, err := live.CoreV1().ConfigMaps(cluster.Status.ClusterName).Get(ctx, provv1.ProvisioningLogName,
		metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the Cluster %s/%s has no log yet: its control plane has shown no message",
			cluster.Namespace, cluster.Name)
	}
	if err != nil {
		return fmt.Errorf("read the log of Cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	_, err = io.WriteString(out, tail(log.Data[provv1.ProvisioningLogKey], o.Tail))
	return err
}

// followLog writes each new line of a provisioning log until the log is deleted, or the user ends the command.
func followLog(ctx context.Context, live kubernetes.Interface, cluster *provv1.Cluster, o LogOptions,
	out io.Writer) error {
	follow := follower{tail: o.Tail, out: out}
	only := metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", provv1.ProvisioningLogName).String(),
	}
	for {
		// A watch without a version begins with the present object.
		events, err := live.CoreV1().ConfigMaps(cluster.Status.ClusterName).Watch(ctx, only)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("watch the log of Cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
		}
		if err == nil {
			done, err := follow.show(events)
			events.Stop()
			if done || err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rewatch):
		}
	}
}

// rewatch is the pause before a watch that ended begins again.
const rewatch = time.Second

// follower writes the lines that it has not written yet.
type follower struct {
	tail  int64
	out   io.Writer
	shown string
	began bool
}

// show writes new lines until the watch ends. It returns true when the log is deleted.
func (f *follower) show(events watch.Interface) (deleted bool, err error) {
	for event := range events.ResultChan() {
		log, ok := event.Object.(*corev1.ConfigMap)
		if !ok || event.Type == watch.Bookmark {
			continue
		}
		if event.Type == watch.Deleted {
			return true, nil
		}
		text := log.Data[provv1.ProvisioningLogKey]
		fresh := newLines(f.shown, text)
		if !f.began {
			fresh = tail(text, f.tail)
		}
		f.shown, f.began = text, true
		if _, err := io.WriteString(f.out, fresh); err != nil {
			return false, err
		}
	}
	return false, nil
}

// newLines returns the lines behind the last line that was shown. Drover removes lines from the beginning.
func newLines(shown, text string) string {
	shown = strings.TrimSuffix(shown, "\n")
	last := shown[strings.LastIndex(shown, "\n")+1:] + "\n"
	if at := strings.LastIndex("\n"+text, "\n"+last); shown != "" && at >= 0 {
		return text[at+len(last):]
	}
	return text
}

// tail returns the last lines of a text.
func tail(text string, lines int64) string {
	at := len(text)
	for ; lines > 0 && at > 0; lines-- {
		at = strings.LastIndex(text[:at-1], "\n") + 1
	}
	if lines < 0 {
		at = 0
	}
	return text[at:]
}

// machineLog writes the log of the newest pod, or the output that Drover kept.
func machineLog(ctx context.Context, live kubernetes.Interface, machine *clusterv1.Machine, o LogOptions,
	out io.Writer) error {
	ref := machine.Spec.InfrastructureRef
	if _, ok := driverschema.DriverOf(ref.Kind); !ok || ref.APIGroup != driverschema.MachineGroup {
		return fmt.Errorf("the Machine %s/%s has no log: its host is a %s, which no Job creates", machine.Namespace,
			machine.Name, ref.Kind)
	}
	pod, err := newestPod(ctx, live, machine)
	if err == nil && pod != nil && pod.Status.Phase != corev1.PodPending {
		return podLog(ctx, live, pod, o, out)
	}
	name := naming.MachineOutput(ref.Name)
	secret, unread := live.CoreV1().Secrets(machine.Namespace).Get(ctx, name, metav1.GetOptions{})
	if unread == nil {
		if kept, ok := machinejob.LastOutput(secret.Data); ok {
			_, err := io.WriteString(out, tail(string(kept), o.Tail))
			return err
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("list the pods of Machine %s/%s: %w", machine.Namespace, machine.Name, err)
	case pod != nil:
		state := machinejob.Observe(&batchv1.Job{}, []*corev1.Pod{pod})
		return fmt.Errorf("the Machine %s/%s has no log yet: pod %s has not started: %s",
			machine.Namespace, machine.Name,
			pod.Name, strings.TrimSpace(state.Message))
	case unread != nil && !apierrors.IsNotFound(unread):
		return fmt.Errorf("read Secret %s/%s, which holds the log: %w", machine.Namespace, name, unread)
	}
	return fmt.Errorf("the Machine %s/%s has no log: its Job has not started, or its output was not kept",
		machine.Namespace, machine.Name)
}

func newestPod(ctx context.Context, live kubernetes.Interface, machine *clusterv1.Machine) (*corev1.Pod, error) {
	list, err := live.CoreV1().Pods(machine.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.Set{
		rkev1.InfraMachineKindLabel: machine.Spec.InfrastructureRef.Kind,
		rkev1.InfraMachineNameLabel: naming.SafeConcat(machine.Spec.InfrastructureRef.Name),
	}.String()})
	if err != nil || len(list.Items) == 0 {
		return nil, err
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return slices.MaxFunc(pods, machinejob.ByAge), nil
}

// podLog writes the log of a pod line by line, without what looks like a secret. If the log cannot be read any more, it
// writes the end of the output from the status of the pod.
func podLog(ctx context.Context, live kubernetes.Interface, pod *corev1.Pod, o LogOptions, out io.Writer) error {
	options := &corev1.PodLogOptions{Container: machinejob.Container, Follow: o.Follow}
	if o.Tail >= 0 {
		options.TailLines = &o.Tail
	}
	stream, err := live.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if err != nil {
		if message := machinejob.TerminationMessage(pod); message != "" {
			_, err := io.WriteString(out, tail(redact.Text(message), o.Tail))
			return err
		}
		return fmt.Errorf("read the log of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	defer stream.Close()
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadString('\n')
		if _, failed := io.WriteString(out, redact.Text(line)); failed != nil {
			return failed
		}
		if errors.Is(err, io.EOF) || err != nil && ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the log of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
}
