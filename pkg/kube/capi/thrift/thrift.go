package thrift

import (
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/runtime"
)

// Options configure a Thrift. All are required.
type Options struct {
	// Scheme has the kinds that reconcilers read as Go types.
	Scheme *runtime.Scheme
	// Log receives a line when caches do not catch up.
	Log logrus.FieldLogger
}

// Thrift is what the parts for one manager share: the caches of the manager, and the versions of its writes.
type Thrift struct {
	scheme *runtime.Scheme
	log    logrus.FieldLogger
	caches caches
	writes writes
}

// New returns a Thrift for one manager.
func New(opts Options) *Thrift {
	return &Thrift{scheme: opts.Scheme, log: opts.Log, writes: writes{now: time.Now}}
}
