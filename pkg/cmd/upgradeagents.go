package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/kube/clients"
)

func newUpgradeCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Upgrade a cluster, or its node agents",
	}
	cmd.AddCommand(newUpgradeAgentsCommand(environ, &inspectOptions{}),
		newUpgradeClusterCommand(environ, &inspectOptions{}))
	return cmd
}

// upgradeOptions are the flags of drover upgrade agents in addition to inspectOptions.
type upgradeOptions struct {
	*inspectOptions
	wait bool
	now  func() time.Time
}

func newUpgradeAgentsCommand(environ []string, o *inspectOptions) *cobra.Command {
	u := &upgradeOptions{inspectOptions: o, now: time.Now}
	cmd := &cobra.Command{
		Use:   "agents [CLUSTER]",
		Short: "Upgrade the node agents of a cluster, or of all clusters of a namespace",
		Long: `Upgrade the node agents of a cluster, or of all clusters of a namespace.

An upgrade of Drover changes no node. This command requests that the node agents become those of the
server, with the server's present address and authority, and with the cluster's variables. The server
begins with one machine, and continues with a tenth of the machines at a time. It stops when an agent
does not report. Then the node goes back to its former agent. Kubernetes does not restart.

The command records the request on the Cluster, in the annotation drover.io/upgrade-agents. Every
request is a new one: use the command again after you have solved the problem of a failed upgrade.

The command uses your permissions: you must be allowed to patch the Cluster.`,
		Example: `  # upgrade the agents of one cluster, and wait until they have reported
  drover upgrade agents demo --wait

  # upgrade the agents of all clusters of a namespace
  drover upgrade agents -n fleet-default`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completing(environ, o.clusterNames),
		PreRunE:           func(cmd *cobra.Command, _ []string) error { return o.complete(cmd, environ) },
		RunE:              u.run,
	}
	o.addFlags(cmd, environ)
	cmd.Flags().BoolVar(&u.wait, "wait", false, "return after all agents have reported")
	return cmd
}

func (o *upgradeOptions) run(cmd *cobra.Command, args []string) error {
	c, err := o.writer()
	if err != nil {
		return err
	}
	defer c.Stop()
	namespace, names := o.inNamespace(), args
	if len(names) == 0 {
		list, err := c.Provisioning.Cluster().List(namespace, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list clusters of %s: %w", namespace, err)
		}
		for i := range list.Items {
			if cluster := &list.Items[i]; cluster.Spec.RKEConfig != nil && cluster.DeletionTimestamp == nil {
				names = append(names, cluster.Name)
			}
		}
	}
	request := o.now().UTC().Format(time.RFC3339)
	var problems []error
	for _, name := range names {
		if err := requestAgents(c.Provisioning.Cluster(), namespace, name, request); err != nil {
			problems = append(problems, err)
			continue
		}
		fmt.Fprintf(cmd.OutOrStdout(), "cluster %s/%s: the upgrade of the node agents is requested\n", namespace, name)
		if o.wait {
			problems = append(problems, awaitAgents(cmd.Context(), c, namespace, name, request))
		}
	}
	return errors.Join(problems...)
}

// requestAgents records a request on the Cluster. It refuses Clusters without machines of their own.
func requestAgents(clusters clusterPatcher, namespace, name, request string) error {
	cluster, err := clusters.Get(namespace, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read cluster %s/%s: %w", namespace, name, err)
	}
	if cluster.Spec.RKEConfig == nil {
		return fmt.Errorf("cluster %s/%s is imported: it has no node agents", namespace, name)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{rkev1.AgentUpgradeAnnotation: request},
	}})
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	if _, err := clusters.Patch(namespace, name, types.MergePatchType, patch); err != nil {
		return fmt.Errorf("write the request to cluster %s/%s: %w", namespace, name, err)
	}
	return nil
}

// awaitAgents returns when all machines have answered the request.
func awaitAgents(ctx context.Context, c *clients.Clients, namespace, name, request string) error {
	ticker := time.NewTicker(rollInterval)
	defer ticker.Stop()
	for {
		controlPlane, err := c.RKE.RKEControlPlane().Get(namespace, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read the control plane of cluster %s/%s: %w", namespace, name, err)
		}
		machines, err := c.CAPI.Machine().List(namespace,
			metav1.ListOptions{LabelSelector: clusterv1.ClusterNameLabel + "=" + name})
		if err != nil {
			return fmt.Errorf("list machines of cluster %s/%s: %w", namespace, name, err)
		}
		if done, err := agentsDone(controlPlane, machines.Items, request); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the agents of cluster %s/%s: %w", namespace, name, ctx.Err())
		case <-ticker.C:
		}
	}
}

// agentsDone reports that all machines have answered a request. The error says which machines failed.
func agentsDone(controlPlane *rkev1.RKEControlPlane, machines []clusterv1.Machine, request string) (bool, error) {
	answered, all := 0, 0
	for i := range machines {
		if machines[i].DeletionTimestamp != nil {
			continue
		}
		all++
		if render.ParseAgentPin(machines[i].Annotations[rkev1.AgentPinAnnotation]).Command == request {
			answered++
		}
	}
	condition := conditions.Get(controlPlane.Status.Conditions, planner.ConditionAgentsUpgraded)
	switch {
	case answered == 0 && all > 0, condition == nil:
		return all == 0, nil
	case condition.Status == rkev1.ConditionFalse:
		return false, fmt.Errorf("cluster %s/%s: %s", controlPlane.Namespace, controlPlane.Name, condition.Message)
	}
	return answered == all && condition.Status == rkev1.ConditionTrue, nil
}
