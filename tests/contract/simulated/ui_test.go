package simulated

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/packed"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// asker asks the web UI's API as an administrator.
type asker struct {
	*testing.T
	st        *stage.Stage
	namespace string
	token     string
}

func newAsker(t *testing.T, st *stage.Stage, namespace string) *asker {
	t.Helper()
	kube, err := kubernetes.NewForConfig(st.Config("contract-tests"))
	check(t, err)
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "admin"}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "admin-of-" + namespace},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "admin"}}},
	} {
		check(t, st.Client.Create(t.Context(), object))
	}
	answer, err := kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "admin",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	check(t, err)
	return &asker{t, st, namespace, answer.Status.Token}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// get returns the code and the text of an answer. It asks again while it asks too often.
func (a *asker) get(path string) (code int, text string) {
	a.Helper()
	plane.Until(a.T, time.Minute, func() string {
		r := httptest.NewRequestWithContext(a.Context(), http.MethodGet, a.st.URL+"/ui/api/v1/"+path, nil)
		r.Header.Set("Authorization", "Bearer "+a.token)
		answer := httptest.NewRecorder()
		a.st.Server.Handler().ServeHTTP(answer, r)
		code, text = answer.Code, answer.Body.String()
		if code == http.StatusTooManyRequests {
			return text
		}
		return ""
	})
	return code, text
}

// read reads an answer with code 200.
func (a *asker) read(path string, into any) {
	a.Helper()
	code, text := a.get(path)
	if code != http.StatusOK {
		a.Fatalf("%s: %d %s", path, code, text)
	}
	check(a.T, json.Unmarshal([]byte(text), into))
}

// snapshot creates an ETCDSnapshot, as Drover does for a snapshot that a machine lists.
func (a *asker) snapshot(name string, machine *clusterv1.Machine, file rkev1.ETCDSnapshotFile) {
	a.Helper()
	file.Name, file.NodeName = name+".file", machine.Status.NodeRef.Name
	check(a.T, a.st.Client.Create(a.Context(), &rkev1.ETCDSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: name,
			Labels: map[string]string{rkev1.ClusterNameLabel: "demo"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine",
				Name: machine.Name, UID: machine.UID}}},
		Spec: rkev1.ETCDSnapshotSpec{ClusterName: "demo"}, SnapshotFile: file,
	}))
}

func (a *asker) server() *clusterv1.Machine {
	a.Helper()
	var machines clusterv1.MachineList
	check(a.T, a.st.Client.List(a.Context(), &machines, client.InNamespace(a.namespace)))
	if len(machines.Items) != 1 {
		a.Fatalf("%d machines", len(machines.Items))
	}
	return &machines.Items[0]
}

// briefing is the answer about a restore.
type briefing struct {
	Lines      []struct{ Label, Text string }
	Restored   []struct{ Field, Old, New string }
	Refused    string
	Generation int64
}

// TestUIOperations reads what the pages for operations show of a running cluster: its snapshots, what a restore would
// do, the drivers, and the command for hosts.
func TestUIOperations(t *testing.T) {
	st := stage.Start(t, stage.Settings{UI: true})
	a := newAsker(t, st, plane.Namespace(t))
	st.Cluster(a.namespace, "demo", stage.K3s, stage.Pool("server", "ecw", 1))
	plane.Until(t, 2*time.Minute, func() string { return st.WaitingFor(a.namespace, "demo") })
	taken := metav1.Now()
	a.snapshot("whole", a.server(), rkev1.ETCDSnapshotFile{Status: "successful", CreatedAt: &taken, Size: 1 << 20,
		Metadata: packed.Metadata(`{"kubernetesVersion":"v1.35.3+k3s1","rkeConfig":{"machineGlobalConfig":` +
			`{"token":"hunter2-hunter2"}}}`)})
	a.snapshot("broken", a.server(), rkev1.ETCDSnapshotFile{Status: "failed", Message: "no space"})
	a.restores()
	a.drivers()
	a.registers()
}

func (a *asker) restores() {
	a.Helper()
	path := "namespaces/" + a.namespace + "/clusters/demo/snapshots"
	var list struct {
		Items []struct {
			Name, Place, State, Version string
			HasConfig                   bool
		}
	}
	a.read(path, &list)
	if len(list.Items) != 2 || list.Items[0].Name != "whole" || list.Items[0].State != "Successful" ||
		list.Items[0].Version != "v1.35.3+k3s1" || !list.Items[0].HasConfig || list.Items[1].State != "Failed" {
		a.Errorf("snapshots %+v", list)
	}
	for mode, fields := range map[string]int{"none": 0, "kubernetesVersion": 1, "all": 2} {
		var got briefing
		a.read(path+"/whole/briefing?config="+mode, &got)
		if got.Refused != "" || len(got.Restored) != fields || got.Generation != 1 || len(got.Lines) < 7 {
			a.Errorf("%s: %+v", mode, got)
		}
	}
	if _, text := a.get(path + "/whole/briefing?config=all"); strings.Contains(text, "hunter2") {
		a.Errorf("the briefing shows a secret: %s", text)
	}
	var got briefing
	a.read(path+"/broken/briefing", &got)
	if got.Refused != "snapshot broken was not taken: no space" {
		a.Errorf("%+v", got)
	}
	if code, text := a.get(path + "/absent/briefing"); code != http.StatusNotFound {
		a.Errorf("%d %s", code, text)
	}
}

func (a *asker) drivers() {
	a.Helper()
	var list struct {
		Items []struct {
			Name   string
			Schema struct {
				Properties map[string]struct{ Type, Description string }
			}
		}
	}
	a.read("drivers", &list)
	for _, driver := range list.Items {
		if driver.Name == "sim" {
			if driver.Schema.Properties["size"].Type != "string" {
				a.Errorf("schema %v", driver.Schema)
			}
			return
		}
	}
	a.Errorf("drivers %+v", list)
}

func (a *asker) registers() {
	a.Helper()
	a.st.Cluster(a.namespace, "hosts", stage.K3s)
	path := "namespaces/" + a.namespace + "/clusters/hosts/registration?roles="
	plane.Until(a.T, time.Minute, func() string {
		if code, text := a.get(path + "etcd,controlplane"); code != http.StatusOK {
			return text
		}
		return ""
	})
	var got struct {
		Command, InsecureCommand string
		Expires                  time.Time
	}
	a.read(path+"worker&labels=disk=ssd&taints=k=v:NoSchedule&nodeName=n1", &got)
	const arguments = " --worker --node-name n1 --label 'disk=ssd' --taint 'k=v:NoSchedule'"
	for _, command := range []string{got.Command, got.InsecureCommand} {
		if !strings.Contains(command, a.st.URL+"/system-agent-install.sh") || !strings.Contains(command, "--token ") ||
			!strings.HasSuffix(command, arguments) {
			a.Errorf("command %q", command)
		}
	}
	if time.Until(got.Expires) < time.Hour {
		a.Errorf("the token expires at %s", got.Expires)
	}
	if code, text := a.get(path + "worker&labels=a"); code != http.StatusUnprocessableEntity ||
		!strings.Contains(text, `"field":"labels[0]"`) {
		a.Errorf("%d %s", code, text)
	}
}
