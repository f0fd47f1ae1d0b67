package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/controllers/provisioningcluster"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/operate/preview"
)

// Ownership is the relation of a cluster to the instance that would adopt it.
type Ownership string

// The ownerships.
const (
	// OwnerSame: the instance has the cluster already.
	OwnerSame Ownership = "Same"
	// OwnerNone: no manager has created objects for it. The server takes it without an adoption.
	OwnerNone Ownership = "None"
	// OwnerOther: another Drover has marked it.
	OwnerOther Ownership = "Other"
	// OwnerReleased: the Drover that managed it has released it.
	OwnerReleased Ownership = "Released"
	// OwnerUnmarked: a manager that leaves no mark, usually Rancher, has created objects for it.
	OwnerUnmarked Ownership = "Unmarked"
)

// Adoption is the effect of a takeover by an instance of Drover. It comes from the code that performs the takeover.
type Adoption struct {
	// Cluster is the cluster's namespace and name, as NAMESPACE/NAME.
	Cluster string `json:"cluster"`
	// Owner is the current ownership. Mark is the instance that is marked on the cluster, or that has released it.
	Owner Ownership `json:"owner"`
	Mark  string    `json:"mark,omitempty"`
	// Instance is the adopting instance.
	Instance string `json:"instance"`
	// Result is the strongest class of all effects that the takeover alone has on machines.
	Result planner.Class `json:"result"`
	// Objects that would be written, by kind and name. Unchanged objects are not listed.
	Objects []ObjectChange `json:"objects,omitempty"`
	// Machines by pool and name.
	Machines []AdoptedMachine `json:"machines,omitempty"`
	// Order lists the stages in which machines change.
	Order []preview.Stage `json:"order,omitempty"`
	// Activity is the last known write that only a manager makes, according to the API server.
	Activity *Activity `json:"activity,omitempty"`
	// UnderWay lists work that the current or former Drover began in the cluster and that a manager must end.
	UnderWay []string `json:"underWay,omitempty"`
	// Problems prevent the adoption.
	Problems []string `json:"problems,omitempty"`
	// Notes are additional information. Warnings are oddities of the configuration.
	Notes    []string          `json:"notes,omitempty"`
	Warnings []preview.Warning `json:"warnings,omitempty"`
	// UID and ResourceVersion of the inspected Cluster.
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion"`
	// Takeover are the planner's marks for the machines. Noted is the latest resource version of the inspected
	// Machines.
	Takeover planner.Takeover `json:"-"`
	Noted    string           `json:"-"`
	// Renew: the adopting user must become the author of the cluster's references to Secrets of other namespaces.
	Renew bool `json:"-"`
}

// AdoptedMachine is the effect on one machine.
type AdoptedMachine struct {
	preview.Machine
	// AsFound: the machine keeps its plan, byte for byte, until the user requests a change.
	AsFound bool `json:"asFound,omitempty"`
	// Next is the effect of the machine's first plan from Drover.
	Next planner.Class `json:"next"`
	// InitNode starts the cluster. JoinedTo is the server that the machine joined, according to its manager.
	InitNode bool   `json:"initNode,omitempty"`
	JoinedTo string `json:"joinedTo,omitempty"`
}

// Adoption reports what would happen to a cluster if an instance adopted it. Without an instance it uses the only
// instance with published settings. It also compares a cluster that the instance has already. The instance's server
// must have run once, because plans depend on its settings.
func (r *Reader) Adoption(ctx context.Context, name, instance string) (Adoption, error) {
	cluster, err := r.Cluster(name)
	if err != nil {
		return Adoption{}, err
	}
	out := Adoption{Cluster: r.namespace + "/" + name, Result: planner.ClassNone, UID: cluster.UID,
		ResourceVersion: cluster.ResourceVersion}
	if out.Instance, err = r.adopter(&out, instance); err != nil {
		return out, err
	}
	controlPlane, err := r.controlPlane(name)
	if err != nil {
		return out, err
	}
	core, err := r.hasCore(name)
	if err != nil {
		return out, err
	}
	out.setOwner(cluster, core || controlPlane != nil)
	if controlPlane != nil && cluster.Status.ClusterName == "" {
		cluster = cluster.DeepCopy() // moved here without its status: the control plane remembers the name
		cluster.Status.ClusterName = controlPlane.Spec.ManagementClusterName
	}
	if !out.comparable(cluster, core || controlPlane != nil, core && controlPlane != nil) {
		return out, nil
	}
	out.Activity = lastActivity(cluster, controlPlane, out.Owner == OwnerReleased)
	return out, r.compare(ctx, &out, cluster, controlPlane)
}

// comparable reports whether a cluster can be compared. Otherwise it adds a problem. begun means that a manager has
// made an RKEControlPlane or a CAPI Cluster for it, and made that it has made both.
func (a *Adoption) comparable(cluster *provv1.Cluster, begun, made bool) bool {
	problem := ""
	switch imported := cluster.Spec.RKEConfig == nil; {
	case cluster.DeletionTimestamp != nil:
		problem = "it is being deleted: wait until its manager has deleted it"
	case imported && begun:
		problem = "it was provisioned with spec.rkeConfig, which is missing now: set spec.rkeConfig again"
	case !topology.HasOwnManagement(cluster):
		problem = "its management cluster is older than it, as the names c-xxxxx and local show, and Drover cannot " +
			"manage such a cluster; " +
			"create a Cluster with another name, and import the cluster there"
	case cluster.Status.ClusterName != "" && (imported || made):
		return true
	case a.Owner == OwnerNone: // the server creates it
	case imported:
		problem = "its manager has not created all of it yet: it has no status.clusterName"
	default:
		problem = "its manager has not created all of it yet: its RKEControlPlane, its CAPI Cluster or its " +
			"status.clusterName is missing"
	}
	if problem != "" {
		a.Problems = append(a.Problems, problem)
	}
	return false
}

// hasCore reports whether a cluster has a CAPI Cluster.
func (r *Reader) hasCore(name string) (bool, error) {
	_, err := r.plans.Clusters.Cache().Get(r.namespace, name)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("read Cluster API cluster %s/%s: %w", r.namespace, name, err)
	}
	return err == nil, nil
}

// HasChildren reports whether a manager created objects for a cluster. An imported cluster has only objects of the
// management side.
func (r *Reader) HasChildren(name string) (bool, error) {
	controlPlane, err := r.controlPlane(name)
	if err != nil || controlPlane != nil {
		return controlPlane != nil, err
	}
	if core, err := r.hasCore(name); err != nil || core {
		return core, err
	}
	cluster, err := r.Cluster(name)
	return err == nil && cluster.Spec.RKEConfig == nil && cluster.Status.ClusterName != "", err
}

func (a *Adoption) setOwner(cluster *provv1.Cluster, hasChildren bool) {
	a.Mark = cluster.Annotations[rkev1.InstanceAnnotation]
	switch topology.Owner(cluster, a.Instance, hasChildren) {
	case topology.Ours:
		a.Owner = OwnerSame
	case topology.Unclaimed:
		a.Owner = OwnerNone
	case topology.Foreign:
		a.Owner = OwnerOther
		if a.Mark == "" {
			a.Owner, a.Mark = OwnerUnmarked, cluster.Annotations[rkev1.ReleasedByAnnotation]
			if a.Mark != "" {
				a.Owner = OwnerReleased
			}
		}
	}
}

// adopter finds the adopting instance and reads the settings of its server.
func (r *Reader) adopter(out *Adoption, instance string) (string, error) {
	published, err := r.clients.Core.ConfigMap().List(controllers.SettingsNamespace,
		metav1.ListOptions{LabelSelector: controllers.SettingsLabel + "=true"})
	if err != nil {
		return "", fmt.Errorf("read the settings that servers have published in namespace %s: %w",
			controllers.SettingsNamespace, err)
	}
	switch known := controllers.PublishedInstances(published.Items); {
	case len(known) == 0:
		return "", errors.New("no server of Drover has published its settings in namespace " +
			controllers.SettingsNamespace +
			"; start the server that will manage the cluster: it changes nothing before the adoption")
	case instance == "" && len(known) > 1:
		return "", fmt.Errorf(
			"several instances of Drover have published their settings: name the new manager of the cluster with "+
				"--to: %s", strings.Join(known, ", "))
	case instance == "":
		instance = known[0]
	case !slices.Contains(known, instance):
		return "", fmt.Errorf(
			"instance %q has not published its settings, only %s have: a server publishes them when it leads, and "+
				"only one instance leads in a management cluster; "+
				"stop the other instances, and start that one", instance, strings.Join(known, ", "))
	}
	r.settings, _ = controllers.PublishedSettings(published.Items, instance)
	if assumed := controllers.AssumedSettings(published.Items, instance); len(assumed) > 0 {
		out.Notes = append(out.Notes, "the server has published no valid values of "+strings.Join(assumed, ", ")+
			": this report assumes the defaults of these flags")
	}
	if r.opts.Override != nil {
		r.opts.Override(&r.settings)
	}
	return instance, nil
}

// compare fills in the effects. An imported cluster has no machines, only the objects that represent it on the
// management side.
func (r *Reader) compare(ctx context.Context, out *Adoption, cluster *provv1.Cluster,
	controlPlane *rkev1.RKEControlPlane) error {
	provisioned := cluster.Spec.RKEConfig != nil
	if provisioned {
		if err := r.references(ctx, out, cluster); err != nil || len(out.Problems) > 0 {
			return err
		}
	}
	in, problems, err := r.adopted(cluster, out.Instance, provisioned)
	if out.Problems = append(out.Problems, problems...); err != nil || len(problems) > 0 {
		return err
	}
	if provisioned {
		if err := r.compareMachines(out, in, cluster, controlPlane); err != nil {
			return err
		}
	}
	if err := r.changes(ctx, out, cluster); err != nil {
		return err
	}
	out.Problems = append(out.Problems, out.refused()...)
	return nil
}

// compareMachines fills in the effects on machines.
func (r *Reader) compareMachines(
	out *Adoption, in topology.Input, cluster *provv1.Cluster, controlPlane *rkev1.RKEControlPlane,
) error {
	given := preview.Input{After: in, Machines: map[string]preview.MachineFacts{}}
	if err := r.gather(&given, controlPlane); err != nil {
		return err
	}
	deployments, err := r.desired.Deployments(cluster)
	if err != nil {
		return err
	}
	if out.Noted, err = r.latestMachine(); err != nil {
		return err
	}
	if out.Owner == OwnerOther || out.Owner == OwnerReleased {
		out.UnderWay = planner.UnderWay(given.Snapshot)
	}
	out.Takeover = planner.TakeOver(given.Snapshot)
	out.Problems = append(out.Problems, out.Takeover.Problems...)
	snapshot := out.Takeover.With(given.Snapshot)
	report, next, err := preview.Takeover(preview.TakeoverInput{
		Cluster: in, Deployments: deployments, Snapshot: snapshot, Machines: given.Machines,
		Release: r.opts.Releases.Release,
	})
	if err != nil {
		return err
	}
	out.Result, out.Order, out.Warnings = report.Result, report.Order, report.Warnings
	out.Notes = append(out.Notes, report.Notes...)
	for _, line := range report.Machines {
		out.Machines = append(out.Machines, adoptedMachine(line, snapshot, next))
	}
	return nil
}

// adopted returns a cluster with the mark of an instance, completed as its server would, with everything that its
// objects derive from. It returns problems if the cluster is not valid. provisioned means that the cluster has a
// control plane.
func (r *Reader) adopted(cluster *provv1.Cluster, instance string, provisioned bool) (in topology.Input,
	problems []string, err error) {
	marked := cluster.DeepCopy()
	if marked.Annotations == nil {
		marked.Annotations = map[string]string{}
	}
	marked.Annotations[rkev1.InstanceAnnotation] = instance
	if in, err = r.desired.Input(marked); err != nil {
		return in, nil, err
	}
	refused, _ := provisioningcluster.Problems(in, provisioned)
	for _, problem := range refused {
		problems = append(problems, problem.Error())
	}
	if len(problems) > 0 {
		return in, problems, nil
	}
	prepared, err := topology.Prepare(marked, instance, in.Schemas)
	if prepared != nil {
		in.Cluster = prepared
	}
	return in, nil, err
}

// refused lists the problems of machines and objects.
func (a *Adoption) refused() []string {
	var out []string
	for _, m := range a.Machines {
		if m.Problem != "" {
			out = append(out, "machine "+m.Name+": "+m.Problem)
		}
	}
	for _, object := range a.Objects {
		if object.Problem != "" {
			out = append(out, object.Kind+" "+object.Name+" "+object.Problem)
		}
	}
	return out
}

func adoptedMachine(line preview.Machine, s planner.Snapshot, next map[string]planner.Class) AdoptedMachine {
	out := AdoptedMachine{Machine: line, Next: planner.ClassNone}
	if i := slices.IndexFunc(s.Machines, func(m planner.Machine) bool {
		return m.Name == line.Name
	}); i >= 0 && line.Name != "" {
		marks := s.Machines[i].Marks
		out.AsFound, out.InitNode, out.JoinedTo = marks.RenderVersion == planner.AsFound, marks.InitNode, marks.JoinedTo
		out.Next = next[line.Name]
	}
	return out
}
