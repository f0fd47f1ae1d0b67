package controllers

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/controllers/autoscaler"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
)

func (d Deps) registerAutoscalers(ctx context.Context, downstream Downstream, statuses *ownwrites.Statuses) error {
	c := d.Clients
	return autoscaler.Register(ctx, autoscaler.Deps{
		Clusters: c.Provisioning.Cluster(), ManagementClusters: c.Management.Cluster(), Machines: c.CAPI.Machine(),
		MachineDeployments: c.CAPI.MachineDeployment(), Secrets: c.Core.Secret(),
		ServiceAccounts: c.Core.ServiceAccount(), Roles: c.RBAC.Role(), Apply: c.Apply, Issue: d.issueToken,
		Downstream: downstream, Tunnel: d.tunnelOfClusters(), InstanceID: d.InstanceID, Statuses: statuses, Log: d.Log,
		Settings: autoscaler.Settings{Image: d.Settings.ClusterAutoscalerImage,
			Registry: d.Settings.SystemDefaultRegistry, ServerURL: d.Settings.ServerURL, CACerts: d.Settings.CACerts},
	})
}

// issueToken returns a new token of a service account.
func (d Deps) issueToken(ctx context.Context, account types.NamespacedName, life time.Duration) (string, error) {
	issued, err := d.Clients.Kubernetes.CoreV1().ServiceAccounts(account.Namespace).CreateToken(ctx, account.Name,
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(life.Seconds()))},
		}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("issue a token of service account %s: %w", account, err)
	}
	return issued.Status.Token, nil
}
