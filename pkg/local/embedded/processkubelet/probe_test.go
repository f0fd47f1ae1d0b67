package processkubelet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestReadiness_FollowsConsecutiveAnswers(t *testing.T) {
	tests := map[string]struct {
		probe   corev1.Probe
		answers string // + and -
		want    string // the state after each answer: ready or not
	}{
		"by default one success makes it ready, and three failures unready": {answers: "-+--+---+", want: "-+++++" +
			"+-+"},
		"thresholds of the pod": {probe: corev1.Probe{SuccessThreshold: 2, FailureThreshold: 1}, answers: "++-+++",
			want: "-+--++"},
		"it never answers": {answers: "-----", want: "-----"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			state, got, was := newReadiness(&test.probe), "", false
			for _, answer := range test.answers {
				changed := state.observe(answer == '+')
				if changed != (state.ready != was) {
					t.Errorf("after %q: changed %t", got, changed)
				}
				was = state.ready
				got += map[bool]string{true: "+", false: "-"}[state.ready]
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("ready after %s (-want +got):\n%s", test.answers, diff)
			}
		})
	}
}

func TestProbeURL(t *testing.T) {
	ports := []corev1.ContainerPort{{Name: "machines", ContainerPort: 8443}, {Name: "health", ContainerPort: 8081}}
	tests := map[string]struct {
		get     corev1.HTTPGetAction
		want    string
		wantErr bool
	}{
		"a named port": {get: corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromString("health")},
			want: "http://10.0.0.11:8081/readyz"},
		"a number": {get: corev1.HTTPGetAction{Path: "healthz", Port: intstr.FromInt32(80)},
			want: "http://10.0.0.11:80/healthz"},
		"HTTPS, a host": {get: corev1.HTTPGetAction{Scheme: corev1.URISchemeHTTPS, Host: "other",
			Port: intstr.FromString("machines")}, want: "https://other:8443/"},
		"no such port": {get: corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("metrics")}, wantErr: true},
		"the default":  {get: corev1.HTTPGetAction{Port: intstr.FromInt32(8081)}, want: "http://10.0.0.11:8081/"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			container := &corev1.Container{Ports: ports,
				ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &test.get}}}
			got, err := probeURL(container, "10.0.0.11")
			if got != test.want || (err != nil) != test.wantErr {
				t.Errorf("URL %q, %v; want %q", got, err, test.want)
			}
		})
	}
}
