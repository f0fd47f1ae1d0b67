package ec2_test

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/tests/testbed/ec2"
	"github.com/drover-io/drover/tests/testbed/lab"
)

const accessKey = "AKIATEST"

// machines plays a lab. Each machine's address is its place in the order of creates.
type machines struct {
	names []string
	fails bool
}

func (m *machines) CreateAnnounced(_ context.Context, name, _, _ string, announce func(lab.Machine)) (lab.Machine,
	error,
) {
	if m.fails {
		return lab.Machine{}, errors.New("no disk")
	}
	m.names = append(m.names, name)
	one := lab.Machine{Name: name, Address: netip.AddrFrom4([4]byte{192, 0, 2, byte(len(m.names))})}
	announce(one)
	return one, nil
}

func (m *machines) Delete(_ context.Context, name string) error {
	m.names = slices.DeleteFunc(m.names, func(other string) bool { return other == name })
	return nil
}

// account is a cloud with a client.
type account struct {
	*ec2.Cloud
	t        *testing.T
	machines *machines
}

func newAccount(t *testing.T) account {
	t.Helper()
	m := &machines{}
	return account{ec2.New(m, accessKey), t, m}
}

// call sends a request and returns the status and the body of the answer.
func (a account) call(action string, fields ...string) (int, string) {
	a.t.Helper()
	form := url.Values{"Action": {action}, "Version": {"2016-11-15"}}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	r := httptest.NewRequestWithContext(a.t.Context(), http.MethodPost, "/", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+accessKey+
		"/20260801/eu-central-1/ec2/aws4_request, SignedHeaders=host, Signature=00")
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// must is call for a request that succeeds.
func (a account) must(action string, fields ...string) string {
	a.t.Helper()
	status, body := a.call(action, fields...)
	if status != http.StatusOK {
		a.t.Fatalf("%s: status %d: %s", action, status, body)
	}
	return body
}

// run starts an instance, with a key pair of its own.
func (a account) run(token string, fields ...string) string {
	a.t.Helper()
	if !slices.Contains(a.KeyPairs(), "key") {
		a.must("ImportKeyPair", "KeyName", "key", "PublicKeyMaterial", encoded("ssh-rsa AAAA"))
	}
	body := a.must("RunInstances", slices.Concat([]string{"ClientToken", token, "MinCount", "1", "MaxCount", "1",
		"ImageId", ec2.Image, "KeyName", "key", "NetworkInterface.1.SubnetId", ec2.Subnet,
		"Placement.AvailabilityZone", ec2.Zone, "UserData", encoded("#cloud-config\n")}, fields)...)
	a.Wait()
	return regexp.MustCompile(`<instanceId>(.+)</instanceId>`).FindStringSubmatch(body)[1]
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// TestInstances: an instance is one machine from its launch to its end.
func TestInstances(t *testing.T) {
	a := newAccount(t)
	id := a.run("first", "TagSpecification.1.ResourceType", "instance", "TagSpecification.1.Tag.1.Key", "Name",
		"TagSpecification.1.Tag.1.Value", "demo")
	if again := a.run("first"); again != id {
		t.Errorf("a repeated request started %s after %s", again, id)
	}
	if diff := cmp.Diff([]string{id}, a.machines.names); diff != "" {
		t.Errorf("machines (-want +got):\n%s", diff)
	}
	if got := a.Instances()[0]; got.Tags["Name"] != "demo" || string(got.UserData) != "#cloud-config\n" {
		t.Errorf("the instance is %+v", got)
	}
	for _, want := range []string{"<privateIpAddress>192.0.2.1<", "<name>running<", "<code>16<"} {
		if body := a.must("DescribeInstances", "InstanceId.1", id); !strings.Contains(body, want) {
			t.Errorf("%s lacks %s", body, want)
		}
	}
	a.must("TerminateInstances", "InstanceId.1", id)
	if body := a.must("DescribeInstances", "InstanceId.1", id); !strings.Contains(body, "<name>terminated<") {
		t.Errorf("after its end: %s", body)
	}
	if left := len(a.Instances()) + len(a.machines.names); left != 0 {
		t.Errorf("%d objects are left", left)
	}

	lost := a.run("second")
	if err := a.Vanish(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	for _, action := range []string{"DescribeInstances", "TerminateInstances"} {
		if status, body := a.call(action, "InstanceId.1", lost); status != http.StatusBadRequest ||
			!strings.Contains(body, "<Code>InvalidInstanceID.NotFound<") {
			t.Errorf("%s of a lost instance: status %d: %s", action, status, body)
		}
	}
}

// TestRefusals: requests fail as the test wishes, and for the reasons of EC2.
func TestRefusals(t *testing.T) {
	a := newAccount(t)
	a.Refuse(ec2.Throttle("DescribeSubnets", 2))
	for i, want := range []int{503, 503, 200} {
		if status, body := a.call("DescribeSubnets"); status != want {
			t.Errorf("request %d: status %d: %s", i, status, body)
		}
	}
	refused, served := a.Calls("DescribeSubnets", "RequestLimitExceeded"), a.Calls("DescribeSubnets", "")
	if refused != 2 || served != 1 {
		t.Errorf("%d requests were refused and %d were not", refused, served)
	}
	for name, c := range map[string]struct {
		action string
		fields []string
		code   string
	}{
		"an unknown action": {"CreateVpc", nil, "InvalidAction"},
		"an unknown filter": {"DescribeSubnets", []string{"Filter.1.Name", "x"}, "InvalidParameterValue"},
		"an unknown image":  {"DescribeImages", []string{"ImageId.1", "ami-1"}, "InvalidAMIID.NotFound"},
		"no key pair": {"RunInstances", []string{"MinCount", "1", "MaxCount", "1", "ImageId", ec2.Image,
			"NetworkInterface.1.SubnetId", ec2.Subnet, "Placement.AvailabilityZone", ec2.Zone},
			"InvalidKeyPair.NotFound"},
		"long user data": {"RunInstances", []string{"UserData", encoded(strings.Repeat("x", 16<<10+1))},
			"InvalidParameterValue"},
	} {
		status, body := a.call(c.action, c.fields...)
		if status != http.StatusBadRequest || !strings.Contains(body, "<Code>"+c.code+"</Code>") {
			t.Errorf("%s: status %d: %s", name, status, body)
		}
	}
	a.machines.fails = true
	a.must("ImportKeyPair", "KeyName", "key", "PublicKeyMaterial", encoded("ssh-rsa AAAA"))
	status, body := a.call("RunInstances", "MinCount", "1", "MaxCount", "1", "ImageId", ec2.Image, "KeyName", "key",
		"NetworkInterface.1.SubnetId", ec2.Subnet, "Placement.AvailabilityZone", ec2.Zone)
	if status != http.StatusInternalServerError || len(a.Instances()) != 0 {
		t.Errorf("without a machine: status %d: %s; instances %+v", status, body, a.Instances())
	}
}

// TestAccessKey: a request without the account's access key is refused.
func TestAccessKey(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("Action=DescribeRegions"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=other/20260801/eu-central-1/ec2/aws4_request, x")
	w := httptest.NewRecorder()
	newAccount(t).Handler().ServeHTTP(w, r)
	if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "<Code>AuthFailure<") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

// TestSecurityGroups: rules are added once, and lists are empty without an element of their own.
func TestSecurityGroups(t *testing.T) {
	a := newAccount(t)
	body := a.must("CreateSecurityGroup", "GroupName", "nodes", "GroupDescription", "d", "VpcId", ec2.VPC)
	id := regexp.MustCompile(`<groupId>(.+)</groupId>`).FindStringSubmatch(body)[1]
	rule := []string{"GroupId", id, "IpPermissions.1.IpProtocol", "tcp", "IpPermissions.1.FromPort", "22",
		"IpPermissions.1.ToPort", "22", "IpPermissions.1.IpRanges.1.CidrIp", "0.0.0.0/0"}
	a.must("AuthorizeSecurityGroupIngress", rule...)
	if status, again := a.call("AuthorizeSecurityGroupIngress", rule...); status != http.StatusBadRequest {
		t.Errorf("the same rule again: status %d: %s", status, again)
	}
	a.must("CreateTags", "ResourceId.1", id, "Tag.1.Key", "team", "Tag.1.Value", "shop")
	groups := a.must("DescribeSecurityGroups", "Filter.1.Name", "group-name", "Filter.1.Value.1", "nodes")
	for _, want := range []string{"<fromPort>22</fromPort>", "<item><cidrIp>0.0.0.0/0</cidrIp></item>",
		"<ipv6Ranges></ipv6Ranges>", "<item><key>team</key><value>shop</value></item>"} {
		if !strings.Contains(groups, want) {
			t.Errorf("%s lacks %s", groups, want)
		}
	}
	if other := a.must("DescribeSecurityGroups", "Filter.1.Name", "group-name", "Filter.1.Value.1",
		"other"); strings.Contains(other, "nodes") {
		t.Errorf("the filter selects %s", other)
	}
	if status, again := a.call("CreateSecurityGroup", "GroupName", "nodes", "VpcId",
		ec2.VPC); status != http.StatusBadRequest || !strings.Contains(again, "already exists") {
		t.Errorf("the same group again: status %d: %s", status, again)
	}
}

// TestMetadata: an instance reads its own data, with a token if its launch says so.
func TestMetadata(t *testing.T) {
	a := newAccount(t)
	id := a.run("open")
	strict := a.run("strict", "MetadataOptions.HttpTokens", "required")
	get := func(method, path, address, header, value string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		r.RemoteAddr = address + ":40000"
		r.Header.Set(header, value)
		w := httptest.NewRecorder()
		a.Metadata().ServeHTTP(w, r)
		body, _ := io.ReadAll(w.Body)
		return w.Code, string(body)
	}
	_, token := get(http.MethodPut, "/latest/api/token", "192.0.2.2", "X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60")
	for name, c := range map[string]struct {
		address, path, token string
		status               int
		text                 string
	}{
		"its identity":           {"192.0.2.1", "/latest/meta-data/instance-id", "", 200, id},
		"its user data":          {"192.0.2.1", "/2009-04-04/user-data", "", 200, "#cloud-config\n"},
		"a folder":               {"192.0.2.1", "/latest/meta-data/placement/", "", 200, "availability-zone"},
		"its keys":               {"192.0.2.1", "/latest/meta-data/public-keys/", "", 200, "0=key"},
		"its key":                {"192.0.2.1", "/latest/meta-data/public-keys/0/openssh-key", "", 200, "ssh-rsa AAAA"},
		"an unknown version":     {"192.0.2.1", "/1999-01-01/user-data", "", 404, ""},
		"an unknown path":        {"192.0.2.1", "/latest/meta-data/spot", "", 404, ""},
		"another host":           {"192.0.2.9", "/latest/user-data", "", 404, ""},
		"a wrong token":          {"192.0.2.1", "/latest/meta-data/instance-id", "x", 401, ""},
		"no token, and required": {"192.0.2.2", "/latest/meta-data/instance-id", "", 401, ""},
		"a token, and required":  {"192.0.2.2", "/latest/meta-data/instance-id", token, 200, strict},
	} {
		status, text := get(http.MethodGet, c.path, c.address, "X-Aws-Ec2-Metadata-Token", c.token)
		if status != c.status || text != c.text {
			t.Errorf("%s: status %d: %q, want %d: %q", name, status, text, c.status, c.text)
		}
	}
}
