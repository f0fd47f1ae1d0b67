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

// The lease. A leader renews it every retryPeriod, and stops its controllers when that has failed for renewDeadline: 11 seconds after the last renewal. The
// others look at it every retryPeriod, or up to 2.2 times that, and take it when they have seen no renewal for leaseDuration: 17.4 seconds after a leader has
// vanished at the latest, and about 15 as a rule, which leaves their controllers time to start within the 20 seconds that are promised. What is between the two
// is for handlers that still end; an API server that answers nobody for longer than renewDeadline ends the term, although nobody else can take the lease then.
const (
	leaseNamespace = rival.DroverNamespace
	leaseName      = rival.DroverLease
	leaseDuration  = 13 * time.Second
	renewDeadline  = 10 * time.Second
	retryPeriod    = time.Second
	// giveBackTimeout is how long giving the lease back may take, which saves the others leaseDuration.
	giveBackTimeout = 5 * time.Second
	// firstPause and longestPause are between terms that failed. A term of longestPause was none that failed at its start.
	firstPause, longestPause = time.Second, time.Minute
)

// leadWhileHolding calls lead whenever this replica, which is of an instance, holds the lease, with a context that ends when the lease is lost, and waits
// for lead to return before it asks for the lease again. It returns when ctx ends.
func leadWhileHolding(ctx context.Context, config *rest.Config, instanceID string, log logrus.FieldLogger, lead func(context.Context) error) error {
	clients, err := kubernetes.NewForConfig(leaseConfig(config))
	if err != nil {
		return fmt.Errorf("make client of the lease: %w", err)
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
	return termAfterTerm(ctx, log, func() error { return oneTerm(ctx, lock, log, lead) })
}

// leaseConfig is for requests about the lease alone. They have a connection of their own, which no watch fills; and with HTTP/1.1 one that does not
// answer is given up with its request, so that the next try is not made through a connection that is dead.
func leaseConfig(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Timeout = renewDeadline / 2 // a request that hangs leaves time for another
	config.NextProtos = []string{"http/1.1"}
	return config
}

// termAfterTerm leads until ctx ends. A term that failed is no reason to end the program: its endpoints serve, and what the API server refuses or does
// not answer at the start of a term heals as a rule. The pauses grow while term after term fails.
func termAfterTerm(ctx context.Context, log logrus.FieldLogger, term func() error) error {
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
		log.WithError(err).WithField("pause", pause.String()).Error("Controllers ended with an error and are started again")
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

// oneTerm waits for the lease and leads until it is lost. The lease is renewed until lead has returned and only then given
// back: no other replica starts its controllers while ours still end.
func oneTerm(ctx context.Context, lock resourcelock.Interface, log logrus.FieldLogger, lead func(context.Context) error) error {
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
			log.WithField("holder", holder).Warn("Another has the lease")
			endElection()
		}
	}}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: watched, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, Name: leaseName,
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
	// Also when nobody led: the end may have come while the lease was being taken.
	if err := giveBack(context.WithoutCancel(ctx), lock); err != nil {
		log.WithError(err).Debug("The lease was not given back and runs out by itself")
	}
	return result
}

// watchedLock tells when it is seen that another has the lease. The library goes on trying to renew it then, until renewDeadline.
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

// unlessOver is the error with which a term ended. Once the lease is lost, controllers may end with errors, such as that their caches could not be
// filled in time; that is no reason to end the program, whose endpoints serve.
func unlessOver(held context.Context, log logrus.FieldLogger, err error) error {
	if held.Err() == nil {
		return err
	}
	if err != nil {
		log.WithError(err).Warn("Controllers ended with an error after the lease was lost")
	}
	return nil
}

// giveBack frees the lease if it is ours.
func giveBack(ctx context.Context, lock resourcelock.Interface) error {
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
