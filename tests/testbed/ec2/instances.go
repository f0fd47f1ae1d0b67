package ec2

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-io/drover/tests/testbed/lab"
)

// The states of an instance.
const (
	statePending    = "pending"
	stateRunning    = "running"
	stateTerminated = "terminated"
)

// stateCodes are EC2's numbers of the states.
var stateCodes = map[string]int{statePending: 0, stateRunning: 16, stateTerminated: 48}

// mostUserData is EC2's limit, in bytes.
const mostUserData = 16 << 10

// Instance is one instance. Its ID is the name of its machine in the lab.
type Instance struct {
	ID, State string
	Address   netip.Addr
	KeyName   string
	Type      string
	Tags      map[string]string
	UserData  []byte

	publicKey   string
	token       string
	groups      []string
	needsTokens bool
}

// reservation is the instances of one launch.
type reservation struct {
	ID        string         `xml:"reservationId"`
	Instances []instanceItem `xml:"instancesSet>item"`
}

// instanceItem is an instance in an answer.
type instanceItem struct {
	ID      string      `xml:"instanceId"`
	Image   string      `xml:"imageId,omitempty"`
	Code    int         `xml:"instanceState>code"`
	State   string      `xml:"instanceState>name"`
	Private string      `xml:"privateIpAddress,omitempty"`
	Public  string      `xml:"ipAddress,omitempty"`
	KeyName string      `xml:"keyName,omitempty"`
	Type    string      `xml:"instanceType,omitempty"`
	Zone    string      `xml:"placement>availabilityZone,omitempty"`
	Subnet  string      `xml:"subnetId,omitempty"`
	VPC     string      `xml:"vpcId,omitempty"`
	Groups  []groupItem `xml:"groupSet>item"`
	Tags    []tagItem   `xml:"tagSet>item"`
}

type tagItem struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

func tagItems(tags map[string]string) []tagItem {
	var items []tagItem
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		items = append(items, tagItem{key, tags[key]})
	}
	return items
}

func (i *Instance) item() instanceItem {
	out := instanceItem{
		ID: i.ID, Image: Image, Code: stateCodes[i.State], State: i.State, KeyName: i.KeyName, Type: i.Type, Zone: Zone,
		Subnet: Subnet, VPC: VPC, Tags: tagItems(i.Tags),
	}
	for _, id := range i.groups {
		out.Groups = append(out.Groups, groupItem{id})
	}
	if i.Address.IsValid() && i.State != stateTerminated {
		// The lab's network has no other addresses.
		out.Private, out.Public = i.Address.String(), i.Address.String()
	}
	return out
}

// reservation returns the launch of an instance, which launched nothing else.
func (i *Instance) reservation() reservation {
	return reservation{"r-" + strings.TrimPrefix(i.ID, "i-"), []instanceItem{i.item()}}
}

// runInstances starts one instance, or returns the one of an earlier request with the same token. The answer does not
// wait for the boot.
func (c *Cloud) runInstances(ctx context.Context, form url.Values) (any, error) {
	one, known, err := c.addInstance(form)
	if err != nil {
		return nil, err
	}
	if !known {
		if err := c.launch(ctx, one); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return one.reservation(), nil
}

// addInstance returns the instance of a request, and whether an earlier request added it.
func (c *Cloud) addInstance(form url.Values) (one *Instance, known bool, err error) {
	data, err := base64.StdEncoding.DecodeString(form.Get("UserData"))
	if err != nil {
		return nil, false, refuse("InvalidParameterValue", "Invalid BASE64 encoding of user data.")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	token := form.Get("ClientToken")
	for _, other := range c.instances {
		if token != "" && other.token == token {
			return other, true, nil
		}
	}
	one = &Instance{
		ID: newID("i"), State: statePending, KeyName: form.Get("KeyName"), Type: form.Get("InstanceType"),
		Tags: tagsFor(form, "instance"), UserData: data, token: token,
		publicKey: c.keyPairs[form.Get("KeyName")], groups: listOf(form, "NetworkInterface.1.SecurityGroupId"),
		needsTokens: form.Get("MetadataOptions.HttpTokens") == "required",
	}
	if err := c.validate(one, form); err != nil {
		return nil, false, err
	}
	c.instances[one.ID] = one
	return one, false, nil
}

// validate checks what a new instance refers to. The caller holds the lock.
func (c *Cloud) validate(one *Instance, form url.Values) error {
	subnet, zone := form.Get("NetworkInterface.1.SubnetId"), form.Get("Placement.AvailabilityZone")
	switch {
	case len(one.UserData) > mostUserData:
		return refuse("InvalidParameterValue", "User data is limited to 16384 bytes")
	case form.Get("MinCount") != "1" || form.Get("MaxCount") != "1":
		return refuse("UnsupportedOperation", "This account starts one instance at a time.")
	case form.Get("ImageId") != Image:
		return refuse("InvalidAMIID.NotFound", fmt.Sprintf("The image id '[%s]' does not exist", form.Get("ImageId")))
	case subnet != Subnet:
		return refuse("InvalidSubnetID.NotFound", fmt.Sprintf("The subnet ID '%s' does not exist", subnet))
	case zone != Zone:
		return refuse("InvalidParameterValue", fmt.Sprintf("Invalid availability zone: [%s]", zone))
	case one.publicKey == "":
		return refuse("InvalidKeyPair.NotFound", fmt.Sprintf("The key pair '%s' does not exist", one.KeyName))
	}
	for _, id := range one.groups {
		if c.groups[id] == nil {
			return refuse("InvalidGroup.NotFound", fmt.Sprintf("The security group '%s' does not exist", id))
		}
	}
	return nil
}

// tagsFor returns the tags that a launch gives to resources of a type.
func tagsFor(form url.Values, resource string) map[string]string {
	tags := map[string]string{}
	for i := 1; form.Has(fmt.Sprintf("TagSpecification.%d.ResourceType", i)); i++ {
		prefix := "TagSpecification." + strconv.Itoa(i)
		if form.Get(prefix+".ResourceType") == resource {
			maps.Copy(tags, tagsOf(form, prefix+".Tag"))
		}
	}
	return tags
}

// tagsOf returns a list of tags.
func tagsOf(form url.Values, name string) map[string]string {
	tags := map[string]string{}
	for i := 1; form.Has(fmt.Sprintf("%s.%d.Key", name, i)); i++ {
		tags[form.Get(fmt.Sprintf("%s.%d.Key", name, i))] = form.Get(fmt.Sprintf("%s.%d.Value", name, i))
	}
	return tags
}

// launch creates the machine of an instance. It returns when the machine has an address, before it boots.
func (c *Cloud) launch(ctx context.Context, one *Instance) error {
	announced, ended := make(chan struct{}), make(chan error, 1)
	c.launches.Go(func() {
		_, err := c.machines.CreateAnnounced(context.WithoutCancel(ctx), one.ID, "", one.KeyName, func(m lab.Machine) {
			c.mu.Lock()
			one.Address, one.State = m.Address, stateRunning
			c.mu.Unlock()
			close(announced)
		})
		if err != nil {
			c.forget(one)
		}
		ended <- err
	})
	select {
	case <-announced:
		return nil
	case err := <-ended:
		return err
	}
}

// forget ends an instance whose machine does not boot.
func (c *Cloud) forget(one *Instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one.State = stateTerminated
}

// instancesOf returns the instances that a request names, or all. The caller holds the lock.
func (c *Cloud) instancesOf(form url.Values) ([]*Instance, error) {
	ids := listOf(form, "InstanceId")
	if len(ids) == 0 {
		ids = slices.Sorted(maps.Keys(c.instances))
	}
	var found []*Instance
	for _, id := range ids {
		one := c.instances[id]
		switch {
		case id == "":
			return nil, refuse("InvalidInstanceID.Malformed", `Invalid id: ""`)
		case one == nil:
			return nil, refuse("InvalidInstanceID.NotFound", fmt.Sprintf("The instance ID '%s' does not exist", id))
		}
		found = append(found, one)
	}
	return found, nil
}

type reservations struct {
	Items []reservation `xml:"reservationSet>item"`
}

func (c *Cloud) describeInstances(_ context.Context, form url.Values) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, err := c.instancesOf(form)
	if err != nil {
		return nil, err
	}
	var out reservations
	for _, one := range found {
		ok, err := selected(form, map[string]string{"instance-state-name": one.State})
		if err != nil {
			return nil, err
		}
		if ok {
			out.Items = append(out.Items, one.reservation())
		}
	}
	return out, nil
}

// stateChange is the change of an instance's state.
type stateChange struct {
	ID       string `xml:"instanceId"`
	Code     int    `xml:"currentState>code"`
	State    string `xml:"currentState>name"`
	Previous string `xml:"previousState>name"`
}

type stateChanges struct {
	Items []stateChange `xml:"instancesSet>item"`
}

// terminateInstances deletes machines. Like EC2, it keeps the records of terminated instances.
func (c *Cloud) terminateInstances(ctx context.Context, form url.Values) (any, error) {
	if len(listOf(form, "InstanceId")) == 0 {
		return nil, refuse("MissingParameter", "The request must contain the parameter InstanceId")
	}
	c.mu.Lock()
	found, err := c.instancesOf(form)
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var out stateChanges
	errs := make([]error, 0, len(found))
	for _, one := range found {
		if err := c.machines.Delete(context.WithoutCancel(ctx), one.ID); err != nil {
			errs = append(errs, err)
			continue
		}
		c.mu.Lock()
		out.Items = append(out.Items, stateChange{one.ID, stateCodes[stateTerminated], stateTerminated, one.State})
		one.State = stateTerminated
		c.mu.Unlock()
	}
	return out, errors.Join(errs...)
}
