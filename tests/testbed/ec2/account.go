package ec2

import (
	"context"
	"crypto/md5" // EC2's fingerprint of an imported key
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"slices"
)

type accountAttributes struct {
	Items []accountAttribute `xml:"accountAttributeSet>item"`
}

type accountAttribute struct {
	Name   string   `xml:"attributeName"`
	Values []string `xml:"attributeValueSet>item>attributeValue"`
}

func (*Cloud) describeAccountAttributes(context.Context, url.Values) (any, error) {
	return accountAttributes{[]accountAttribute{{"default-vpc", []string{VPC}}}}, nil
}

type regions struct {
	Items []regionItem `xml:"regionInfo>item"`
}

type regionItem struct {
	Name string `xml:"regionName"`
}

func (*Cloud) describeRegions(context.Context, url.Values) (any, error) {
	return regions{[]regionItem{{region}}}, nil
}

type subnets struct {
	Items []subnetItem `xml:"subnetSet>item"`
}

type subnetItem struct {
	ID      string `xml:"subnetId"`
	VPC     string `xml:"vpcId"`
	Zone    string `xml:"availabilityZone"`
	Default bool   `xml:"defaultForAz"`
}

func (*Cloud) describeSubnets(_ context.Context, form url.Values) (any, error) {
	ok, err := selected(form, map[string]string{"subnet-id": Subnet, "vpc-id": VPC, "availability-zone": Zone})
	if err != nil || !ok {
		return subnets{}, err
	}
	return subnets{[]subnetItem{{Subnet, VPC, Zone, true}}}, nil
}

type images struct {
	Items []imageItem `xml:"imagesSet>item"`
}

type imageItem struct {
	ID         string       `xml:"imageId"`
	State      string       `xml:"imageState"`
	RootDevice string       `xml:"rootDeviceName"`
	Devices    []deviceItem `xml:"blockDeviceMapping>item"`
}

type deviceItem struct {
	Name   string `xml:"deviceName"`
	Size   int    `xml:"ebs>volumeSize"`
	Type   string `xml:"ebs>volumeType"`
	Delete bool   `xml:"ebs>deleteOnTermination"`
}

func (*Cloud) describeImages(_ context.Context, form url.Values) (any, error) {
	for _, id := range listOf(form, "ImageId") {
		if id != Image {
			return nil, refuse("InvalidAMIID.NotFound", fmt.Sprintf("The image id '[%s]' does not exist", id))
		}
	}
	return images{[]imageItem{{Image, "available", rootDevice, []deviceItem{{rootDevice, 8, "gp3", true}}}}}, nil
}

type keyPair struct {
	Name        string `xml:"keyName"`
	Fingerprint string `xml:"keyFingerprint,omitempty"`
}

type keyPairs struct {
	Items []keyPair `xml:"keySet>item"`
}

func (c *Cloud) importKeyPair(_ context.Context, form url.Values) (any, error) {
	name := form.Get("KeyName")
	key, err := base64.StdEncoding.DecodeString(form.Get("PublicKeyMaterial"))
	if err != nil || len(key) == 0 {
		return nil, refuse("InvalidKey.Format", "Key is not in valid OpenSSH public key format")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, exists := c.keyPairs[name]; exists {
		return nil, refuse("InvalidKeyPair.Duplicate", fmt.Sprintf("The keypair '%s' already exists.", name))
	}
	c.keyPairs[name] = string(key)
	sum := md5.Sum(key)
	return keyPair{name, hex.EncodeToString(sum[:])}, nil
}

func (c *Cloud) describeKeyPairs(_ context.Context, form url.Values) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := listOf(form, "KeyName")
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(c.keyPairs))
	}
	var out keyPairs
	for _, name := range names {
		if _, exists := c.keyPairs[name]; !exists {
			return nil, refuse("InvalidKeyPair.NotFound", fmt.Sprintf("The key pair '%s' does not exist", name))
		}
		out.Items = append(out.Items, keyPair{Name: name})
	}
	return out, nil
}

// deleteKeyPair succeeds for a key pair that does not exist, as in EC2.
func (c *Cloud) deleteKeyPair(_ context.Context, form url.Values) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.keyPairs, form.Get("KeyName"))
	return done{true}, nil
}

// createTags adds tags to instances and security groups.
func (c *Cloud) createTags(_ context.Context, form url.Values) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range listOf(form, "ResourceId") {
		var tags map[string]string
		if one := c.instances[id]; one != nil {
			tags = one.Tags
		} else if group := c.groups[id]; group != nil {
			tags = group.tags
		} else {
			return nil, refuse("InvalidID", fmt.Sprintf("The ID '%s' is not valid", id))
		}
		maps.Copy(tags, tagsOf(form, "Tag"))
	}
	return done{true}, nil
}
