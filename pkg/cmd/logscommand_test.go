package cmd

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/build"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

const logNamespace = "c-m-logged23"

// logged adds Cluster logged with a log, Machine m1 with kept output, m2 without, and the existing host m3.
func logged(t *testing.T) *memkube.Server {
	t.Helper()
	api := management(t)
	check(t, api.Add(&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: logNamespace}}))
	check(t, api.Add(&provv1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: defaultNamespace, Name: "logged"},
		Status:     provv1.ClusterStatus{ClusterName: logNamespace},
	}))
	check(t, api.Add(provisioningLog("1 [INFO ] a\n2 [INFO ] b\n")))
	for name, kind := range map[string]string{"m1": "PodMachine", "m2": "PodMachine", "m3": "CustomMachine"} {
		machine := build.Machine("logged", name, "w")
		machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "rke-machine.cattle.io",
			Kind: kind, Name: name}
		if kind == "CustomMachine" {
			machine.Spec.InfrastructureRef.APIGroup = "rke.cattle.io"
		}
		check(t, api.Add(machine))
	}
	check(t, api.Add(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: defaultNamespace, Name: "m1-machine-output"},
		Type:       rkev1.SecretTypeMachineOutput, Data: map[string][]byte{"create": []byte("first\nno quota\n")},
	}))
	return api
}

func provisioningLog(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: logNamespace, Name: provv1.ProvisioningLogName},
		Data:       map[string]string{provv1.ProvisioningLogKey: text},
	}
}

func TestLogs_Commands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := logged(t)
		for name, tc := range map[string]struct {
			args      []string
			out, fail string
		}{
			"a cluster":                  {[]string{"logged"}, "1 [INFO ] a\n2 [INFO ] b\n", ""},
			"the last line":              {[]string{"cluster/logged", "--tail", "1"}, "2 [INFO ] b\n", ""},
			"a machine":                  {[]string{"m1"}, "first\nno quota\n", ""},
			"the last line of a machine": {[]string{"machine/m1", "--tail=1"}, "no quota\n", ""},
			"a machine without output": {[]string{"m2"}, "",
				"its Job has not started, or its output was not kept"},
			"an existing host":           {[]string{"m3"}, "", "its host is a CustomMachine, which no Job creates"},
			"a cluster without a server": {[]string{"young"}, "", "no Drover server manages it"},
			"a name of nothing": {[]string{"absent"}, "",
				"there is no Cluster and no Machine absent in namespace"},
			"a machine as a cluster": {[]string{"cluster/m1"}, "",
				"there is no Cluster m1 in namespace fleet-default"},
			"a cluster as a machine": {[]string{"machine/logged"}, "",
				"there is no Machine logged in namespace"},
			"a cluster of another namespace": {[]string{"logged", "-n", "other"}, "", "in namespace other"},
			"no name":                        {nil, "", "CLUSTER|MACHINE is missing; see 'drover logs --help'"},
		} {
			code, out, problems := look(t, api, append([]string{"logs"}, tc.args...)...)
			if out != tc.out || code != map[bool]int{true: 1}[tc.fail != ""] || !strings.Contains(problems, tc.fail) {
				t.Errorf("%s: exit code %d, %q, %s", name, code, out, problems)
			}
		}
		code, out, _ := look(t, api, "__complete", "logs", "")
		for _, want := range []string{"logged\n", "young\n", "machine/m1\n"} {
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("completion lacks %q: %s", want, out)
			}
		}
	})
}

func TestLogs_FollowsAClusterUntilItsLogIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := logged(t)
		var out bytes.Buffer
		cmd := newLogsCommand(nil, &inspectOptions{config: api.Config("looker")})
		cmd.SetOut(&out)
		cmd.SetArgs([]string{"logged", "-f", "--tail", "1"})
		done := make(chan error, 1)
		go func() { done <- cmd.ExecuteContext(context.Background()) }()
		expect := func(want string) {
			t.Helper()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if out.String() != want {
				t.Errorf("printed %q, want %q", out.String(), want)
			}
		}
		expect("2 [INFO ] b\n")
		writer, err := clients.New(api.Config("writer"), clients.Options{WithoutDynamic: true})
		check(t, err)
		defer writer.Stop()
		log, err := writer.Core.ConfigMap().Get(logNamespace, provv1.ProvisioningLogName, metav1.GetOptions{})
		check(t, err)
		log.Data[provv1.ProvisioningLogKey] = "2 [INFO ] b\n3 [ERROR] c\n"
		_, err = writer.Core.ConfigMap().Update(log)
		check(t, err)
		expect("2 [INFO ] b\n3 [ERROR] c\n")
		check(t, writer.Core.ConfigMap().Delete(logNamespace, provv1.ProvisioningLogName, nil))
		expect("2 [INFO ] b\n3 [ERROR] c\n")
		select {
		case err := <-done:
			check(t, err)
		default:
			t.Fatal("the command follows a deleted log")
		}
	})
}
