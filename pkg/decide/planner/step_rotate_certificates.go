package planner

import (
	"encoding/json"
	"slices"
	"strings"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// stepRotateCertificates gives the nodes new certificates, one node after the other
// (docs/wire/planner.md#certificate-rotation). The status holds only the generation of the last rotation. Everything
// else is in its record.
func stepRotateCertificates(p *pass) verdict {
	o := &operation{pass: p, kind: kindCertificates}
	request := p.s.ControlPlane.Spec.RotateCertificates
	if request == nil {
		o.cancel()
		return goOn("no rotation of certificates is asked for")
	}
	if last, known := p.lastCertificates(); known && p.isRunning(kindCertificates) {
		return o.rotateCertificates(last)
	}
	if ended := p.certificatesEnded(); ended != "" {
		return goOn("the rotation of certificates that is asked for " + ended)
	}
	if why := p.certificatesNotNow(); why != "" {
		return goOn("a rotation of certificates is asked for, " + why)
	}
	return o.start(request)
}

// lastCertificates is the request of the last rotation.
func (p *pass) lastCertificates() (last rkev1.RotateCertificates, known bool) {
	record := p.record(kindCertificates)
	known = record.Request != "" && json.Unmarshal([]byte(record.Request), &last) == nil
	return last, known
}

// certificatesEnded is how the requested rotation has ended, empty when it has not.
func (p *pass) certificatesEnded() string {
	request := p.s.ControlPlane.Spec.RotateCertificates
	last, _ := p.lastCertificates()
	switch {
	case request.Generation == p.status.CertificateRotationGeneration:
		return "was done"
	case p.record(kindCertificates).State == rkev1.OperationStateFailed && last.Generation == request.Generation:
		return "has failed"
	}
	return ""
}

// certificatesNotNow is why a rotation cannot start now, empty when it can.
func (p *pass) certificatesNotNow() string {
	if !p.initialized() {
		return "but the cluster is not up"
	}
	return p.rotatesLater(kindCertificates)
}

// rotateCertificates works on the request as it was at the start, so that all nodes are treated alike.
func (o *operation) rotateCertificates(request rkev1.RotateCertificates) verdict {
	if problem := o.certificatesProblem(request); problem != "" {
		return o.fail(problem)
	}
	if v := o.pause(); v != nil {
		return *v
	}
	v := o.oneByOne("rotate", o.certificateOrder(request), func(m *machine) (task, string) {
		work := o.node(m).RotateCertificatesWork(m.have(), m.roles, request.Services, o.attempt())
		return task{m: m, plan: o.work(m, work), attempts: restartAttempts, disrupts: true, proves: true}, ""
	})
	if v != nil {
		return *v
	}
	o.status.CertificateRotationGeneration = request.Generation
	return o.succeed(o.leftOut())
}

// certificatesProblem is why a rotation cannot work, empty when it can. Without this check, a server would stop and
// stay down until its last attempt. A service that no machine has would be reported as rotated.
func (p *pass) certificatesProblem(request rkev1.RotateCertificates) string {
	runtime := distro.RuntimeOf(p.s.ControlPlane.Spec.KubernetesVersion)
	unknown := render.UnknownServices(runtime, request.Services)
	if len(unknown) == 0 {
		return ""
	}
	return runtime.Command() + " has no service " + strings.Join(unknown, ", ") + " with certificates"
}

// certificateOrder are the machines that get new certificates, in order.
func (p *pass) certificateOrder(request rkev1.RotateCertificates) []*machine {
	var machines []*machine
	for _, group := range []func(*machine) bool{
		func(m *machine) bool { return m.roles.OnlyETCD() },
		func(m *machine) bool { return m.roles.ETCD && m.roles.ControlPlane },
		func(m *machine) bool { return m.roles.OnlyControlPlane() },
		func(m *machine) bool { return m.roles.OnlyWorker() },
	} {
		machines = append(machines, p.collect(group, takesPart, func(m *machine) bool { return render.RotatesCertificates(m.roles, request.Services) })...)
	}
	return machines
}

// leftOut names machines that a rotation leaves out: a machine without a role has no service.
func (o *operation) leftOut() string {
	var notes []note
	for _, m := range slices.Concat(o.machines, o.unregistered) {
		if m.roles == (render.Roles{}) && !m.Deleting {
			notes = append(notes, note{name: m.Name})
		}
	}
	if len(notes) == 0 {
		return ""
	}
	return about("left out for they have no role:", notes)
}
