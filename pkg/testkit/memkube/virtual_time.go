package memkube

import (
	"io"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/util/runtime"
)

// VirtualTime prepares the process for tests in testing/synctest. Call it in TestMain. It removes client-go's error
// handlers: the last one sleeps until a time of the wall clock, which is decades away in virtual time. It also silences
// the standard logger, which lasso and wrangler use.
func VirtualTime() {
	runtime.ErrorHandlers = nil
	logrus.SetOutput(io.Discard)
}
