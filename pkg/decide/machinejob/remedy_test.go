package machinejob_test

import (
	"strings"
	"testing"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/machinejob"
)

// launched is the end of the output of rancher-machine when EC2 refuses an instance, with the answer of EC2.
func launched(answer string) string {
	const status = "\n\tstatus code: 400, request id: req-0c7a16cf99a340e3a"
	return "Running pre-create checks...\nCreating machine...\n(demo) Launching instance...\n" +
		"(demo) Creating key pair: demo-GLPfU\n(demo) Error encountered during instance creation: error launching " +
		"instance: " + answer + strings.ReplaceAll(status, "\n", "\n(demo) ") +
		"\n(demo) Missing instance ID, this is likely due to a failure during machine creation\n" +
		"(demo) Deleting key pair: demo-GLPfU\n" +
		"error creating machine: error in driver during machine creation: error launching instance: " + answer + status
}

// TestDecide_KnownFailureHasARemedy: a failed machine and the ones that wait after it name the cause in the output of a
// driver, and what the user can do. The texts of EC2 are those of its API.
func TestDecide_KnownFailureHasARemedy(t *testing.T) {
	const (
		quota, higher = "A quota of the cloud account is used up", "request a higher quota from the cloud"
		refused       = "The cloud does not accept the access data"
	)
	for name, c := range map[string]struct {
		output string
		want   []string
	}{
		"the quota of processors in EC2": {launched("VcpuLimitExceeded: You have requested more vCPU capacity than " +
			"your current vCPU limit of 5 allows for the instance bucket that the specified instance type belongs " +
			"to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit."),
			[]string{quota + " (VcpuLimitExceeded)", higher}},
		"the quota of instances in EC2": {launched("InstanceLimitExceeded: You have requested more instances (1) " +
			"than your current instance limit of 0 allows for the specified instance type. Please visit " +
			"http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit."),
			[]string{quota + " (InstanceLimitExceeded)", higher}},
		"spot instances in EC2": {launched("MaxSpotInstanceCountExceeded: Max spot instance count exceeded"),
			[]string{quota + " (MaxSpotInstanceCountExceeded)"}},
		"a lack of hosts in EC2": {launched("InsufficientInstanceCapacity: We currently do not have sufficient " +
			"t3.large capacity in the Availability Zone you requested"),
			[]string{"no capacity left (InsufficientInstanceCapacity)",
				"another zone"}},
		"too many requests to EC2": {launched("RequestLimitExceeded: Request limit exceeded."),
			[]string{"sends too many requests to the cloud (RequestLimitExceeded)", "Drover tries again"}},
		"the quota of Azure": {"ERROR CODE: QuotaExceeded: Operation could not be completed as it results in " +
			"exceeding approved Total Regional Cores quota", []string{quota + " (QuotaExceeded)"}},
		"the quota of Google": {"googleapi: Error 403: Quota 'CPUS' exceeded. Limit: 24.0",
			[]string{quota + ": ", higher}},
		"the quota of OpenStack": {"Quota exceeded for instances: Requested 1, but already used 10", []string{quota}},
		"the limit of DigitalOcean": {"POST https://api.digitalocean.com/v2/droplets: 422 creating this/these " +
			"droplet(s) will exceed your droplet limit", []string{quota}},
		"an expired session in EC2": {launched("ExpiredToken: The security token included in the request is expired"),
			[]string{refused, "Write valid values into the Secret"}},
		"an unknown key in EC2": {launched("AuthFailure: AWS was not able to validate the provided access credentials"),
			[]string{refused}},
		"an image of another account": {"AuthFailure: Not authorized for images: [ami-1]", nil},
		"an expired secret of Azure": {"AADSTS7000222: The provided client secret keys for app '0' are expired.",
			[]string{refused}},
		"a revoked token of DigitalOcean": {"GET https://api.digitalocean.com/v2/account: 401 Unable to " +
			"authenticate you",
			[]string{refused}},
		"a wrong password of vSphere": {"ServerFaultCode: Cannot complete login due to an incorrect user name or " +
			"password.", []string{refused}},
		"another failure": {"no such zone", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := with(running, func(s *machinejob.Snapshot) {
				s.Create = machinejob.JobState{Name: s.Create.Name, Phase: machinejob.PhaseFailed, Message: c.output,
					Ended: now}
			})()
			status := machinejob.Decide(s).Status
			failed := conditions.Get(status.Conditions, rkev1.ConditionReady).Message
			waiting := with(fresh, func(s *machinejob.Snapshot) {
				s.PoolFailures, s.PoolTurn, s.PoolCause = 2, s.Now.Add(time.Minute), status.FailureMessage
			})()
			waits := conditions.Get(machinejob.Decide(waiting).Status.Conditions, rkev1.ConditionReady).Message
			for where, text := range map[string]string{
				"condition": failed, "end of the condition": machinejob.Shown(failed),
				"short condition":        machinejob.ShownIn(failed, status.FailureMessage),
				"condition during waits": waits,
			} {
				if c.want == nil && (strings.Contains(text, "quota") ||
					strings.Contains(text, "Secret") || !strings.Contains(text, c.output)) {
					t.Errorf("the %s of an unknown failure is %q", where, text)
				}
				for _, want := range c.want {
					if !strings.Contains(text, want) {
						t.Errorf("the %s is %q, want %q in it", where, text, want)
					}
				}
			}
			if status.FailureMessage != c.output {
				t.Errorf("the failure message is %q", status.FailureMessage)
			}
		})
	}
}

// TestDecide_RemovalWithAnExpiredCredential: the machine and its Cluster name the remedy. A quota needs none then.
func TestDecide_RemovalWithAnExpiredCredential(t *testing.T) {
	for output, want := range map[string]bool{
		strings.Repeat("much output ", 100) + "ExpiredToken: The security token included in the request is " +
			"expired": true,
		"QuotaExceeded": false,
	} {
		s := with(created, func(s *machinejob.Snapshot) {
			*s = deleting(*s)
			removeJob(s, 1, machinejob.PhaseFailed, output)
		})()
		d := machinejob.Decide(s)
		ready := conditions.Get(d.Status.Conditions, rkev1.ConditionReady)
		cluster := machinejob.ObstacleOf(s.Machine.Kind, s.Machine.Name, ready.Reason, ready.Message).Message
		for _, text := range []string{ready.Message, cluster} {
			if got := strings.Contains(text, "Write valid values into the Secret"); got != want || !want &&
				strings.Contains(text, "higher quota") {
				t.Errorf("%q has the remedy: %v, want %v", text, got, want)
			}
		}
		if d.Status.FailureMessage != output {
			t.Errorf("the failure message is %q", d.Status.FailureMessage)
		}
	}
}
