package fakeagent

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/testkit/packed"
)

// Drover's readers of driver state must understand the state that the fake leaves.
func TestStateArchive_IsReadByItsReaders(t *testing.T) {
	held, err := stateArchive(jobArguments{driver: "sim", instance: "demo-1", hostname: "demo-1"}, "127.64.0.2")
	if err != nil {
		t.Fatal(err)
	}
	driver, err := render.DecodeDriver(held)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&render.Driver{Name: "sim", IPAddress: "127.64.0.2"}, driver); diff != "" {
		t.Errorf("driver differs (-want +got):\n%s", diff)
	}
	empty := packed.Archive(nil)
	if !machinejob.StateHolds(held) || machinejob.StateHolds(empty) {
		t.Errorf("want a machine only in the first archive, got %t and %t", machinejob.StateHolds(held),
			machinejob.StateHolds(empty))
	}
}

func TestArgumentsOf(t *testing.T) {
	tests := map[string]struct {
		args    []string
		want    jobArguments
		wantErr string
	}{
		"create": {
			args: []string{"--driver-download-url=", "--secret-namespace=ns", "--secret-name=s", "create",
				"--driver=sim", "--sim-cpu=2", "--sim-fast", "demo-1"},
			want: jobArguments{stateSecret: "s", driver: "sim", hostname: "demo-1", instance: "demo-1"},
		},
		"create with another host name": {
			args: []string{"--secret-name=s", "create", "--driver=sim", "--hostname-override=short", "demo-1"},
			want: jobArguments{stateSecret: "s", driver: "sim", hostname: "short", instance: "demo-1"},
		},
		"remove": {args: []string{"--secret-name=s", "rm", "-y", "--update-config", "demo-1"},
			want: jobArguments{stateSecret: "s", hostname: "demo-1", instance: "demo-1"}},
		"no state Secret": {args: []string{"rm", "-y", "demo-1"},
			wantErr: "the Job's arguments must contain a state Secret and an instance"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{}
			job.Spec.Template.Spec.Containers = []corev1.Container{{Args: test.args}}
			got, err := argumentsOf(job)
			if test.wantErr != "" {
				if err == nil || err.Error() != test.wantErr {
					t.Errorf("want error %q, got %v", test.wantErr, err)
				}
				return
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(jobArguments{})); diff != "" || err != nil {
				t.Errorf("arguments differ (-want +got):\n%s, error %v", diff, err)
			}
		})
	}
}
