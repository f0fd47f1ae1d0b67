package crds

import (
	"testing"
)

// The limits of a token can be added, but a client that does not know them cannot remove them.
func TestClusterRegistrationToken_KeepsItsLimits(t *testing.T) {
	t.Parallel()
	v := validator(t, "clusterregistrationtokens.management.cattle.io")
	tests := map[string]struct {
		from, to string
		accepted bool
	}{
		"no limits":        {to: "{}", accepted: true},
		"all limits":       {to: "{roles: [etcd, control-plane, worker], maxHosts: 1000}", accepted: true},
		"no roles":         {to: "{roles: []}"},
		"an unknown role":  {to: "{roles: [master]}"},
		"a role twice":     {to: "{roles: [worker, worker]}"},
		"no hosts":         {to: "{maxHosts: 0}"},
		"too many hosts":   {to: "{maxHosts: 1001}"},
		"limits are added": {from: "{}", to: "{roles: [worker], maxHosts: 1}", accepted: true},
		"limits stay": {from: "{roles: [worker], maxHosts: 1}", to: "{roles: [worker], maxHosts: 1}",
			accepted: true},
		"another field changes":    {from: "{maxHosts: 1}", to: "{maxHosts: 1, ttl: 60}", accepted: true},
		"a role is added":          {from: "{roles: [worker]}", to: "{roles: [worker, etcd]}"},
		"the roles are removed":    {from: "{roles: [worker]}", to: "{}"},
		"the number changes":       {from: "{maxHosts: 1}", to: "{maxHosts: 2}"},
		"the number is removed":    {from: "{roles: [worker], maxHosts: 1}", to: "{roles: [worker]}"},
		"the roles get an order":   {from: "{roles: [worker, etcd]}", to: "{roles: [etcd, worker]}", accepted: true},
		"both limits are removed":  {from: "{roles: [worker], maxHosts: 1}", to: "{}"},
		"the roles become another": {from: "{roles: [worker]}", to: "{roles: [etcd]}"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			token := func(spec string) map[string]any {
				made := object(t, "metadata: {name: a, namespace: c-m-1}\nspec: "+spec)
				made["spec"].(map[string]any)["clusterName"] = "c-m-1"
				return made
			}
			errs := v.Create(t.Context(), token(test.to)).Errors
			if test.from != "" {
				errs = v.Update(t.Context(), token(test.from), token(test.to)).Errors
			}
			if (len(errs) == 0) != test.accepted {
				t.Errorf("want accepted %t, got %v", test.accepted, errs)
			}
		})
	}
}
