package planner

import (
	"encoding/json"
	"slices"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/planner/render"
)

// stepRotateCertificates gives the nodes new certificates, one node after the other (spec/02 §6.3). It has no phase in the
// status but the generation that was done last; everything else is in its record.
func stepRotateCertificates(p *pass) verdict {
	o := &operation{pass: p, kind: kindCertificates}
	request, record := p.s.ControlPlane.Spec.RotateCertificates, p.record(kindCertificates)
	if request == nil {
		o.cancel()
		return goOn("no rotation of certificates is asked for")
	}
	var last rkev1.RotateCertificates
	if record.Request != "" && json.Unmarshal([]byte(record.Request), &last) == nil && p.isRunning(kindCertificates) {
		return o.rotateCertificates(last)
	}
	switch {
	case request.Generation == p.status.CertificateRotationGeneration:
		return goOn("the rotation of certificates that is asked for was done")
	case record.State == rkev1.OperationStateFailed && last.Generation == request.Generation:
		return goOn("the rotation of certificates that is asked for has failed")
	case !p.initialized():
		return goOn("a rotation of certificates is asked for, but the cluster is not up")
	}
	if why := p.rotatesLater(kindCertificates); why != "" {
		return goOn("a rotation of certificates is asked for, " + why)
	}
	return o.start(request)
}

// rotateCertificates works on the request as it was at the start, so that no node is treated otherwise than the one before.
func (o *operation) rotateCertificates(request rkev1.RotateCertificates) verdict {
	if v := o.pause(); v != nil {
		return *v
	}
	var machines []*machine
	for _, group := range []func(*machine) bool{
		func(m *machine) bool { return m.roles.OnlyETCD() },
		func(m *machine) bool { return m.roles.ETCD && m.roles.ControlPlane },
		func(m *machine) bool { return m.roles.OnlyControlPlane() },
		func(m *machine) bool { return m.roles.OnlyWorker() },
	} {
		machines = append(machines, o.collect(group, takesPart, func(m *machine) bool { return render.RotatesCertificates(m.roles, request.Services) })...)
	}
	v := o.oneByOne("rotate", machines, func(m *machine) (task, string) {
		work := o.node(m).RotateCertificatesWork(m.have(), m.roles, request.Services, o.attempt())
		return task{m: m, plan: o.work(m, work), attempts: restartAttempts, disrupts: true}, ""
	})
	if v != nil {
		return *v
	}
	o.status.CertificateRotationGeneration = request.Generation
	return o.succeed(o.leftOut())
}

// leftOut names machines that a rotation cannot be asked of: what has no role has no service either.
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
