package cmd

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/drover-io/drover/pkg/kube/rival"
)

// The lease. A leader renews it every retryPeriod. It stops its controllers after renewals have failed for
// renewDeadline, 11 seconds after the last renewal.
//
// The other replicas read the lease every 1 to 2.2 times retryPeriod. They take it if they have seen no renewal for
// leaseDuration. That is about 15 seconds, and at most 17.4 seconds, after a leader has vanished. Their controllers
// have the rest of the promised 20 seconds to start.
//
// Running handlers can end in the time between the two limits. An API server that answers no replica for longer than
// renewDeadline ends the term, although no other replica can take the lease then.
const (
	leaseNamespace = rival.DroverNamespace
	leaseName      = rival.DroverLease
	leaseDuration  = 13 * time.Second
	renewDeadline  = 10 * time.Second
	retryPeriod    = time.Second
	// giveBackTimeout limits the release of the lease. A released lease saves the other replicas leaseDuration.
	giveBackTimeout = 5 * time.Second
	// firstPause and longestPause limit the pause between failed terms. A term longer than longestPause did not fail at
	// its start, so the pause starts again with firstPause.
	firstPause, longestPause = time.Second, time.Minute
)

// leadWhileHolding calls lead whenever this replica of the instance holds the lease. lead's context ends when the lease
// is lost. leadWhileHolding waits for lead to return before it requests the lease again. It returns when ctx ends.
func leadWhileHolding(ctx context.Context, config *rest.Config, instanceID string, log logrus.FieldLogger,
	lead func(context.Context) error) error {
	clients, err := kubernetes.NewForConfig(leaseConfig(config))
	if err != nil {
		return fmt.Errorf("create the client for the lease: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("read host name: %w", err)
	}
	lock := tellingLock{
		Interface: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: leaseName}, Client: clients.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: rival.Holder(host, uuid.NewString(), instanceID)},
		},
		others: &otherInstances{own: rival.Digest(instanceID), client: clients, log: log},
	}
	return leadTerms(ctx, log, func() error { return oneTerm(ctx, lock, log, lead) })
}

// leaseConfig is for requests about the lease only. They use their own connection, which no watch can fill. With
// HTTP/1.1, a hanging request closes its connection, so the next try does not use a dead connection.
func leaseConfig(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Timeout = renewDeadline / 2 // time for a second request if one hangs
	config.NextProtos = []string{"http/1.1"}
	return config
}

// leadTerms leads until ctx ends. A failed term does not end the program, because its endpoints still serve. Errors
// of the API server at the start of a term are usually temporary. The pause grows while terms fail.
func leadTerms(ctx context.Context, log logrus.FieldLogger, term func() error) error {
	for pause := firstPause; ctx.Err() == nil; {
		began := time.Now()
		err := term()
		if err == nil {
			pause = firstPause
			continue
		}
		if time.Since(began) > longestPause {
			pause = firstPause
		}
		log.WithError(err).WithField("pause",
			pause.String()).Error("The controllers ended with an error; Drover restarts them")
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
	return nil
}

// States of a term.
const (
	waiting int32 = iota
	leading
	over
)

// oneTerm waits for the lease and leads until it is lost. It renews the lease until lead has returned, and only then
// releases it. So no other replica starts its controllers while this replica's controllers still end.
func oneTerm(ctx context.Context, lock resourcelock.Interface, log logrus.FieldLogger,
	lead func(context.Context) error) error {
	election, endElection := context.WithCancel(context.WithoutCancel(ctx))
	defer endElection()
	var state atomic.Int32
	defer context.AfterFunc(ctx, func() {
		if state.CompareAndSwap(waiting, over) {
			endElection()
		}
	})()
	ended := make(chan error, 1)
	watched := &watchedLock{Interface: lock, taken: func(holder string) {
		if state.Load() == leading {
			log.WithField("holder", holder).Warn("Another replica has the lease")
			endElection()
		}
	}}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: watched, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Name: leaseName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(held context.Context) {
				if !state.CompareAndSwap(waiting, leading) {
					return
				}
				log.Info("This replica leads")
				held, stop := context.WithCancel(held)
				defer stop()
				defer context.AfterFunc(ctx, stop)()
				ended <- unlessOver(held, log, lead(held))
				endElection()
			},
			OnStoppedLeading: func() { log.Info("This replica does not lead") },
		},
	})
	if err != nil {
		return fmt.Errorf("set up the lease: %w", err)
	}
	elector.Run(election)
	var result error
	if !state.CompareAndSwap(waiting, over) && state.Load() != over {
		result = <-ended
	}
	// Needed even without a term: ctx may have ended while the lease was being taken.
	if err := releaseLease(context.WithoutCancel(ctx), lock); err != nil {
		log.WithError(err).Debug("The lease was not released, and will expire")
	}
	return result
}

// watchedLock reports when another replica has the lease. The library would continue to renew it until renewDeadline.
type watchedLock struct {
	resourcelock.Interface
	taken func(holder string)
}

// Get implements resourcelock.Interface.
func (l *watchedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != "" && record.HolderIdentity != l.Identity() {
		l.taken(record.HolderIdentity)
	}
	return record, raw, err
}

// unlessOver returns the error of a term. After the lease is lost, controllers can end with errors, for example because
// a cache did not fill in time. Such errors do not count as a failed term.
func unlessOver(held context.Context, log logrus.FieldLogger, err error) error {
	if held.Err() == nil {
		return err
	}
	if err != nil {
		log.WithError(err).Warn("Controllers ended with an error after the lease was lost")
	}
	return nil
}

// releaseLease releases the lease if this replica holds it.
func releaseLease(ctx context.Context, lock resourcelock.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, giveBackTimeout)
	defer cancel()
	record, _, err := lock.Get(ctx)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || record.HolderIdentity != lock.Identity() {
		return err
	}
	now := metav1.Now()
	return lock.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
	})
}
