package planner

import (
	"encoding/json"
	"slices"
	"strings"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// certificateRotation gives the nodes new certificates, one node after the other
// (docs/wire/planner.md#certificate-rotation). The status holds only the generation of the last rotation. Everything
// else is in its record.
type certificateRotation struct{ *operation }

func (o certificateRotation) state() (requestState, string) {
	_, known := o.last()
	switch {
	case o.spec().RotateCertificates == nil:
		return requestAbsent, ""
	case known && o.isRunning():
		return requestRunning, ""
	case o.ending() != "":
		return requestEnded, o.ending()
	}
	return requestNew, o.heldUp()
}

func (o certificateRotation) begin() any { return o.spec().RotateCertificates }

// last is the request of the last rotation.
func (o certificateRotation) last() (last rkev1.RotateCertificates, known bool) {
	known = json.Unmarshal([]byte(o.record().Request), &last) == nil
	return last, known
}

// ending is how the requested rotation has ended, empty when it has not.
func (o certificateRotation) ending() string {
	last, _ := o.last()
	switch {
	case o.spec().RotateCertificates.Generation == o.status.CertificateRotationGeneration:
		return "was done"
	case o.record().State == rkev1.OperationStateFailed && last.Generation == o.spec().RotateCertificates.Generation:
		return "has failed"
	}
	return ""
}

// heldUp is why a rotation cannot start now, empty when it can.
func (o certificateRotation) heldUp() string {
	if !o.initialized() {
		return "but the cluster is not up"
	}
	return o.rotationHeldUp()
}

// work follows the request as it was at the start, so that all nodes are treated alike.
func (o certificateRotation) work() verdict {
	request, _ := o.last()
	if o.restartsIn(&o.status) {
		if v := o.restart(request); v.stop {
			return v
		}
	}
	v, unready := o.awaitNodes(o.order(request))
	if v.stop {
		return v
	}
	return o.succeed(strings.Join(slices.DeleteFunc([]string{o.withoutRole(), unready}, isEmpty), "; "))
}

func isEmpty(text string) bool { return text == "" }

// restart brings the new certificates to the machines, each when the previous machine works with its own.
func (o certificateRotation) restart(request rkev1.RotateCertificates) verdict {
	if problem := o.problem(request); problem != "" {
		return o.fail(problem)
	}
	if v := o.pause(); v.stop {
		return v
	}
	return o.oneByOne("rotate", o.order(request), func(m *machine) task {
		work := o.node(m).RotateCertificatesWork(m.planInForce(), m.roles, request.Services, o.attempt())
		return task{m: m, plan: o.withWork(m, work), attempts: restartAttempts, disrupts: true, proves: true}
	})
}

// problem is why a rotation cannot work, empty when it can. Without this check, a server would stop and stay down until
// its last attempt. A service that no machine has would be reported as rotated.
func (o certificateRotation) problem(request rkev1.RotateCertificates) string {
	unknown := render.UnknownServices(o.runtime, request.Services)
	if len(unknown) == 0 {
		return ""
	}
	return o.runtime.Command() + " has no service " + strings.Join(unknown, ", ") + " with certificates"
}

// order lists the machines that get new certificates, in their order.
func (o certificateRotation) order(request rkev1.RotateCertificates) []*machine {
	rotates := func(m *machine) bool { return render.RotatesCertificates(m.roles, request.Services) }
	var machines []*machine
	for _, group := range []func(*machine) bool{
		func(m *machine) bool { return m.roles.OnlyETCD() },
		func(m *machine) bool { return m.roles.ETCD && m.roles.ControlPlane },
		func(m *machine) bool { return m.roles.OnlyControlPlane() },
		func(m *machine) bool { return m.roles.OnlyWorker() },
	} {
		machines = append(machines, o.collect(group, takesPart, rotates)...)
	}
	return machines
}

// withoutRole names machines that a rotation leaves out: a machine without a role has no service.
func (o certificateRotation) withoutRole() string {
	machines := only(o.all(), func(m *machine) bool { return m.roles == (render.Roles{}) && !m.Deleting })
	if len(machines) == 0 {
		return ""
	}
	return about("left out for they have no role:", notesOf(machines))
}
