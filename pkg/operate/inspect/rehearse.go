package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rancher/wrangler/v3/pkg/generic"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/controllers/bootstrap"
	"github.com/drover-io/drover/pkg/controllers/cluster"
	"github.com/drover-io/drover/pkg/controllers/clusteragent"
	"github.com/drover-io/drover/pkg/controllers/clusterregistrationtoken"
	"github.com/drover-io/drover/pkg/controllers/fleetcluster"
	"github.com/drover-io/drover/pkg/controllers/machineprovision"
	plancontroller "github.com/drover-io/drover/pkg/controllers/planner"
	"github.com/drover-io/drover/pkg/controllers/plansecret"
	"github.com/drover-io/drover/pkg/controllers/provisioningcluster"
	"github.com/drover-io/drover/pkg/controllers/rkecluster"
	"github.com/drover-io/drover/pkg/controllers/rkecontrolplane"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/planstore"
	"github.com/drover-io/drover/pkg/kube/rehearsal"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// rounds is the limit of passes until all controllers must be idle. In each pass, a controller sees what the others
// wrote.
const rounds = 8

// play runs the controllers of the server on a stage: they act, and the stage records their writes.
type play struct {
	*Reader
	// handlers receive no context
	ctx      context.Context
	name     string
	id       string
	instance string
	at       time.Time
	log      logrus.FieldLogger
	set      *applyset.Set
	plan     plancontroller.Deps
	// ours: the instance has the cluster already.
	ours bool
	// unread maps subjects with failed reads to the reason. Their writes are unknown. failed maps subjects that would
	// fail to the error.
	unread, failed map[subject]string
	// foreign are objects of the cluster that belong to other sets.
	foreign []applyset.Difference
}

// subject is what a controller manages, for a machine or for the cluster.
type subject struct{ what, machine string }

// clusterObjects are the objects of the sets that the Cluster owns. An adoption needs to know whether one of them
// belongs to another program.
var clusterObjects = subject{what: "the objects of the cluster and the management cluster"}

// rehearse runs the controllers on a cluster with the mark of an instance and the planner's marks on its machines,
// until they are idle. It returns all their writes. Its notes list what is unknown, because the user may not read
// something, and what would fail.
func (r *Reader) rehearse(ctx context.Context, of *provv1.Cluster, out *Adoption) ([]applyset.Difference, []string,
	error) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	at := r.serverNow()
	p := &play{
		Reader: r, ctx: ctx, name: of.Name, id: of.Status.ClusterName, instance: out.Instance, at: at, log: log,
		ours:   out.Owner == OwnerSame,
		unread: map[subject]string{}, failed: map[subject]string{},
	}
	p.stage.Begin(p.id, at)
	p.set = p.stage.Apply()
	p.plan = p.planner()
	if err := p.begin(out.Takeover.Marks); err != nil {
		return nil, nil, err
	}
	if why := p.others(); why != "" {
		out.Notes = append(out.Notes, why)
	}
	notes, err := p.perform(of.Spec.RKEConfig != nil)
	if err != nil {
		return nil, nil, err
	}
	if err := p.doubts(out); err != nil {
		return nil, nil, err
	}
	if why := p.unread[clusterObjects]; why != "" {
		out.Problems = append(out.Problems, clusterObjects.what+" may belong to another program: "+why)
	}
	found, err := p.stage.Differences()
	return slices.Concat(p.foreign, found), append(p.notes(), notes...), err
}

// perform runs the controllers until they are idle.
func (p *play) perform(provisioned bool) (notes []string, err error) {
	for range rounds {
		before := p.stage.Changes()
		if err := p.round(provisioned); err != nil {
			return nil, err
		}
		if err := p.ctx.Err(); err != nil { // not an error of the API server
			return nil, err
		}
		if p.stage.Changes() == before {
			return nil, nil
		}
	}
	return []string{fmt.Sprintf("the controllers did not settle after %d passes: they may write more than this list",
		rounds)}, nil
}

// begin writes the Cluster's mark and the planner's marks on the stage, like an adoption.
func (p *play) begin(marks map[string]planner.Marks) error {
	if p.ours {
		return nil
	}
	p.stage.ReadAll(clusterv1.GroupVersion.WithKind("Machine"))
	store := planstore.NewMachines(p.plan.Machines)
	for name, of := range marks {
		machine, err := p.plan.Machines.Cache().Get(p.namespace, name)
		if err == nil {
			_, err = store.Mark(machine, of)
		}
		if err != nil {
			return fmt.Errorf("read machine %s: %w", name, err)
		}
	}
	mark := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q,%q:null}}}`, rkev1.InstanceAnnotation, p.instance,
		rkev1.ReleasedByAnnotation)
	if _, err := p.plan.ProvisioningClusters.Patch(p.namespace, p.name, types.MergePatchType, mark); err != nil {
		return fmt.Errorf("read cluster %s/%s: %w", p.namespace, p.name, err)
	}
	p.stage.Assume()
	return nil
}

// try runs one handler. It records a failed read, because the handler's writes are unknown then.
func (p *play) try(of subject, act func() error) {
	delete(p.unread, of)
	delete(p.failed, of)
	unread, err := p.stage.Try(act)
	switch {
	case len(unread) > 0:
		p.unread[of] = strings.Join(unread, "; ")
	case err != nil:
		p.failed[of] = err.Error()
	}
	if foreign, ok := errors.AsType[*applyset.ForeignError](err); ok && of.machine == "" {
		p.foreign = foreign.Objects
	}
}

// round runs every controller once, in the order in which an object passes them.
func (p *play) round(provisioned bool) error {
	of, err := p.plan.ProvisioningClusters.Cache().Get(p.namespace, p.name)
	if err != nil {
		return err
	}
	p.try(clusterObjects, func() error {
		return provisioningcluster.Rehearse(p.ctx, p.provisioning(), of)
	})
	if of, err = p.plan.ProvisioningClusters.Cache().Get(p.namespace, p.name); err != nil {
		return err
	}
	p.try(subject{what: "the kubeconfig and the status of the management cluster"}, func() error {
		return cluster.Rehearse(p.ctx, p.management(), of)
	})
	p.try(subject{what: "the Secrets of registration tokens"}, p.tokens)
	p.try(subject{what: "the Secrets of the agent of the cluster"}, func() error { return p.agent(of) })
	p.try(subject{what: "the Fleet Cluster"}, p.fleet)
	if !provisioned {
		return nil
	}
	p.try(subject{what: "the fields of the RKECluster"}, p.infrastructure)
	machines, err := p.plan.Machines.Cache().List(p.namespace, labels.Everything())
	if err != nil {
		return fmt.Errorf("list machines: %w", err)
	}
	machines = slices.DeleteFunc(machines, func(m *clusterv1.Machine) bool { return m.Spec.ClusterName != p.name })
	p.readParts(machines)
	for _, machine := range machines {
		p.machine(machine)
	}
	p.try(subject{what: "the fields of the RKEControlPlane"}, p.controlPlane)
	return nil
}

// readParts reads what belongs to machines, one list for each kind.
func (p *play) readParts(machines []*clusterv1.Machine) {
	if len(machines) == 0 {
		return
	}
	p.stage.ReadAll(rkev1.SchemeGroupVersion.WithKind("RKEBootstrap"))
	p.stage.ReadAll(corev1.SchemeGroupVersion.WithKind("Secret"))
	p.stage.ReadAll(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	for _, machine := range machines {
		if ref := machine.Spec.InfrastructureRef; ref.APIGroup == driverschema.MachineGroup {
			p.stage.ReadAll(hostKind(ref))
		}
	}
}

func hostKind(ref clusterv1.ContractVersionedObjectReference) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: ref.APIGroup, Version: driverschema.Version, Kind: ref.Kind}
}

// machine runs the controllers for the parts of a machine.
func (p *play) machine(machine *clusterv1.Machine) {
	if ref := machine.Spec.Bootstrap.ConfigRef; ref.Kind == "RKEBootstrap" {
		p.try(subject{"accounts, rights and Secrets", machine.Name}, func() error {
			object, err := clients.Optional(p.plan.Bootstraps.Cache().Get(machine.Namespace, ref.Name))
			if err != nil || object == nil {
				return err
			}
			return bootstrap.Rehearse(p.ctx, p.bootstraps(), object)
		})
		p.try(subject{"reports", machine.Name}, func() error {
			secret, err := clients.Optional(p.plan.Secrets.Cache().Get(machine.Namespace, naming.PlanSecret(ref.Name)))
			if err != nil || secret == nil {
				return err
			}
			return plansecret.Rehearse(p.reports(), secret)
		})
	}
	if ref := machine.Spec.InfrastructureRef; ref.APIGroup == driverschema.MachineGroup {
		p.try(subject{partsOfHost, machine.Name}, func() error {
			host, err := clients.Optional(p.host(machine))
			if err != nil || host == nil {
				return err
			}
			return machineprovision.Rehearse(p.ctx, p.hosts(), host)
		})
	}
}

// controlPlane runs the controllers of the control plane.
func (p *play) controlPlane() error {
	object, err := clients.Optional(p.plan.ControlPlanes.Cache().Get(p.namespace, p.name))
	if err != nil || object == nil {
		return err
	}
	err = rkecontrolplane.Rehearse(rkecontrolplane.Deps{
		ControlPlanes: p.plan.ControlPlanes, Machines: p.plan.Machines, Clusters: p.plan.ProvisioningClusters,
		InstanceID: p.instance, Now: p.now,
	}, object)
	object, missing := p.plan.ControlPlanes.Cache().Get(p.namespace, p.name)
	if missing != nil {
		return errors.Join(err, missing)
	}
	return errors.Join(err, plancontroller.Rehearse(p.plan, object))
}

func (p *play) infrastructure() error {
	clusters := rehearsal.Kind(p.stage, p.clients.RKE.RKECluster())
	object, err := clients.Optional(clusters.Cache().Get(p.namespace, p.name))
	if err != nil || object == nil {
		return err
	}
	return rkecluster.Rehearse(rkecluster.Deps{
		RKEClusters: clusters, CAPIClusters: p.plan.Clusters, Clusters: p.plan.ProvisioningClusters,
		InstanceID: p.instance,
	}, object)
}

func (p *play) tokens() error {
	tokens := rehearsal.Kind(p.stage, p.clients.Management.ClusterRegistrationToken())
	all, err := tokens.Cache().List(p.id, labels.Everything())
	for _, token := range all {
		err = errors.Join(err, clusterregistrationtoken.Rehearse(clusterregistrationtoken.Deps{
			Tokens: tokens, ManagementClusters: p.plan.ManagementClusters, Clusters: p.plan.ProvisioningClusters,
			Secrets:    p.plan.Secrets,
			InstanceID: p.instance, Settings: p.settings.Registration(p.installsAgents()), Now: p.now, Log: p.log,
			InstallScriptSHA256: func() string { return installScript(token) },
		}, token))
	}
	return err
}

// installScript returns the digest of the install script in the command of a token, and another text without one. Only
// the server knows the present digest. A rehearsal lists fields, and not their values.
func installScript(token *mgmtv3.ClusterRegistrationToken) string {
	return cmp.Or(registration.PinnedScript(token.Status.InsecureNodeCommand), "of the server")
}

// installsAgents reports whether clusters get agents. A server that installs none publishes no image.
func (p *play) installsAgents() bool { return p.settings.ClusterAgentImage != "" }

func (p *play) agent(of *provv1.Cluster) error {
	if !p.installsAgents() {
		return nil
	}
	return clusteragent.Rehearse(p.ctx, clusteragent.Deps{
		Clusters: p.plan.ProvisioningClusters, ManagementClusters: p.plan.ManagementClusters,
		ControlPlanes: p.plan.ControlPlanes,
		Secrets:       p.plan.Secrets, InstanceID: p.instance, Log: p.log,
		Source: p.settings.AgentSource(p.settings.ClusterAgentImage),
	}, of)
}

func (p *play) fleet() error {
	of, err := p.plan.ProvisioningClusters.Cache().Get(p.namespace, p.name)
	if err != nil {
		return err
	}
	return fleetcluster.Rehearse(p.ctx, fleetcluster.Deps{
		Clusters: p.plan.ProvisioningClusters, ManagementClusters: p.plan.ManagementClusters, Secrets: p.plan.Secrets,
		Namespaces: rehearsal.Global(p.stage, p.clients.Core.Namespace()), Kinds: p.stage.Dynamic(), Apply: p.set,
		InstanceID: p.instance, Now: p.now,
	}, of)
}

// now is the time of the rehearsal.
func (p *play) now() time.Time { return p.at }

func (p *play) planner() plancontroller.Deps {
	deps := p.plans
	deps.InstanceID, deps.Log, deps.Access, deps.Now = p.instance, p.log, everything{}, p.now
	return deps
}

func (p *play) provisioning() provisioningcluster.Deps {
	deps := p.topology
	deps.Apply, deps.Access, deps.InstanceID, deps.Now = p.set, everything{}, p.instance, p.now
	deps.Namespaces = rehearsal.Global(p.stage, p.clients.Core.Namespace())
	deps.Registry = topology.Registry{URL: p.settings.SystemDefaultRegistry}
	return deps
}

func (p *play) management() cluster.Deps {
	return cluster.Deps{
		Clusters: p.plan.ProvisioningClusters, ManagementClusters: p.plan.ManagementClusters,
		ControlPlanes: p.plan.ControlPlanes,
		Machines:      p.plan.Machines, CAPIClusters: p.plan.Clusters, Secrets: p.plan.Secrets,
		Prober: silent{}, Tunnel: sessions{p.plan.ManagementClusters.Cache(), p.ours},
		Endpoints: p.settings.Endpoints(), TokenNamespace: controllers.SystemNamespace,
		InstanceID: p.instance, Now: p.now,
	}
}

func (p *play) bootstraps() bootstrap.Deps {
	c, s := p.clients, p.stage
	return bootstrap.Deps{
		Bootstraps: p.plan.Bootstraps, ControlPlanes: p.plan.ControlPlanes, Machines: p.plan.Machines,
		CAPIClusters: p.plan.Clusters,
		Clusters:     p.plan.ProvisioningClusters, Secrets: p.plan.Secrets,
		ServiceAccounts: rehearsal.Kind(s, c.Core.ServiceAccount()), Apply: p.set,
		Downstream: silent{}, Settings: p.settings.Bootstrap(), InstanceID: p.instance, Log: p.log, Now: p.now,
	}
}

func (p *play) reports() plansecret.Deps {
	return plansecret.Deps{
		InstanceID: p.instance, Secrets: p.plan.Secrets, Machines: p.plan.Machines,
		ControlPlanes:        p.plan.ControlPlanes.Cache(),
		ProvisioningClusters: p.plan.ProvisioningClusters.Cache(), Now: p.now,
	}
}

func (p *play) hosts() machineprovision.Deps {
	c, s := p.clients, p.stage
	return machineprovision.Deps{
		Dynamic: s.Dynamic(), Machines: p.plan.Machines, CAPIClusters: p.plan.Clusters,
		Clusters:   p.plan.ProvisioningClusters,
		Bootstraps: p.plan.Bootstraps, NodeDrivers: rehearsal.Global(s, c.Management.NodeDriver()),
		Jobs: rehearsal.Kind(s, c.Batch.Job()),
		Pods: rehearsal.Kind(s, c.Core.Pod()), Secrets: p.plan.Secrets, Apply: p.set,
		Roles: rehearsal.Kind(s, c.RBAC.Role()), RoleBindings: rehearsal.Kind(s, c.RBAC.RoleBinding()),
		ServiceAccounts: rehearsal.Kind(s, c.Core.ServiceAccount()),
		ApplySecrets:    s.Secrets(p.plan.Secrets), Access: everything{},
		Settings: p.settings.Machines, InstanceID: p.instance, Now: p.now,
	}
}

// everything allows every Secret. references has checked the Secrets before.
type everything struct{}

// Check implements the Access of the controllers.
func (everything) Check(*provv1.Cluster, types.NamespacedName, map[string]string) (access.Verdict, string) {
	return access.Allowed, ""
}

// OnChange implements the Access of the controllers.
func (everything) OnChange(func(types.NamespacedName)) {}

// silent are clusters without a connection. A rehearsal reads only the management cluster.
type silent struct{}

// Client implements the Downstream of the controllers.
func (silent) Client(context.Context, types.NamespacedName) (kubernetes.Interface, error) {
	return nil, proxy.ErrNotAvailable
}

// Answered implements cluster.Prober.
func (silent) Answered(types.NamespacedName) bool { return false }

// Forget implements cluster.Prober.
func (silent) Forget(types.NamespacedName) {}

// sessions are the agents that the instance last saw connected. Agents of other managers' clusters must connect to the
// instance first.
type sessions struct {
	management generic.NonNamespacedCacheInterface[*mgmtv3.Cluster]
	ours       bool
}

// Connected implements cluster.Tunnel.
func (s sessions) Connected(id string) bool {
	found, err := s.management.Get(id)
	return err == nil && s.ours && conditions.IsTrue(found.Status.Conditions, mgmtv3.ClusterConditionAgentDeployed) &&
		conditions.IsTrue(found.Status.Conditions, mgmtv3.ClusterConditionConnected)
}

// Subscribe implements cluster.Tunnel.
func (sessions) Subscribe(context.Context, func(string)) {}
