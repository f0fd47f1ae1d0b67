package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/tests/testbed/distro"
	"github.com/drover-io/drover/tests/testbed/lab"
)

// rotationTimeout is the limit of a rotation, which restarts every server one to three times, one server after the
// other.
const rotationTimeout = 12 * time.Minute

// TestRotations rotates all certificates of a cluster's nodes, then those of one service, then the key that encrypts
// Secrets. No machine is replaced, existing access to the cluster works, and stored data stay readable.
func TestRotations(t *testing.T) {
	tests := map[string]struct {
		version string
		pools   []pool
	}{
		"RKE2, servers with all their roles": {"v1.36.3+rke2r1", []pool{{"server", 3, "ec"}, {"worker", 1, "w"}}},
		"K3s, servers with one role each": {"v1.36.3+k3s1",
			[]pool{{"etcd", 1, "e"}, {"api", 2, "c"}, {"worker", 1, "w"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := &rotating{world: newWorld(t, "rotate"), runtime: distro.RKE2}
			text := string(manifest("rotate", test.version, test.pools...))
			if strings.Contains(test.version, "k3s") {
				r.runtime = distro.K3s
				text = replaceOnce(t, text, "  rkeConfig:\n",
					"  rkeConfig:\n    machineGlobalConfig: {secrets-encryption: true}\n")
			}
			must(t, r.Apply(t.Context(), []byte(text)))
			r.awaitReady("rotate")
			machines := r.machineUIDs()
			known := r.asKnownNow()

			r.rotateCertificates(`{"generation": 1}`, func(string) bool { return true })
			known.stillGood(r)
			r.rotateCertificates(`{"generation": 2, "services": ["kubelet"]}`, func(file string) bool {
				return strings.HasPrefix(file, "agent/")
			})
			known.stillGood(r)
			r.rotateKeys()
			known.stillGood(r)
			r.refused()
			r.awaitReady("rotate")
			if diff := cmp.Diff(machines, r.machineUIDs()); diff != "" {
				t.Errorf("the Machines have changed (-before +after):\n%s", diff)
			}
		})
	}
}

// rotating is the cluster "rotate" whose certificates and keys are rotated.
type rotating struct {
	*world
	runtime distro.Runtime
}

func (r *rotating) data() string { return distro.NewLayout(r.runtime, "").Data }

// having returns the machines that have a path below the data directory.
func (r *rotating) having(file string) []lab.Machine {
	r.t.Helper()
	var found []lab.Machine
	for _, machine := range r.Lab.List() {
		there, err := r.Lab.FileExists(machine.Name, path.Join(r.data(), file))
		must(r.t, err)
		if there {
			found = append(found, machine)
		}
	}
	if len(found) == 0 {
		r.t.Fatalf("no machine has %s", file)
	}
	return found
}

// apiServerLog exists only on machines with an API server.
const apiServerLog = "server/logs/kube-apiserver.log"

// apiServers and etcdMember return the machines with an API server and with etcd.
func (r *rotating) apiServers() []lab.Machine { return r.having(apiServerLog) }
func (r *rotating) etcdMember() lab.Machine   { return r.having("server/db/etcd/member")[0] }

// knowledge is the client configurations with which users reach a cluster.
type knowledge map[string]*rest.Config

// asKnownNow returns the current kubeconfigs of Drover and of a server's administrator.
func (r *rotating) asKnownNow() knowledge {
	r.t.Helper()
	server := r.apiServers()[0]
	file := r.command(server.Name, "cat "+distro.NewLayout(r.runtime, "").Etc+"/"+string(r.runtime)+".yaml")
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(file))
	must(r.t, err)
	config.Dial, config.Host = r.Dial, "https://"+net.JoinHostPort(server.Address.String(), "6443")
	return knowledge{"Drover's kubeconfig": r.downstreamConfig("rotate"), "the kubeconfig of server " +
		server.Name: config}
}

func (k knowledge) stillGood(r *rotating) {
	r.t.Helper()
	for what, config := range k {
		client, err := kubernetes.NewForConfig(config)
		must(r.t, err)
		r.eventually("an answer to "+what, func() (bool, error) {
			_, err := client.CoreV1().Nodes().List(r.t.Context(), metav1.ListOptions{})
			return err == nil, err
		})
	}
}

// request requests an operation and waits until its condition reports success.
func (r *rotating) request(field, value, condition string, done func(status map[string]any) bool) {
	r.t.Helper()
	start := time.Now()
	r.change("rotate", fmt.Sprintf(`{"spec": {"rkeConfig": {%q: %s}}}`, field, value))
	r.within(rotationTimeout, field+" "+value+" has succeeded", func() error {
		controlPlane, err := r.controlPlane()
		if err != nil {
			return err
		}
		status, _, _ := unstructured.NestedMap(controlPlane.Object, "status")
		now := conditionOf(controlPlane, condition)
		if now == "False" {
			r.t.Fatalf("%s %s has failed: %v", field, value, status["conditions"])
		}
		if now != "True" || !done(status) {
			return fmt.Errorf("%s is %q", condition, now)
		}
		return nil
	})
	r.t.Logf("%s %s took %s", field, value, time.Since(start).Round(time.Second))
}

func (r *rotating) controlPlane() (*unstructured.Unstructured, error) {
	return r.objects.Resource(controlPlanesResource).Namespace(namespace).Get(r.t.Context(), "rotate",
		metav1.GetOptions{})
}

// rotateCertificates rotates certificates. On all machines, the files for which renewed returns true must change, and
// all others must stay the same. New certificates must be signed by the existing authorities.
func (r *rotating) rotateCertificates(request string, renewed func(file string) bool) {
	r.t.Helper()
	before := r.certificates()
	var wanted struct{ Generation int64 }
	must(r.t, json.Unmarshal([]byte(request), &wanted))
	r.request("rotateCertificates", request, "CertificatesRotated", func(status map[string]any) bool {
		return status["certificateRotationGeneration"] == wanted.Generation
	})
	after := r.certificates()
	for machine, files := range before {
		for file, old := range files {
			now := after[machine][file]
			switch {
			case now == nil:
				r.t.Errorf("%s: %s is missing", machine, file)
			case old.IsCA || !renewed(file):
				if !now.Equal(old) {
					r.t.Errorf("%s: %s is a new certificate", machine, file)
				}
			case now.SerialNumber.Cmp(old.SerialNumber) == 0:
				r.t.Errorf("%s: %s is the same certificate", machine, file)
			// Those two make self-signed certificates.
			case !strings.Contains(file, "/kube-") && !signedByOneOf(now, files):
				r.t.Errorf("%s: %s has no former authority", machine, file)
			}
		}
	}
	r.expectServed(after)
}

// refused requests certificates of a service that the distribution does not know. The rotation must fail without
// restarting a server.
func (r *rotating) refused() {
	r.t.Helper()
	starts := func() map[string]string {
		found := map[string]string{}
		for _, server := range r.having("server/tls/server-ca.crt") {
			found[server.Name] = r.command(server.Name, "systemctl show -p InvocationID -p ActiveState "+
				unit(r.runtime))
		}
		return found
	}
	before, certificates := starts(), r.certificates()
	other := map[distro.Runtime]string{distro.RKE2: "k3s-server", distro.K3s: "rke2-server"}[r.runtime]
	r.change("rotate",
		fmt.Sprintf(`{"spec": {"rkeConfig": {"rotateCertificates": {"generation": 3, "services": ["scheduler", %q]}}}}`,
			other))
	r.within(rotationTimeout, "a failed rotation", func() error {
		controlPlane, err := r.controlPlane()
		if err == nil && conditionOf(controlPlane, "CertificatesRotated") != "False" {
			err = errors.New("it has not failed")
		}
		return err
	})
	r.awaitReady("rotate")
	if diff := cmp.Diff(before, starts()); diff != "" {
		r.t.Errorf("servers were restarted (-before +after):\n%s", diff)
	}
	for machine, files := range r.certificates() {
		for file, now := range files {
			if !now.Equal(certificates[machine][file]) {
				r.t.Errorf("%s: %s is a new certificate after a refused rotation", machine, file)
			}
		}
	}
}

// certificates returns the certificates in the files of machines, by machine and by path below the data directory.
func (r *rotating) certificates() map[string]map[string]*x509.Certificate {
	r.t.Helper()
	found := map[string]map[string]*x509.Certificate{}
	for _, machine := range r.Lab.List() {
		out := r.command(machine.Name, "cd "+r.data()+
			` && for f in $(find server/tls agent -name "*.crt" -not -path "agent/tls-*" 2>/dev/null); do echo "FILE $f"; cat "$f"; done`)
		files := map[string]*x509.Certificate{}
		for _, part := range strings.Split(out, "FILE ")[1:] {
			name, text, _ := strings.Cut(part, "\n")
			block, _ := pem.Decode([]byte(text))
			if block == nil {
				r.t.Fatalf("%s: %s is not a certificate: %s", machine.Name, name, text)
			}
			certificate, err := x509.ParseCertificate(block.Bytes)
			must(r.t, err)
			files[name] = certificate
		}
		if len(files) < 5 {
			r.t.Fatalf("%s has only %d certificates", machine.Name, len(files))
		}
		found[machine.Name] = files
	}
	return found
}

func signedByOneOf(certificate *x509.Certificate, files map[string]*x509.Certificate) bool {
	for _, authority := range files {
		if authority.IsCA && certificate.CheckSignatureFrom(authority) == nil {
			return true
		}
	}
	return false
}

// expectServed compares the certificates that machines serve with their files.
func (r *rotating) expectServed(certificates map[string]map[string]*x509.Certificate) {
	r.t.Helper()
	ports := map[string]string{"10250": "agent/serving-kubelet.crt", "6443": "server/tls/serving-kube-apiserver.crt"}
	if r.runtime == distro.RKE2 {
		ports["9345"] = "server/tls/dynamic-cert.crt"
	}
	for _, machine := range r.Lab.List() {
		for port, file := range ports {
			want := certificates[machine.Name][file]
			runsAPI, err := r.Lab.FileExists(machine.Name, path.Join(r.data(), apiServerLog))
			must(r.t, err)
			if want == nil || port == "6443" && !runsAPI {
				continue
			}
			r.eventually(machine.Name+" showing its certificate at port "+port, func() (bool, error) {
				conn, err := r.dialWithin(2*time.Second, net.JoinHostPort(machine.Address.String(), port))
				if err != nil {
					return false, err
				}
				defer conn.Close()
				client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) // the test compares it with the file
				if err := client.HandshakeContext(r.t.Context()); err != nil {
					return false, err
				}
				shown := client.ConnectionState().PeerCertificates[0]
				return shown.Equal(want), fmt.Errorf("it serves %s, but has %s", shown.SerialNumber, want.SerialNumber)
			})
		}
	}
}

// rotateKeys rotates the key that encrypts Secrets. All Secrets must then be stored with the new key.
func (r *rotating) rotateKeys() {
	r.t.Helper()
	secrets := r.downstream("rotate").CoreV1().Secrets("default")
	_, err := secrets.Create(r.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "made-before"}, StringData: map[string]string{"key": "value"},
	}, metav1.CreateOptions{})
	must(r.t, err)
	const first = "aescbckey"
	r.expectStored(first)

	r.request("rotateEncryptionKeys", `{"generation": 1}`, "EncryptionKeysRotated", func(status map[string]any) bool {
		return status["rotateEncryptionKeysPhase"] == "Done"
	})
	key := ""
	for _, server := range r.apiServers() {
		status := r.command(server.Name, "/usr/local/bin/"+string(r.runtime)+" secrets-encrypt status")
		lines := strings.Split(status, "\n")
		for _, want := range []string{"Encryption Status: Enabled", "Current Rotation Stage: reencrypt_finished",
			"Server Encryption Hashes: All hashes match"} {
			if !slices.Contains(lines, want) {
				r.t.Errorf("%s: the status has no line %q:\n%s", server.Name, want, status)
			}
		}
		active := strings.Fields(lines[len(lines)-1])
		if active[0] != "*" || active[len(active)-1] == first || key != "" && active[len(active)-1] != key {
			r.t.Errorf("%s: there are other keys, or another server has a different key:\n%s", server.Name, status)
		}
		key = active[len(active)-1]
	}
	r.expectStored(key)
	secret, err := secrets.Get(r.t.Context(), "made-before", metav1.GetOptions{})
	must(r.t, err)
	if got := string(secret.Data["key"]); got != "value" {
		r.t.Errorf("the older Secret has %q", got)
	}
	if out, err := r.Lab.Exec(r.t.Context(), r.apiServers()[0].Name, "/usr/local/bin/"+string(r.runtime)+
		" secrets-encrypt rotate"); err == nil || !strings.Contains(out, "incorrect stage") {
		r.t.Errorf("a rotation without preparation was not refused: %s", out)
	}
}

// expectStored reads all Secrets in etcd, and checks that each is encrypted with this key.
func (r *rotating) expectStored(key string) {
	r.t.Helper()
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	folder := r.data() + "/server/tls/etcd/"
	out := r.command(r.etcdMember().Name,
		fmt.Sprintf(
			`curl -fsS --cacert %[1]sserver-ca.crt --cert %[1]sclient.crt --key %[1]sclient.key -d '{"key": %[2]q, "range_end": %[3]q}' https://127.0.0.1:2379/v3/kv/range`,
			folder, encoded("/registry/secrets/"), encoded("/registry/secrets0")))
	var reply struct {
		Kvs []struct{ Key, Value []byte }
	}
	must(r.t, json.Unmarshal([]byte(out), &reply))
	names := []string{}
	for _, pair := range reply.Kvs {
		names = append(names, string(pair.Key))
		if prefix := "k8s:enc:aescbc:v1:" + key + ":"; !strings.HasPrefix(string(pair.Value), prefix) {
			r.t.Errorf("%s is stored as %.60q, want %q", pair.Key, pair.Value, prefix)
		}
	}
	if !slices.Contains(names, "/registry/secrets/default/made-before") {
		r.t.Errorf("etcd has only these Secrets: %v", names)
	}
}
