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

// tellingLock reports the holder of the lease.
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

// Update implements resourcelock.Interface. A leader renews without reading the holder first.
func (l tellingLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.wrote(ctx, record, l.Interface.Update(ctx, record))
}

func (l tellingLock) wrote(ctx context.Context, record resourcelock.LeaderElectionRecord, err error) error {
	if err == nil {
		l.others.seen(ctx, record.HolderIdentity)
	}
	return err
}

// nameTimeout limits the lookup of an instance's name. The term of a lost lease ends only after the lookup.
const nameTimeout = time.Second

// otherInstances logs once for each other instance that leads. A replica that waits for its own instance is a normal
// standby. A replica that waits for another instance may wait forever. It is not safe for concurrent use.
type otherInstances struct {
	// own is the digest of this replica's instance. told is the digest of the instance that was logged last, empty
	// after this instance has led again.
	own, told string
	client    kubernetes.Interface
	log       logrus.FieldLogger
}

// seen records a holder of the lease. An empty holder, or one of an unknown instance, changes nothing.
func (o *otherInstances) seen(ctx context.Context, holder string) {
	switch digest := rival.InstanceOf(holder); digest {
	case "", o.told:
	case o.own:
		o.told = ""
	default:
		o.told = digest
		ctx, cancel := context.WithTimeout(ctx, nameTimeout)
		defer cancel()
		o.log.WithFields(logrus.Fields{"holder": holder,
			"instance": cmp.Or(controllers.InstanceWithDigest(ctx, o.client, digest), "with digest "+digest)}).
			Warn("Another instance of Drover leads. Only one instance leads in a management cluster, so this one " +
				"manages nothing while the other runs. " +
				"To hand clusters over, release them (drover adopt --release), stop the other instance, and adopt " +
				"them with this one")
	}
}
