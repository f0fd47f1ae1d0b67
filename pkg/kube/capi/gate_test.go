package capi

import (
	"errors"
	"testing"

	"sigs.k8s.io/cluster-api/feature"
)

// Cluster API's gate is off while thrifty cores exist. A core with another pace is refused meanwhile.
func TestGate(t *testing.T) {
	enabled := func() bool { return feature.Gates.Enabled(feature.ReconcilerRateLimiting) }
	if !enabled() {
		t.Fatal("Cluster API no longer enables the gate: compare its controllers with package thrift")
	}
	var g gate
	enter := func(thrifty bool) func() {
		leave, err := g.enter(thrifty)
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	leave := enter(false)
	if _, err := g.enter(true); !errors.Is(err, errPaces) || !enabled() {
		t.Errorf("with a plain core: error %v, gate enabled %t", err, enabled())
	}
	leave()
	leave()
	first, second := enter(true), enter(true)
	if _, err := g.enter(false); !errors.Is(err, errPaces) {
		t.Errorf("with thrifty cores: error %v", err)
	}
	first()
	first()
	if enabled() {
		t.Error("the gate is enabled while a thrifty core exists")
	}
	second()
	if !enabled() {
		t.Error("the gate stays off")
	}
	enter(false)()
}
