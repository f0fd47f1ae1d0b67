package diagnose

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// Names of conditions that the links read.
const (
	conditionConnected = mgmtv3.ClusterConditionConnected
	conditionReady     = provv1.ConditionReady
	conditionProbe     = clusterv1.ClusterRemoteConnectionProbeCondition
)

// warnings are conditions of the control plane that report problems while the cluster works.
var warnings = []string{planner.ConditionConfigurationUnderstood, planner.ConditionEtcdQuorum,
	planner.ConditionRenderVersions, planner.ConditionAgentsUpgraded}

// clusterLinks lead from the Cluster to what its machines depend on. A cluster that is being deleted needs only the
// links owner and pause.
func (w *World) clusterLinks() []Link {
	if w.Cluster == nil {
		return nil
	}
	links := []Link{w.owner()}
	if w.deleting() {
		return append(links, w.pause())
	}
	links = append(links, w.credential(), w.driver(), w.cluster(), w.management())
	if w.Cluster.Spec.RKEConfig == nil {
		return links // imported: Drover provisions nothing
	}
	return append(links, w.core(), w.pause(), w.infrastructure(), w.configuration())
}

func (w *World) clusterName() string { return "Cluster " + w.Namespace + "/" + w.Name }

func (w *World) owner() Link {
	l := link(LinkOwner, w.clusterName())
	mark := w.Cluster.Annotations[rkev1.InstanceAnnotation]
	// The command checks whether the former manager is alive, and writes the planner's marks to the machines. A mark
	// set by hand skips both.
	takeOver := "or adopt it: drover adopt " + w.Name + " -n " + w.Namespace
	switch released := w.Cluster.Annotations[rkev1.ReleasedByAnnotation]; {
	case mark == "" && released != "":
		return l.broken("instance "+released+" has released it, and no instance has adopted it since",
			"manage it with the instance that manages it now", takeOver).until("an adoption", "Cluster")
	case mark == "" && len(w.Machines) > 0:
		return l.broken("it has machines, but no mark: another manager has created them, so Drover does not change it",
			"manage it with the manager that created the machines", takeOver)
	case mark == "":
		return l.waiting(w, "no server has claimed it yet", w.Cluster.CreationTimestamp.Time, briefly, serverLogs()).
			until("the server", "Cluster")
	case w.Unread["settings"] == "" && len(w.Instances) > 0 && !contains(w.Instances, mark):
		return l.broken("it belongs to instance "+mark+", and the servers here are "+strings.Join(w.Instances, ", "),
			"start the server of that instance, with its --instance-id", takeOver)
	case w.Leads != "" && w.Leads != mark && w.leader().State == OK:
		return l.broken("it belongs to instance "+mark+", and "+w.Leads+
			" leads here: in a management cluster only one instance leads, except for servers inside other programs",
			"stop "+w.Leads+", so that instance "+mark+
				" leads; if that instance runs inside another program, see that program's log",
			"or hand it over: drover adopt "+w.Name+" -n "+w.Namespace+" --release, and adopt it with "+w.Leads).
			until("the other instance", "timer")
	}
	return l
}

func (w *World) credential() Link {
	l := link(LinkCredential, "credentials of clouds")
	if why := w.Unread["credentials"]; why != "" {
		return l.unknown(why)
	}
	for _, c := range w.Credentials {
		if !c.Exists {
			l.Object = "Secret " + c.Reference
			return l.broken("the credential that "+c.Field+" names does not exist", "create the Secret, or correct "+
				c.Field).saying(refusal(w.Cluster)).
				until("the Secret", "Secret (credential)", "Cluster")
		}
	}
	valid := conditions.Get(w.Cluster.Status.Conditions, provv1.ConditionCloudCredentialValid)
	if valid != nil && valid.Status == rkev1.ConditionFalse {
		return l.broken("a credential does not work", "write valid values into the Secret; Drover checks it at once").
			saying(valid).until("the Secret", "Secret (credential)", "Cluster")
	}
	return l
}

func (w *World) driver() Link {
	l := link(LinkDriver, "node drivers")
	if len(w.MissingProviders) > 0 {
		l.Object = "infrastructure provider of " + strings.Join(w.MissingProviders, ", ")
		said := refusal(w.Cluster)
		if said == nil { // the cluster is older than the loss of its provider
			said = conditions.Get(w.Cluster.Status.Conditions, planner.ConditionConfigurationUnderstood)
		}
		return l.broken("the API server does not serve the kind", "install the provider: "+
			topology.InstallProvider, "or correct apiVersion and kind in the Cluster").saying(said).
			until("the definition of the kind", "CustomResourceDefinition", "Cluster")
	}
	if why := w.Unread["nodedrivers"]; why != "" {
		return l.unknown(why)
	}
	for _, d := range w.Drivers {
		if found := w.oneDriver(d); found.State != OK {
			return found
		}
	}
	return l
}

func (w *World) oneDriver(d Driver) Link {
	l := link(LinkDriver, "NodeDriver "+d.Name)
	describe := "see its conditions: kubectl describe nodedrivers.management.cattle.io " + d.Name
	switch {
	case d.Driver == nil:
		return l.broken("the driver does not exist",
			"create a NodeDriver, or correct machineConfigRef.kind of the pool").saying(refusal(w.Cluster)).
			until("the driver", "NodeDriver")
	case !d.Driver.Spec.Active:
		return l.broken("it is not active", "activate it: kubectl patch nodedrivers.management.cattle.io "+
			d.Driver.Name+` --type=merge -p '{"spec":{"active":true}}'`).saying(refusal(w.Cluster)).
			until("the driver", "NodeDriver")
	}
	for _, kind := range []string{mgmtv3.NodeDriverConditionDownloaded, mgmtv3.NodeDriverConditionInstalled} {
		if c := conditions.Get(d.Driver.Status.Conditions, kind); c != nil && c.Status == rkev1.ConditionFalse {
			return l.broken("the installation failed",
				"correct spec.url and spec.checksum of the NodeDriver, or the connection from the server to that URL",
				describe).of(c).
				until("the download", "NodeDriver", "timer")
		}
	}
	created := d.Driver.CreationTimestamp.Time
	switch {
	case !driverschema.IsLocal(d.Driver.Spec.URL) && d.Driver.Status.AppliedURL == "":
		return l.waiting(w, "it is not downloaded yet", created, briefly, describe, serverLogs()).until("the download",
			"NodeDriver")
	case len(d.MissingKinds) > 0:
		return l.waiting(w, "the API server does not serve the kinds of its machines yet: "+
			strings.Join(d.MissingKinds, ", "), created, briefly, describe, serverLogs()).
			until("the CustomResourceDefinitions", "DynamicSchema", "CustomResourceDefinition")
	}
	return l
}

// refusal is the condition that says why Drover cannot apply the spec, nil if it can.
func refusal(cluster *provv1.Cluster) *rkev1.GenericCondition {
	for _, kind := range []string{provv1.ConditionCreated, provv1.ConditionRKECluster} {
		if c := conditions.Get(cluster.Status.Conditions, kind); c != nil && c.Status == rkev1.ConditionFalse {
			return c
		}
	}
	return nil
}

// cluster checks whether Drover accepted the user's specification.
func (w *World) cluster() Link {
	l := link(LinkCluster, w.clusterName())
	created := conditions.Get(w.Cluster.Status.Conditions, provv1.ConditionCreated)
	translated := conditions.Get(w.Cluster.Status.Conditions, provv1.ConditionRKECluster)
	if c := refusal(w.Cluster); c != nil {
		return l.broken("Drover cannot apply the spec",
			"correct the fields in the message; drover preview -f FILE checks the result").saying(c).
			until("an edit", "Cluster")
	}
	for _, c := range []*rkev1.GenericCondition{translated, created} { // the identity waits for the translation
		if c != nil && c.Status == rkev1.ConditionUnknown && c.Message != "" {
			return l.waiting(w, "its objects are being created", parse(c.LastUpdateTime), briefly,
				serverLogs()).saying(c).until("the objects in the message", "Cluster", "timer")
		}
	}
	return l
}

func (w *World) management() Link {
	l := link(LinkManagement, "management Cluster "+w.Cluster.Status.ClusterName)
	if why := w.Unread["management clusters"]; why != "" {
		return l.unknown(why)
	}
	if w.Management != nil {
		return l
	}
	if w.Cluster.Status.ClusterName == "" {
		l.Object = "management Cluster"
	}
	return l.waiting(w, "it does not exist", w.Cluster.CreationTimestamp.Time, briefly,
		serverLogs()).until("the server", "Cluster")
}

// core checks whether Cluster API's core reconciles the cluster.
func (w *World) core() Link {
	l := link(LinkCore, "Cluster API's core")
	switch {
	case w.Core == nil:
		return l.waiting(w, "the CAPI Cluster does not exist", w.Cluster.CreationTimestamp.Time, briefly,
			serverLogs()).until("the server", "Cluster")
	case w.Core.Status.ObservedGeneration == 0 && len(w.Core.Status.Conditions) == 0:
		return l.waiting(w, "no core of Cluster API has reconciled the CAPI Cluster", w.Core.CreationTimestamp.Time,
			briefly,
			"start the server with --capi=embedded, or install the core for --capi=external: clusterctl init",
			serverLogs()).
			until("the core", "Cluster (CAPI)")
	}
	return l
}

func (w *World) coreCondition(kind string) *metav1.Condition {
	if w.Core == nil {
		return nil
	}
	return conditions.GetMeta(w.Core.Status.Conditions, kind)
}

func (w *World) pause() Link {
	l := link(LinkPause, "CAPI Cluster "+w.Namespace+"/"+w.Name)
	if w.Core == nil {
		return l
	}
	paused := w.coreCondition(clusterv1.PausedCondition)
	operation := w.Core.Annotations[rkev1.PausedByOperationAnnotation]
	_, annotated := w.Core.Annotations[clusterv1.PausedAnnotation]
	if w.ControlPlane != nil {
		if _, also := w.ControlPlane.Annotations[clusterv1.PausedAnnotation]; also && !annotated {
			annotated, l.Object = true, "RKEControlPlane "+w.Namespace+"/"+w.Name
		}
	}
	switch {
	case operation != "":
		return l // the operation reports its progress and removes the pause
	case w.Core.Spec.Paused != nil && *w.Core.Spec.Paused:
		return l.broken("a user has paused it, so nothing changes", "end the pause: kubectl -n "+w.Namespace+
			" patch clusters.cluster.x-k8s.io "+w.Name+
			` --type=merge -p '{"spec":{"paused":false}}'`).ofMeta(paused).until("the end of the pause",
			"Cluster (CAPI)")
	case annotated:
		return l.broken("a user has paused it, so nothing changes", "remove the annotation "+clusterv1.PausedAnnotation+
			" away").ofMeta(paused).
			until("the end of the pause", "Cluster (CAPI)", "RKEControlPlane")
	}
	return l
}

func (w *World) infrastructure() Link {
	l := link(LinkInfrastructure, "RKECluster "+w.Namespace+"/"+w.Name)
	if ref := w.Cluster.Spec.RKEConfig.InfrastructureRef; ref != nil {
		l.Object = ref.Kind + " " + ref.Name
	} else if w.Infrastructure == nil {
		return l.waiting(w, "it does not exist", w.Cluster.CreationTimestamp.Time, briefly,
			serverLogs()).until("the server", "Cluster")
	}
	if w.Core == nil {
		return l
	}
	ready := w.Core.Status.Initialization.InfrastructureProvisioned
	if ready == nil || !*ready {
		return l.waiting(w, "the infrastructure of the cluster is not ready", w.Core.CreationTimestamp.Time, briefly,
			"see the logs of the controller of that kind", serverLogs()).
			ofMeta(w.coreCondition(clusterv1.ClusterInfrastructureReadyCondition)).until("the infrastructure",
			"Cluster (CAPI)")
	}
	return l
}

// ownReasons are reasons of waits that the control plane itself causes. No machine can end them.
var ownReasons = []planner.Reason{
	planner.ReasonNoCluster, planner.ReasonInvalidVersion, planner.ReasonTokensLost, planner.ReasonTokensUnusable,
	planner.ReasonRestoreRequired,
	planner.ReasonDesignatedAbsent, planner.ReasonRenderFailed, planner.ReasonPlanTooLarge,
	planner.ReasonVersionUnknown, planner.ReasonOperationFailed,
	planner.ReasonTokens, planner.ReasonAgentManifest, planner.ReasonAgentInvalid, planner.ReasonMissingRole,
}

// configuration checks what the planner needs before it can begin.
func (w *World) configuration() Link {
	l := link(LinkConfiguration, "RKEControlPlane "+w.Namespace+"/"+w.Name)
	switch {
	case w.ControlPlane == nil:
		return l.waiting(w, "it does not exist", w.Cluster.CreationTimestamp.Time, briefly,
			serverLogs()).until("the server", "Cluster")
	case w.Decision == nil || w.Decision.Wait == nil || !slices.Contains(ownReasons, w.Decision.Wait.Reason):
		return l
	case w.Decision.Wait.Reason == planner.ReasonMissingRole && len(w.Machines) < w.wanted():
		return l // the machines are being created
	}
	return w.wait(l)
}

// rollout reports the planner's other waits, mostly for a machine.
func (w *World) rollout(machinesWork bool) Link {
	l := link(LinkRollout, "RKEControlPlane "+w.Namespace+"/"+w.Name)
	if w.Decision == nil || w.Decision.Wait == nil {
		return l
	}
	return w.wait(l).behind(machinesWork)
}

// wait describes what the planner waits for.
func (w *World) wait(l Link) Link {
	wait := w.Decision.Wait
	ready := conditions.Get(w.ControlPlane.Status.Conditions, rkev1.ConditionReady)
	if ready != nil && ready.Status != rkev1.ConditionTrue {
		l = l.since(parse(ready.LastUpdateTime))
	}
	wakes := make([]string, 0, len(wait.Wakes)+1)
	for _, wake := range wait.Wakes {
		wakes = append(wakes, string(wake))
	}
	if wait.After != "" {
		wakes = append(wakes, "timer")
	}
	l.State, l.What = Waiting, "the planner waits"
	if wait.NeedsPerson {
		l.State, l.What = Broken, "the planner waits for a person"
	}
	l.Do = []string{w.explain()}
	return l.because(string(wait.Reason), wait.Message).until("the objects in the message", wakes...)
}
