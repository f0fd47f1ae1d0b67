package cmd

import (
	"cmp"
	"context"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/kube/rival"
)

// tellingLock tells who is seen to hold the lease.
type tellingLock struct {
	resourcelock.Interface
	others *otherInstances
}

// Get implements resourcelock.Interface.
func (l tellingLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.others.seen(ctx, record.HolderIdentity)
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l tellingLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.wrote(ctx, record, l.Interface.Create(ctx, record))
}

// Update implements resourcelock.Interface. Who leads renews without a look at who holds the lease.
func (l tellingLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.wrote(ctx, record, l.Interface.Update(ctx, record))
}

func (l tellingLock) wrote(ctx context.Context, record resourcelock.LeaderElectionRecord, err error) error {
	if err == nil {
		l.others.seen(ctx, record.HolderIdentity)
	}
	return err
}

// nameTimeout is how long the name of an instance may be looked for. A term whose lease another has taken ends after that.
const nameTimeout = time.Second

// otherInstances says in the log that another instance leads, once for each that does: a replica that waits for one of its own is what others are for, but one
// that waits for another instance may wait for ever. It is used by one goroutine at a time.
type otherInstances struct {
	// own is the digest of this replica's instance, told that of the instance which the log has last, empty when that is over.
	own, told string
	client    kubernetes.Interface
	log       logrus.FieldLogger
}

// seen takes notice of a holder of the lease. Nobody, and one of whom it is not known what instance they are of, change nothing.
func (o *otherInstances) seen(ctx context.Context, holder string) {
	switch digest := rival.InstanceOf(holder); digest {
	case "", o.told:
	case o.own:
		o.told = ""
	default:
		o.told = digest
		ctx, cancel := context.WithTimeout(ctx, nameTimeout)
		defer cancel()
		o.log.WithFields(logrus.Fields{"holder": holder, "instance": cmp.Or(controllers.InstanceWithDigest(ctx, o.client, digest), "with digest "+digest)}).
			Warn("Another instance of Drover leads, and only one does in a management cluster: this one manages nothing as long as the other runs. " +
				"To hand clusters over, let go of them (drover adopt --release), stop the other instance, and adopt them with this one")
	}
}
