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

// Ownership says whose a cluster is, seen from the instance that would adopt it.
type Ownership string

// The ownerships.
const (
	// OwnerSame: the cluster is the instance's already.
	OwnerSame Ownership = "Same"
	// OwnerNone: nobody has made anything for it; the server takes it by itself.
	OwnerNone Ownership = "None"
	// OwnerOther: another Drover has marked it.
	OwnerOther Ownership = "Other"
	// OwnerReleased: the Drover that managed it has let go of it.
	OwnerReleased Ownership = "Released"
	// OwnerUnmarked: somebody who leaves no mark has made objects for it: Rancher, as a rule.
	OwnerUnmarked Ownership = "Unmarked"
)

// Adoption is what it would mean that an instance of Drover took a cluster over, by the code that then acts.
type Adoption struct {
	// Cluster is its namespace and name.
	Cluster string `json:"cluster"`
	// Owner says whose it is; Mark is the instance that is marked on it, or has let go of it.
	Owner Ownership `json:"owner"`
	Mark  string    `json:"mark,omitempty"`
	// Instance is who would take it.
	Instance string `json:"instance"`
	// Result is the strongest class of all that would happen to machines by itself.
	Result planner.Class `json:"result"`
	// Objects that would be written, by kind and name. Those that are as they shall be are not listed.
	Objects []ObjectChange `json:"objects,omitempty"`
	// Machines by pool and name.
	Machines []AdoptedMachine `json:"machines,omitempty"`
	// Order says in which order machines are changed.
	Order []preview.Stage `json:"order,omitempty"`
	// Activity is the last time that somebody wrote what only a manager writes, as far as the API server remembers.
	Activity *Activity `json:"activity,omitempty"`
	// UnderWay is what another Drover, which has the cluster or had it, is or was at in it, and would have to end.
	UnderWay []string `json:"underWay,omitempty"`
	// Problems stand in the way: nothing is adopted while there are some.
	Problems []string `json:"problems,omitempty"`
	// Notes are what else there is to know, Warnings oddities of the configuration.
	Notes    []string          `json:"notes,omitempty"`
	Warnings []preview.Warning `json:"warnings,omitempty"`
	// UID and ResourceVersion are the Cluster's that was looked at.
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion"`
	// Takeover are the notes that the machines are taken over with. Noted is the latest resource version of the Machines that were looked at.
	Takeover planner.Takeover `json:"-"`
	Noted    string           `json:"-"`
	// Renew: whoever adopts the cluster has to become the author of its references to Secrets of other namespaces.
	Renew bool `json:"-"`
}

// AdoptedMachine is what becomes of one machine.
type AdoptedMachine struct {
	preview.Machine
	// AsFound: the plan that the machine has is kept, byte for byte, until somebody wishes for a change.
	AsFound bool `json:"asFound,omitempty"`
	// Next is what its first plan of ours does then.
	Next planner.Class `json:"next"`
	// InitNode starts the cluster; JoinedTo is the server that the machine joined, as its manager noted it.
	InitNode bool   `json:"initNode,omitempty"`
	JoinedTo string `json:"joinedTo,omitempty"`
}

// Adoption says what would happen to a cluster if an instance adopted it, the only one that has published its settings if none is named. It compares
// a cluster that is the instance's already, too. The server of the instance has to have run once: what plans look like depends on its settings.
func (r *Reader) Adoption(ctx context.Context, name, instance string) (Adoption, error) {
	cluster, err := r.Cluster(name)
	if err != nil {
		return Adoption{}, err
	}
	out := Adoption{Cluster: r.namespace + "/" + name, Result: planner.ClassNone, UID: cluster.UID, ResourceVersion: cluster.ResourceVersion}
	if out.Instance, err = r.adopter(&out, instance); err != nil {
		return out, err
	}
	controlPlane, err := r.controlPlane(name)
	if err != nil {
		return out, err
	}
	made, err := r.made(name, controlPlane)
	if err != nil {
		return out, err
	}
	out.setOwner(cluster, made > 0)
	if controlPlane != nil && cluster.Status.ClusterName == "" {
		cluster = cluster.DeepCopy() // moved here without its status: it gets the name back that its control plane remembers
		cluster.Status.ClusterName = controlPlane.Spec.ManagementClusterName
	}
	if !out.comparable(cluster, made) {
		return out, nil
	}
	out.Activity = lastActivity(cluster, controlPlane, out.Owner == OwnerReleased)
	if cluster.Spec.RKEConfig == nil {
		return out, r.compareImported(ctx, &out, cluster)
	}
	if err := r.references(ctx, &out, cluster); err != nil || len(out.Problems) > 0 {
		return out, err
	}
	return out, r.compare(ctx, &out, cluster, controlPlane)
}

// allMade is how many objects a manager makes of a cluster that tell whose it is: an RKEControlPlane and a Cluster of Cluster API.
const allMade = 2

// made counts them.
func (r *Reader) made(name string, controlPlane *rkev1.RKEControlPlane) (int, error) {
	core, err := r.hasCore(name)
	made := 0
	for _, there := range []bool{core, controlPlane != nil} {
		if there {
			made++
		}
	}
	return made, err
}

// comparable reports that a cluster can be compared, and notes why not otherwise. made is how much there is of what its manager makes of it, which is
// nothing for a cluster that was imported.
func (a *Adoption) comparable(cluster *provv1.Cluster, made int) bool {
	problem := ""
	switch imported := cluster.Spec.RKEConfig == nil; {
	case cluster.DeletionTimestamp != nil:
		problem = "it is being deleted: let its manager finish that"
	case imported && made > 0:
		problem = "it was provisioned with spec.rkeConfig, which is not there any more: put it back"
	case !topology.HasOwnManagement(cluster):
		problem = "its management cluster came first, as names of the form c-xxxxx and local tell: Drover manages none of those; " +
			"make a Cluster of another name, and import the cluster into that"
	case cluster.Status.ClusterName != "" && (imported || made == allMade):
		return true
	case a.Owner == OwnerNone: // its server makes it
	case imported:
		problem = "its manager has not finished making it: it has no status.clusterName yet"
	default:
		problem = "its manager has not finished making it: it has no RKEControlPlane, no Cluster of Cluster API or no status.clusterName yet"
	}
	if problem != "" {
		a.Problems = append(a.Problems, problem)
	}
	return false
}

// hasCore reports whether a cluster has one of Cluster API's.
func (r *Reader) hasCore(name string) (bool, error) {
	_, err := r.plans.Clusters.Cache().Get(r.namespace, name)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("read Cluster API cluster %s/%s: %w", r.namespace, name, err)
	}
	return err == nil, nil
}

// HasChildren reports whether somebody made objects for a cluster. Of one that was imported they are those of the management side.
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

// compareImported fills in what would be done for a cluster that was imported: there are no machines, and of objects only those by which the
// management side knows it.
func (r *Reader) compareImported(ctx context.Context, out *Adoption, cluster *provv1.Cluster) error {
	in, problems, err := r.adopted(cluster, out.Instance, false)
	if out.Problems = append(out.Problems, problems...); err != nil || len(problems) > 0 {
		return err
	}
	if err := r.changes(ctx, out, cluster, in); err != nil {
		return err
	}
	out.Problems = append(out.Problems, out.refused()...)
	return nil
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

// adopter finds the instance that takes the cluster, and learns the settings of its server.
func (r *Reader) adopter(out *Adoption, instance string) (string, error) {
	published, err := r.clients.Core.ConfigMap().List(controllers.SettingsNamespace, metav1.ListOptions{LabelSelector: controllers.SettingsLabel + "=true"})
	if err != nil {
		return "", fmt.Errorf("read the settings that servers have published in namespace %s: %w", controllers.SettingsNamespace, err)
	}
	switch known := controllers.PublishedInstances(published.Items); {
	case len(known) == 0:
		return "", errors.New("no server of Drover has published its settings in namespace " + controllers.SettingsNamespace +
			"; start the one that shall manage the cluster, which only watches until then")
	case instance == "" && len(known) > 1:
		return "", fmt.Errorf("several instances of Drover have published their settings: name the one that shall manage the cluster with --to: %s", strings.Join(known, ", "))
	case instance == "":
		instance = known[0]
	case !slices.Contains(known, instance):
		return "", fmt.Errorf("no server of instance %q has published its settings, which it does when it leads, known are %s: only one leads in a management cluster; "+
			"stop the others, and start that one", instance, strings.Join(known, ", "))
	}
	r.settings, _ = controllers.PublishedSettings(published.Items, instance)
	if assumed := controllers.AssumedSettings(published.Items, instance); len(assumed) > 0 {
		out.Notes = append(out.Notes, "the server has not published, or not in a form that is understood, "+strings.Join(assumed, ", ")+": the defaults of these flags are assumed")
	}
	if r.opts.Override != nil {
		r.opts.Override(&r.settings)
	}
	return instance, nil
}

// compare fills in what would be done.
func (r *Reader) compare(ctx context.Context, out *Adoption, cluster *provv1.Cluster, controlPlane *rkev1.RKEControlPlane) error {
	in, problems, err := r.adopted(cluster, out.Instance, true)
	if out.Problems = append(out.Problems, problems...); err != nil || len(problems) > 0 {
		return err
	}
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
		Cluster: in, Deployments: deployments, Snapshot: snapshot, Machines: given.Machines, Release: r.opts.Releases.Release,
	})
	if err != nil {
		return err
	}
	out.Result, out.Order, out.Warnings = report.Result, report.Order, report.Warnings
	out.Notes = append(out.Notes, report.Notes...)
	for _, line := range report.Machines {
		out.Machines = append(out.Machines, adoptedMachine(line, snapshot, next))
	}
	if err := r.changes(ctx, out, cluster, in); err != nil {
		return err
	}
	out.Problems = append(out.Problems, out.refused()...)
	return nil
}

// adopted is a cluster with the mark of an instance, completed as its server would, with all that its objects follow from; or what is wrong with it.
// provisioned: it has a control plane.
func (r *Reader) adopted(cluster *provv1.Cluster, instance string, provisioned bool) (in topology.Input, problems []string, err error) {
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

// refused are the problems of machines and objects.
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
	if i := slices.IndexFunc(s.Machines, func(m planner.Machine) bool { return m.Name == line.Name }); i >= 0 && line.Name != "" {
		marks := s.Machines[i].Marks
		out.AsFound, out.InitNode, out.JoinedTo = marks.RenderVersion == planner.AsFound, marks.InitNode, marks.JoinedTo
		out.Next = next[line.Name]
	}
	return out
}
