package cmd

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/drover-io/drover/pkg/kube/rival"
)

// Every replica renews its own Lease, so that all replicas know their number. Cluster agents keep a connection to each
// replica. The Leases also show a user that adopts a cluster which instances run here. The names and the label are
// stored.
const (
	replicaPrefix = "drover-replica-"
	replicaLabel  = rival.ReplicaLabel
	// replicaRenewal is how often a replica renews its Lease and counts the others.
	replicaRenewal = 10 * time.Second
	// replicaDuration is how long a replica counts without a renewal.
	replicaDuration = 30 * time.Second
	// replicaForgotten is when the other replicas delete an expired Lease.
	replicaForgotten = 10 * time.Minute
)

// replicas counts the replicas of one installation.
type replicas struct {
	leases coordinationclient.LeaseInterface
	// id is this replica's ID. set is the digest of the installation's identifier, which is the label's value.
	id, set string
	log     logrus.FieldLogger
	counted atomic.Int32
}

func newReplicas(leases coordinationclient.LeaseInterface, id, instanceID string, log logrus.FieldLogger) *replicas {
	return &replicas{leases: leases, id: id, set: rival.Digest(instanceID), log: log}
}

// count returns the number of replicas, including this one.
func (r *replicas) count() int { return max(1, int(r.counted.Load())) }

// run keeps this replica counted until ctx ends, and then deletes its Lease.
func (r *replicas) run(ctx context.Context) {
	failed := ""
	_ = wait.PollUntilContextCancel(ctx, replicaRenewal, true, func(ctx context.Context) (bool, error) {
		err := r.renew(ctx, time.Now())
		if err != nil && ctx.Err() == nil && err.Error() != failed {
			r.log.WithError(err).Warn("Cannot count the replicas; agents keep their connections")
		}
		failed = ""
		if err != nil {
			failed = err.Error()
		}
		return false, nil
	}) // ends with ctx only
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	if err := r.leases.Delete(ctx, r.name(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		r.log.WithError(err).Debug("The Lease of this replica was not deleted, and will expire")
	}
}

func (r *replicas) name() string { return replicaPrefix + r.id }

// renew renews this replica's Lease and counts the live replicas.
func (r *replicas) renew(ctx context.Context, now time.Time) error {
	if err := r.write(ctx, now); err != nil {
		return fmt.Errorf("renew Lease %s/%s: %w", leaseNamespace, r.name(), err)
	}
	found, err := r.leases.List(ctx, metav1.ListOptions{LabelSelector: replicaLabel + "=" + r.set})
	if err != nil {
		return fmt.Errorf("list Leases of replicas: %w", err)
	}
	alive := int32(0)
	for i := range found.Items {
		renewed := found.Items[i].Spec.RenewTime
		switch {
		case renewed != nil && now.Sub(renewed.Time) < replicaDuration:
			alive++
		case renewed == nil || now.Sub(renewed.Time) > replicaForgotten:
			if err := r.leases.Delete(ctx, found.Items[i].Name, metav1.DeleteOptions{}); err != nil &&
				!apierrors.IsNotFound(err) {
				return fmt.Errorf("delete Lease %s/%s of a deleted replica: %w", leaseNamespace, found.Items[i].Name,
					err)
			}
		}
	}
	r.counted.Store(alive)
	return nil
}

func (r *replicas) write(ctx context.Context, now time.Time) error {
	lease, err := r.leases.Get(ctx, r.name(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = r.leases.Create(ctx,
			r.renewed(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: r.name()}},
				now),
			metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	_, err = r.leases.Update(ctx, r.renewed(lease, now), metav1.UpdateOptions{})
	return err
}

func (r *replicas) renewed(lease *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	lease.Labels = map[string]string{replicaLabel: r.set}
	lease.Spec.HolderIdentity = &r.id
	lease.Spec.LeaseDurationSeconds = new(int32(replicaDuration / time.Second))
	lease.Spec.RenewTime = new(metav1.NewMicroTime(now))
	return lease
}
