package ec2

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
)

// securityGroup is one security group. Its rules have no effect on the lab's network.
type securityGroup struct {
	ID          string       `xml:"groupId"`
	Name        string       `xml:"groupName"`
	Description string       `xml:"groupDescription"`
	Owner       string       `xml:"ownerId"`
	VPC         string       `xml:"vpcId"`
	Ingress     []permission `xml:"ipPermissions>item"`
	Egress      []permission `xml:"ipPermissionsEgress>item"`
	TagItems    []tagItem    `xml:"tagSet>item"`

	tags map[string]string
}

// permission is one rule: a protocol and ports, for addresses or for members of a group.
type permission struct {
	Protocol string      `xml:"ipProtocol"`
	From     *int        `xml:"fromPort"`
	To       *int        `xml:"toPort"`
	V4       []v4Item    `xml:"ipRanges>item"`
	V6       []v6Item    `xml:"ipv6Ranges>item"`
	Members  []groupItem `xml:"groups>item"`
}

type v4Item struct {
	Range string `xml:"cidrIp"`
}

type v6Item struct {
	Range string `xml:"cidrIpv6"`
}

type groupItem struct {
	ID string `xml:"groupId"`
}

type securityGroups struct {
	Items []securityGroup `xml:"securityGroupInfo>item"`
}

func (c *Cloud) describeSecurityGroups(_ context.Context, form url.Values) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := listOf(form, "GroupId")
	if len(ids) == 0 {
		ids = slices.Sorted(maps.Keys(c.groups))
	}
	var out securityGroups
	for _, id := range ids {
		group := c.groups[id]
		if group == nil {
			return nil, refuse("InvalidGroup.NotFound", fmt.Sprintf("The security group '%s' does not exist", id))
		}
		ok, err := selected(form, map[string]string{"group-name": group.Name, "vpc-id": group.VPC})
		if err != nil {
			return nil, err
		}
		if ok {
			shown := *group
			shown.TagItems = tagItems(group.tags)
			out.Items = append(out.Items, shown)
		}
	}
	return out, nil
}

type createdGroup struct {
	ID string `xml:"groupId"`
}

// createSecurityGroup creates a group, which permits outgoing connections as in EC2.
func (c *Cloud) createSecurityGroup(_ context.Context, form url.Values) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := form.Get("GroupName")
	if form.Get("VpcId") != VPC {
		return nil, refuse("InvalidVpcID.NotFound", fmt.Sprintf("The vpc ID '%s' does not exist", form.Get("VpcId")))
	}
	for _, group := range c.groups {
		if group.Name == name {
			return nil, refuse("InvalidGroup.Duplicate",
				fmt.Sprintf("The security group '%s' already exists for VPC '%s'", name, VPC))
		}
	}
	group := &securityGroup{
		ID: newID("sg"), Name: name, Description: form.Get("GroupDescription"), Owner: account, VPC: VPC,
		Egress: []permission{{Protocol: "-1", V4: []v4Item{{"0.0.0.0/0"}}}}, tags: map[string]string{},
	}
	c.groups[group.ID] = group
	return createdGroup{group.ID}, nil
}

func (c *Cloud) authorizeIngress(_ context.Context, form url.Values) (any, error) {
	return c.authorize(form, func(group *securityGroup) *[]permission { return &group.Ingress })
}

func (c *Cloud) authorizeEgress(_ context.Context, form url.Values) (any, error) {
	return c.authorize(form, func(group *securityGroup) *[]permission { return &group.Egress })
}

// authorize adds rules to a group. EC2 refuses all of them when one exists.
func (c *Cloud) authorize(form url.Values, rules func(*securityGroup) *[]permission) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	group := c.groups[form.Get("GroupId")]
	if group == nil {
		return nil, refuse("InvalidGroup.NotFound",
			fmt.Sprintf("The security group '%s' does not exist", form.Get("GroupId")))
	}
	added, list := permissionsOf(form), rules(group)
	for _, one := range added {
		if slices.ContainsFunc(*list, func(other permission) bool { return reflect.DeepEqual(one, other) }) {
			return nil, refuse("InvalidPermission.Duplicate", "the specified rule already exists")
		}
	}
	*list = append(*list, added...)
	return done{true}, nil
}

// permissionsOf returns the rules of a request.
func permissionsOf(form url.Values) []permission {
	var out []permission
	for i := 1; form.Has(fmt.Sprintf("IpPermissions.%d.IpProtocol", i)); i++ {
		prefix := fmt.Sprintf("IpPermissions.%d.", i)
		one := permission{
			Protocol: form.Get(prefix + "IpProtocol"),
			From:     numberOf(form, prefix+"FromPort"), To: numberOf(form, prefix+"ToPort"),
		}
		if v4 := form.Get(prefix + "IpRanges.1.CidrIp"); v4 != "" {
			one.V4 = []v4Item{{v4}}
		}
		if v6 := form.Get(prefix + "Ipv6Ranges.1.CidrIpv6"); v6 != "" {
			one.V6 = []v6Item{{v6}}
		}
		if id := form.Get(prefix + "Groups.1.GroupId"); id != "" {
			one.Members = []groupItem{{id}}
		}
		out = append(out, one)
	}
	return out
}

func numberOf(form url.Values, name string) *int {
	number, err := strconv.Atoi(form.Get(name))
	if err != nil {
		return nil
	}
	return &number
}
