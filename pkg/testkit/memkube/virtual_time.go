package memkube

import (
	"io"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/util/runtime"
)

// VirtualTime prepares the process for tests in testing/synctest; call it in TestMain. client-go's last handler of errors sleeps
// until a moment on the wall clock, which is decades away in virtual time; it and client-go's own error lines are removed. The
// standard logger, which lasso and wrangler write to, is silenced.
func VirtualTime() {
	runtime.ErrorHandlers = nil
	logrus.SetOutput(io.Discard)
}
