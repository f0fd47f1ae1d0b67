package tunnel

import (
	"sync/atomic"
	"testing"
	"time"
)

// A session ends when its token was replaced or belongs to another cluster.
func TestServer_SessionsEndWithTheirTokens(t *testing.T) {
	for name, becomes := range map[string]string{"the token was replaced": "",
		"the token belongs to another cluster": "c-m-other"} {
		t.Run(name, func(t *testing.T) {
			var of atomic.Value
			of.Store(clusterID)
			d := newDrover(t, func(o *Options) {
				o.Recheck = 10 * time.Millisecond
				o.Cluster = func(token string) (string, bool) {
					id := of.Load().(string)
					return id, id != "" && token == registrationToken
				}
			})
			startAgent(t, d, newAPIServer(t, "one"), nil)
			d.awaitConnected(t)
			of.Store(becomes)
			d.await(t, "the end of the session", func() bool { return !d.Connected(clusterID) })
			of.Store(clusterID)
			d.awaitConnected(t)
		})
	}
}
